"""Loss functions: values and gradients equal the definitions in float64 for every chunk size."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.training import loss as loss_module
from nmt.training.loss import smoothed_cross_entropy

PAD, V, D = 0, 13, 6


def random_inputs(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    hidden = (torch.randn(3, 7, D, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(V, D, dtype=dtype).requires_grad_()
    targets = torch.randint(1, V, (3, 7))
    targets[0, 4:], targets[2, 6:] = PAD, PAD
    return hidden, weight, targets


def reference_loss(hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return -Σ q log p with q computed one token at a time, and the summed entropy of q."""
    loss = torch.zeros((), dtype=torch.float64)
    entropy = torch.zeros((), dtype=torch.float64)
    for hidden_row, target in zip(hidden.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if target == PAD:
            continue
        q = torch.full((V,), epsilon / (V - 2), dtype=torch.float64)
        q[PAD] = 0
        q[target] = 1 - epsilon
        assert q.sum().item() == pytest.approx(1)
        exponentials = torch.exp((weight @ hidden_row).double())
        loss = loss - (q * torch.log(exponentials / exponentials.sum())).sum()
        entropy = entropy - torch.special.xlogy(q, q).sum()
    return loss, entropy


def set_chunk_rows(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(loss_module, "_CHUNK_LOGITS", {"cpu": rows * V})


def gradients(loss: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 17, 1000])
def test_smoothed_cross_entropy_equals_its_definition(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, rows: int
) -> None:
    set_chunk_rows(monkeypatch, rows)
    hidden, weight, targets = random_inputs()
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, epsilon)
    expected, _ = reference_loss(hidden, weight, targets, epsilon)
    plain, _ = reference_loss(hidden, weight, targets, 0.0)
    # the implementation computes the softmax in float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert likelihood.item() == pytest.approx(plain.item(), rel=1e-5)
    assert not likelihood.requires_grad
    reference = gradients(3 * expected, hidden, weight)
    for actual, reference_gradient in zip(gradients(3 * loss, hidden, weight), reference, strict=True):
        torch.testing.assert_close(actual, reference_gradient, rtol=1e-4, atol=1e-5)


def test_gradient_of_padding_is_zero() -> None:
    hidden, weight, targets = random_inputs()
    loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    (gradient,) = gradients(loss, hidden)
    assert not gradient[targets == PAD].any()
    assert gradient[targets != PAD].abs().sum(-1).all()


@pytest.mark.parametrize("rows", [3, 1000])
def test_loss_without_smoothing_equals_torch_cross_entropy(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    set_chunk_rows(monkeypatch, rows)
    hidden, weight, targets = random_inputs(torch.float32)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.0)
    logits = (hidden @ weight.t()).flatten(0, 1)
    expected = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert likelihood.item() == pytest.approx(loss.item(), rel=1e-6)
    reference = gradients(expected, hidden, weight)
    for actual, reference_gradient in zip(gradients(loss, hidden, weight), reference, strict=True):
        torch.testing.assert_close(actual, reference_gradient, rtol=1e-4, atol=1e-5)


def test_loss_does_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for rows in (1, 4, 1000):
        set_chunk_rows(monkeypatch, rows)
        hidden, weight, targets = random_inputs(torch.float32)
        loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
        results.append((loss.detach(), likelihood, *gradients(loss, hidden, weight)))
    for result in results[1:]:
        for actual, reference_gradient in zip(result, results[0], strict=True):
            torch.testing.assert_close(actual, reference_gradient, rtol=1e-5, atol=1e-5)


def test_loss_minus_kl_divergence_is_the_entropy_of_q() -> None:
    epsilon = 0.1
    hidden, weight, targets = random_inputs()
    loss, _ = smoothed_cross_entropy(hidden, weight, targets, epsilon)
    kept = targets != PAD
    q = torch.full((int(kept.sum()), V), epsilon / (V - 2), dtype=torch.float64)
    q[:, PAD] = 0
    q.scatter_(1, targets[kept].unsqueeze(1), 1 - epsilon)
    log_p = (hidden[kept] @ weight.t()).log_softmax(-1)
    divergence = F.kl_div(log_p, q, reduction="sum")
    _, entropy = reference_loss(hidden, weight, targets, epsilon)
    assert (loss - divergence).item() == pytest.approx(entropy.item(), rel=1e-4)


