"""The results of a search, and those of forced decoding, which computes given translations.

T target tokens and S source tokens, with `</s>`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nmt.decoding.options import SearchOptions
from nmt.errors import ModelError
from nmt.kernels.constant_products import Floats

Pair = tuple[Sequence[int], Sequence[int]]  # source ids and target ids, both without `</s>`


class Hypothesis(NamedTuple):
    """A finished translation: tokens without `<s>` and `</s>`, and its log-probability with `</s>`."""

    tokens: list[int]
    log_prob: float


def hypotheses(
    tokens: Sequence[list[int]], log_probs: Sequence[float], lengths: Sequence[int], options: SearchOptions
) -> list[Hypothesis]:
    """Return the finished hypotheses of a sentence, best first, from rows of a state. Raises ModelError if it has none.

    In that case, log-probabilities of the model are NaN or all -inf: nothing else ends a search without a hypothesis.
    The best one has the largest log-probability divided by the length penalty; samples are not penalized.
    """
    finished = [
        Hypothesis(ids[1:length], log_prob)
        for ids, log_prob, length in zip(tokens, log_probs, lengths, strict=True)
        if length
    ]
    if not finished or (options.sampling is not None and len(finished) < options.n_best):
        raise ModelError(
            "the model's log-probabilities are not numbers: its weights are damaged, or its training diverged; "
            "take an earlier checkpoint"
        )
    if options.sampling is not None:
        return sorted(finished, key=lambda item: -item.log_prob)
    return sorted(finished, key=lambda item: -item.log_prob / options.penalty(len(item.tokens) + 1))


@dataclass(frozen=True)
class Forced:
    """Log-probabilities and attention of a model for a given translation."""

    token_log_probs: list[float]  # T natural logarithms: the last is that of `</s>`
    # (T, S), the mean of all heads, or (0, S) if it was not requested: row t is the attention while the model predicts
    # token t, from `<s>` and the t tokens before it; the last row is that of `</s>`, the last column that of the
    # source's `</s>`. Each row sums to 1.
    attention: Floats


def pair_too_long(device_memory: str, pair: Pair) -> str:
    """Return the beginning of a message about a pair that does not fit into a memory."""
    return f"a pair of {len(pair[0]) + 1} and {len(pair[1]) + 1} tokens does not fit in {device_memory}"


def sentence_too_long(width: int, device_memory: str, item: tuple[Sequence[int], Sequence[int]]) -> str:
    """Return the beginning of a message about a sentence, with `</s>`, and its prefix that do not fit into a memory."""
    return f"a sentence of {len(item[0])} tokens with a beam of {width} does not fit in {device_memory}"
