"""What the translation of one sentence must hold, whatever the model thinks of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Demand:
    """Target ids that a translation begins with, and runs of target ids that it must hold, each in one piece."""

    prefix: tuple[int, ...] = ()
    phrases: tuple[tuple[int, ...], ...] = ()


NO_DEMAND = Demand()
