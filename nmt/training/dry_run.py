"""The cost of a training before it starts: memory, updates per epoch, speed, and the time to each limit."""

import time
from dataclasses import dataclass
from operator import itemgetter

import torch

from nmt.batching.batch_stream import BatchStream, padding_share
from nmt.config import Recipe
from nmt.text.prepared import PreparedCorpus
from nmt.training.auto_batch import Trial, free_device_memory
from nmt.training.display import format_seconds

_TIMED_UPDATES = 3


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of device memory; on a CPU, of RAM."""

    state: int  # weights, gradients, Adam's moments, and the moving average of the weights if there is one
    peak: float | None = None  # of an update on the largest batches, with the state; infinity if they do not fit
    free: int | None = None  # available before; None, as the peak, if not measured


@dataclass(frozen=True)
class Estimate:
    """The results of a few trial updates and of the first epoch's plan."""

    recipe: Recipe
    device: torch.device
    parameters: int
    device_memory: DeviceMemory
    pairs: int
    updates_an_epoch: float
    padding: tuple[float, float]
    target_tokens_per_second: float
    seconds_an_update: float

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
    stream = BatchStream.of_recipe(recipe, corpus)
    padding = padding_share(stream.plan(), stream.lengths)
    updates_an_epoch = stream.batches_an_epoch / recipe.train.accumulate
    trial = Trial(recipe, corpus, device)
    parameters, device_memory = trial.updater.model.parameter_count(), _device_memory(trial)
    tokens, started = 0, 0.0
    for number in range(1 + _TIMED_UPDATES):
        batches = [stream.next() for _ in range(recipe.train.accumulate)]
        trial.update(batches)
        if number == 0:  # the first one does not count
            started = time.perf_counter()
        else:
            tokens += sum(batch.target_tokens for batch in batches)
    seconds = time.perf_counter() - started
    trial.close()
    speed, pairs = (tokens / seconds, seconds / _TIMED_UPDATES), len(stream.lengths)
    return Estimate(recipe, device, parameters, device_memory, pairs, updates_an_epoch, padding, *speed)


def _device_memory(trial: Trial) -> DeviceMemory:
    weights = list(trial.updater.model.parameters())
    copies = 1 if trial.updater.average is None else 2
    state = sum(weight.nbytes * (copies + 3 * weight.requires_grad) for weight in weights)
    if trial.device.type != "cuda":
        return DeviceMemory(state)
    free = free_device_memory(trial.device)
    return DeviceMemory(state, trial.peak(trial.recipe.train.budget), free)


def render(result: Estimate) -> str:
    """Return an estimate as text, a line for each figure."""
    recipe, device_memory, stop = result.recipe, result.device_memory, result.recipe.train.stop
    accumulated = f" × {recipe.train.accumulate}" if recipe.train.accumulate > 1 else ""
    speed = f"{result.target_tokens_per_second:,.0f} target tokens/s, {result.seconds_an_update:.2f} s an update"
    rows = [
        ("parameters", f"{result.parameters:,}"),
        ("weights and moments", _gibibytes(device_memory.state)),
        ("batch", f"{recipe.train.budget:,} target tokens{accumulated}"),
        ("pairs", f"{result.pairs:,}"),
        ("updates per epoch", f"{result.updates_an_epoch:,.1f}"),
        ("padding", f"{result.padding[0]:.1%} source, {result.padding[1]:.1%} target"),
        ("speed", speed),
        ("an epoch", format_seconds(result.updates_an_epoch * result.seconds_an_update)),
    ]
    if device_memory.peak is not None and device_memory.free is not None:
        available = f"{_gibibytes(device_memory.free)} are free"
        needed = f"{_gibibytes(device_memory.peak)} for the largest batches"
        fits = device_memory.peak != float("inf")
        rows.insert(2, ("memory", f"{needed}; {available}" if fits else f"the largest batches do not fit; {available}"))
    times = result.times()
    for name, (updates, seconds) in times.items():
        first = ", the first limit" if len(times) > 1 and seconds == min(times.values(), key=itemgetter(1))[1] else ""
        value = f"{format_seconds(seconds)}, after {updates:,.0f} updates{first}"
        rows.append((f"train.stop.{name} {getattr(stop, name):,g}", value))
    if stop.patience is not None:
        rows.append((f"train.stop.patience {stop.patience}", "not predictable"))
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{name:<{width}}{value}" for name, value in rows]
    return "\n".join([f"{recipe.name} on {result.device}", *lines, "(times without validations)"])


def _gibibytes(amount: float) -> str:
    return f"{amount / 2**30:,.2f} GiB"
