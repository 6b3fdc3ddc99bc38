"""Position encodings: the formulas of the papers, and dependence on content and distance only."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import ModelSettings
from nmt.model import positions
from nmt.model.attention import MultiHeadAttention
from nmt.model.packing import Packing
from nmt.model.positions import Positions, Relative, Rotary, rotate_pairs
from nmt.model.transformer import Transformer
from tests.builders import TINY_SHAPE, padded
from tests.model import reference_transformer


def attention(place: positions.Place = "encoder", **changes: object) -> MultiHeadAttention:
    torch.manual_seed(1)
    chosen = ModelSettings.model_validate({"dim": 8, "heads": 2, "positions": "relative", "max_distance": 2, **changes})
    return MultiHeadAttention(chosen, place).double()


def vectors(of: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    assert isinstance(of.positions, Relative)
    return of.positions.key_vectors, of.positions.value_vectors


def self_attend(of: MultiHeadAttention, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """Attend within one group x (B, T, D)."""
    return of.self_attend(x.flatten(0, 1), Packing.of([x[..., 0]], [mask]), causal).view_as(x)


# relative


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_relative_output_for_zero_projections_is_the_mean_of_value_vectors(causal: bool) -> None:
    """Queries of zero attend to all keys equally, and values of zero leave b_r only."""
    of = attention("decoder" if causal else "encoder")
    for linear in (of.query, of.key_value):
        linear.weight.zero_()
        linear.bias.zero_()
    of.output.weight.copy_(torch.eye(8))
    of.output.bias.zero_()
    output = self_attend(of, torch.randn(1, 5, 8, dtype=torch.float64), causal=causal)[0]
    b = {distance: vectors(of)[1][distance + 2] for distance in range(-2, 1 if causal else 3)}
    first = b[0] if causal else (b[0] + b[1] + b[2] + b[2] + b[2]) / 5
    fourth = (b[-2] + b[-2] + b[-1] + b[0]) / 4 if causal else (b[-2] + b[-2] + b[-1] + b[0] + b[1]) / 5
    torch.testing.assert_close(output[0], torch.cat([first, first]))  # the same in both heads
    torch.testing.assert_close(output[3], torch.cat([fourth, fourth]))


def test_relative_vectors_have_gradients_for_the_distances_that_occur_only() -> None:
    of = attention(max_distance=4)
    self_attend(of, torch.randn(3, 3, 8, dtype=torch.float64)).pow(2).sum().backward()
    for parameter in vectors(of):
        has_gradient = parameter.grad.abs().sum(1) > 0
        assert has_gradient.tolist() == [abs(distance) <= 2 for distance in range(-4, 5)]


@torch.no_grad()
def test_relative_distances_beyond_the_maximum_share_a_vector() -> None:
    """A larger maximum with the vectors of ±2 for all longer distances computes the same function."""
    near, far = attention(max_distance=2), attention(max_distance=5)
    for name, weight in near.named_parameters():
        if not name.endswith("vectors"):
            far.get_parameter(name).copy_(weight)
    rows = [max(-2, min(2, distance)) + 2 for distance in range(-5, 6)]
    for of_far, of_near in zip(vectors(far), vectors(near), strict=True):
        of_far.copy_(of_near[rows])
    x = torch.randn(2, 12, 8, dtype=torch.float64)
    torch.testing.assert_close(self_attend(far, x), self_attend(near, x))


@torch.no_grad()
def test_relative_attention_with_zero_vectors_equals_torch_attention() -> None:
    of, x = attention(), torch.randn(2, 6, 8, dtype=torch.float64)
    for parameter in vectors(of):
        parameter.zero_()
    mask = torch.arange(6).expand(2, 6) < torch.tensor([[6], [4]])
    q, (k, v) = of.query(x).view(2, 6, 2, 4).transpose(1, 2), of.project_memory(x)
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, None, None, :])
    torch.testing.assert_close(self_attend(of, x, mask), of.output(plain.transpose(1, 2).flatten(2)))


# rotary


def angles(start: int, stop: int, width: int) -> Tensor:
    encoding = Rotary(ModelSettings(dim=width, heads=1, positions="rotary"), "encoder")
    return encoding.angles(start, stop, torch.empty(0, dtype=torch.float64))


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
        assert of.positions.rotate(x.new_zeros(600, 24, dtype=torch.bfloat16), [(2, 300)]).dtype == torch.bfloat16
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


class LinearBias(Positions):
    """A bias in proportion to the distance (ALiBi, Press et al. 2022), with one slope for all heads."""

    places = ("encoder", "decoder")
    uses_distances = True

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """Return minus the distance."""
        return -distances.abs().unsqueeze(1)


@torch.no_grad()
def test_additional_encoding_is_implemented_by_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, step-by-step decoding and both layouts of the cache use it through the interface."""
    monkeypatch.setitem(positions._ENCODINGS, "sinusoidal", LinearBias)
    torch.manual_seed(3)
    model = Transformer(ModelSettings.model_validate(TINY_SHAPE), 11, 11).double().eval()
    source, mask = padded([[5, 6, 7, 8, 3], [9, 3]])
    x = model.encoder[0].attention_sublayer.normalized_before(model.source_embedding([source[:1]])).unsqueeze(0)
    of = model.encoder[0].attention
    q, k, v = of.query(x), *of.key_value(x).chunk(2, dim=-1)
    bias = torch.tensor([[-abs(s - t) for s in range(5)] for t in range(5)])
    heads = [slice(0, 8), slice(8, 16)]
    by_hand = torch.cat(
        [torch.softmax(q[0, :, h] @ k[0, :, h].T / 8**0.5 + bias, dim=-1) @ v[0, :, h] for h in heads], dim=-1
    )
    torch.testing.assert_close(self_attend(of, x)[0], of.output(by_hand))
    target = torch.randint(3, 11, (2, 30))
    state = model.start(source, mask, 2)
    steps = [state.step(target[:, t]) for t in range(30)]
    expected = model.logits(model.decode(target, model.encode(source, mask), mask))
    torch.testing.assert_close(torch.stack(steps, dim=1), expected)
