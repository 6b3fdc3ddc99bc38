"""Linear maps and their gradients against torch's own in float64, by oneDNN where this machine has it."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from nmt.model.cpu import CPUKernels
from nmt.model.kernels import Linear, PlainKernels

SIZES = st.integers(1, 70)


@pytest.fixture(params=[CPUKernels, PlainKernels], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PlainKernels:
    chosen: PlainKernels = request.param()
    monkeypatch.setattr("nmt.model.kernels.kernels", chosen)
    return chosen


@torch.no_grad()
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_linear_equals_torch(
    kernels: PlainKernels, rows: int, inputs: int, outputs: int, biased: bool, transposed: bool
) -> None:
    torch.manual_seed(rows * inputs * outputs)
    x = torch.randn(inputs, rows).t() if transposed else torch.randn(rows, inputs)
    weight = torch.randn(inputs, outputs).t() if transposed else torch.randn(outputs, inputs)
    bias = torch.randn(outputs) if biased else None
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(kernels.linear(x, weight, bias).double(), expected, rtol=1e-5, atol=1e-4)
    left = torch.randn(rows, outputs)
    found = kernels.outer_product(left, x)
    torch.testing.assert_close(found.double(), left.double().t() @ x.double(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 24), (3, 24), (5, 8, 24), (2, 1, 24)], ids=str)
@pytest.mark.parametrize("biased", [True, False])
def test_gradients_equal_torch(shape: tuple[int, ...], biased: bool) -> None:
    torch.manual_seed(1)
    ours = Linear(24, 36, bias=biased)
    theirs = torch.nn.Linear(24, 36, bias=biased, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape, requires_grad=True)
    y = x.detach().double().requires_grad_()
    mapped, expected = ours(x), theirs(y)
    assert mapped.shape == expected.shape
    direction = torch.randn_like(mapped)
    mapped.backward(direction)
    expected.backward(direction.double())
    close = {"rtol": 1e-5, "atol": 1e-4}
    torch.testing.assert_close(mapped.double(), expected, **close)
    torch.testing.assert_close(x.grad.double(), y.grad, **close)
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad.double(), theirs.get_parameter(name).grad, **close)
        assert parameter.grad.is_contiguous()
    with torch.no_grad():
        assert torch.equal(ours(x), mapped)


def test_frozen_weight_has_no_gradient() -> None:
    ours = Linear(24, 36)
    ours.weight.requires_grad_(False)
    x = torch.randn(40, 24)
    ours(x).sum().backward()
    assert ours.weight.grad is None
    torch.testing.assert_close(ours.bias.grad, torch.full((36,), 40.0))


def test_result_can_be_changed_in_place(kernels: PlainKernels) -> None:
    torch.manual_seed(2)
    weight, x = torch.randn(36, 24, requires_grad=True), torch.randn(40, 24)
    kernels.linear(x, weight).relu_().sum().backward()
    reference = weight.detach().double().requires_grad_()
    F.linear(x.double(), reference).relu().sum().backward()
    torch.testing.assert_close(weight.grad.double(), reference.grad, rtol=1e-5, atol=1e-4)


def test_float64_is_computed_by_torch(kernels: PlainKernels) -> None:
    x, weight = torch.randn(40, 24, dtype=torch.float64), torch.randn(36, 24, dtype=torch.float64)
    assert torch.equal(kernels.linear(x, weight), F.linear(x, weight))


@pytest.mark.parametrize("rows", [3, 40])  # below and above the least number for oneDNN
def test_autocast_rounds_operands_and_results_to_bf16(kernels: PlainKernels, rows: int) -> None:
    """bf16 has 8 significant bits: rounding changes a number by at most 1/256 of it; sums are fp32."""
    torch.manual_seed(3)
    x = torch.randn(rows, 300, requires_grad=True)
    weight, bias = torch.randn(36, 300, requires_grad=True), torch.randn(36, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        output = kernels.linear(x, weight, bias)
    assert output.dtype == torch.bfloat16
    rounded = [tensor.detach().bfloat16().double().requires_grad_() for tensor in (x, weight, bias)]
    expected = F.linear(*rounded)
    torch.testing.assert_close(output.double(), expected, rtol=2**-8, atol=1e-3)
    direction = torch.randn_like(output)
    output.backward(direction)
    expected.backward(direction.double())
    for ours, theirs in zip((x, weight, bias), rounded, strict=True):
        assert ours.grad.dtype == torch.float32
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=2**-8, atol=0.05)


def test_linear_of_no_rows_has_no_rows(kernels: PlainKernels) -> None:
    assert kernels.linear(torch.empty(0, 24), torch.randn(36, 24)).shape == (0, 36)
