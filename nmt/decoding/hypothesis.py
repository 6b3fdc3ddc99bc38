"""What a search returns, and what its results must contain."""

import math
from dataclasses import dataclass

from nmt.errors import ModelError


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: tokens without `<s>` and `</s>`, and its log-probability with `</s>`.

    `normalized` is `log_prob` divided by the length penalty: the number that hypotheses, other than samples, are ranked
    by. It includes penalties for coverage and repetition.
    """

    tokens: list[int]
    log_prob: float
    normalized: float


class BestFinished:
    """The n best finished hypotheses of one sentence, best first; of equal ones the first that was added."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._hypotheses: list[Hypothesis] = []

    @property
    def worst(self) -> float:
        """The normalized log-probability that a further hypothesis must exceed; -inf if there are fewer than n."""
        return self._hypotheses[-1].normalized if len(self._hypotheses) == self._size else -math.inf

    def add(self, hypothesis: Hypothesis) -> None:
        """Insert a hypothesis if it is among the n best."""
        if hypothesis.normalized > self.worst:
            self._hypotheses.append(hypothesis)
            self._hypotheses.sort(key=lambda finished: -finished.normalized)
            del self._hypotheses[self._size :]

    def result(self) -> list[Hypothesis]:
        """Return them, best first. Raises ModelError if there is none, which only NaN can cause."""
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
    """Target ids that a translation begins with, and runs of target ids that it must contain, each in one piece."""

    prefix: tuple[int, ...] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    word_continuations: frozenset[int] = frozenset()
    """Ids that continue a word: they do not follow a phrase, and where one is most probable, no phrase begins."""
    elisions: frozenset[int] = frozenset()
    """Ids that end in an apostrophe, after which a phrase may begin although its word continues theirs."""
    final_punctuation: frozenset[int] = frozenset()
    """Ids that end a sentence: while a phrase is missing, at most `max_final_punctuation` of them are generated."""
    max_final_punctuation: int = 0
    may_begin_sentence: bool = False  # whether a phrase may follow final punctuation

    @property
    def phrase_tokens(self) -> int:
        """The total number of tokens of the phrases."""
        return sum(map(len, self.phrases))


NO_CONSTRAINTS = Constraints()
