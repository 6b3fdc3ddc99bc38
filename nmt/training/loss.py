"""Label-smoothed cross-entropy, joined with the output projection.

N target positions, D width, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from nmt.model.kernels import kernels

_CHUNK_LOGITS = {"cpu": 2**22, "cuda": 2**27, "mps": 2**25}
"""Logits held at a time: on a CPU as many as its caches hold, on a GPU enough to keep it busy."""

Measure = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""From logits (n, V) and targets (n): the sums of losses and likelihoods, and the gradient by the logits."""


@dataclass(frozen=True)
class Smoothing:
    """How much probability the wrong symbols get, and which symbol gets none."""

    amount: float
    pad_id: int


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: Smoothing, count: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sum of the smoothed losses, differentiable, and of the plain negative log-likelihoods, both in nats.

    hidden (..., D), weight (V, D), targets (...); positions whose target is padding do not count. Who knows that
    `count` others there are spares a GPU from being asked, and waited for.

    The target distribution q gives 1-ε to the right symbol, nothing to padding, and ε/(V-2) to each of the other V-2
    (Szegedy et al. 2016, with padding left out as implementations of Vaswani et al. 2017 do). The loss is the
    cross-entropy -Σ q log p; the Kullback-Leibler divergence differs from it by the constant entropy of q.

    The logits are the largest tensor of a training step by far, V numbers a token. So they are made, turned into their
    gradient p - q, and used for the gradients of `hidden` and `weight` a chunk at a time, within the forward pass.
    """
    kept = _kept(targets, smoothing, count)
    measure = partial(_loss_and_gradient, smoothing=smoothing)
    losses: tuple[Tensor, Tensor] = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        hidden[kept], weight, targets[kept], measure, torch.is_grad_enabled()
    )
    return losses


def r_drop_loss(
    passes: tuple[Tensor, Tensor],
    weight: Tensor,
    targets: Tensor,
    smoothing: Smoothing,
    alpha: float,
    count: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the same of two passes over a batch, which shall agree (R-Drop, Liang et al. 2021).

    Both passes, (..., D) each, come from the same batch under two draws of dropout; p and q are what they predict. With
    the smoothed losses L_p and L_q, the loss is the sum over the target tokens of

        ½ (L_p + L_q) + ½ α · ½ (KL(p‖q) + KL(q‖p)),

    half of the paper's, so that it is as large as the loss of one pass and α weighs what it weighs there.
    """
    kept = _kept(targets, smoothing, count)
    rows = torch.stack([hidden[kept] for hidden in passes], dim=1).flatten(
        0, 1
    )  # both passes of a position side by side
    measure = partial(_agreeing_loss_and_gradient, smoothing=smoothing, alpha=alpha)
    loss, likelihood = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        rows, weight, targets[kept].repeat_interleave(2), measure, torch.is_grad_enabled()
    )
    return loss / 2, likelihood / 2


def _kept(targets: Tensor, smoothing: Smoothing, count: int | None) -> Tensor | tuple[Tensor, ...]:
    """Return an index of the positions that are no padding."""
    kept = targets != smoothing.pad_id
    # how many are True, a GPU would have to tell before more could be asked of it
    return kept if count is None else kept.nonzero_static(size=count).unbind(1)


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, wanted: Tensor, measure: Measure, learning: bool
    ) -> tuple[Tensor, Tensor]:
        if torch.is_autocast_enabled(rows.device.type):
            rows = rows.to(torch.get_autocast_dtype(rows.device.type))
        matrix = weight.to(rows.dtype)
        loss = rows.new_zeros((), dtype=torch.float32)
        likelihood = loss.clone()
        rows_gradient = torch.empty_like(rows)
        weight_gradient = weight.new_zeros(weight.size(1), weight.size(0))  # (D, V)
        # even, so that a pair of rows is never torn apart
        chunk = max(2, _CHUNK_LOGITS.get(rows.device.type, 2**24) // weight.size(0) // 2 * 2)
        for start, end in pairwise(_edges(rows.size(0), chunk)):
            part, labels = rows[start:end], wanted[start:end]
            part_loss, part_likelihood, gradient = measure(kernels.linear(part, matrix).float(), labels)
            loss += part_loss
            likelihood += part_likelihood
            if learning:
                gradient = gradient.to(rows.dtype)
                rows_gradient[start:end] = kernels.linear(gradient, matrix.t())
                if ctx.needs_input_grad[1]:  # else the matrix is frozen
                    weight_gradient += kernels.outer_product(part, gradient)
        ctx.save_for_backward(rows_gradient, weight_gradient)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        rows_gradient, weight_gradient = ctx.saved_tensors
        return rows_gradient * gradients[0], weight_gradient.t() * gradients[0], None, None, None


def _edges(rows: int, chunk: int) -> list[int]:
    """Return where chunks begin and end. The last one is cut in two, so that few numbers of rows are ever asked for.

    A new one costs a kernel, as `nmt.batching.batch.pad_to_multiple` explains.
    """
    return sorted({*range(0, rows, chunk), rows - rows % 64, rows})


def _loss_and_gradient(logits: Tensor, wanted: Tensor, smoothing: Smoothing) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss sums of some positions and the gradient p - q of the smoothed one by their logits (n, V).

    With e = ε/(V-2) and Z = log Σ exp z, the smoothed loss is Z - (1-ε-e) z_right - e (Σ z - z_pad). The gradient takes
    the place of the logits.
    """
    epsilon = smoothing.amount
    each = epsilon / (logits.size(1) - 2)
    right = logits.gather(1, wanted.unsqueeze(1)).squeeze(1)
    largest = logits.amax(1)
    spread = logits.sum(1) - logits[:, smoothing.pad_id]
    probabilities = torch.softmax(logits, dim=1, out=logits)
    # p of the largest logit is at least 1/V, so its logarithm is safe where that of p_right is not
    normalizer = largest - probabilities.amax(1).log()
    loss = normalizer - (1 - epsilon - each) * right - each * spread
    gradient = probabilities.sub_(each)
    gradient[:, smoothing.pad_id] += each
    gradient.scatter_add_(1, wanted.unsqueeze(1), gradient.new_full((wanted.size(0), 1), each + epsilon - 1))
    return loss.sum(), (normalizer - right).sum(), gradient


def _agreeing_loss_and_gradient(
    logits: Tensor, wanted: Tensor, smoothing: Smoothing, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `_loss_and_gradient` does, plus α/2 · (KL(p‖q) + KL(q‖p)) for each two rows that follow each other.

    With d = log p - log q the divergences add up to Σ (p - q) d, whose gradient by the logits of p is
    p (d - Σ p d) + p - q; by those of q it is the same with p and q exchanged.
    """
    pairs = (-1, 2, logits.size(1))
    log_p, log_q = torch.log_softmax(logits, dim=1).view(pairs).unbind(1)
    loss, likelihood, gradient = _loss_and_gradient(logits, wanted, smoothing)
    p, q, d = log_p.exp(), log_q.exp(), log_p - log_q
    p_d, q_d = (p * d).sum(1, keepdim=True), (q * d).sum(1, keepdim=True)
    by_p, by_q = gradient.view(pairs).unbind(1)
    by_p.add_(p * (d - p_d) + p - q, alpha=alpha / 2)
    by_q.add_(q * (q_d - d) + q - p, alpha=alpha / 2)
    return loss + alpha / 2 * (p_d - q_d).sum(), likelihood, gradient
