"""Slow and simple reference searches: the oracles of the tests of this package."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from nmt.decoding.beam import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS
from tests.builders import log_probs_without_cache


def sequence_log_prob(table: Tensor, tokens: Sequence[int]) -> float:
    """Return the log-probability of tokens and `</s>`, from log p(next token) after each prefix (T + 1, V)."""
    return sum(float(table[i, token]) for i, token in enumerate([*tokens, EOS]))


def brute_force(model: Transformer, source: Sequence[int], options: SearchOptions, limit: int) -> list[Hypothesis]:
    """Return every possible hypothesis of up to `limit` tokens, best first."""
    words = range(EOS + 1, model.output.out_features)
    found = []
    for length in range(limit):
        for tokens in itertools.product(words, repeat=length):
            log_prob = sequence_log_prob(log_probs_without_cache(model, source, tokens), tokens)
            found.append(
                Hypothesis(list(tokens), log_prob, log_prob / ((5 + length + 1) / 6) ** options.length_penalty)
            )
    return sorted(found, key=lambda hypothesis: -hypothesis.normalized)


@torch.no_grad()
def slow_beam(model: Transformer, source: Sequence[int], options: SearchOptions) -> list[Hypothesis]:
    """Beam search of one sentence in lists, without cache, batch or early stopping."""
    active: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[Hypothesis] = []
    limit = options.longest_output(len(source))
    for length in range(1, limit + 1):
        extended = []
        for tokens, total in active:
            newest = log_probs_without_cache(model, source, tokens)[-1]
            for token, log_prob in enumerate(newest.tolist()):
                if token >= EOS and (length < limit or token == EOS):
                    extended.append(([*tokens, token], total + log_prob))
        extended.sort(key=lambda candidate: -candidate[1])
        for tokens, total in extended[: options.beam]:
            if tokens[-1] == EOS:
                finished.append(Hypothesis(tokens[:-1], total, total / options.penalty(length)))
        active = [candidate for candidate in extended if candidate[0][-1] != EOS][: options.beam]
        if not options.exact and len(extended) >= options.n_best:
            active = [candidate for candidate in active if candidate[1] >= extended[options.n_best - 1][1] - 2]
        if not options.exact and len(finished) >= options.n_best:
            worst = sorted(hypothesis.normalized for hypothesis in finished)[-options.n_best]
            penalty = options.penalty(min(limit, int(1.25 * length) + 1))
            active = [candidate for candidate in active if candidate[1] / penalty > worst]
    return sorted(finished, key=lambda hypothesis: -hypothesis.normalized)


def only(found: list[list[Hypothesis]]) -> list[Hypothesis]:
    """Return the hypotheses of the only sentence."""
    (hypotheses,) = found
    return hypotheses


def assert_same(left: Sequence[Hypothesis], right: Sequence[Hypothesis]) -> None:
    """Assert that hypotheses have the same tokens and, except for rounding, the same log-probabilities."""
    assert [hypothesis.tokens for hypothesis in left] == [hypothesis.tokens for hypothesis in right]
    assert [one.log_prob for one in left] == pytest.approx([other.log_prob for other in right], abs=1e-4)
