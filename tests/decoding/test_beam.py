"""Greedy and beam search equal brute force, a decoder without cache, and single-sentence search."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import MaxLength
from nmt.decoding.beam import ActiveBeams, Hypothesis, best_candidates, best_tokens, largest
from nmt.decoding.engine import search
from nmt.decoding.options import SearchOptions
from nmt.errors import ModelError
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS
from tests.builders import log_probs_without_cache, padded, tiny_model
from tests.decoding.reference_search import assert_same, brute_force, only, sequence_log_prob


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_wide_beam_search_equals_brute_force(seed: int, alpha: float) -> None:
    model = tiny_model(seed)
    source = torch.tensor([[4, 5, 3]])
    limit = MaxLength(factor=0, extra=4)
    options = SearchOptions(beam=40, n_best=10, length_penalty=alpha, max_length=limit, exact=True)
    found = only(search(model, source, None, options))
    expected = brute_force(model, source, options, limit=4)[:10]
    assert_same(found, expected)
    assert [one.normalized for one in found] == pytest.approx([one.normalized for one in expected], abs=1e-4)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("sharpness", [0.5, 3.0, 8.0])
def test_early_stopping_returns_the_same_hypotheses(sharpness: float, exact: bool) -> None:
    """If the search is exact, the reference search extends every hypothesis up to the limit."""
    for seed in range(8):
        model = tiny_model(seed, vocabulary=9, sharpness=sharpness)
        source, mask = padded([[4, 5, 6, 7, 3], [8, 3], [5, 5, 3]])
        options = SearchOptions(beam=4, max_length=MaxLength(factor=1, extra=8), length_penalty=1.0, exact=exact)
        to_the_end = full_search(model, source, mask, options)
        for early, full in zip(search(model, source, mask, options), to_the_end, strict=True):
            assert_same(early, full[:1])


def full_search(model: Transformer, source: Tensor, mask: Tensor, options: SearchOptions) -> list[list[Hypothesis]]:
    """Search each sentence by itself with `slow_beam`."""
    found = []
    for row, row_mask in zip(source, mask, strict=True):
        found.append(slow_beam(model, row[row_mask], options))
    return found


@torch.no_grad()
def slow_beam(model: Transformer, source: Tensor, options: SearchOptions) -> list[Hypothesis]:
    """Beam search in lists, without cache, batch or early stopping."""
    active: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[Hypothesis] = []
    limit = options.longest_output(len(source))
    for length in range(1, limit + 1):
        extended = []
        for tokens, total in active:
            newest = log_probs_without_cache(model, source.unsqueeze(0), tokens)[-1]
            for token, log_prob in enumerate(newest.tolist()):
                if token not in options.forbidden and (length < limit or token == EOS):
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


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("beam", [2, 3, 5])
def test_beam_search_equals_the_reference_search(beam: int, exact: bool) -> None:
    for seed in range(6):
        model = tiny_model(seed, vocabulary=9)
        source, mask = padded([[4, 5, 6, 7, 3], [8, 3], [5, 5, 3]])
        options = SearchOptions(
            beam=beam, n_best=max(1, beam - 2), max_length=MaxLength(factor=1, extra=5), exact=exact
        )
        for found, slow in zip(
            search(model, source, mask, options), full_search(model, source, mask, options), strict=True
        ):
            assert_same(found, slow[: options.n_best])


def test_greedy_search_equals_argmax_without_cache() -> None:
    ended = 0
    for seed in range(12):
        model = tiny_model(seed, vocabulary=9)
        source = torch.tensor([[4, 5, 6, 3]])
        options = SearchOptions(beam=1, max_length=MaxLength(factor=1, extra=6))
        expected: list[int] = []
        while len(expected) < 9:
            table = log_probs_without_cache(model, source, expected)
            table[:, list(options.forbidden)] = -math.inf
            token = int(table[-1].argmax())
            if token == EOS:
                ended += 1
                break
            expected.append(token)
        (found,) = only(search(model, source, None, options))
        assert found.tokens == expected
        table = log_probs_without_cache(model, source, expected)
        assert found.log_prob == pytest.approx(sequence_log_prob(table, expected), abs=1e-4)
        assert found.normalized == pytest.approx(found.log_prob / ((5 + len(expected) + 1) / 6))
    assert ended, "no model generated </s> before the limit"


@settings(max_examples=30, deadline=None)
@given(
    sentences=st.lists(st.lists(st.integers(4, 11), min_size=1, max_size=9), min_size=1, max_size=20),
    beam=st.integers(1, 4),
)
def test_hypotheses_do_not_depend_on_the_other_sentences(sentences: list[list[int]], beam: int) -> None:
    model = tiny_model(5, vocabulary=12)
    options = SearchOptions(beam=beam, n_best=min(beam, 2), max_length=MaxLength(factor=1.5, extra=3))
    together = search(model, *padded(sentences), options)
    assert len(together) == len(sentences)
    for ids, found in zip(sentences, together, strict=True):
        assert_same(found, only(search(model, torch.tensor([ids]), None, options)))


@pytest.mark.parametrize("beam", [2, 6])
def test_n_best_are_sorted_distinct_and_allowed(beam: int) -> None:
    for seed in range(5):
        model = tiny_model(seed, vocabulary=12)
        source, mask = padded([[4, 5, 6, 3], [7, 3]])
        options = SearchOptions(beam=beam, n_best=beam)
        for row, found in enumerate(search(model, source, mask, options)):
            assert len(found) == beam
            assert len({tuple(hypothesis.tokens) for hypothesis in found}) == beam
            assert found == sorted(found, key=lambda hypothesis: -hypothesis.normalized)
            for hypothesis in found:
                assert not set(hypothesis.tokens) & {0, 1, 2, 3}
                assert len(hypothesis.tokens) < options.longest_output(int(mask[row].sum()))
                table = log_probs_without_cache(model, source[row : row + 1, : int(mask[row].sum())], hypothesis.tokens)
                assert hypothesis.log_prob == pytest.approx(sequence_log_prob(table, hypothesis.tokens), abs=1e-4)
        assert search(model, source, mask, options) == search(model, source, mask, options)


def test_model_without_end_is_ended_at_the_limit() -> None:
    model = tiny_model(0, vocabulary=9)
    with torch.no_grad():
        model.decoder_norm.bias.fill_(10.0)
        model.output.weight[EOS] = -1.0
    source, mask = padded([[4, 5, 6, 3], [7, 3]])
    for beam in (1, 3):
        options = SearchOptions(beam=beam, max_length=MaxLength(factor=1, extra=2))
        found = search(model, source, mask, options)
        assert [len(best[0].tokens) for best in found] == [5, 3], "limits 6 and 4, </s> included"
        table = log_probs_without_cache(model, source[:1], found[0][0].tokens)
        assert found[0][0].log_prob == pytest.approx(sequence_log_prob(table, found[0][0].tokens), abs=1e-4)


def test_best_candidates_of_ragged_beams_by_hand() -> None:
    """Sentence 4 has one row, sentence 7 has two; of equal candidates the one of the earlier row comes first."""
    active = ActiveBeams(torch.tensor([4, 7, 7]), torch.tensor([-1.0, -1.0, -1.0]), torch.zeros(3, 1))
    log_probs = torch.tensor([[-0.5, -2.0, -3.0], [-1.0, -2.0, -4.0], [-1.0, -1.5, -2.0]])
    found = best_candidates(active, log_probs, torch.tensor([[9, 8, 7], [9, 8, 7], [5, 9, 6]]), beam=2)
    assert found.log_probs.tolist() == [[-1.5, -3.0, -4.0, -math.inf], [-2.0, -2.0, -2.5, -3.0]]
    assert found.tokens[0, :3].tolist() == [9, 8, 7]
    assert found.rows[0, :3].tolist() == [0, 0, 0]
    assert found.tokens[1].tolist() == [9, 5, 9, 8]
    assert found.rows[1].tolist() == [1, 2, 2, 1]


def test_best_candidates_equal_topk_of_log_softmax() -> None:
    torch.manual_seed(3)
    beam, vocabulary = 3, 50
    logits, log_probs = 4 * torch.randn(5, beam, vocabulary), -torch.rand(5, beam)
    best, positions = (log_probs.unsqueeze(-1) + logits.log_softmax(-1)).flatten(1).topk(2 * beam, dim=1)
    prefixes = torch.zeros(5 * beam, 1, dtype=torch.long)
    active = ActiveBeams(torch.arange(5).repeat_interleave(beam), log_probs.flatten(), prefixes)
    rows = logits.flatten(0, 1).clone()
    found = best_candidates(active, *best_tokens(rows, [], prefixes, active.sentences, 2 * beam), beam)
    torch.testing.assert_close(found.log_probs, best)
    first = torch.arange(5).unsqueeze(1) * beam
    assert torch.equal((found.rows - first) * vocabulary + found.tokens, positions)


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
    assert search(tiny_model(0), torch.zeros(0, 4, dtype=torch.long), None, SearchOptions()) == []


@pytest.mark.parametrize("beam", [1, 3])
def test_nan_weights_raise_model_error(beam: int) -> None:
    model = tiny_model(0)
    with torch.no_grad():
        model.output.weight.fill_(math.nan)
    with pytest.raises(ModelError, match="not numbers"):
        search(model, torch.tensor([[4, 3]]), None, SearchOptions(beam=beam))
