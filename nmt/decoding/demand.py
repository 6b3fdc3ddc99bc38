"""What the translation of one sentence must hold, whatever the model thinks of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Demand:
    """Target ids that a translation begins with, and runs of target ids that it must hold, each in one piece."""

    prefix: tuple[int, ...] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    apart: frozenset[int] = frozenset()
    """Ids that may not come right after a phrase, because they would go on with its last word."""

    @property
    def phrase_tokens(self) -> int:
        """How many tokens the phrases have."""
        return sum(map(len, self.phrases))


NO_DEMAND = Demand()
