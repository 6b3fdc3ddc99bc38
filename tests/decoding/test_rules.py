"""Rules against a slow twin that works on lists, in greedy and beam search, and properties of what is said."""

import math
from collections.abc import Sequence
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import MaxLength, Sampling
from nmt.decoding.hypothesis import Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import BeginWith, EndAt, Forbidden, NoEndBefore, NoRepeatedNgram, RepetitionPenalty, rules_for
from nmt.decoding.search import search
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from tests.decoding.test_search import BOS, EOS, assert_same, only, padded, tiny_model

UNK = 1
SENTENCES = [[4, 5, 6, 7, 3], [8, 3], [5, 5, 3], [7, 7, 7, 7, 7, 3]]
PREFIXES = [(), (5, 8), (7,), (4, 4, 4, 4)]
PLAIN = SearchOptions(beam=1, max_length=MaxLength(factor=1, extra=7))
RULES = {
    "bigrams": {"no_repeat_ngram": 2},
    "words": {"no_repeat_ngram": 1},
    "penalty": {"repetition_penalty": 1.7},
    "shortest": {"min_length": 0.99},
    "all": {"no_repeat_ngram": 3, "repetition_penalty": 1.2, "min_length": 0.6},
}


def ruled(
    raw: Sequence[float], said: Sequence[int], options: SearchOptions, source: int, prefix: tuple[int, ...]
) -> list[float]:
    """Return what the rules leave of logits (V), spelled out as they read, for a source of so many tokens."""
    if len(said) < len(prefix):
        return [logit if token == prefix[len(said)] else -math.inf for token, logit in enumerate(raw)]
    n = options.no_repeat_ngram
    length = len(said) + 1
    left = []
    for token, logit in enumerate(raw):
        if token in said:
            logit = logit / options.repetition_penalty if logit > 0 else logit * options.repetition_penalty
        ngrams = [] if n is None else [(*said, token)[i : i + n] for i in range(length - n + 1)]
        if token in options.forbidden or (ngrams and ngrams[-1] in ngrams[:-1]):
            logit = -math.inf
        left.append(logit)
    others = [logit for token, logit in enumerate(left) if token != EOS]
    if length < options.min_length * source and max(others) > -math.inf:
        left[EOS] = -math.inf
    if length == options.longest_output(source) + len(prefix):
        left = [logit if token == EOS else -math.inf for token, logit in enumerate(left)]
    return left


@cache
def model_of(seed: int) -> Transformer:
    return tiny_model(seed, vocabulary=9)


@cache
def raw_logits(seed: int, source: tuple[int, ...], said: tuple[int, ...]) -> tuple[list[float], float]:
    """Return logits of the next token by teacher forcing, and the logarithm of their sum."""
    with torch.no_grad():
        model = model_of(seed)
        hidden = model.decode(torch.tensor([[BOS, *said]]), model.encode(torch.tensor([source]), None), None)
        logits = model.logits(hidden[0, -1])
    return logits.tolist(), float(logits.logsumexp(-1))


