"""Label-smoothed cross-entropy, computed together with the output projection.

N target positions, D width, V vocabulary.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from nmt.batching.batch import Batch
from nmt.model import cpu
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import PAD

# logits in memory at a time: on a CPU as many as its caches hold, on a GPU enough to keep it busy
_CHUNK_LOGITS = {"cpu": 2**22, "cuda": 2**27, "mps": 2**25}

_GPU_COLUMNS = 64  # a GPU multiplies matrices several times as slowly if their columns are not a multiple of 8

# from logits (n, V) and targets (n): the sums of losses and likelihoods, and the gradient with respect to logits
LossFunction = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


class Objective(nn.Module):
    """The model together with its loss; with `r_drop`, the weight of R-Drop, each batch takes two forward passes."""

    def __init__(self, model: Transformer, smoothing: float, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.r_drop = r_drop

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed smoothed loss (differentiable) and the summed negative log-likelihood, in nats."""
        targets = torch.cat([group.target_out.flatten() for group in batch.groups])
        output = self.model.output
        hidden, weight = self._hidden(batch), output.weight[: output.out_features]  # without padding
        if self.r_drop and self.training:
            second = self._hidden(batch)  # with other dropout masks
            return r_drop_loss((hidden, second), weight, targets, self.smoothing, self.r_drop, batch.target_tokens)
        return smoothed_cross_entropy(hidden, weight, targets, self.smoothing, batch.target_tokens)

    def _hidden(self, batch: Batch) -> Tensor:
        """Return the decoder's hidden states at all target positions (N, D)."""
        groups = batch.groups
        hidden: Tensor = self.model(
            [group.source for group in groups],
            [group.source_mask for group in groups],
            [group.target_in for group in groups],
        )
        return hidden


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, count: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sums of the smoothed losses (differentiable) and of the negative log-likelihoods, both in nats.

    hidden (..., D), weight (V, D), targets (...); positions whose target is padding do not count. `count` is the number
    of all others; without it a GPU must be synchronized to count them.

    The target distribution q gives 1-ε to the reference token, nothing to padding, and ε/(V-2) to each of the other V-2
    (Szegedy et al. 2016, with padding excluded as in implementations of Vaswani et al. 2017). The loss is the
    cross-entropy -Σ q log p; the Kullback-Leibler divergence differs from it by the constant entropy of q.

    The logits are the largest tensor of a training step by far, V numbers a token. So they are computed, turned into
    their gradient p - q, and used for the gradients of `hidden` and `weight` a chunk at a time, in the forward pass.
    """
    kept = _not_padding(targets, count)
    loss_function = partial(_loss_and_gradient, smoothing=smoothing)
    losses: tuple[Tensor, Tensor] = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        hidden[kept], weight, targets[kept], loss_function, torch.is_grad_enabled()
    )
    return losses


def r_drop_loss(
    passes: tuple[Tensor, Tensor],
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    alpha: float,
    count: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the same sums for two passes over a batch, with a penalty on their divergence (R-Drop, Liang et al. 2021).

    Both passes, (..., D) each, come from the same batch with different dropout masks; p and q are their predictions.
    With the smoothed losses L_p and L_q, the loss is the sum over the target tokens of

        ½ (L_p + L_q) + ½ α · ½ (KL(p‖q) + KL(q‖p)),

    half of the paper's, so that it is on the scale of one pass and α has the weight that it has in the paper.
    """
    kept = _not_padding(targets, count)
    # (2N, D): the two passes of each position in adjacent rows
    rows = torch.stack([hidden[kept] for hidden in passes], dim=1).flatten(0, 1)
    loss_function = partial(_r_drop_loss_and_gradient, smoothing=smoothing, alpha=alpha)
    loss, likelihood = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        rows, weight, targets[kept].repeat_interleave(2), loss_function, torch.is_grad_enabled()
    )
    return loss / 2, likelihood / 2


def _not_padding(targets: Tensor, count: int | None) -> Tensor | tuple[Tensor, ...]:
    """Return an index of the positions that are not padding."""
    kept = targets != PAD
    # the size of a boolean index depends on its values, for which the host would wait
    return kept if count is None else kept.nonzero_static(size=count).unbind(1)


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, loss_function: LossFunction, with_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        if torch.is_autocast_enabled(rows.device.type):
            rows = rows.to(torch.get_autocast_dtype(rows.device.type))
        vocabulary, matrix = weight.size(0), weight.to(rows.dtype)
        missing = 0 if rows.device.type == "cpu" else -vocabulary % _GPU_COLUMNS
        if missing:
            matrix = pad(matrix, (0, 0, 0, missing))
        loss = rows.new_zeros((), dtype=torch.float32)
        likelihood = loss.clone()
        rows_gradient = torch.empty_like(rows)
        weight_gradient = weight.new_zeros(weight.size(1), vocabulary + missing)  # (D, V), V perhaps padded
        # even, so that the two rows of a position are never separated
        chunk = max(2, _CHUNK_LOGITS.get(rows.device.type, 2**24) // vocabulary // 2 * 2)
        for start, end in pairwise(_edges(rows.size(0), chunk)):
            part, labels = rows[start:end], targets[start:end]
            part_loss, part_likelihood, gradient = loss_function(
                cpu.linear(part, matrix)[:, :vocabulary].float(), labels
            )
            loss += part_loss
            likelihood += part_likelihood
            if with_gradient:
                gradient = gradient.to(rows.dtype)
                if missing:
                    gradient = pad(gradient, (0, missing))
                rows_gradient[start:end] = cpu.linear(gradient, matrix.t())
                if ctx.needs_input_grad[1]:  # else the matrix is frozen
                    weight_gradient += cpu.outer_product(part, gradient)
        ctx.save_for_backward(rows_gradient, weight_gradient[:, :vocabulary])
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


def _loss_and_gradient(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums of losses and likelihoods, and the gradient p - q with respect to the logits (n, V), in place.

    With e = ε/(V-2) and Z = log Σ exp z, the smoothed loss is Z - (1-ε-e) z_target - e (Σ z - z_pad).
    """
    share = smoothing / (logits.size(1) - 2)
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
    return loss.sum(), (normalizer - target_logits).sum(), gradient


def _r_drop_loss_and_gradient(
    logits: Tensor, targets: Tensor, smoothing: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `_loss_and_gradient` plus α/2 · (KL(p‖q) + KL(q‖p)) for each two adjacent rows.

    With d = log p - log q the divergences add up to Σ (p - q) d. Its gradient with respect to the logits of p is
    p (d - Σ p d) + p - q; for those of q, p and q are exchanged.
    """
    pairs = (-1, 2, logits.size(1))
    log_p, log_q = torch.log_softmax(logits, dim=1).view(pairs).unbind(1)
    loss, likelihood, gradient = _loss_and_gradient(logits, targets, smoothing)
    p, q, d = log_p.exp(), log_q.exp(), log_p - log_q
    p_d, q_d = (p * d).sum(1, keepdim=True), (q * d).sum(1, keepdim=True)
    p_gradient, q_gradient = gradient.view(pairs).unbind(1)
    p_gradient.add_(p * (d - p_d) + p - q, alpha=alpha / 2)
    q_gradient.add_(q * (q_d - d) + q - p, alpha=alpha / 2)
    return loss + alpha / 2 * (p_d - q_d).sum(), likelihood, gradient
