"""Matrix products in fp32 and bf16 by oneDNN, differentiable.

On x86 processors torch leaves fp32 products to MKL. On two cores of an AMD EPYC (Zen 5) that reaches 180 GFLOP/s where
oneDNN reaches 380 to 420, both in fp32 (benchmarks/RESULTS.md). Processors with instructions for bf16
multiply such numbers, with sums in fp32, at twice that rate, with AMX at four times.

N rows, I inputs, O outputs.
"""

import os
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# oneDNN compiles a kernel for each shape and keeps 1,024 of them, most of a gigabyte, while batches of all sizes
# need new ones. Compiling one again takes less time than it saves.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")

_MIN_ROWS = 16  # with fewer, the call costs more than the product


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x (..., I) times the transpose of weight (O, I), plus bias (O)."""
    if not torch.is_grad_enabled():
        return product(x, weight, bias)
    if not _fits(x, weight):
        return F.linear(x, weight, bias)
    mapped: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    # a view would make it costly to change the result in place, as ReLU does
    return mapped if x.dim() == 2 else mapped.view(*x.shape[:-1], -1)


def outer_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over rows of left (N, O) times right (N, I), (O, I)."""
    # oneDNN copies the first operand to make its rows contiguous: that is the narrower one
    if left.size(1) < right.size(1):
        return product(left.t(), right.t())
    return product(right.t(), left.t()).t()


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return what `linear` does; not differentiable."""
    if not _fits(rows, weight):
        return F.linear(rows, weight, bias)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return result


def _fits(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN multiplies x (..., I) by the transpose of weight (O, I) faster than torch's default."""
    return (
        not torch.compiler.is_compiling()  # first: the compiler would guard each condition below for each shape
        and x.device.type == "cpu"
        and x.dtype == weight.dtype
        and (x.dtype == torch.bfloat16 or (x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")))
        and x.numel() >= _MIN_ROWS * x.size(-1)
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return product(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        needs_rows, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            product(gradient, weight.t()) if needs_rows else None,
            outer_product(gradient, rows) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )
