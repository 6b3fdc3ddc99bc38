"""Rules against a reference search on lists, in greedy and beam search; properties of the outputs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import MaxLength, Sampling
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Prefixes, apply_rules
from nmt.decoding.search import search
from nmt.text.tokenizer import BOS, EOS, UNK
from tests.builders import log_probs_without_cache, tiny_model
from tests.decoding.reference_search import assert_same, only, sequence_log_prob, slow_beam

SENTENCES = [[4, 5, 6, 7, 3], [8, 3], [5, 5, 3], [7, 7, 7, 7, 7, 3]]
PREFIXES = [(), (5, 8), (7,), (4, 4, 4, 4)]
PLAIN = SearchOptions(beam=1, max_length=MaxLength(factor=1, extra=7))
RULES = {
    "bigrams": {"no_repeat_ngram": 2},
    "words": {"no_repeat_ngram": 1},
}


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_search_with_rules_equals_the_reference_search(rule: str, beam: int) -> None:
    options = SearchOptions(**{**dict(PLAIN), "beam": beam, "n_best": beam, **RULES[rule]})
    changed = 0
    for seed in range(3):
        model = tiny_model(seed, vocabulary=9)
        found = search([model], SENTENCES, options, PREFIXES)
        for ids, prefix, hypotheses in zip(SENTENCES, PREFIXES, found, strict=True):
            assert_same(hypotheses, slow_beam(model, ids, options, prefix)[:beam])
        plain = PLAIN.model_copy(update={"beam": beam, "n_best": beam})
        free = search([model], SENTENCES, plain, PREFIXES)
        changed += [[one.tokens for one in of] for of in free] != [[one.tokens for one in of] for of in found]
    assert changed, "the rule never changed a hypothesis"


OPTIONS = st.builds(
    lambda beam, n, sampling: SearchOptions(
        beam=beam, n_best=beam, no_repeat_ngram=n, max_length=MaxLength(factor=1.5, extra=3), sampling=sampling
    ),
    st.integers(1, 3),
    st.none() | st.integers(1, 3),
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
    with_prefixes=st.booleans(),
    options=OPTIONS,
    seeds=st.sampled_from([[0], [1], [2], [3, 4]]),
)
def test_outputs_obey_the_rules_alone_and_in_batches(
    pairs: list[tuple[list[int], tuple[int, ...]]], with_prefixes: bool, options: SearchOptions, seeds: list[int]
) -> None:
    models = [tiny_model(seed, vocabulary=12) for seed in seeds]
    pairs = [(ids, prefix if with_prefixes else ()) for ids, prefix in pairs]
    together = search(models, [ids for ids, _ in pairs], options, [prefix for _, prefix in pairs])
    for (ids, prefix), found in zip(pairs, together, strict=True):
        assert found
        assert_same(found, only(search(models, [ids], options, [prefix])))
        for hypothesis in found:
            generated = hypothesis.tokens
            assert tuple(generated[: len(prefix)]) == prefix
            assert len(generated) + 1 <= options.longest_output(len(ids)) + len(prefix)
            assert hypothesis.log_prob > -math.inf
            if (n := options.no_repeat_ngram) is None:
                continue
            ngrams = [tuple(generated[i : i + n]) for i in range(len(generated) - n + 1)]
            later = [(i, ngram) for i, ngram in enumerate(ngrams) if i + n > len(prefix)]
            assert not [ngram for i, ngram in later if ngram in ngrams[:i]]


@pytest.mark.parametrize("beam", [1, 3])
def test_required_prefix_has_the_log_prob_of_the_model(beam: int) -> None:
    """Also if the prefix contains forbidden tokens and exceeds the usual limit."""
    model = tiny_model(1, vocabulary=9)
    prefix = (UNK, 4, 4, 4, 4, 4, 4, 4, 4, 4)
    options = SearchOptions(beam=beam, max_length=MaxLength(factor=1, extra=2), no_repeat_ngram=1)
    (found,) = only(search([model], [[8, 3]], options, [prefix]))
    assert tuple(found.tokens[:10]) == prefix
    table = log_probs_without_cache(model, [8, 3], found.tokens)
    assert found.log_prob == pytest.approx(sequence_log_prob(table, found.tokens), abs=1e-4)


def test_no_repeated_ngram_by_hand() -> None:
    """After 4 5 6 4 5 the next token is not 6; after 6 5 6 5 5 no token repeats a trigram.

    Tokens behind the length of a hypothesis do not count.
    """
    tokens = torch.tensor([[BOS, 4, 5, 6, 4, 5, 7], [BOS, 6, 5, 6, 5, 5, 5], [BOS, 4, 5, 4, 5, 4, 5]])
    prefixes = Prefixes(tokens, torch.tensor([6, 6, 3]), torch.tensor([False] * 3), None)
    logits = torch.zeros(3, 8)
    apply_rules(logits, prefixes, 3)
    assert (logits[:, EOS:] == -math.inf).nonzero().tolist() == [[0, 6 - EOS]]
    assert bool((logits[:, :EOS] == -math.inf).all())


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 9))
def test_rules_only_lower_logits(seed: int, length: int) -> None:
    """Early stopping of beam search relies on this."""
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(6, 9, generator=generator)
    tokens = torch.randint(4, 9, (6, length), generator=generator)
    tokens[:, 0] = BOS
    lengths = torch.randint(1, length + 1, (6,), generator=generator)
    required = torch.randint(-4, 9, (6,), generator=generator).clamp(min=-1)
    must_end = torch.rand(6, generator=generator) < 0.3
    after = logits.clone()
    apply_rules(after, Prefixes(tokens, lengths, must_end, required), 2)
    assert torch.equal(after[after > -math.inf], logits[after > -math.inf])
    assert (after > -math.inf).any(-1).all()
    for row, token in enumerate(required.tolist()):
        if token >= 0:
            assert (after[row] > -math.inf).nonzero().flatten().tolist() == [token]
