"""Rotary positions: the formula of the paper, dependence on the distance only, and precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.kernels.reference import PLAIN, rotary_angles, rotate_pairs
from tests.model import reference_transformer


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
