"""Position encodings: the formulas of the papers, and dependence on content and distance only."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import ModelSettings
from nmt.model.attention import SelfAttention
from nmt.model.packing import Packing
from nmt.model.positions import Relative, rotary_angles, rotate, rotate_pairs
from tests.model import reference_transformer


@pytest.fixture(autouse=True)
def short_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.model.positions.MAX_DISTANCE", 2)


def attention(causal: bool = False, **changes: object) -> SelfAttention:
    torch.manual_seed(1)
    chosen = ModelSettings.model_validate({"dim": 8, "heads": 2, "positions": "relative", **changes})
    return SelfAttention(chosen, causal).double()


def vectors(of: SelfAttention) -> tuple[Tensor, Tensor]:
    assert isinstance(of.score, Relative)
    return of.score.key_vectors, of.score.value_vectors


def self_attend(of: SelfAttention, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend within one group x (B, T, D)."""
    return of(x.flatten(0, 1), Packing.of([x[..., 0]], [mask])).view_as(x)


# relative


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_relative_output_for_zero_projections_is_the_mean_of_value_vectors(causal: bool) -> None:
    """Queries of zero attend to all keys equally, and values of zero leave b_r only."""
    of = attention(causal)
    of.query_key_value.weight.zero_()
    of.query_key_value.bias.zero_()
    of.output.weight.copy_(torch.eye(8))
    of.output.bias.zero_()
    output = self_attend(of, torch.randn(1, 5, 8, dtype=torch.float64))[0]
    b = {distance: vectors(of)[1][distance + 2] for distance in range(-2, 1 if causal else 3)}
    first = b[0] if causal else (b[0] + b[1] + b[2] + b[2] + b[2]) / 5
    fourth = (b[-2] + b[-2] + b[-1] + b[0]) / 4 if causal else (b[-2] + b[-2] + b[-1] + b[0] + b[1]) / 5
    torch.testing.assert_close(output[0], torch.cat([first, first]))  # the same in both heads
    torch.testing.assert_close(output[3], torch.cat([fourth, fourth]))


def test_relative_vectors_have_gradients_for_the_distances_that_occur_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.model.positions.MAX_DISTANCE", 4)
    of = attention()
    self_attend(of, torch.randn(3, 3, 8, dtype=torch.float64)).pow(2).sum().backward()
    for parameter in vectors(of):
        has_gradient = parameter.grad.abs().sum(1) > 0
        assert has_gradient.tolist() == [abs(distance) <= 2 for distance in range(-4, 5)]


@torch.no_grad()
def test_relative_attention_with_zero_vectors_equals_torch_attention() -> None:
    of, x = attention(), torch.randn(2, 6, 8, dtype=torch.float64)
    for parameter in vectors(of):
        parameter.zero_()
    mask = torch.arange(6).expand(2, 6) < torch.tensor([[6], [4]])
    q, k, v = (of.split_heads(part) for part in of.query_key_value(x).chunk(3, dim=-1))
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, None, None, :])
    torch.testing.assert_close(self_attend(of, x, mask), of.output(plain.transpose(1, 2).flatten(2)))


# rotary


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
def test_rotary_attention_depends_on_the_order() -> None:
    """Without positions, attention to a permuted sentence is permuted."""
    x, order = torch.randn(1, 5, 8, dtype=torch.float64), torch.tensor([3, 0, 4, 1, 2])
    of = attention(positions="rotary")
    assert not torch.allclose(self_attend(of, x)[:, order], self_attend(of, x[:, order]))


@torch.no_grad()
def test_rotary_angles_are_exact_under_autocast() -> None:
    of, x = attention(positions="rotary").float(), torch.randn(2, 300, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert rotate(x.new_zeros(600, 24, dtype=torch.bfloat16), 2, [(2, 300)]).dtype == torch.bfloat16
        rounded = self_attend(of, x)
    # angles in bf16 would be wrong by a radian at position 300
    torch.testing.assert_close(rounded.float(), self_attend(of, x), rtol=0, atol=0.02)


# all


@torch.no_grad()
@pytest.mark.parametrize("encoding", ["relative", "rotary"])
def test_masked_tokens_in_front_do_not_change_the_output(encoding: str) -> None:
    of, x = attention(positions=encoding), torch.randn(2, 9, 8, dtype=torch.float64)
    mask = torch.arange(9).expand(2, 9) >= 4
    torch.testing.assert_close(self_attend(of, x, mask)[:, 4:], self_attend(of, x[:, 4:]))
