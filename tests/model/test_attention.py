"""Attention: score functions by hand, and the plain definition against torch's own."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.config import ModelSettings
from nmt.config.section import SettingError
from nmt.model.attention import Additive, Bilinear, Dot, MultiHeadAttention, ScaledDot

Q, K = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[3.0, -1.0], [0.0, 1.0]]]])  # one query, two keys


@torch.no_grad()
@pytest.mark.parametrize(
    ("score", "parameter", "expected"),
    [
        (ScaledDot, None, [1 / 2**0.5, 2 / 2**0.5]),  # (1·3 - 2·1) / √2, (2·1) / √2
        (Dot, None, [1.0, 2.0]),
        (Bilinear, [[[1.0, 0.0], [1.0, 1.0]]], [7.0, 2.0]),  # q W = (3, 2): 3·3 - 2·1, 2·1
        (Additive, [[[[1.0], [-2.0]]]], [-0.523858, -1.228515]),  # tanh 4 - 2 tanh 1, tanh 1 - 2 tanh 3
    ],
)
def test_attention_scores_by_hand(
    score: type[ScaledDot], parameter: list[object] | None, expected: list[float]
) -> None:
    module = score(1, 2)
    for weight in module.parameters():
        weight.copy_(torch.tensor(parameter))
    torch.testing.assert_close(module(Q, K)[0, 0, 0], torch.tensor(expected))


def attention(score: str = "scaled_dot") -> MultiHeadAttention:
    torch.manual_seed(1)
    return MultiHeadAttention(ModelSettings.model_validate({"dim": 12, "heads": 3, "attention_score": score}), "cross")


def test_attend_equals_torch_attention() -> None:
    q, k, v = (torch.randn(2, 3, length, 4, dtype=torch.float64) for length in (5, 7, 7))
    mask = torch.rand(2, 1, 5, 7) < 0.6
    mask[..., 0] = True
    for chosen in (None, mask):
        expected = F.scaled_dot_product_attention(q, k, v, chosen)
        torch.testing.assert_close(attention().attend(q, k, v, chosen), expected)


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "bilinear", "additive"])
def test_masked_keys_have_zero_weight(score: str) -> None:
    of, mask = attention(score), torch.tensor([True, True, False])
    x, memory = torch.randn(1, 2, 12), torch.randn(1, 3, 12)
    weights: Tensor = of.cross_weights(x, memory, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 3, 2))
    assert not weights[..., 2].any()
    torch.testing.assert_close(weights[..., :2], of.cross_weights(x, memory[:, :2], None))


@pytest.mark.parametrize("positions", ["relative", "rotary"])
def test_other_scores_are_refused_with_positions_in_attention(positions: str) -> None:
    with pytest.raises(
        (SettingError, ValueError), match=f"{positions} positions are defined for scaled_dot only, found dot"
    ):
        ModelSettings.model_validate({"positions": positions, "attention_score": "dot"})
