"""The Triton kernels of a step of a search against plain torch; on a CPU in Triton's interpreter."""

import os
from collections.abc import Callable
from dataclasses import fields

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with builds of torch for NVIDIA GPUs")

from nmt.decoding.beam import Beams, advance, best_candidates
from nmt.decoding.options import SearchOptions
from nmt.kernels import triton_search
from nmt.kernels.native_search import SearchRules
from nmt.kernels.reference import Kernels, Places
from nmt.text.tokenizer import EOS

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PLAIN = Kernels(DEVICE)
# the interpreter multiplies no matrices of bfloat16
HALF = torch.bfloat16 if torch.cuda.is_available() else torch.float16


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize(
    ("beam", "positions", "heads", "width"), [(4, 20, 2, 16), (3, 40, 1, 12), (1, 33, 2, 20), (17, 5, 1, 4)]
)
@pytest.mark.parametrize("of_target", [True, False])
def test_attention_of_hypotheses(
    beam: int, positions: int, heads: int, width: int, of_target: bool, dtype: torch.dtype
) -> None:
    """Cells that are not written yet hold NaN, which must not matter."""
    count, dim = 3, heads * width
    cells = torch.randn(positions, count, beam if of_target else 1, 2 * dim, device=DEVICE).to(dtype)
    lengths = torch.tensor([1, positions, positions // 2], device=DEVICE)
    for sentence, length in enumerate(lengths.tolist()):
        cells[length:, sentence] = torch.nan
    history = torch.randint(0, beam, (count, beam, 2, positions), dtype=torch.int32, device=DEVICE)
    places = torch.arange(beam, dtype=torch.int32, device=DEVICE)
    history[torch.arange(count), :, 1, lengths - 1] = places  # of the newest tokens
    rows = torch.arange(count * beam, device=DEVICE)
    table = Places(rows, lengths, history[:, :, 1] if of_target else None, beam, positions)
    projected = torch.randn(count * beam, 3 * dim, device=DEVICE).to(dtype)
    queries, newest = projected[:, :dim], projected[:, dim:] if of_target else None
    written, expected_cells = cells.clone(), cells.clone()
    found = triton_search.attend_step(queries, written, table, heads, newest)
    expected = PLAIN.attend_step(queries, expected_cells, table, heads, newest)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6 if dtype == torch.float32 else 4e-3)
    torch.testing.assert_close(written, expected_cells, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("as_log_probs", [True, False])
@pytest.mark.parametrize(("vocabulary", "count"), [(640, 5), (90, 3), (4096, 2), (5, 2)])
def test_best_tokens(vocabulary: int, count: int, as_log_probs: bool) -> None:
    """The last columns are padding of the vocabulary; the second row must end."""
    logits = 3 * torch.randn(4, vocabulary, device=DEVICE)
    logits[:, vocabulary - vocabulary // 20 :] = -torch.inf
    logits[0, :EOS] = 100  # never generated, whatever their probability
    must_end = torch.tensor([False, True, False, False], device=DEVICE)
    found, tokens = triton_search.best_tokens(logits.clone(), must_end, count, as_log_probs)
    expected, expected_tokens = PLAIN.best_tokens(logits.clone(), must_end, count, as_log_probs)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    possible = expected > -torch.inf
    assert torch.equal(tokens[possible], expected_tokens[possible])
    assert int(tokens.min()) >= 0
    assert int(tokens.max()) < vocabulary


@pytest.mark.parametrize("as_log_probs", [True, False])
def test_best_tokens_of_logits_that_are_not_numbers_are_not_numbers(as_log_probs: bool) -> None:
    logits = torch.randn(2, 640, device=DEVICE)
    logits[1, 7] = torch.nan
    found, _ = triton_search.best_tokens(logits, torch.zeros(2, dtype=torch.bool, device=DEVICE), 3, as_log_probs)
    assert found.isnan().all(1).tolist() == [False, True]


LIMITS = [10, 7, 9]  # of the sentences that are searched


def check_beam_search(
    kernel: Callable[[Beams, Tensor, Tensor, Tensor, SearchRules], None], options: SearchOptions, device: torch.device
) -> None:
    """Search to the end of all sentences, with random probabilities (B, K, C)."""
    positions = max(LIMITS)
    penalties = torch.tensor([options.penalty(length) for length in range(positions + 1)], device=device)
    rules = options.rules(positions)
    expected, found = begun(options, device)
    for _ in range(positions):
        log_probs, tokens = next_tokens(expected, options.beam + 1)
        expected.assign(advance(expected, best_candidates(expected, log_probs, tokens), penalties, options))
        kernel(found, log_probs, tokens, penalties, rules)
        check_equal(found, expected)
    assert all(finished(expected, sentence) for sentence in range(len(LIMITS)))
    assert not (found.log_probs > -torch.inf).any()


def begun(options: SearchOptions, device: torch.device) -> tuple[Beams, Beams]:
    """Return two equal states at the beginning of a search."""
    beams = Beams.empty(len(LIMITS), max(LIMITS), options, device)
    beams.begin(torch.arange(len(LIMITS), device=device), torch.tensor(LIMITS, device=device), 1)
    return beams, Beams(*(getattr(beams, field.name).clone() for field in fields(beams)))


def check_equal(found: Beams, expected: Beams) -> None:
    """Check all that is read of two states."""
    for name in ("log_probs", "tokens", "lengths"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=0)
    for sentence, length in enumerate(expected.lengths.tolist()):
        active = expected.log_probs[sentence] > -torch.inf
        histories = (beams.history[sentence, active, :, :length] for beams in (found, expected))
        torch.testing.assert_close(*histories, rtol=0, atol=0)
        assert finished(found, sentence) == finished(expected, sentence)


def finished(beams: Beams, sentence: int) -> list[tuple[float, float, list[int]]]:
    """Return the finished hypotheses of a sentence, in a fixed order."""
    columns = beams.finished, beams.finished_log_probs, beams.finished_lengths, beams.finished_tokens
    rows = zip(*(column[sentence].tolist() for column in columns), strict=True)
    return sorted((score, log_prob, ids[:length]) for score, log_prob, length, ids in rows if length)


def next_tokens(beams: Beams, width: int) -> tuple[Tensor, Tensor]:
    """Return random best tokens of all hypotheses, of 9 tokens, and their log-probabilities; only `</s>` at a limit."""
    count, beam = beams.log_probs.shape
    device = beams.log_probs.device
    log_probs = (-2 * torch.rand(count, beam, width, device=device)).sort(2, descending=True).values
    tokens = torch.stack([torch.randperm(9)[:width] + EOS for _ in range(count * beam)]).view(count, beam, width)
    must_end = beams.limits == beams.lengths
    log_probs[must_end, :, 1:] = -torch.inf
    tokens[must_end.cpu(), :, 0] = EOS
    return log_probs, tokens.to(device)


def test_a_sentence_with_a_log_prob_that_is_not_a_number_has_no_hypothesis() -> None:
    options = SearchOptions(beam=3, n_best=2)
    penalties = torch.tensor([options.penalty(length) for length in range(max(LIMITS) + 1)], device=DEVICE)
    expected, found = begun(options, DEVICE)
    for step in range(3):
        log_probs, tokens = next_tokens(expected, options.beam + 1)
        tokens[:, 0, 1] = EOS  # one finishes in each step
        if step == 2:
            log_probs[1, 0] = torch.nan
        expected.assign(advance(expected, best_candidates(expected, log_probs, tokens), penalties, options))
        triton_search.advance(found, log_probs, tokens, penalties, options.rules(max(LIMITS)))
        check_equal(found, expected)
        assert [bool(finished(found, sentence)) for sentence in range(3)] == [True, step < 2, True]
    assert (found.log_probs > -torch.inf).any(1).tolist() == [True, False, True]


@pytest.mark.parametrize(("beam", "best", "exact"), [(4, 1, False), (3, 2, False), (3, 3, True), (1, 1, True)])
def test_a_step_of_beam_search(beam: int, best: int, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_search, "HISTORY_BLOCK", 4)  # several blocks of positions
    check_beam_search(triton_search.advance, SearchOptions(beam=beam, n_best=best, exact=exact), DEVICE)
