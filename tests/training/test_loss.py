"""The loss: values and gradients equal the definition in float64, for every chunk size."""

import pytest
import torch
from nmt.training.loss import smoothed_cross_entropy
from torch import Tensor
from torch.nn import functional as F

from nmt.training import loss as loss_module

PAD, V, D = 0, 13, 6


def random_inputs(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    hidden = (torch.randn(3, 7, D, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(V, D, dtype=dtype).requires_grad_()
    targets = torch.randint(1, V, (3, 7))
    targets[0, 4:], targets[2, 6:] = PAD, PAD
    return hidden, weight, targets


def reference_loss(hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    """Return -Σ q log p with q computed one token at a time."""
    loss = torch.zeros((), dtype=torch.float64)
    for row, target in zip(hidden.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if target != PAD:
            q = torch.full((V,), epsilon / (V - 2), dtype=torch.float64)
            q[PAD], q[target] = 0, 1 - epsilon
            exponentials = torch.exp((weight @ row).double())
            loss = loss - (q * torch.log(exponentials / exponentials.sum())).sum()
    return loss


def assert_close(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("rows", [1, 2, 5, 17, 1000])
@pytest.mark.parametrize("counted", [False, True])
def test_loss_equals_its_definition(monkeypatch: pytest.MonkeyPatch, epsilon: float, rows: int, counted: bool) -> None:
    monkeypatch.setattr(loss_module, "_CHUNK_LOGITS", {"cpu": rows * V})
    hidden, weight, targets = random_inputs()
    count = int((targets != PAD).sum()) if counted else None
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, epsilon, count)
    expected = reference_loss(hidden, weight, targets, epsilon)
    # the implementation computes the softmax in float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert likelihood.item() == pytest.approx(reference_loss(hidden, weight, targets, 0.0).item(), rel=1e-5)
    assert not likelihood.requires_grad
    gradients = torch.autograd.grad(3 * loss, (hidden, weight))
    assert_close(gradients, torch.autograd.grad(3 * expected, (hidden, weight)))
    assert not gradients[0][targets == PAD].any()


@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_loss_of_huge_logits_is_finite(scale: float) -> None:
    hidden, weight, targets = random_inputs(torch.float32, scale)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    logits = (hidden.double() @ weight.double().t()).flatten(0, 1)
    expected = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
    assert likelihood.item() == pytest.approx(expected.item(), rel=1e-4)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, (hidden, weight)))


def test_bf16_autocast_keeps_gradients_in_fp32() -> None:
    hidden, weight, targets = random_inputs(torch.float32)
    expected, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=0.02)
    pairs = zip(*(torch.autograd.grad(each, (hidden, weight)) for each in (loss, expected)), strict=True)
    for ours, theirs in pairs:
        assert ours.dtype == torch.float32
        assert F.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0).item() > 0.999
