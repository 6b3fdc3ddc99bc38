"""Rotary positions: the formula of the paper, dependence on the distance only, and precision; learned positions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import MaxLength
from nmt.decoding.options import SearchOptions
from nmt.decoding.torch_engine import TorchEngine
from nmt.kernels.reference import PLAIN, rotary_angles, rotate_pairs
from nmt.text.tokenizer import EOS
from tests.builders import log_probs_without_cache, tiny_model
from tests.model import reference_transformer


@pytest.mark.parametrize("prefix", [[], [5] * 3, [5] * 9])
def test_translations_do_not_exceed_learned_positions(prefix: list[int]) -> None:
    """A longer source or prefix, which a user may force, repeats the last position."""
    model = tiny_model(6, 12, positions="learned", max_positions=8)
    options = SearchOptions(beam=2, max_length=MaxLength(factor=0, extra=50), n_best=2, exact=True)
    found = TorchEngine([model]).search([[4, 5, 6], [7] * 20], options, [prefix, prefix])
    longest = max(len(one.tokens) + 1 for of_sentence in found for one in of_sentence)
    assert longest <= max(8, len(prefix) + 1)
    for source, of_sentence in zip([[4, 5, 6, EOS], [*[7] * 20, EOS]], found, strict=True):
        for one in of_sentence:
            rows = log_probs_without_cache(model, source, one.tokens)
            expected = rows[range(len(one.tokens) + 1), [*one.tokens, EOS]].sum().item()
            assert one.log_prob == pytest.approx(expected, abs=1e-4)


def rotated(x: Tensor, position: int) -> Tensor:
    return rotate_pairs(x, rotary_angles(torch.tensor([position]), x.size(-1), x))


@pytest.mark.parametrize("position", [0, 1, 5, 700])
def test_rotation_equals_the_matrix_of_the_paper(position: int) -> None:
    x = torch.randn(3, 8, dtype=torch.float64)
    for row, result in zip(x, rotated(x, position), strict=True):
        torch.testing.assert_close(result, reference_transformer.rotate(row, position), rtol=0, atol=1e-10)
        assert result.norm().item() == pytest.approx(row.norm().item())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 5000))
def test_rotary_scores_depend_only_on_the_distance(query_position: int, key_position: int, shift: int) -> None:
    torch.manual_seed(2)
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)

    def score(m: int, n: int) -> float:
        return (rotated(query, m) @ rotated(key, n).t()).item()

    assert score(query_position, key_position) == pytest.approx(
        score(query_position + shift, key_position + shift), abs=1e-8
    )


@torch.no_grad()
def test_rotary_angles_are_exact_in_bf16() -> None:
    projected = torch.randn(600, 24).bfloat16()
    positions = torch.arange(600, dtype=torch.int32)
    found = PLAIN.rotate(projected, 2, positions)
    assert found.dtype == torch.bfloat16
    # angles in bf16 would be wrong by a radian at position 300
    torch.testing.assert_close(found.double(), PLAIN.rotate(projected.double(), 2, positions), rtol=2**-8, atol=1e-4)
    assert torch.equal(found[:, 16:], projected[:, 16:])
