"""What a training will take: memory, updates an epoch, speed, and the time to each of its limits."""

import time
from dataclasses import dataclass

import torch

from nmt.batching.batch_stream import BatchStream
from nmt.batching.plan import SentenceLengths, padding_share
from nmt.batching.resegmentation import Resegmentation
from nmt.config import Recipe, Stop
from nmt.errors import ConfigError
from nmt.text.prepared import PreparedCorpus
from nmt.training.auto_batch import Trial, free_memory
from nmt.training.display import clock

_TIMED_UPDATES = 3
_GIBIBYTE = 2**30


@dataclass(frozen=True)
class Memory:
    """Bytes. `state` is weights, gradients, Adam's moments and a moving average of weights, if there is one."""

    state: int
    peak: int | None
    """Of an update on the largest batches, all in all; None if they do not fit, or nothing tells."""
    free: int | None
    """What the process could use before; None if nothing tells."""


@dataclass(frozen=True)
class Estimate:
    """What a few trial updates and the first epoch's plan say about a training."""

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
        """Return for each limit of `train.stop` that can be foretold the updates and the seconds until it is met."""
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
    """Make a few trial updates with a model that is thrown away. `train.batch_tokens` must be a number by now."""
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
    updater = trial.opened()
    found = Estimate(
        recipe=recipe,
        device=device,
        parameters=updater.model.parameter_count(),
        memory=memory,
        pairs=len(lengths),
        updates_an_epoch=len(plan.groups) * lengths.parts / (settings.length_groups * settings.accumulate),
        padding=padding_share(plan, lengths),
        target_tokens_per_second=tokens / seconds,
        seconds_an_update=seconds / _TIMED_UPDATES,
    )
    trial.end()
    return found


def _timed(trial: Trial, stream: BatchStream) -> tuple[int, float]:
    """Return the target tokens of a few updates and the seconds they took, after one that does not count."""
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
    updater = trial.opened()
    weights = sum(weight.numel() * weight.element_size() for weight in updater.model.parameters())
    learning = sum(
        weight.numel() * weight.element_size() for weight in updater.model.parameters() if weight.requires_grad
    )
    state = weights * (1 if updater.average is None else 2) + 3 * learning
    try:
        free = free_memory(trial.device)["memory"]
    except ConfigError:
        return Memory(state, None, None)
    try:
        return Memory(state, trial.peak(trial.recipe.train.budget)["memory"], free)
    except MemoryError:
        return Memory(state, None, free)


def render(found: Estimate) -> str:
    """Lay an estimate out for people, a line a figure."""
    recipe, memory = found.recipe, found.memory
    stop = recipe.train.stop
    accumulated = f" × {recipe.train.accumulate}" if recipe.train.accumulate > 1 else ""
    rows = [
        ("parameters", f"{found.parameters:,}"),
        ("memory", _memory_line(memory, found.device)),
        ("  weights and moments", _gibibytes(memory.state)),
        ("batch", f"{recipe.train.budget:,} target tokens{accumulated}"),
        ("pairs", f"{found.pairs:,}"),
        ("updates an epoch", f"{found.updates_an_epoch:,.1f}"),
        ("padding", f"{found.padding[0]:.1%} source, {found.padding[1]:.1%} target"),
        ("speed", f"{found.target_tokens_per_second:,.0f} target tokens/s, {found.seconds_an_update:.2f} s an update"),
        ("an epoch", clock(found.updates_an_epoch * found.seconds_an_update)),
    ]
    for name, (updates, seconds) in found.times().items():
        rows.append((f"train.stop.{name} {getattr(stop, name):,g}", f"{clock(seconds)}, after {updates:,.0f} updates"))
    if stop.patience is not None:
        rows.append((f"train.stop.patience {stop.patience}", "cannot be foretold"))
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{name:<{width}}{value}" for name, value in rows]
    return "\n".join([f"{recipe.name} on {found.device}", *lines, "(times without validations)"])


def _memory_line(memory: Memory, device: torch.device) -> str:
    if memory.free is None:
        return f"cannot be measured on {device}"
    if memory.peak is None:
        return f"the largest batches do not fit in the {_gibibytes(memory.free)} that are free"
    return f"{_gibibytes(memory.peak)} for the largest batches; {_gibibytes(memory.free)} are free"


def _gibibytes(amount: int) -> str:
    return f"{amount / _GIBIBYTE:,.2f} GiB"
