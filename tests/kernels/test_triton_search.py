"""The Triton kernels of a step of a search against plain torch; on a CPU in Triton's interpreter."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with builds of torch for NVIDIA GPUs")

from nmt.decoding.options import SearchOptions
from nmt.kernels import triton_search
from nmt.kernels.reference import Kernels, Places
from nmt.text.tokenizer import EOS
from tests.kernels.search_steps import check_beam_search

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


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("vocabulary", "count"), [(640, 5), (90, 3), (4096, 2), (5, 2)])
def test_best_tokens(vocabulary: int, count: int, normalized: bool) -> None:
    """The last columns are padding of the vocabulary; the second row must end."""
    logits = 3 * torch.randn(4, vocabulary, device=DEVICE)
    logits[:, vocabulary - vocabulary // 20 :] = -torch.inf
    logits[0, :EOS] = 100  # never generated, whatever their probability
    must_end = torch.tensor([False, True, False, False], device=DEVICE)
    found, tokens = triton_search.best_tokens(logits.clone(), must_end, count, normalized)
    expected, expected_tokens = PLAIN.best_tokens(logits.clone(), must_end, count, normalized)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    possible = expected > -torch.inf
    assert torch.equal(tokens[possible], expected_tokens[possible])
    assert int(tokens.min()) >= 0
    assert int(tokens.max()) < vocabulary


def test_best_tokens_of_logits_that_are_not_numbers_are_not_numbers() -> None:
    logits = torch.randn(2, 640, device=DEVICE)
    logits[1, 7] = torch.nan
    found, _ = triton_search.best_tokens(logits, torch.zeros(2, dtype=torch.bool, device=DEVICE), 3, True)
    assert found.isnan().all(1).tolist() == [False, True]


@pytest.mark.parametrize(("beam", "best", "exact"), [(4, 1, False), (3, 2, False), (3, 3, True), (1, 1, True)])
def test_a_step_of_beam_search(beam: int, best: int, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_search, "HISTORY_BLOCK", 4)  # several blocks of positions
    check_beam_search(triton_search.advance, SearchOptions(beam=beam, n_best=best, exact=exact), DEVICE)
