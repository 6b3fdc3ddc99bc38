"""The schedules of the learning rate: their names and keys in a recipe. `nmt.training.optimizer` computes them."""

from typing import Annotated, Literal

from pydantic import Field

from nmt.config.section import PositiveInt, Probability, Section

Rate = Annotated[float, Field(gt=0, le=1e30)]
"""A learning rate; the bound is that of single precision. Training ends with an error if one is too high."""


class Noam(Section):
    """factor · dim^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017)."""

    name: Literal["noam"] = "noam"
    """The schedule."""
    factor: Rate = 2.0
    """Factor on the whole curve; the highest rate is factor · (dim · warmup)^-0.5."""
    warmup: PositiveInt = 4000
    """Steps until the rate is highest."""


class InverseSqrt(Section):
    """Linear warm-up to `rate`, then rate · sqrt(warmup / step)."""

    name: Literal["inverse_sqrt"]
    """The schedule."""
    rate: Rate = 7e-4
    """The highest learning rate."""
    warmup: PositiveInt = 4000
    """Steps until the rate is highest."""


class Constant(Section):
    """Linear warm-up to `rate`, then `rate`."""

    name: Literal["constant"]
    """The schedule."""
    rate: Rate = 1e-4
    """The learning rate."""
    warmup: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Steps until the rate is reached."""


class _FallingSchedule(Section):
    rate: Rate = 1e-3
    """The highest learning rate."""
    warmup: PositiveInt = 1000
    """Steps until the rate is highest."""
    floor: Probability = 0.0
    """Rate at the last step, as a fraction of the highest."""


class Linear(_FallingSchedule):
    """Linear warm-up to `rate`, then linear decay to floor · rate at the last step."""

    name: Literal["linear"]
    """The schedule."""


class Cosine(_FallingSchedule):
    """Linear warm-up to `rate`, then half a cosine down to floor · rate at the last step (Loshchilov & Hutter 2017)."""

    name: Literal["cosine"]
    """The schedule."""


class WarmupStableDecay(_FallingSchedule):
    """Linear warm-up to `rate`, constant, then linear decay to floor · rate at the last step (Hu et al. 2024)."""

    name: Literal["wsd"]
    """The schedule."""
    decay: float = Field(default=0.2, gt=0, le=1)
    """Length of the decay, as a fraction of all steps."""


Schedule = Annotated[Noam | InverseSqrt | Constant | Linear | Cosine | WarmupStableDecay, Field(discriminator="name")]
Falling = Linear | Cosine | WarmupStableDecay
"""The schedules that end at train.stop.steps."""
