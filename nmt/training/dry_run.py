"""The cost of a training before it starts: memory, updates an epoch, speed, and the time to each limit."""

import time
from dataclasses import dataclass

import torch

from nmt.batching.batch_stream import BatchStream
from nmt.batching.plan import SentenceLengths, padding_share
from nmt.batching.resegmentation import Resegmentation
from nmt.config import Recipe, Stop
from nmt.text.prepared import PreparedCorpus
from nmt.training.auto_batch import Trial, free_memory
from nmt.training.display import format_seconds

_TIMED_UPDATES = 3
_GIBIBYTE = 2**30


@dataclass(frozen=True)
class Memory:
    """Bytes of device memory."""

    state: int
    """Weights, gradients, Adam's moments, and the moving average of the weights if there is one."""
    peak: float | None = None
    """Of an update on the largest batches, with the state; infinity if they do not fit, None if not measured."""
    free: int | None = None
    """Available before; None if not measured."""


@dataclass(frozen=True)
class Estimate:
    """The results of a few trial updates and of the first epoch's plan."""

    recipe: Recipe
    device: torch.device
    parameters: int
    memory: Memory
    pairs: int
    updates_an_epoch: float
    padding: tuple[float, float]
    target_tokens_per_second: float
    seconds_an_update: float

    def times(self) -> dict[str, tuple[float, float]]:
        """Return the updates and the seconds until each predictable limit of `train.stop`."""
        stop: Stop = self.recipe.train.stop
        updates = {}
        if stop.steps is not None:
            updates["steps"] = float(stop.steps)
        if stop.epochs is not None:
            updates["epochs"] = stop.epochs * self.updates_an_epoch
        if stop.hours is not None:
            updates["hours"] = stop.hours * 3600 / self.seconds_an_update
        return {name: (count, count * self.seconds_an_update) for name, count in updates.items()}


def estimate(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> Estimate:
    """Make a few trial updates with a model that is discarded. `train.batch_tokens` must be a number."""
    lengths = SentenceLengths.of(corpus.train)
    settings = recipe.train
    stream = BatchStream(
        corpus.train,
        lengths,
        settings.group_budget,
        recipe.seed,
        settings.length_groups,
        resegmentation=Resegmentation.of_recipe(recipe, corpus.tokenizers),
    )
    plan = stream.plan()
    trial = Trial(recipe, corpus, device)
    memory = _memory(trial)
    tokens, seconds = _timed(trial, stream)
    result = Estimate(
        recipe=recipe,
        device=device,
        parameters=trial.model.parameter_count(),
        memory=memory,
        pairs=len(lengths),
        updates_an_epoch=len(plan.groups) * lengths.parts / (settings.length_groups * settings.accumulate),
        padding=padding_share(plan, lengths),
        target_tokens_per_second=tokens / seconds,
        seconds_an_update=seconds / _TIMED_UPDATES,
    )
    trial.close()
    return result


def _timed(trial: Trial, stream: BatchStream) -> tuple[int, float]:
    """Return the target tokens and the seconds of a few updates, after a first one that does not count."""
    tokens, started = 0, time.perf_counter()
    for number in range(1 + _TIMED_UPDATES):
        batches = [stream.next() for _ in range(trial.recipe.train.accumulate)]
        trial.update(batches)
        if number == 0:
            started = time.perf_counter()
        else:
            tokens += sum(batch.target_tokens for batch in batches)
    return tokens, time.perf_counter() - started


def _memory(trial: Trial) -> Memory:
    weights = trained = 0
    for weight in trial.model.parameters():
        size = weight.numel() * weight.element_size()
        weights += size
        trained += size * weight.requires_grad
    state = weights * (1 if trial.average is None else 2) + 3 * trained
    if trial.device.type != "cuda":
        return Memory(state)
    free = free_memory(trial.device)
    return Memory(state, trial.peak(trial.recipe.train.budget), free)


def render(result: Estimate) -> str:
    """Return an estimate as text, a line for each figure."""
    recipe, memory, stop = result.recipe, result.memory, result.recipe.train.stop
    accumulated = f" × {recipe.train.accumulate}" if recipe.train.accumulate > 1 else ""
    rows = [
        ("parameters", f"{result.parameters:,}"),
        ("weights and moments", _gibibytes(memory.state)),
        ("batch", f"{recipe.train.budget:,} target tokens{accumulated}"),
        ("pairs", f"{result.pairs:,}"),
        ("updates an epoch", f"{result.updates_an_epoch:,.1f}"),
        ("padding", f"{result.padding[0]:.1%} source, {result.padding[1]:.1%} target"),
        (
            "speed",
            f"{result.target_tokens_per_second:,.0f} target tokens/s, {result.seconds_an_update:.2f} s an update",
        ),
        ("an epoch", format_seconds(result.updates_an_epoch * result.seconds_an_update)),
    ]
    if memory.peak is not None and memory.free is not None:
        available = f"{_gibibytes(memory.free)} are free"
        needed = f"{_gibibytes(memory.peak)} for the largest batches"
        fits = memory.peak != float("inf")
        rows.insert(2, ("memory", f"{needed}; {available}" if fits else f"the largest batches do not fit; {available}"))
    for name, (updates, seconds) in result.times().items():
        value = f"{format_seconds(seconds)}, after {updates:,.0f} updates"
        rows.append((f"train.stop.{name} {getattr(stop, name):,g}", value))
    if stop.patience is not None:
        rows.append((f"train.stop.patience {stop.patience}", "not predictable"))
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{name:<{width}}{value}" for name, value in rows]
    return "\n".join([f"{recipe.name} on {result.device}", *lines, "(times without validations)"])


def _gibibytes(amount: float) -> str:
    return f"{amount / _GIBIBYTE:,.2f} GiB"
