"""Products with packed weights against torch's, and quantized ones against arithmetic in integers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import ModelSettings
from nmt.model.cpu import CPUKernels
from nmt.model.cpu.prepacked import EightBitProduct, PackedProduct, padded_rows
from nmt.model.kernels import PlainKernels, kernels
from nmt.model.transformer import Transformer

needs_onednn = pytest.mark.skipif(not CPUKernels().has_packed, reason="needs AVX-512 and a torch with oneDNN")
needs_vnni = pytest.mark.skipif(not CPUKernels().has_eight_bits, reason="needs AVX-512 VNNI and a torch with oneDNN")
needs_cpu_kernels = pytest.mark.skipif(type(kernels) is PlainKernels, reason="NMT_CPU_KERNELS=off")


def tiny_model(**changes: object) -> Transformer:
    torch.manual_seed(0)
    shape = {"encoder_layers": 1, "decoder_layers": 2, "dim": 16, "heads": 2, "feed_forward": 32}
    return Transformer(ModelSettings.model_validate({**shape, **changes}), 90, 90).eval()


@needs_onednn
@torch.inference_mode()
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 24), (3, 24), (16, 24), (130, 24), (600, 24), (2, 5, 24)])
def test_packed_product_equals_the_linear_map(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(1)
    layer = torch.nn.Linear(24, 40, bias=bias)
    x = torch.randn(shape)
    found = PackedProduct(layer.weight, layer.bias)(x)
    torch.testing.assert_close(found, layer(x))


@torch.inference_mode()
@pytest.mark.parametrize("has_bf16", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 64, 200])
def test_product_in_bf16_rounds_the_operands_and_the_result(rows: int, has_bf16: bool) -> None:
    """Against double precision, with packed weights and with those of a processor without instructions for bf16."""
    torch.manual_seed(4)
    kernels, layer, x = CPUKernels(), torch.nn.Linear(32, 20), torch.randn(rows, 32)
    kernels.has_bf16 &= has_bf16
    product = kernels.prepack(layer.weight, layer.bias, "bf16")
    assert product is not None
    rounded = [part.bfloat16().double() for part in (x, layer.weight, layer.bias)]
    found = product(x)
    assert found.dtype == torch.bfloat16
    # the sum is rounded to eight bits
    torch.testing.assert_close(found.double(), rounded[0] @ rounded[1].t() + rounded[2], rtol=2**-8, atol=1e-5)


@needs_vnni
@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 7, 64, 200])
def test_eight_bit_product_equals_integer_arithmetic(rows: int) -> None:
    """By hand: scale so that the largest number is 127, round, multiply integers, scale back."""
    torch.manual_seed(2)
    layer, x = torch.nn.Linear(32, 20), torch.randn(rows, 32) * torch.rand(rows, 1) * 10
    of_rows, of_outputs = x.abs().amax(1) / 127, layer.weight.abs().amax(1) / 127
    inputs = torch.floor(x.double() / of_rows.double().unsqueeze(1) + 0.5).long()
    weights = (layer.weight / of_outputs.unsqueeze(1)).round().long()
    expected = (inputs @ weights.t()) * of_rows.double().unsqueeze(1) * of_outputs.double() + layer.bias
    found = EightBitProduct(layer.weight, layer.bias)(x)
    # a number that lies between two integers, but for rounding, may fall to either: worth one weight
    slack = float((of_rows.max() * layer.weight.abs().max()) * 1.01)
    assert (found - expected).abs().max() <= slack
    assert (found - layer(x)).abs().max() <= 0.02 * layer(x).abs().max()


@needs_vnni
@torch.inference_mode()
def test_eight_bit_result_of_a_row_does_not_depend_on_the_others() -> None:
    torch.manual_seed(3)
    product = EightBitProduct(torch.randn(50, 32), torch.randn(50))
    x = torch.randn(37, 32) * torch.logspace(-3, 3, 37).unsqueeze(1)
    together = product(x)
    assert torch.equal(together, torch.cat([product(row.unsqueeze(0)) for row in x]))
    assert torch.equal(together.flip(0), product(x.flip(0)))


@needs_vnni
@torch.inference_mode()
def test_eight_bit_product_of_zeros_is_the_bias() -> None:
    bias = torch.randn(6)
    found = EightBitProduct(torch.zeros(6, 8), bias)(torch.zeros(3, 8))
    assert torch.equal(found, bias.expand(3, 6))


@given(st.integers(1, 5000))
@settings(max_examples=300)
def test_rows_are_padded_by_a_quarter_at_most(rows: int) -> None:
    padded = padded_rows(rows)
    assert rows <= padded <= max(rows + 7, rows * 1.25)
    assert padded_rows(padded) == padded
    assert padded % 8 == 0


def test_numbers_of_rows_fit_in_the_primitive_cache() -> None:
    """Of the rows of a search: up to 512 hypotheses, in five kinds of product."""
    assert 5 * len({padded_rows(rows) for rows in range(1, 513)}) <= 256


@needs_cpu_kernels
@needs_onednn
@pytest.mark.parametrize("changes", [{}, {"positions": "relative"}, {"activation": "swiglu", "norm": "post"}], ids=str)
def test_prepacked_model_equals_the_model(changes: dict[str, object]) -> None:
    model, packed = tiny_model(**changes), tiny_model(**changes)
    assert packed.prepack()
    source = torch.randint(4, 90, (5, 7))
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[1, 4:] = mask[3, 1:] = False
    with torch.inference_mode():
        torch.testing.assert_close(packed.encode(source, mask)[mask], model.encode(source, mask)[mask])
        target = torch.randint(4, 90, (4, 5))
        for one, other in zip(_logits(packed, source, mask, target), _logits(model, source, mask, target), strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def _logits(model: Transformer, source: Tensor, mask: Tensor, target: Tensor) -> list[Tensor]:
    steps = model.start(source, mask, 1)
    return [steps.step(tokens) for tokens in target]


@needs_cpu_kernels
@needs_onednn
def test_prepacked_model_uses_its_current_weights_with_gradients() -> None:
    """Packed copies are for inference only."""
    model = tiny_model()
    model.prepack()
    with torch.no_grad():
        model.encoder[0].feed_forward.inner.weight.mul_(2)  # type: ignore[union-attr, operator]
    layer = model.encoder[0].feed_forward.inner  # type: ignore[union-attr]
    x = torch.randn(3, 16)
    torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))  # type: ignore
