"""The learning rate as a function of the step, and of nothing else."""

import math

from nmt.config import TrainSettings
from nmt.config.schedules import Constant, Cosine, Falling, InverseSqrt, Noam, WarmupStableDecay


def learning_rate(settings: TrainSettings, dim: int, step: int) -> float:
    """Return the rate of step 1, 2, 3 …; the formulas stand with the schedules in `nmt.config.schedules`."""
    schedule = settings.schedule
    if isinstance(schedule, Noam):
        return schedule.factor / math.sqrt(dim) * min(1 / math.sqrt(step), step / math.sqrt(schedule.warmup) ** 3)
    if step < schedule.warmup:
        return schedule.rate * step / schedule.warmup
    if isinstance(schedule, Constant):
        return schedule.rate
    if isinstance(schedule, InverseSqrt):
        return schedule.rate * math.sqrt(schedule.warmup / step)
    assert settings.stop.steps is not None, "the recipe was checked"
    way = _way_down(schedule, settings.stop.steps, step)
    if isinstance(schedule, Cosine):
        way = (1 - math.cos(math.pi * way)) / 2
    return schedule.rate * (1 - (1 - schedule.floor) * way)


def _way_down(schedule: Falling, steps: int, step: int) -> float:
    """Return which part of the way from where the fall begins to the last step lies behind: 0 to 1."""
    begin: float = schedule.warmup
    if isinstance(schedule, WarmupStableDecay):
        begin = max(begin, steps - schedule.decay * steps)
    return min(1.0, max(0.0, (step - begin) / max(1.0, steps - begin)))
