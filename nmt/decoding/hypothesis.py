"""The result of a search."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.decoding.options import SearchOptions
from nmt.errors import ModelError


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: tokens without `<s>` and `</s>`, and its log-probability with `</s>`.

    `normalized` is `log_prob` divided by the length penalty: the number that hypotheses, other than samples, are ranked
    by.
    """

    tokens: list[int]
    log_prob: float
    normalized: float


def hypotheses(
    tokens: Sequence[list[int]], log_probs: Sequence[float], lengths: Sequence[int], options: SearchOptions
) -> list[Hypothesis]:
    """Return the finished hypotheses of a sentence, best first, for its rows of a state. Raises ModelError if none has.

    Then the log-probabilities of the model are NaN or all infinite: nothing else ends a search without a hypothesis.
    """
    finished = [
        Hypothesis(ids[1:length], log_prob, log_prob / options.penalty(length))
        for ids, log_prob, length in zip(tokens, log_probs, lengths, strict=True)
        if length
    ]
    if not finished or (options.sampling is not None and len(finished) < options.n_best):
        raise ModelError(
            "the model's log-probabilities are not numbers: its weights are damaged, or its training diverged; "
            "take an earlier checkpoint"
        )
    return sorted(finished, key=lambda one: -(one.normalized if options.sampling is None else one.log_prob))
