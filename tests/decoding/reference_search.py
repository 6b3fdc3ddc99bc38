"""Slow and simple reference searches: the oracles of the tests of this package."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Hypothesis
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import BOS, EOS


def sequence_log_prob(table: Tensor, tokens: Sequence[int]) -> float:
    """Return the log-probability of tokens and `</s>`, from log p(next token) after each prefix (T + 1, V)."""
    return sum(float(table[i, token]) for i, token in enumerate([*tokens, EOS]))


def normalized(hypothesis: Hypothesis, options: SearchOptions) -> float:
    """Return the log-probability divided by the length penalty, by which hypotheses other than samples are ranked."""
    return hypothesis.log_prob / ((5 + len(hypothesis.tokens) + 1) / 6) ** options.length_penalty


@torch.no_grad()
def _log_probs(model: Transformer, source: Sequence[int], hypotheses: Sequence[Sequence[int]]) -> Tensor:
    """Return log p(next token) after each prefix of hypotheses of one length, (N, T + 1, V), by teacher forcing."""
    targets = torch.tensor([[BOS, *tokens] for tokens in hypotheses])
    logits: Tensor = model(torch.tensor([source]).expand(len(targets), -1), None, targets)
    return logits.log_softmax(-1)


def brute_force(model: Transformer, source: Sequence[int], options: SearchOptions, limit: int) -> list[Hypothesis]:
    """Return every possible hypothesis of up to `limit` tokens, best first."""
    words = range(EOS + 1, model.output.out_features)
    found = []
    for length in range(limit):
        every = list(itertools.product(words, repeat=length))
        for tokens, table in zip(every, _log_probs(model, source, every), strict=True):
            log_prob = sequence_log_prob(table, tokens)
            found.append(Hypothesis(list(tokens), log_prob))
    return sorted(found, key=lambda hypothesis: -normalized(hypothesis, options))


def _is_allowed(tokens: Sequence[int], token: int, options: SearchOptions, prefix: Sequence[int], limit: int) -> bool:
    """Return whether the rules allow a token after others."""
    if len(tokens) < len(prefix):
        return token == prefix[len(tokens)]
    if len(tokens) + 1 == limit:
        return token == EOS
    n, longer = options.no_repeat_ngram, (*tokens, token)
    ngrams = [longer[i : i + n] for i in range(len(longer) - n + 1)] if n else []
    return token >= EOS and (not ngrams or ngrams[-1] not in ngrams[:-1])


def slow_beam(
    model: Transformer, source: Sequence[int], options: SearchOptions, prefix: Sequence[int] = ()
) -> list[Hypothesis]:
    """Beam search of one sentence in lists, without cache or padding; a beam of one stops at the first `</s>`."""
    active: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[Hypothesis] = []
    limit = options.longest_output(len(source)) + len(prefix)
    for length in range(1, limit + 1):
        if not active or (options.beam == 1 and finished):
            break
        extended = []
        newest = _log_probs(model, source, [tokens for tokens, _ in active])[:, -1]
        for (tokens, total), log_probs in zip(active, newest.tolist(), strict=True):
            for token, log_prob in enumerate(log_probs):
                if _is_allowed(tokens, token, options, prefix, limit):
                    extended.append(([*tokens, token], total + log_prob))
        extended.sort(key=lambda candidate: -candidate[1])
        for tokens, total in extended[: options.beam]:
            if tokens[-1] == EOS:
                finished.append(Hypothesis(tokens[:-1], total))
        active = [candidate for candidate in extended if candidate[0][-1] != EOS][: options.beam]
        if not options.exact and len(extended) >= options.n_best:
            active = [candidate for candidate in active if candidate[1] >= extended[options.n_best - 1][1] - 2]
        if not options.exact and len(finished) >= options.n_best:
            worst = sorted(normalized(hypothesis, options) for hypothesis in finished)[-options.n_best]
            penalty = options.penalty(min(limit, int(1.25 * length) + 1))
            active = [candidate for candidate in active if candidate[1] / penalty > worst]
    return sorted(finished, key=lambda hypothesis: -normalized(hypothesis, options))


def only(found: list[list[Hypothesis]]) -> list[Hypothesis]:
    """Return the hypotheses of the only sentence."""
    (hypotheses,) = found
    return hypotheses


def assert_same(left: Sequence[Hypothesis], right: Sequence[Hypothesis]) -> None:
    """Assert that hypotheses have the same tokens and, except for rounding, the same log-probabilities."""
    assert [hypothesis.tokens for hypothesis in left] == [hypothesis.tokens for hypothesis in right]
    assert [one.log_prob for one in left] == pytest.approx([other.log_prob for other in right], abs=1e-4)
