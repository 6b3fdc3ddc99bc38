"""Dropout with cheap random numbers."""

from typing import Any, cast

import torch
from torch import Tensor


def byte_mask_dropout(x: Tensor, p: float) -> Tensor:
    """Zero each number with probability p and scale the others; differentiable.

    On a CPU, drawing the random numbers is most of dropout's cost. A mask needs eight bits a number, not a float: one
    64-bit draw serves eight numbers, and p is rounded to the nearest multiple of 1/256 (0.1 becomes 0.1016; the scale
    follows, so the expectation is exact).
    """
    return cast(Tensor, _ByteMaskDropout.apply(x, min(255, round(p * 256))))  # type: ignore[no-untyped-call]


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
