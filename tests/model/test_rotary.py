"""Rotary positions: nothing but contents and distances counts."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.model.packing import Packing
from nmt.model.rotary import RotaryAttention, turn
from tests.model.twin import rotated


def attention(dim: int = 16, heads: int = 2) -> RotaryAttention:
    torch.manual_seed(1)
    return RotaryAttention(dim, heads, 0.0).double().eval()


def to_self(of: RotaryAttention, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """Attend within one group x (B, T, D)."""
    return of.to_self(x.flatten(0, 1), Packing.of([x[..., 0]], [mask]), causal).view_as(x)


def places(start: int, stop: int, width: int) -> Tensor:
    return attention(width, 1)._angles(start, stop, torch.empty(0, dtype=torch.float64))


@pytest.mark.parametrize("place", [0, 1, 5, 700])
def test_turning_is_the_papers_matrix(place: int) -> None:
    x = torch.randn(3, 8, dtype=torch.float64)
    turned = turn(x, places(place, place + 1, 8))
    for row, result in zip(x, turned, strict=True):
        torch.testing.assert_close(result, rotated(row, place), rtol=0, atol=1e-10)
        assert result.norm().item() == pytest.approx(row.norm().item())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 5000))
def test_scores_depend_on_the_distance_only(query_place: int, key_place: int, shift: int) -> None:
    torch.manual_seed(2)
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)

    def score(m: int, n: int) -> float:
        return (turn(query, places(m, m + 1, 8)) @ turn(key, places(n, n + 1, 8)).t()).item()

    assert score(query_place, key_place) == pytest.approx(score(query_place + shift, key_place + shift), abs=1e-8)


@torch.no_grad()
def test_words_in_front_that_are_hidden_only_move_the_sentence() -> None:
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    mask = torch.arange(9).expand(2, 9) >= 4
    torch.testing.assert_close(to_self(attention(), x, mask)[:, 4:], to_self(attention(), x[:, 4:]))


@torch.no_grad()
def test_order_matters() -> None:
    """Without positions, attention to a permuted sentence is permuted."""
    x, order = torch.randn(1, 5, 16, dtype=torch.float64), torch.tensor([3, 0, 4, 1, 2])
    assert not torch.allclose(to_self(attention(), x)[:, order], to_self(attention(), x[:, order]))


@torch.no_grad()
def test_under_autocast_queries_keys_and_values_stay_of_one_kind() -> None:
    of, x = attention().float(), torch.randn(2, 300, 16)
    with torch.autocast("cpu", torch.bfloat16):
        assert of._place(x.new_zeros(600, 48, dtype=torch.bfloat16), Packing.of([x[..., 0]])).dtype == torch.bfloat16
        rounded = to_self(of, x)
    # angles in bf16 would be wrong by a radian at place 300
    torch.testing.assert_close(rounded.float(), to_self(of, x), rtol=0, atol=0.02)
