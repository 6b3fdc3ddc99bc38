"""Label-smoothed cross-entropy, joined with the output projection.

N target positions, D width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_CHUNK_LOGITS = {"cpu": 2**21, "cuda": 2**27, "mps": 2**25}
"""Logits held at a time: on a CPU as many as its caches hold, on a GPU enough to keep it busy."""


@dataclass(frozen=True)
class Smoothing:
    """How much probability the wrong symbols get, and which symbol gets none."""

    amount: float
    pad_id: int


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: Smoothing
) -> tuple[Tensor, Tensor]:
    """Return the sum of the smoothed losses, differentiable, and of the plain negative log-likelihoods, both in nats.

    hidden (..., D), weight (V, D), targets (...); positions whose target is padding do not count.

    The target distribution q gives 1-ε to the right symbol, nothing to padding, and ε/(V-2) to each of the other V-2
    (Szegedy et al. 2016, with padding left out as implementations of Vaswani et al. 2017 do). The loss is the
    cross-entropy -Σ q log p; the Kullback-Leibler divergence differs from it by the constant entropy of q.

    The logits are the largest tensor of a training step by far, V numbers a token. So they are made, turned into their
    gradient p - q, and used for the gradients of `hidden` and `weight` a chunk at a time, within the forward pass.
    """
    kept = targets != smoothing.pad_id
    rows, wanted = hidden[kept], targets[kept]
    losses: tuple[Tensor, Tensor] = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        rows, weight, wanted, smoothing, torch.is_grad_enabled()
    )
    return losses


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, wanted: Tensor, smoothing: Smoothing, learning: bool
    ) -> tuple[Tensor, Tensor]:
        if torch.is_autocast_enabled(rows.device.type):
            rows = rows.to(torch.get_autocast_dtype(rows.device.type))
        matrix = weight.to(rows.dtype)
        loss = rows.new_zeros((), dtype=torch.float32)
        likelihood = loss.clone()
        rows_gradient = torch.empty_like(rows)
        weight_gradient = torch.zeros_like(weight)
        chunk = max(1, _CHUNK_LOGITS.get(rows.device.type, 2**24) // weight.size(0))
        for start in range(0, rows.size(0), chunk):
            part, labels = rows[start : start + chunk], wanted[start : start + chunk]
            part_loss, part_likelihood, gradient = _loss_and_gradient((part @ matrix.t()).float(), labels, smoothing)
            loss += part_loss
            likelihood += part_likelihood
            if learning:
                gradient = gradient.to(rows.dtype)
                torch.mm(gradient, matrix, out=rows_gradient[start : start + chunk])
                if rows.dtype == weight.dtype:
                    weight_gradient.addmm_(gradient.t(), part)
                else:  # products in bf16, their sum in fp32
                    weight_gradient += gradient.t() @ part
        ctx.save_for_backward(rows_gradient, weight_gradient)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        rows_gradient, weight_gradient = ctx.saved_tensors
        return rows_gradient * gradients[0], weight_gradient * gradients[0], None, None, None


def _loss_and_gradient(logits: Tensor, wanted: Tensor, smoothing: Smoothing) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss sums of some positions and the gradient p - q of the smoothed one by their logits (n, V).

    With e = ε/(V-2) and Z = log Σ exp z, the smoothed loss is Z - (1-ε-e) z_right - e (Σ z - z_pad).
    """
    epsilon = smoothing.amount
    each = epsilon / (logits.size(1) - 2)
    right = logits.gather(1, wanted.unsqueeze(1)).squeeze(1)
    largest = logits.amax(1)
    spread = logits.sum(1) - logits[:, smoothing.pad_id]
    probabilities = torch.softmax(logits, dim=1)
    # p of the largest logit is at least 1/V, so its logarithm is safe where that of p_right is not
    normalizer = largest - probabilities.amax(1).log()
    loss = normalizer - (1 - epsilon - each) * right - each * spread
    gradient = probabilities.sub_(each)
    gradient[:, smoothing.pad_id] += each
    gradient.scatter_add_(1, wanted.unsqueeze(1), gradient.new_full((wanted.size(0), 1), each + epsilon - 1))
    return loss.sum(), (normalizer - right).sum(), gradient
