"""The loss of the logits and its gradient on a GPU, in one Triton kernel.

n rows, V vocabulary. All arithmetic is fp32.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.text.tokenizer import PAD

LOSS_BLOCK = 4096
LOSS_WARPS = 8


def loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Return the sums of the smoothed losses and of the negative log-likelihoods, fp32, in nats.

    The contiguous logits (n, padded V) are overwritten with the gradient p - q of the first sum; the distribution q is
    that of `nmt.kernels.reference.Kernels.loss`. labels (n) int32. Rows whose label is padding have no loss; columns
    from `vocabulary` on belong to no token. The gradients of both are 0.
    """
    rows = logits.size(0)
    sums = torch.empty(2, rows, dtype=torch.float32, device=logits.device)
    if rows:
        _loss_kernel[(rows,)](
            logits, labels, sums, rows, smoothing, smoothing / (vocabulary - 2),
            PADDING=PAD, V=vocabulary, WIDTH=logits.size(1),
            BLOCK=min(LOSS_BLOCK, triton.next_power_of_2(logits.size(1))), num_warps=LOSS_WARPS,
        )  # fmt: skip
    loss, nll = sums.sum(1)
    return loss, nll


# a batch has any number of rows: one compilation serves all
_compiled: Any = triton.jit(do_not_specialize=["rows"])


@_compiled  # type: ignore[untyped-decorator]
def _loss_kernel(
    logits: tl.tensor, labels: tl.tensor, sums: tl.tensor, rows: tl.tensor, SMOOTHING: tl.constexpr,
    SHARE: tl.constexpr,
    PADDING: tl.constexpr, V: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Turn one row of logits into its gradient; write its loss and negative log-likelihood, sums (2, N).

    With e = ε/(V-2) and Z = log Σ exp z, the smoothed loss is Z - (1-ε-e) z_label - e (Σ z - z_pad).
    """
    row = tl.program_id(0)
    label = tl.load(labels + row)
    has_loss = label != PADDING
    logits += row.to(tl.int64) * WIDTH
    label_logit = tl.load(logits + label).to(tl.float32)
    largest = float("-inf")
    exponentials = tl.zeros([BLOCK], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, V, BLOCK):
        column = first + tl.arange(0, BLOCK)
        z = tl.load(logits + column, mask=column < V, other=float("-inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(z, 0))
        exponentials = exponentials * tl.exp(largest - new_largest) + tl.exp(z - new_largest)
        total += tl.where((column < V) & (column != PADDING), z, 0.0)
        largest = new_largest
    normalizer = largest + tl.log(tl.sum(exponentials, 0))
    loss = normalizer - (1 - SMOOTHING - SHARE) * label_logit - SHARE * tl.sum(total, 0)
    tl.store(sums + row, tl.where(has_loss, loss, 0.0))
    tl.store(sums + rows + row, tl.where(has_loss, normalizer - label_logit, 0.0))
    tl.debug_barrier()  # all threads have read the logit of the label before one overwrites it
    for first in range(0, WIDTH, BLOCK):
        column = first + tl.arange(0, BLOCK)
        z = tl.load(logits + column, mask=column < V, other=float("-inf")).to(tl.float32)
        q = tl.where(column == PADDING, 0.0, SHARE) + tl.where(column == label, 1 - SMOOTHING - SHARE, 0.0)
        gradient = tl.where(has_loss & (column < V), tl.exp(z - normalizer) - q, 0.0)
        tl.store(logits + column, gradient.to(logits.dtype.element_ty), mask=column < WIDTH)
