"""Label-smoothed cross-entropy, computed together with the output projection.

N target positions, D width, V vocabulary.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from nmt.batching.batch import Batch
from nmt.model import cpu
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import PAD

# logits in memory at a time: on a CPU as many as its caches hold, on a GPU enough to keep it busy
_CHUNK_LOGITS = {"cpu": 2**22, "cuda": 2**27, "mps": 2**25}

LossFunction = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # `_replace_by_gradient` of logits and targets


class Objective(nn.Module):
    """The model together with its loss."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed smoothed loss (differentiable) and the summed negative log-likelihood, in nats."""
        groups = batch.groups
        hidden = self.model(
            [group.source for group in groups],
            [group.source_mask for group in groups],
            [group.target_in for group in groups],
        )
        targets = torch.cat([group.target_out.flatten() for group in groups])
        output, count = self.model.output, batch.target_tokens
        return smoothed_cross_entropy(hidden, output.weight, targets, self.smoothing, count, output.out_features)


def smoothed_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    count: int | None = None,
    vocabulary: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the sums of the smoothed losses (differentiable) and of the negative log-likelihoods, both in nats.

    hidden (..., D), weight (V, D), targets (...); positions whose target is padding do not count. `count` is the number
    of all others; without it a GPU must be synchronized to count them. Rows of the matrix from `vocabulary` on are
    padding: they belong to no token.

    The target distribution q gives 1-ε to the reference token, nothing to padding, and ε/(V-2) to each of the other V-2
    (Szegedy et al. 2016, with padding excluded as in implementations of Vaswani et al. 2017). The loss is the
    cross-entropy -Σ q log p; the Kullback-Leibler divergence differs from it by the constant entropy of q.

    The logits are the largest tensor of a training step by far, V numbers a token. So they are computed, turned into
    their gradient p - q, and used for the gradients of `hidden` and `weight` a chunk at a time, in the forward pass.
    """
    kept: Any = targets != PAD
    if count is not None:  # the size of a boolean index depends on its values, for which the host would wait
        kept = kept.nonzero_static(size=count).unbind(1)
    loss_of = partial(_replace_by_gradient, smoothing=smoothing, vocabulary=vocabulary or len(weight))
    losses: tuple[Tensor, Tensor] = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        hidden[kept], weight, targets[kept], loss_of, torch.is_grad_enabled()
    )
    return losses


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, loss_of: LossFunction, with_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        if torch.is_autocast_enabled(rows.device.type):
            rows = rows.to(torch.get_autocast_dtype(rows.device.type))
        matrix = weight.to(rows.dtype)
        loss = rows.new_zeros((), dtype=torch.float32)
        likelihood = loss.clone()
        rows_gradient = torch.empty_like(rows)
        weight_gradient = weight.new_zeros(weight.size(1), weight.size(0))  # (D, V)
        chunk = max(1, _CHUNK_LOGITS.get(rows.device.type, 2**24) // len(weight))
        for start, end in pairwise(_edges(rows.size(0), chunk)):
            part, labels = rows[start:end], targets[start:end]
            logits = cpu.linear(part, matrix).float()
            part_loss, part_likelihood = loss_of(logits, labels)
            loss += part_loss
            likelihood += part_likelihood
            if with_gradient:
                gradient = logits.to(rows.dtype)
                rows_gradient[start:end] = cpu.linear(gradient, matrix.t())
                if ctx.needs_input_grad[1]:  # else the matrix is frozen
                    weight_gradient += cpu.outer_product(part, gradient)
        ctx.save_for_backward(rows_gradient, weight_gradient)
        ctx.mark_non_differentiable(likelihood)
        return loss, likelihood

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        rows_gradient, weight_gradient = ctx.saved_tensors
        return rows_gradient * gradients[0], weight_gradient.t() * gradients[0], None, None, None


def _edges(rows: int, chunk: int) -> list[int]:
    """Return the boundaries of chunks; the last chunk is divided at a multiple of 64, for few distinct sizes.

    Each new size costs a kernel, see `nmt.batching.batch.pad_to_multiple`.
    """
    return sorted({*range(0, rows, chunk), rows - rows % 64, rows})


def _replace_by_gradient(logits: Tensor, targets: Tensor, smoothing: float, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Return the sums of losses and likelihoods; the logits (n, V) become the gradient p - q with respect to them.

    Logits of padding, behind the V-th, become 0.

    With e = ε/(V-2) and Z = log Σ exp z, the smoothed loss is Z - (1-ε-e) z_target - e (Σ z - z_pad).
    """
    logits[:, vocabulary:] = 0
    logits = logits[:, :vocabulary]
    share = smoothing / (vocabulary - 2)
    target_logits = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
    largest = logits.amax(1)
    logit_sum = logits.sum(1) - logits[:, PAD]
    probabilities = torch.softmax(logits, dim=1, out=logits)
    # p of the largest logit is at least 1/V, so its logarithm is finite where that of p_target may not be
    normalizer = largest - probabilities.amax(1).log()
    loss = normalizer - (1 - smoothing - share) * target_logits - share * logit_sum
    gradient = probabilities.sub_(share)
    gradient[:, PAD] += share
    gradient.scatter_add_(1, targets.unsqueeze(1), gradient.new_full((targets.size(0), 1), share + smoothing - 1))
    return loss.sum(), (normalizer - target_logits).sum()
