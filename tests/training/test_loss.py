"""The loss: values and gradients equal the definition in float64, for every chunk size."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.kernels.cpu import CpuKernels
from nmt.kernels.reference import Kernels

PAD, V, D, PADDED = 0, 13, 6, 16
CPU = torch.device("cpu")


def random_inputs(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    hidden = (torch.randn(21, D, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(PADDED, D, dtype=dtype).requires_grad_()
    targets = torch.randint(1, V, (21,), dtype=torch.int32)
    targets[4:7], targets[20:] = PAD, PAD
    return hidden, weight, targets


def reference_loss(hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    """Return -Σ q log p with q computed one token at a time."""
    loss = torch.zeros((), dtype=torch.float64)
    for row, target in zip(hidden, targets.tolist(), strict=True):
        if target != PAD:
            q = torch.full((V,), epsilon / (V - 2), dtype=torch.float64)
            q[PAD], q[target] = 0, 1 - epsilon
            exponentials = torch.exp((weight[:V] @ row).double())
            loss = loss - (q * torch.log(exponentials / exponentials.sum())).sum()
    return loss


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("rows", [1, 2, 5, 17, 1000])
@pytest.mark.parametrize("kind", [Kernels, CpuKernels])
def test_loss_equals_its_definition(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, rows: int, kind: type[Kernels]
) -> None:
    """The rows of the matrix behind the vocabulary have no influence and no gradient."""
    hidden, weight, targets = random_inputs()
    monkeypatch.setattr(kind, "chunk_logits", rows * len(weight))
    loss, nll = kind(CPU).loss(hidden, weight, targets, epsilon, V)
    expected = reference_loss(hidden, weight, targets, epsilon)
    # the implementation computes the softmax in float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert nll.item() == pytest.approx(reference_loss(hidden, weight, targets, 0.0).item(), rel=1e-5)
    assert not nll.requires_grad
    gradients = torch.autograd.grad(3 * loss, (hidden, weight))
    for found, exact in zip(gradients, torch.autograd.grad(3 * expected, (hidden, weight)), strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)
    assert not gradients[0][targets == PAD].any()
    assert not gradients[1][V:].any()

    bias = torch.randn(len(weight), dtype=hidden.dtype, requires_grad=True)
    with_ones = torch.cat([hidden, torch.ones(len(hidden), 1)], dim=1), torch.cat([weight, bias.unsqueeze(1)], dim=1)
    expected = reference_loss(*with_ones, targets, epsilon)  # a bias is a column of the matrix
    loss, _ = kind(CPU).loss(hidden, weight, targets, epsilon, V, bias)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    inputs = hidden, weight, bias
    for found, exact in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(found.double(), exact.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_loss_of_huge_logits_is_finite(scale: float) -> None:
    hidden, weight, targets = random_inputs(torch.float32, scale)
    loss, nll = Kernels(CPU).loss(hidden, weight, targets, 0.1, V)
    logits = hidden.double() @ weight[:V].double().t()
    expected = F.cross_entropy(logits, targets.long(), ignore_index=PAD, reduction="sum")
    assert nll.item() == pytest.approx(expected.item(), rel=1e-4)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, (hidden, weight)))


@pytest.mark.parametrize("kind", [Kernels, CpuKernels])
def test_bf16_keeps_gradients_in_fp32(kind: type[Kernels]) -> None:
    hidden, weight, targets = random_inputs(torch.float32)
    losses = [kind(CPU, precision).loss(hidden, weight, targets, 0.1, V)[0] for precision in ("bf16", "fp32")]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=0.02)
    pairs = zip(*(torch.autograd.grad(each, (hidden, weight)) for each in losses), strict=True)
    for ours, theirs in pairs:
        assert ours.dtype == torch.float32
        assert F.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0).item() > 0.999
