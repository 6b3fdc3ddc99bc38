"""Slow and simple reference searches: the oracles of the tests of this package."""

import itertools
from collections.abc import Sequence

import pytest
from torch import Tensor

from nmt.decoding.beam import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS
from tests.builders import log_probs_without_cache


def sequence_log_prob(table: Tensor, tokens: Sequence[int]) -> float:
    """Return the log-probability of tokens and `</s>`, from log p(next token) after each prefix (T + 1, V)."""
    return sum(float(table[i, token]) for i, token in enumerate([*tokens, EOS]))


def brute_force(model: Transformer, source: Tensor, options: SearchOptions, limit: int) -> list[Hypothesis]:
    """Return every possible hypothesis of up to `limit` tokens, best first."""
    words = [token for token in range(model.output.out_features) if token not in (*options.forbidden, EOS)]
    found = []
    for length in range(limit):
        for tokens in itertools.product(words, repeat=length):
            log_prob = sequence_log_prob(log_probs_without_cache(model, source, tokens), tokens)
            found.append(
                Hypothesis(list(tokens), log_prob, log_prob / ((5 + length + 1) / 6) ** options.length_penalty)
            )
    return sorted(found, key=lambda hypothesis: -hypothesis.normalized)


def only(found: list[list[Hypothesis]]) -> list[Hypothesis]:
    """Return the hypotheses of the only sentence."""
    (hypotheses,) = found
    return hypotheses


def assert_same(left: Sequence[Hypothesis], right: Sequence[Hypothesis]) -> None:
    """Assert that hypotheses have the same tokens and, except for rounding, the same log-probabilities."""
    assert [hypothesis.tokens for hypothesis in left] == [hypothesis.tokens for hypothesis in right]
    assert [one.log_prob for one in left] == pytest.approx([other.log_prob for other in right], abs=1e-4)
