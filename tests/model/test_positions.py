"""Rotary positions: the formula of the paper, dependence on the distance only, and precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.batching.batch import Packing
from nmt.config import ModelSettings
from nmt.model.attention import SelfAttention
from nmt.model.positions import rotary_angles, rotate, rotate_pairs
from tests.model import reference_transformer


def angles(start: int, stop: int, width: int) -> Tensor:
    return rotary_angles(start, stop, width, torch.empty(0, dtype=torch.float64))


@pytest.mark.parametrize("position", [0, 1, 5, 700])
def test_rotation_equals_the_matrix_of_the_paper(position: int) -> None:
    x = torch.randn(3, 8, dtype=torch.float64)
    rotated = rotate_pairs(x, angles(position, position + 1, 8))
    for row, result in zip(x, rotated, strict=True):
        torch.testing.assert_close(result, reference_transformer.rotate(row, position), rtol=0, atol=1e-10)
        assert result.norm().item() == pytest.approx(row.norm().item())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 5000))
def test_rotary_scores_depend_only_on_the_distance(query_position: int, key_position: int, shift: int) -> None:
    torch.manual_seed(2)
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)

    def score(m: int, n: int) -> float:
        return (rotate_pairs(query, angles(m, m + 1, 8)) @ rotate_pairs(key, angles(n, n + 1, 8)).t()).item()

    assert score(query_position, key_position) == pytest.approx(
        score(query_position + shift, key_position + shift), abs=1e-8
    )


@torch.no_grad()
def test_rotary_angles_are_exact_under_autocast() -> None:
    of, x = SelfAttention(ModelSettings(dim=8, heads=2, positions="rotary"), causal=False), torch.randn(600, 8)
    packing = Packing(((2, 300),), (None,))
    with torch.autocast("cpu", torch.bfloat16):
        assert rotate(x.new_zeros(600, 24, dtype=torch.bfloat16), 2, [(2, 300)]).dtype == torch.bfloat16
        rounded = of(x, packing)
    # angles in bf16 would be wrong by a radian at position 300
    torch.testing.assert_close(rounded.float(), of(x, packing), rtol=0, atol=0.02)
