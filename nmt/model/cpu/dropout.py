"""Dropout that costs little on a CPU (Srivastava et al. 2014)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Dropout):
    """Zero each number with probability p while training and scale the rest by 1 / (1 - p).

    On a CPU, drawing the random numbers is most of dropout's cost. A mask needs eight bits a number, not a float: one
    64-bit draw serves eight numbers, and p is rounded to the nearest multiple of 1/256 (0.1 becomes 0.1016; the scale
    follows, so the expectation is exact). Elsewhere this is torch's own dropout.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map any shape to the same shape."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p, training=True)
        dropped: Tensor = _ByteMaskDropout.apply(x, min(255, round(self.p * 256)))  # type: ignore[no-untyped-call]
        return dropped


class _ByteMaskDropout(torch.autograd.Function):
    """Multiply by a random mask whose bytes are below `threshold` with probability threshold / 256."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        count = x.numel()
        draws = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        kept = draws.view(torch.uint8)[:count].view(x.shape) >= threshold
        mask = kept.to(x.dtype).mul_(256 / (256 - threshold))
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradients[0] * mask, None