def slow_search(seed: int, source: list[int], options: SearchOptions, prefix: tuple[int, ...]) -> list[Hypothesis]:
    """Search in lists, without cache, batch or early stopping; a beam of one stops at the first end."""
    live: list[tuple[list[int], list[float]]] = [([], [])]
    finished: list[Hypothesis] = []
    for length in range(1, options.longest_output(len(source)) + len(prefix) + 1):
        extended = []
        for tokens, steps in live:
            raw, normalizer = raw_logits(seed, tuple(source), tuple(tokens))
            for token, logit in enumerate(ruled(raw, tokens, options, len(source), prefix)):
                if logit > -math.inf:
                    extended.append(([*tokens, token], [*steps, logit - normalizer]))
        extended.sort(key=lambda candidate: -sum(candidate[1]))
        for tokens, steps in extended[: options.beam]:
            if tokens[-1] == EOS:
                finished.append(Hypothesis(tokens[:-1], sum(steps), steps, sum(steps) / options.penalty(length)))
        if options.beam == 1 and finished:
            break
        live = [candidate for candidate in extended if candidate[0][-1] != EOS][: options.beam]
    return sorted(finished, key=lambda hypothesis: -hypothesis.normalized)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_search_is_its_slow_twin(rule: str, beam: int) -> None:
    options = SearchOptions(**{**dict(PLAIN), "beam": beam, "n_best": beam, **RULES[rule]})
    changed = 0
    for seed in range(3):
        constraints_of = [Constraints(prefix) for prefix in PREFIXES]
        found = search(model_of(seed), *padded(SENTENCES), options, constraints_of)
        for ids, prefix, hypotheses in zip(SENTENCES, PREFIXES, found, strict=True):
            assert_same(hypotheses, slow_search(seed, ids, options, prefix)[:beam])
        free = search(
            model_of(seed), *padded(SENTENCES), PLAIN.model_copy(update={"beam": beam, "n_best": beam}), constraints_of
        )
        changed += [[one.tokens for one in of] for of in free] != [[one.tokens for one in of] for of in found]
    assert changed, "no rule was ever in the way: the test would show nothing"


OPTIONS = st.builds(
    lambda beam, n, penalty, shortest, sampling: SearchOptions(
        beam=beam,
        n_best=beam,
        no_repeat_ngram=n,
        repetition_penalty=penalty,
        min_length=shortest,
        max_length=MaxLength(factor=1.5, extra=3),
        sampling=sampling,
    ),
    st.integers(1, 3),
    st.none() | st.integers(1, 3),
    st.sampled_from([1.0, 1.5]),
    st.sampled_from([0.0, 0.7, 1.5]),
    st.none() | st.just(Sampling()),
)
WORDS = st.integers(4, 11)


@settings(max_examples=25, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=4).map(tuple)),
        min_size=1,
        max_size=5,
    ),
    options=OPTIONS,
    seed=st.integers(0, 3),
)
def test_what_is_said_keeps_to_the_rules_alone_and_in_company(
    pairs: list[tuple[list[int], tuple[int, ...]]], options: SearchOptions, seed: int
) -> None:
    model = tiny_model(seed, vocabulary=12)
    together = search(model, *padded([ids for ids, _ in pairs]), options, [Constraints(prefix) for _, prefix in pairs])
    for (ids, prefix), found in zip(pairs, together, strict=True):
        assert found
        assert_same(found, only(search(model, torch.tensor([ids]), None, options, [Constraints(prefix)])))
        for hypothesis in found:
            said = hypothesis.tokens
            assert tuple(said[: len(prefix)]) == prefix
            assert len(said) + 1 <= options.longest_output(len(ids)) + len(prefix)
            assert all(value > -math.inf for value in hypothesis.token_log_probs)
            if options.no_repeat_ngram is None:
                assert len(said) + 1 >= options.min_length * len(ids)
                continue
            n = options.no_repeat_ngram
            ngrams = [tuple(said[i : i + n]) for i in range(len(said) - n + 1)]
            later = [(i, ngram) for i, ngram in enumerate(ngrams) if i + n > len(prefix)]
            assert not [ngram for i, ngram in later if ngram in ngrams[:i]]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_prefix_costs_what_the_model_thinks_of_it(beam: int) -> None:
    """Whatever is demanded is said, even what is forbidden, and beyond the usual limit."""
    model = tiny_model(1, vocabulary=9).requires_grad_(False)
    prefix = (UNK, 4, 4, 4, 4, 4, 4, 4, 4, 4)
    options = SearchOptions(beam=beam, max_length=MaxLength(factor=1, extra=2), no_repeat_ngram=1)
    (found,) = only(search(model, torch.tensor([[8, 3]]), None, options, [Constraints(prefix)]))
    assert tuple(found.tokens[:10]) == prefix
    hidden = model.decode(torch.tensor([[BOS, *found.tokens]]), model.encode(torch.tensor([[8, 3]]), None), None)
    table = model.logits(hidden)[0].log_softmax(-1)
    expected = [float(table[i, token]) for i, token in enumerate([*found.tokens, EOS])]
    assert found.token_log_probs == pytest.approx(expected, abs=1e-4)
    assert found.log_prob == pytest.approx(sum(expected), abs=1e-4)


