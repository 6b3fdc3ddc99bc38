"""Relative positions: a vector a distance, one for all long ones, and nothing but contents and distances counts."""

import pytest
import torch
from torch import Tensor

from nmt.model.packing import Packing
from nmt.model.relative import RelativeAttention


def attention(max_distance: int = 2, causal: bool = False, dropout: float = 0.0) -> RelativeAttention:
    torch.manual_seed(1)
    made = RelativeAttention(8, 2, dropout, max_distance, causal).double()
    with torch.no_grad():
        for positions in (made.key_positions, made.value_positions):
            positions.copy_(torch.randn_like(positions))
    return made


def to_self(of: RelativeAttention, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """Attend within one group x (B, T, D)."""
    return of.to_self(x.flatten(0, 1), Packing.of([x[..., 0]], [mask]), causal).view_as(x)


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_where_all_words_are_nothing_the_mean_of_the_distances_vectors_is_found(causal: bool) -> None:
    """Queries of zero look everywhere alike, and values of zero leave b_r alone."""
    of = attention(causal=causal)
    for linear in (of.query, of.key_value):
        linear.weight.zero_()
        linear.bias.zero_()
    of.output.weight.copy_(torch.eye(8))
    of.output.bias.zero_()
    found = to_self(of, torch.randn(1, 5, 8, dtype=torch.float64), causal=causal)[0]
    b = {distance: of.value_positions[distance + 2] for distance in range(-2, 1 if causal else 3)}
    first = b[0] if causal else (b[0] + b[1] + b[2] + b[2] + b[2]) / 5
    fourth = (b[-2] + b[-2] + b[-1] + b[0]) / 4 if causal else (b[-2] + b[-2] + b[-1] + b[0] + b[1]) / 5
    torch.testing.assert_close(found[0], torch.cat([first, first]))  # the same in both heads
    torch.testing.assert_close(found[3], torch.cat([fourth, fourth]))


def test_distances_that_do_not_occur_learn_nothing_and_long_ones_learn_together() -> None:
    of = attention(max_distance=4)
    to_self(of, torch.randn(3, 3, 8, dtype=torch.float64)).pow(2).sum().backward()
    for positions in (of.key_positions, of.value_positions):
        learns = positions.grad.abs().sum(1) > 0
        assert learns.tolist() == [abs(distance) <= 2 for distance in range(-4, 5)]


@torch.no_grad()
def test_beyond_the_longest_distance_all_are_alike() -> None:
    """With vectors of 2 for all that is farther, telling more distances apart changes nothing."""
    near, far = attention(max_distance=2), attention(max_distance=5)
    for name, weight in near.named_parameters():
        if not name.endswith("positions"):
            far.get_parameter(name).copy_(weight)
    rows = [max(-2, min(2, distance)) + 2 for distance in range(-5, 6)]
    far.key_positions.copy_(near.key_positions[rows])
    far.value_positions.copy_(near.value_positions[rows])
    x = torch.randn(2, 12, 8, dtype=torch.float64)
    torch.testing.assert_close(to_self(far, x), to_self(near, x))


@torch.no_grad()
def test_words_in_front_that_are_hidden_only_move_the_sentence() -> None:
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    mask = torch.arange(9).expand(2, 9) >= 4
    torch.testing.assert_close(to_self(attention(), x, mask)[:, 4:], to_self(attention(), x[:, 4:]))


@torch.no_grad()
def test_with_vectors_of_zero_it_is_attention_without_positions() -> None:
    of, x = attention(), torch.randn(2, 6, 8, dtype=torch.float64)
    of.key_positions.zero_()
    of.value_positions.zero_()
    mask = torch.arange(6).expand(2, 6) < torch.tensor([[6], [4]])
    keys, values = of.project_memory(x)
    plain = torch.nn.functional.scaled_dot_product_attention(
        of._split(of.query(x)), keys, values, mask[:, None, None, :]
    )
    torch.testing.assert_close(to_self(of, x, mask), of.output(plain.transpose(1, 2).flatten(2)))


def test_dropout_leaves_the_mean() -> None:
    of, x = attention(dropout=0.4), torch.randn(1, 4, 8, dtype=torch.float64)
    with torch.no_grad():
        mean = to_self(of, x.expand(20_000, -1, -1)).mean(0)
        torch.testing.assert_close(mean, to_self(of.eval(), x)[0], rtol=0, atol=0.03)