@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_loss_of_huge_logits_is_finite(scale: float) -> None:
    hidden, weight, targets = random_inputs(torch.float32, scale)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    logits = (hidden.double() @ weight.double().t()).flatten(0, 1)
    expected = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
    assert likelihood.item() == pytest.approx(expected.item(), rel=1e-4)
    assert all(torch.isfinite(g).all() for g in gradients(loss, hidden, weight))


def test_loss_of_padding_is_zero() -> None:
    hidden, weight, targets = random_inputs()
    loss, likelihood = smoothed_cross_entropy(hidden, weight, torch.zeros_like(targets), 0.1)
    assert loss.item() == likelihood.item() == 0
    assert not any(gradient.any() for gradient in gradients(loss, hidden, weight))


def test_given_token_count_does_not_change_the_loss() -> None:
    hidden, weight, targets = random_inputs()
    counted = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    given = smoothed_cross_entropy(hidden, weight, targets, 0.1, int((targets != PAD).sum()))
    assert counted == given
    for actual_given, actual_counted in zip(
        gradients(given[0], hidden, weight), gradients(counted[0], hidden, weight), strict=True
    ):
        assert torch.equal(actual_given, actual_counted)


@pytest.mark.parametrize(("rows", "chunk"), [(0, 4), (5, 2), (63, 524), (64, 524), (4089, 524), (1048, 524)])
def test_chunks_cover_all_rows(rows: int, chunk: int) -> None:
    edges = loss_module._edges(rows, chunk)
    sizes = [end - start for start, end in pairwise(edges)]
    assert sum(sizes) == rows
    assert all(0 < size <= chunk for size in sizes)


def test_chunks_have_few_distinct_sizes() -> None:
    sizes = {end - start for rows in range(4000, 5000) for start, end in pairwise(loss_module._edges(rows, 524))}
    assert len(sizes) < 100 < len({rows % 524 for rows in range(4000, 5000)})


class ProductCounter(TorchDispatchMode):
    """Count matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_)
        return function(*args, **(kwargs or {}))


def test_loss_without_autograd_computes_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk_rows(monkeypatch, 4)
    hidden, weight, targets = random_inputs()
    chunks = -(-int((targets != PAD).sum()) // 4)
    with ProductCounter() as counter:
        loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert counter.count == 3 * chunks
    with torch.no_grad(), ProductCounter() as counter:
        detached_loss, detached_likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert counter.count == chunks
    assert not detached_loss.requires_grad
    assert (detached_loss.item(), detached_likelihood.item()) == (loss.item(), likelihood.item())


def test_bf16_autocast_keeps_gradients_in_fp32() -> None:
    hidden, weight, targets = random_inputs(torch.float32)
    expected, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    expected_gradients = gradients(expected, hidden, weight)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    actual = gradients(loss, hidden, weight)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=0.02)
    for a, b in zip(actual, expected_gradients, strict=True):
        assert a.dtype == torch.float32
        assert F.cosine_similarity(a.flatten(), b.flatten(), dim=0).item() > 0.999


def test_frozen_weight_saves_one_product_per_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk_rows(monkeypatch, 4)
    hidden, weight, targets = random_inputs()
    trainable_loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    (expected_gradients,) = gradients(trainable_loss, hidden)
    with ProductCounter() as counter:
        loss, _ = smoothed_cross_entropy(hidden, weight.detach(), targets, 0.1)
    assert counter.count == 2 * -(-int((targets != PAD).sum()) // 4)
    (actual,) = gradients(loss, hidden)
    assert torch.equal(actual, expected_gradients)