def test_a_prefix_that_the_model_cannot_hold_is_refused() -> None:
    model = tiny_model(1, vocabulary=9, positions="learned", max_positions=6)
    (found,) = only(search(model, torch.tensor([[8, 3]]), None, PLAIN, [Constraints((4, 4, 4, 4, 4))]))
    assert found.tokens == [4, 4, 4, 4, 4]
    with pytest.raises(
        ConfigError, match=r"begin with 6 tokens, but the model knows no more than 6 .* shorter beginning"
    ):
        search(model, torch.tensor([[8, 3]]), None, PLAIN, [Constraints((4,) * 6)])


def test_rules_that_nobody_asked_for_are_not_there() -> None:
    limits, ones = torch.tensor([4, 5]), torch.tensor([0, 0])
    rules = rules_for(SearchOptions(), [Constraints(), Constraints()], limits, ones)
    assert [type(rule) for rule in rules] == [Forbidden, EndAt]


def test_repetition_penalty_by_hand() -> None:
    """Of tokens 4, 5 and 5 again: 4.0 / 2 = 2.0 and -3.0 · 2 = -6.0; the others stay."""
    logits = torch.tensor([[0.5, 0.5, 7.0, 1.0, 4.0, -3.0, -1.0]])
    RepetitionPenalty(2.0).apply(logits, torch.tensor([[BOS, 4, 5, 5]]), torch.tensor([0]))
    assert logits.tolist() == [[0.5, 0.5, 7.0, 1.0, 2.0, -6.0, -1.0]]


def test_repeated_ngrams_by_hand() -> None:
    """After 4 5 6 4 5 the next is not 6, after 5 6 5 5 nothing ends a trigram that was said."""
    logits = torch.zeros(2, 8)
    said = torch.tensor([[BOS, 4, 5, 6, 4, 5], [BOS, 6, 5, 6, 5, 5]])
    NoRepeatedNgram(3).apply(logits, said, torch.tensor([0, 0]))
    assert (logits == -math.inf).nonzero().tolist() == [[0, 6]]


def test_the_end_stays_where_nothing_else_is_left() -> None:
    logits = torch.zeros(2, 5)
    logits[0, [0, 1, 2, 4]] = -math.inf
    NoEndBefore(torch.tensor([9, 3, 3])).apply(logits, torch.tensor([[BOS], [BOS]]), torch.tensor([0, 2]))
    assert logits[:, EOS].tolist() == [0.0, -math.inf]
    NoEndBefore(torch.tensor([1, 1])).apply(logits, torch.tensor([[BOS], [BOS]]), torch.tensor([0, 1]))
    assert logits[0, EOS] == 0.0


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 9))
def test_rules_only_lower(seed: int, length: int) -> None:
    """What the early end of the beam search rests on."""
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(6, 9, generator=generator)
    said = torch.randint(4, 9, (6, length), generator=generator)
    said[:, 0] = BOS
    options = SearchOptions(no_repeat_ngram=2, repetition_penalty=1.5)
    constraints_of = [Constraints((4, 5)), Constraints(), Constraints((6,) * 5)]
    after = logits.clone()
    (rule,) = rules_for(options, constraints_of, torch.tensor([9, 3, 9]), torch.tensor([5, 2, 0]))
    assert isinstance(rule, BeginWith)
    rule.apply(after, said, torch.tensor([0, 0, 1, 1, 2, 2]))
    assert (after <= logits).all()
    assert (after > -math.inf).any(-1).all()
