"""Trial updates: the memory and the speed of a training before it starts, and the time to each of its limits."""

import gc
import time
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
import torch

from nmt.batching.batch import Batch, collate
from nmt.batching.batch_stream import BatchStream, padding_share, plan_epoch
from nmt.config import Recipe
from nmt.system.device import is_oom, release_cached_blocks
from nmt.text.prepared import PreparedCorpus
from nmt.training.display import format_seconds
from nmt.training.initialization import initial_model
from nmt.training.step import Updater

_MAX_GROUPS = 50_000  # length groups of an epoch among which the largest batch is searched for
_TIMED_UPDATES = 3


class Trial:
    """An updater for a few updates on this rank alone; it is discarded afterwards."""

    def __init__(self, recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> None:
        self.recipe, self.corpus, self.device = recipe, corpus, device
        self._open()

    def _open(self) -> None:
        model = initial_model(self.recipe, self.corpus.tokenizers, pretrained=False)
        self.updater = Updater(model, self.recipe, self.device, alone=True)

    def update(self, batches: list[Batch]) -> None:
        """Make one update, with a learning rate of zero.

        Raises DoesNotFitError, ConfigError, or the error of the allocator.
        """
        self.updater.accumulate_gradients(batches, sum(batch.target_tokens for batch in batches), step=1)
        self.updater.clip_gradients()
        self.updater.apply_gradients(rate=0.0)
        self.updater.optimizer.zero_grad(set_to_none=True)

    def peak(self, size: int) -> float:
        """Return the bytes that CUDA reserves for updates on batches of a size; infinity if they do not fit.

        That includes weights and moments: the device must have what the allocator reserves.
        """
        batches = worst_batches(self.recipe, self.corpus, size)
        try:
            self.update(batches[:1])  # allocates Adam's moments
            release_cached_blocks(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            for batch in batches:
                self.update([batch] * min(2, self.recipe.train.accumulate))
            return torch.cuda.max_memory_reserved(self.device)
        except (RuntimeError, MemoryError) as error:
            if not is_oom(error):
                raise
        # outside the handler, where the traceback of the failure no longer holds the activations
        self.close()
        self._open()
        return float("inf")

    def close(self) -> None:
        """Release all memory."""
        del self.updater
        gc.collect()
        release_cached_blocks(self.device)


def worst_batches(recipe: Recipe, corpus: PreparedCorpus, size: int) -> list[Batch]:
    """Return the batch of most tokens and the one of longest sentences of an epoch.

    Any adjacent groups of the plan count as a batch, as other epochs combine them differently.
    """
    count = recipe.train.length_groups
    groups = plan_epoch(corpus.train, max(1, size // count), recipe.seed, epoch=0)[:_MAX_GROUPS]
    groups += list(islice(cycle(groups), count - 1))  # after the last one comes the next epoch
    shapes = [(len(group), *(int(side.max()) for side in corpus.train.lengths(group))) for group in groups]
    sentences, source, target = np.array(shapes).T
    tokens = sentences * (source + target)
    attention = sentences * (source**2 + source * target + target**2)
    starts = [int(np.convolve(cost, np.ones(count), "valid").argmax()) for cost in (tokens, attention)]
    return [collate(corpus.train, groups[start : start + count]) for start in starts]


def free_device_memory(device: torch.device) -> int:
    """Return the bytes of a CUDA device that this process may use, its own reserve included."""
    unused, _ = torch.cuda.mem_get_info(device)
    return unused + torch.cuda.memory_reserved(device)


@dataclass(frozen=True)
class Estimate:
    """The results of a few trial updates and of the first epoch's plan; bytes of device memory, on a CPU of RAM."""

    recipe: Recipe
    device: torch.device
    parameters: int
    pairs: int
    updates_an_epoch: float
    padding: tuple[float, float]
    target_tokens_per_second: float
    seconds_an_update: float
    state_bytes: int  # weights, gradients and Adam's moments
    peak_bytes: float | None = None  # of an update on the largest batches, with the state; infinity if they do not fit
    free_bytes: int | None = None  # available before; None, as the peak, if not measured

    def times(self) -> dict[str, tuple[float, float]]:
        """Return the updates and the seconds until each predictable limit of `train.stop`."""
        stop = self.recipe.train.stop
        updates = {
            "steps": stop.steps,
            "epochs": stop.epochs and stop.epochs * self.updates_an_epoch,
            "hours": stop.hours and stop.hours * 3600 / self.seconds_an_update,
        }
        return {name: (count, count * self.seconds_an_update) for name, count in updates.items() if count is not None}


def estimate(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> Estimate:
    """Make a few trial updates with a model that is discarded. `train.batch_tokens` must be a number."""
    stream, accumulate = BatchStream.of_recipe(recipe, corpus), recipe.train.accumulate
    padding, updates_an_epoch = padding_share(stream.plan(), stream.split), stream.batches_an_epoch / accumulate
    trial = Trial(recipe, corpus, device)
    weights = list(trial.updater.model.parameters())
    state = sum(weight.nbytes * (1 + 3 * weight.requires_grad) for weight in weights)
    parameters = sum(weight.numel() for weight in weights)
    del weights
    free = free_device_memory(device) if device.type == "cuda" else None
    peak = None if free is None else trial.peak(recipe.train.budget)
    tokens, started = 0, 0.0
    for number in range(1 + _TIMED_UPDATES):
        batches = [stream.next() for _ in range(accumulate)]
        trial.update(batches)
        if number == 0:  # the first one does not count
            started = time.perf_counter()
        else:
            tokens += sum(batch.target_tokens for batch in batches)
    seconds = time.perf_counter() - started
    trial.close()
    speed, pairs = (tokens / seconds, seconds / _TIMED_UPDATES), len(stream.split)
    return Estimate(recipe, device, parameters, pairs, updates_an_epoch, padding, *speed, state, peak, free)


def render(result: Estimate) -> str:
    """Return an estimate as text, a line for each figure."""
    recipe, stop, peak, free = result.recipe, result.recipe.train.stop, result.peak_bytes, result.free_bytes
    accumulated = f" × {recipe.train.accumulate}" if recipe.train.accumulate > 1 else ""
    speed = f"{result.target_tokens_per_second:,.0f} target tokens/s, {result.seconds_an_update:.2f} s an update"
    rows = [
        ("parameters", f"{result.parameters:,}"),
        ("weights and moments", _gibibytes(result.state_bytes)),
        ("batch", f"{recipe.train.budget:,} target tokens{accumulated}"),
        ("pairs", f"{result.pairs:,}"),
        ("updates per epoch", f"{result.updates_an_epoch:,.1f}"),
        ("padding", f"{result.padding[0]:.1%} source, {result.padding[1]:.1%} target"),
        ("speed", speed),
        ("an epoch", format_seconds(result.updates_an_epoch * result.seconds_an_update)),
    ]
    if peak is not None and free is not None:
        fits = peak != float("inf")
        needed = f"{_gibibytes(peak)} for the largest batches" if fits else "the largest batches do not fit"
        rows.insert(2, ("memory", f"{needed}; {_gibibytes(free)} are free"))
    times = result.times()
    for name, (updates, seconds) in times.items():
        is_first = len(times) > 1 and seconds == min(duration for _, duration in times.values())
        first = ", the first limit" if is_first else ""
        value = f"{format_seconds(seconds)}, after {updates:,.0f} updates{first}"
        rows.append((f"train.stop.{name} {getattr(stop, name):,g}", value))
    if stop.patience is not None:
        rows.append((f"train.stop.patience {stop.patience}", "not predictable"))
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{name:<{width}}{value}" for name, value in rows]
    return "\n".join([f"{recipe.name} on {result.device}", *lines, "(times without validations)"])


def _gibibytes(amount: float) -> str:
    return f"{amount / 2**30:,.2f} GiB"
