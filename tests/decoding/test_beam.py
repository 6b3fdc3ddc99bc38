"""Greedy and beam search equal brute force, a decoder without cache, and single-sentence search."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import MaxLength
from nmt.decoding.beam import Beams, best_candidates
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.errors import ModelError
from nmt.kernels.reference import PLAIN, largest
from nmt.text.tokenizer import EOS
from tests.builders import log_probs_without_cache, tiny_model
from tests.decoding.reference_search import assert_same, brute_force, normalized, only, sequence_log_prob, slow_beam
from tests.model.reference_transformer import page, reference_of

SENTENCES = [[4, 5, 6, 7, 3], [8, 3], [5, 5, 3]]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_wide_beam_search_equals_brute_force(seed: int, alpha: float) -> None:
    model, source = tiny_model(seed), [4, 5, 3]
    limit = MaxLength(factor=0, extra=4)
    options = SearchOptions(beam=40, n_best=10, length_penalty=alpha, max_length=limit, exact=True)
    found = only(search([model], [source], options))
    expected = brute_force(model, source, options, limit=4)[:10]
    assert_same(found, expected)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("beam", "n_best", "sharpness", "extra", "alpha"),
    [(2, 1, 3, 5, 0.6), (3, 1, 3, 5, 0.6), (5, 3, 3, 5, 0.6), (4, 1, 0.5, 8, 1), (4, 1, 3, 8, 1), (4, 1, 8, 8, 1)],
)
def test_beam_search_equals_the_reference_search(
    beam: int, n_best: int, sharpness: float, extra: int, alpha: float, exact: bool
) -> None:
    """If the search is exact, the reference search extends every hypothesis up to the limit."""
    limit = MaxLength(factor=1, extra=extra)
    options = SearchOptions(beam=beam, n_best=n_best, max_length=limit, length_penalty=alpha, exact=exact)
    for seed in range(4):
        model = tiny_model(seed, vocabulary=9, sharpness=sharpness)
        for ids, found in zip(SENTENCES, search([model], SENTENCES, options), strict=True):
            assert_same(found, slow_beam(model, ids, options)[:n_best])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_exact_beam_search_equals_that_of_the_page(alpha: float) -> None:
    for seed in range(6):
        model = tiny_model(seed, vocabulary=9)
        options = SearchOptions(beam=3, max_length=MaxLength(factor=1, extra=5), length_penalty=alpha, exact=True)
        for ids, (best,) in zip(SENTENCES, search([model], SENTENCES, options), strict=True):
            reference, longest = reference_of(model).model, options.longest_output(len(ids))
            assert best.tokens == page.beam_search(reference, torch.tensor([ids]), 3, longest, alpha)


def test_greedy_search_equals_argmax_without_cache() -> None:
    ended = 0
    for seed in range(12):
        model, source = tiny_model(seed, vocabulary=9), [4, 5, 6, 3]
        options = SearchOptions(beam=1, max_length=MaxLength(factor=1, extra=6))
        expected: list[int] = []
        while len(expected) < 9:
            table = log_probs_without_cache(model, source, expected)
            table[:, :EOS] = -math.inf
            token = int(table[-1].argmax())
            if token == EOS:
                ended += 1
                break
            expected.append(token)
        (found,) = only(search([model], [source], options))
        assert found.tokens == expected
        table = log_probs_without_cache(model, source, expected)
        assert found.log_prob == pytest.approx(sequence_log_prob(table, expected), abs=1e-4)
    assert ended, "no model generated </s> before the limit"


@pytest.mark.parametrize("beam", [2, 6])
def test_n_best_are_sorted_distinct_and_allowed(beam: int) -> None:
    for seed in range(5):
        model, sentences = tiny_model(seed, vocabulary=12), [[4, 5, 6, 3], [7, 3]]
        options = SearchOptions(beam=beam, n_best=beam)
        for ids, found in zip(sentences, search([model], sentences, options), strict=True):
            assert len(found) == beam
            assert len({tuple(hypothesis.tokens) for hypothesis in found}) == beam
            assert found == sorted(found, key=lambda hypothesis: -normalized(hypothesis, options))
            for hypothesis in found:
                assert not set(hypothesis.tokens) & {0, 1, 2, 3}
                assert len(hypothesis.tokens) < options.longest_output(len(ids))
                table = log_probs_without_cache(model, ids, hypothesis.tokens)
                assert hypothesis.log_prob == pytest.approx(sequence_log_prob(table, hypothesis.tokens), abs=1e-4)
        assert search([model], sentences, options) == search([model], sentences, options)


def test_model_without_end_is_ended_at_the_limit() -> None:
    model = tiny_model(0, vocabulary=9)
    with torch.no_grad():
        model.decoder_norm.bias.fill_(10.0)
        model.output.weight[EOS] = -1.0
    sentences = [[4, 5, 6, 3], [7, 3]]
    for beam in (1, 3):
        options = SearchOptions(beam=beam, max_length=MaxLength(factor=1, extra=2))
        found = search([model], sentences, options)
        assert [len(best[0].tokens) for best in found] == [5, 3], "limits 6 and 4, </s> included"
        table = log_probs_without_cache(model, sentences[0], found[0][0].tokens)
        assert found[0][0].log_prob == pytest.approx(sequence_log_prob(table, found[0][0].tokens), abs=1e-4)


def beams_of(log_probs: list[list[float]]) -> Beams:
    """Return the state of a search before its first step, with hypotheses of these log-probabilities (B, K)."""
    options = SearchOptions(beam=len(log_probs[0]))
    beams = Beams.empty(len(log_probs), 4, options, torch.device("cpu"))
    return replace(beams, log_probs=torch.tensor(log_probs))


def test_best_candidates_of_ragged_beams_by_hand() -> None:
    """The first sentence has one active hypothesis; of equal candidates that of the earlier hypothesis comes first."""
    beams = beams_of([[-1.0, -math.inf], [-1.0, -1.0]])
    log_probs = torch.tensor([[[-0.5, -2.0, -3.0], [-0.1, -0.1, -0.1]], [[-1.0, -2.0, -4.0], [-1.0, -1.5, -2.0]]])
    tokens = torch.tensor([[[9, 8, 7], [3, 3, 3]], [[9, 8, 7], [5, 9, 6]]])
    found = best_candidates(beams, log_probs, tokens)
    assert found.log_probs.tolist() == [[-1.5, -3.0, -4.0, -math.inf], [-2.0, -2.0, -2.5, -3.0]]
    assert found.tokens[0, :3].tolist() == [9, 8, 7]
    assert found.parents[0, :3].tolist() == [0, 0, 0]
    assert found.tokens[1].tolist() == [9, 5, 9, 8]
    assert found.parents[1].tolist() == [0, 1, 1, 0]


def test_best_candidates_equal_topk_of_log_softmax() -> None:
    """Of tokens that may be generated, whose probabilities are not increased; the first hypotheses must end."""
    torch.manual_seed(3)
    beam, vocabulary = 3, 50
    logits, log_probs = 4 * torch.randn(5, beam, vocabulary), -torch.rand(5, beam)
    must_end = (torch.arange(5) == 1).repeat_interleave(beam)
    allowed = logits.log_softmax(-1)
    allowed[..., :EOS] = -math.inf
    allowed[1, :, EOS + 1 :] = -math.inf
    best, positions = (log_probs.unsqueeze(-1) + allowed).flatten(1).topk(2 * beam, dim=1)
    chosen = PLAIN.best_tokens(logits.flatten(0, 1).clone(), must_end, 2 * beam)
    found = best_candidates(beams_of(log_probs.tolist()), *(x.unflatten(0, (5, beam)) for x in chosen))
    torch.testing.assert_close(found.log_probs, best)
    exist = best > -math.inf
    assert exist.sum(1).tolist() == [6, 3, 6, 6, 6]
    assert torch.equal((found.parents * vocabulary + found.tokens)[exist], positions[exist])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_largest_in_blocks_equals_sort(data: st.DataObject) -> None:
    """Also with equal numbers, of which any may be returned, and -inf."""
    count = data.draw(st.integers(1, 8))
    seed, spread = data.draw(st.integers(0, 1000)), data.draw(st.sampled_from([2, 20, 10**6]))
    numbers = torch.randint(spread, (3, 64 * 8), generator=torch.Generator().manual_seed(seed)).float()
    numbers[numbers == 0] = -math.inf
    values, places = largest(numbers, count)
    assert torch.equal(values, numbers.sort(dim=1, descending=True).values[:, :count])
    assert torch.equal(numbers.gather(1, places), values)
    assert all(len(set(row)) == count for row in places.tolist())


def test_empty_batch_has_no_hypotheses() -> None:
    assert search([tiny_model(0)], [], SearchOptions()) == []


@pytest.mark.parametrize("beam", [1, 3])
def test_nan_weights_raise_model_error(beam: int) -> None:
    model = tiny_model(0)
    with torch.no_grad():
        model.output.weight.fill_(math.nan)
    with pytest.raises(ModelError, match="not numbers"):
        search([model], [[4, 3]], SearchOptions(beam=beam))
