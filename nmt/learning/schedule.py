"""The learning rate as a function of the step, and of nothing else."""

import math

from nmt.config import Constant, InverseSqrt, Linear, Noam, TrainSettings


def learning_rate(settings: TrainSettings, dim: int, step: int) -> float:
    """Return the rate of step 1, 2, 3 …; the formulas stand with the schedules in `nmt.config`."""
    schedule = settings.schedule
    if isinstance(schedule, Noam):
        return schedule.factor / math.sqrt(dim) * min(1 / math.sqrt(step), step / math.sqrt(schedule.warmup) ** 3)
    if step < schedule.warmup:
        return schedule.rate * step / schedule.warmup
    if isinstance(schedule, Constant):
        return schedule.rate
    if isinstance(schedule, InverseSqrt):
        return schedule.rate * math.sqrt(schedule.warmup / step)
    assert isinstance(schedule, Linear)
    assert settings.stop.steps is not None, "the recipe was checked"
    hold = max(schedule.hold * settings.stop.steps, schedule.warmup)
    fallen = (step - hold) / max(1.0, settings.stop.steps - hold)
    return schedule.rate * (1 - (1 - schedule.floor) * min(1.0, max(0.0, fallen)))
