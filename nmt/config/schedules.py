"""The learning rate's schedules, as the recipe names them; `nmt.training.schedule` computes them."""

from typing import Annotated, Literal

from pydantic import Field

from nmt.config.section import PositiveInt, Probability, Rate, Section


class Noam(Section):
    """factor · dim^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017)."""

    name: Literal["noam"] = "noam"
    """Which schedule."""
    factor: Rate = 2.0
    """Scales the whole curve; the highest rate is factor · (dim · warmup)^-0.5."""
    warmup: PositiveInt = 4000
    """Steps until the rate is highest."""


class InverseSqrt(Section):
    """Linear warm-up to `rate`, then rate · sqrt(warmup / step)."""

    name: Literal["inverse_sqrt"]
    """Which schedule."""
    rate: Rate = 7e-4
    """The highest learning rate."""
    warmup: PositiveInt = 4000
    """Steps until the rate is highest."""


class Constant(Section):
    """Linear warm-up to `rate`, then `rate`."""

    name: Literal["constant"]
    """Which schedule."""
    rate: Rate = 1e-4
    """The learning rate."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Steps until the rate is reached."""


class Linear(Section):
    """Linear warm-up to `rate`, then straight down to floor · rate at the last step."""

    name: Literal["linear"]
    """Which schedule."""
    rate: Rate = 1e-3
    """The highest learning rate."""
    warmup: PositiveInt = 1000
    """Steps until the rate is highest."""
    floor: Probability = 0.0
    """Rate at the last step, as a share of the highest."""


class Cosine(Section):
    """Linear warm-up to `rate`, then along half a cosine to floor · rate (Loshchilov & Hutter 2017)."""

    name: Literal["cosine"]
    """Which schedule."""
    rate: Rate = 1e-3
    """The highest learning rate."""
    warmup: PositiveInt = 1000
    """Steps until the rate is highest."""
    floor: Probability = 0.0
    """Rate at the last step, as a share of the highest."""


class WarmupStableDecay(Section):
    """Linear warm-up to `rate`, flat, and straight down to floor · rate at the end (Hu et al. 2024)."""

    name: Literal["wsd"]
    """Which schedule."""
    rate: Rate = 1e-3
    """The highest learning rate."""
    warmup: PositiveInt = 1000
    """Steps until the rate is highest."""
    decay: float = Field(default=0.2, gt=0, le=1)
    """Share of all steps, the last ones, in which the rate falls."""
    floor: Probability = 0.0
    """Rate at the last step, as a share of the highest."""


Schedule = Annotated[Noam | InverseSqrt | Constant | Linear | Cosine | WarmupStableDecay, Field(discriminator="name")]
Falling = Linear | Cosine | WarmupStableDecay
"""The schedules that end at train.stop.steps."""
