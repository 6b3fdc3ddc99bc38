"""What a search finds."""

import math
from dataclasses import dataclass

from nmt.errors import ModelError


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: tokens without `<s>` and `</s>`, and how probable the model finds it.

    `token_log_probs` has one natural logarithm more than there are tokens, the last for `</s>`; an engine other than
    ours may not tell them, then it is empty. `log_prob` is their sum, and `normalized` is `log_prob` divided by the
    length penalty: what hypotheses are ranked by, samples excepted. Coverage and repetition penalties are in it too.
    """

    tokens: list[int]
    log_prob: float
    token_log_probs: list[float]
    normalized: float


class BestFinished:
    """The n best hypotheses of one sentence, best first; of equals, the one found first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._hypotheses: list[Hypothesis] = []

    @property
    def worst(self) -> float:
        """What a further hypothesis must beat: -inf as long as there is room."""
        return self._hypotheses[-1].normalized if len(self._hypotheses) == self._size else -math.inf

    def add(self, hypothesis: Hypothesis) -> None:
        """Put a hypothesis where it belongs, if it is good enough."""
        if hypothesis.normalized > self.worst:
            self._hypotheses.append(hypothesis)
            self._hypotheses.sort(key=lambda finished: -finished.normalized)
            del self._hypotheses[self._size :]

    def result(self) -> list[Hypothesis]:
        """Return them, best first. Raises ModelError if the model gave no numbers to rank by."""
        if not self._hypotheses:
            raise not_a_number()
        return self._hypotheses


def not_a_number() -> ModelError:
    """Return the error for a model whose log-probabilities are NaN or all infinite."""
    return ModelError(
        "the model's log-probabilities are not numbers: its weights are damaged, or its training diverged; "
        "take an earlier checkpoint"
    )


@dataclass(frozen=True)
class Constraints:
    """Target ids that a translation begins with, and runs of target ids that it must hold, each in one piece."""

    prefix: tuple[int, ...] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    apart: frozenset[int] = frozenset()
    """Ids that may not come right after a phrase, because they would go on with its last word."""

    @property
    def phrase_tokens(self) -> int:
        """How many tokens the phrases have."""
        return sum(map(len, self.phrases))


NO_CONSTRAINTS = Constraints()
