"""The loss against its definition in float64, value and gradients, however it is cut into chunks."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.training import loss as module
from nmt.training.loss import r_drop_loss, smoothed_cross_entropy

PAD, V, D = 0, 13, 6


def problem(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    hidden = (torch.randn(3, 7, D, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(V, D, dtype=dtype).requires_grad_()
    targets = torch.randint(1, V, (3, 7))
    targets[0, 4:], targets[2, 6:] = PAD, PAD
    return hidden, weight, targets


def by_definition(hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return -Σ q log p with q written out symbol by symbol, and the entropy of all q."""
    loss = torch.zeros((), dtype=torch.float64)
    entropy = torch.zeros((), dtype=torch.float64)
    for row, right in zip(hidden.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if right == PAD:
            continue
        q = torch.full((V,), epsilon / (V - 2), dtype=torch.float64)
        q[PAD] = 0
        q[right] = 1 - epsilon
        assert q.sum().item() == pytest.approx(1)
        exponentials = torch.exp((weight @ row).double())
        loss = loss - (q * torch.log(exponentials / exponentials.sum())).sum()
        entropy = entropy - torch.special.xlogy(q, q).sum()
    return loss, entropy


def chunks_of(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(module, "_CHUNK_LOGITS", {"cpu": rows * V})


def gradients(loss: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 17, 1000])
def test_is_its_definition(monkeypatch: pytest.MonkeyPatch, epsilon: float, rows: int) -> None:
    chunks_of(monkeypatch, rows)
    hidden, weight, targets = problem()
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, epsilon)
    expected, _ = by_definition(hidden, weight, targets, epsilon)
    plain, _ = by_definition(hidden, weight, targets, 0.0)
    # logits are turned into probabilities in float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert likelihood.item() == pytest.approx(plain.item(), rel=1e-5)
    assert not likelihood.requires_grad
    for found, wanted in zip(gradients(3 * loss, hidden, weight), gradients(3 * expected, hidden, weight), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_padding_gets_no_gradient_and_teaches_nothing() -> None:
    hidden, weight, targets = problem()
    loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    (gradient,) = gradients(loss, hidden)
    assert not gradient[targets == PAD].any()
    assert gradient[targets != PAD].abs().sum(-1).all()


@pytest.mark.parametrize("rows", [3, 1000])
def test_without_smoothing_it_is_torchs_cross_entropy(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    chunks_of(monkeypatch, rows)
    hidden, weight, targets = problem(torch.float32)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.0)
    logits = (hidden @ weight.t()).flatten(0, 1)
    expected = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert likelihood.item() == pytest.approx(loss.item(), rel=1e-6)
    for found, wanted in zip(gradients(loss, hidden, weight), gradients(expected, hidden, weight), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for rows in (1, 4, 1000):
        chunks_of(monkeypatch, rows)
        hidden, weight, targets = problem(torch.float32)
        loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
        results.append((loss.detach(), likelihood, *gradients(loss, hidden, weight)))
    for result in results[1:]:
        for found, wanted in zip(result, results[0], strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_kullback_leibler_divergence_differs_by_the_entropy_of_q() -> None:
    epsilon = 0.1
    hidden, weight, targets = problem()
    loss, _ = smoothed_cross_entropy(hidden, weight, targets, epsilon)
    kept = targets != PAD
    q = torch.full((int(kept.sum()), V), epsilon / (V - 2), dtype=torch.float64)
    q[:, PAD] = 0
    q.scatter_(1, targets[kept].unsqueeze(1), 1 - epsilon)
    log_p = (hidden[kept] @ weight.t()).log_softmax(-1)
    divergence = F.kl_div(log_p, q, reduction="sum")
    _, entropy = by_definition(hidden, weight, targets, epsilon)
    assert (loss - divergence).item() == pytest.approx(entropy.item(), rel=1e-4)


@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_huge_logits_stay_finite(scale: float) -> None:
    hidden, weight, targets = problem(torch.float32, scale)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    logits = (hidden.double() @ weight.double().t()).flatten(0, 1)
    expected = F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="sum")
    assert likelihood.item() == pytest.approx(expected.item(), rel=1e-4)
    assert all(torch.isfinite(g).all() for g in gradients(loss, hidden, weight))


def test_nothing_but_padding_costs_nothing() -> None:
    hidden, weight, targets = problem()
    loss, likelihood = smoothed_cross_entropy(hidden, weight, torch.zeros_like(targets), 0.1)
    assert loss.item() == likelihood.item() == 0
    assert not any(gradient.any() for gradient in gradients(loss, hidden, weight))


def test_who_knows_how_many_count_need_not_ask() -> None:
    hidden, weight, targets = problem()
    asked = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    known = smoothed_cross_entropy(hidden, weight, targets, 0.1, int((targets != PAD).sum()))
    assert asked == known
    for ours, theirs in zip(gradients(known[0], hidden, weight), gradients(asked[0], hidden, weight), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("rows", "chunk"), [(0, 4), (5, 2), (63, 524), (64, 524), (4089, 524), (1048, 524)])
def test_chunks_are_all_rows_in_few_sizes(rows: int, chunk: int) -> None:
    edges = module._edges(rows, chunk)
    sizes = [end - start for start, end in pairwise(edges)]
    assert sum(sizes) == rows
    assert all(0 < size <= chunk for size in sizes)


def test_chunks_have_few_sizes() -> None:
    asked = {end - start for rows in range(4000, 5000) for start, end in pairwise(module._edges(rows, 524))}
    assert len(asked) < 100 < len({rows % 524 for rows in range(4000, 5000)})


class Products(TorchDispatchMode):
    """Counts matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_)
        return function(*args, **(kwargs or {}))


def test_without_learning_there_is_no_gradient_work(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks_of(monkeypatch, 4)
    hidden, weight, targets = problem()
    chunks = -(-int((targets != PAD).sum()) // 4)
    with Products() as products:
        loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert products.count == 3 * chunks
    with torch.no_grad(), Products() as products:
        quiet_loss, quiet_likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert products.count == chunks
    assert not quiet_loss.requires_grad
    assert (quiet_loss.item(), quiet_likelihood.item()) == (loss.item(), likelihood.item())


def test_bf16_autocast_is_close_and_keeps_the_weights_gradient_in_fp32() -> None:
    hidden, weight, targets = problem(torch.float32)
    expected, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    wanted = gradients(expected, hidden, weight)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    found = gradients(loss, hidden, weight)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=0.02)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == torch.float32
        assert F.cosine_similarity(a.flatten(), b.flatten(), dim=0).item() > 0.999


def r_drop_by_definition(first: Tensor, second: Tensor, weight: Tensor, targets: Tensor, alpha: float) -> Tensor:
    """Return half of the paper's loss, a token at a time."""
    loss = torch.zeros((), dtype=torch.float64)
    for hidden in (first, second):
        loss = loss + by_definition(hidden, weight, targets, 0.1)[0] / 2
    for a, b, right in zip(first.flatten(0, 1), second.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if right != PAD:
            p, q = (torch.softmax(weight @ row, dim=0) for row in (a, b))
            divergences = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
            loss = loss + alpha / 4 * divergences
    return loss


@pytest.mark.parametrize("rows", [1, 6, 7, 1000])
@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_r_drop_is_its_definition(monkeypatch: pytest.MonkeyPatch, alpha: float, rows: int) -> None:
    chunks_of(monkeypatch, rows)
    first, weight, targets = problem()
    second = (first + 0.5 * torch.randn_like(first)).detach().requires_grad_()
    loss, likelihood = r_drop_loss((first, second), weight, targets, 0.1, alpha)
    expected = r_drop_by_definition(first, second, weight, targets, alpha)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    plain = [by_definition(hidden, weight, targets, 0.0)[0].item() for hidden in (first, second)]
    assert likelihood.item() == pytest.approx(sum(plain) / 2, rel=1e-5)
    wanted = gradients(3 * expected, first, second, weight)
    for found, right in zip(gradients(3 * loss, first, second, weight), wanted, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=2e-5)


def test_r_drop_of_two_equal_passes_is_the_plain_loss() -> None:
    hidden, weight, targets = problem()
    loss, likelihood = r_drop_loss((hidden, hidden), weight, targets, 0.1, 5.0)
    plain, plain_likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-6)
    assert likelihood.item() == pytest.approx(plain_likelihood.item(), rel=1e-6)
    for found, right in zip(gradients(loss, hidden, weight), gradients(plain, hidden, weight), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-6)


def test_a_frozen_matrix_costs_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks_of(monkeypatch, 4)
    hidden, weight, targets = problem()
    learning, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    (wanted,) = gradients(learning, hidden)
    with Products() as products:
        loss, _ = smoothed_cross_entropy(hidden, weight.detach(), targets, 0.1)
    assert products.count == 2 * -(-int((targets != PAD).sum()) // 4)
    (found,) = gradients(loss, hidden)
    assert torch.equal(found, wanted)
