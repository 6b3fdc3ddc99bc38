"""Matrix products by the quickest library that torch carries, and the linear map made of them.

On x86 processors torch leaves fp32 products to MKL. On two cores of an AMD EPYC (Zen 5) that reaches 180 GFLOP/s where
the oneDNN beside it reaches 380 to 420, both in fp32 (benchmarks/RESULTS.md). So on a CPU with AVX-512 the products of
training, by far most of its work, go to oneDNN.

N rows, I inputs, O outputs.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ONEDNN = (
    torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    and torch.backends.cpu.get_cpu_capability() == "AVX512"
    # what torch's own compiler calls; where a release has it no more, torch's default is used
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)
# oneDNN compiles a kernel for each shape, and keeps 1,024 of them, which is most of a gigabyte; batches of all sizes
# ask for ever new ones. Compiling one anew takes less time than it saves.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")

Product = Callable[[Tensor], Tensor]
"""Maps rows (..., I) to (..., O)."""

_FEW_ROWS = 16
"""Below, the call costs more than the product."""


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return rows (…, I) times the transpose of weight (O, I), plus bias (O); not differentiable."""
    if not _uses_onednn(rows, weight):
        return F.linear(rows, weight, bias)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return result


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return what `torch.nn.functional.linear` does: x (..., I) to (..., O), differentiable."""
    if not _uses_onednn(x, weight):
        return F.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        return product(x, weight, bias)
    mapped: Tensor = _Product.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    # a view would make it costly to change the result in place, as ReLU does
    return mapped if x.dim() == 2 else mapped.view(*x.shape[:-1], -1)


class Linear(nn.Linear):
    """torch's linear map, with its product as above, or a quicker one where nothing is to be learned."""

    quick: Product | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        if self.quick is not None and not torch.is_grad_enabled():
            return self.quick(x)
        return linear(x, self.weight, self.bias)


def filled_up(rows: int) -> int:
    """Return to how many rows so many are filled up: by a few percent, and one number for many."""
    step = next(step for most, step in ((64, 8), (512, 16), (rows, 128)) if rows <= most)
    return -(-rows // step) * step


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return product(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        by_rows, by_weight, by_bias = ctx.needs_input_grad
        return (
            product(gradient, weight.t()) if by_rows else None,
            outer_product(gradient, rows) if by_weight else None,
            gradient.sum(0) if by_bias else None,
        )


def outer_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over rows of left (N, O) times right (N, I), as (O, I)."""
    # the first operand of a product is copied to lie in rows: let that be the narrower one
    if left.size(1) < right.size(1):
        return product(left.t(), right.t())
    return product(right.t(), left.t()).t()


def _uses_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        ONEDNN
        and not torch.compiler.is_compiling()  # first: what stands behind would be asked of each batch's shape
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() >= _FEW_ROWS * x.size(-1)
        and not torch.is_autocast_enabled("cpu")
    )
