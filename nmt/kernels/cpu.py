"""Kernels for CPUs with torch, mostly for training: products by oneDNN, attention of a batch in C++, dropout.

On x86 processors torch computes fp32 products with MKL. On two cores of an AMD EPYC (Zen 5), MKL reaches 180 GFLOP/s
and oneDNN 380 to 420 in fp32 (benchmarks/RESULTS.md). Processors with bf16 instructions multiply bf16 numbers, with
sums in fp32, at twice that rate, and with AMX at four times. `nmt.kernels.reference` computes products without
AVX-512, attention without a compiler, and everything with NMT_CPU_KERNELS=off in the environment. Translations are
computed by `nmt.kernels.native`, without torch.

N rows, I inputs, O outputs, D width, H heads.
"""

import functools
import math
import os
from typing import Any

import torch
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.kernels import attention_rows, compiling
from nmt.kernels.reference import Kernels, Precision

_MIN_ROWS = 16  # with fewer, the call of oneDNN costs more than the product
_MULTIPLE = 64

# oneDNN compiles a kernel for each shape and keeps 1,024 of them, most of a gigabyte, while batches of all sizes
# need new ones. A smaller cache saves memory; the time to compile some kernels again is small.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


@functools.cache
def has_onednn() -> bool:
    """Return whether torch is built with oneDNN, and its products are faster on this processor than those of MKL."""
    return (
        os.environ.get("NMT_CPU_KERNELS", "on") != "off"
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.cpu.get_cpu_capability() == "AVX512"  # below, MKL is as fast
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class CpuKernels(Kernels):
    """The operations of the model on a CPU."""

    chunk_logits = 2**22  # so many fit in the processor's caches
    fuses_step = True
    uses_cores = True
    # measured: 28 % for the demo, 54 % for dim 256 and 4,096 tokens (benchmarks/RESULTS.md); training in bf16 reaches
    # 80 % of the rate in fp32
    utilization = (0.2, 1.0)

    def __init__(self, device: torch.device, precision: Precision = "fp32") -> None:
        super().__init__(device, precision)
        self.has_native = compiling.library() is not None
        self.name = "compiled kernels" if self.has_native else "torch"
        if compiling.problem is not None:
            self.problem = f"no compiled kernels, so this is slower: {compiling.problem}"

    def sizes(self, source: int, target: int) -> tuple[int, int]:
        """Fill both sides to multiples of 64.

        oneDNN compiles a matrix product for each number of rows, and keeps 0.2 to 0.3 MiB for each one until the
        process ends, whatever the capacity of its cache (benchmarks/RESULTS.md). Small batches grow by at most one
        token in 16.
        """
        return _multiple(max(1, source)), _multiple(max(1, target))

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
        """Multiply by oneDNN where it is faster."""
        x, weight = self.rounded(x), self.rounded(weight)
        if not _onednn_is_faster(x, weight):
            return super().linear(x, weight, bias, relu)
        bias = None if bias is None else self.rounded(bias)
        output: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
        output = output.relu_() if relu else output
        return output if x.dim() == 2 else output.view(*x.shape[:-1], -1)

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Round p to a multiple of 1/256, see `_ByteMaskDropout`."""
        if not p:
            return x
        dropped: Tensor = _ByteMaskDropout.apply(x, min(255, round(p * 256)))  # type: ignore[no-untyped-call]
        return dropped

    def attend(
        self, queries: Tensor, keys_values: Tensor | None, rows: tuple[Rows, Rows], heads: int, causal: bool = False
    ) -> Tensor:
        """Attend sentence by sentence."""
        if not self.has_native or queries.dtype not in (torch.float32, torch.bfloat16):
            return super().attend(queries, keys_values, rows, heads, causal)
        layout = attention_rows.Layout(rows[0].offsets, rows[1].offsets, heads, causal)
        return attention_rows.attend(queries, keys_values, layout)

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Multiply by oneDNN where it is faster."""
        return _product(x, weight)

    def outer_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply by oneDNN where it is faster."""
        return _outer_product(left, right).float()


# products


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not _onednn_is_faster(x, weight):
        return torch.nn.functional.linear(x, weight, bias)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


def _outer_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over rows of left (N, O) times right (N, I), (O, I)."""
    # oneDNN copies the first operand to make its rows contiguous: that is the narrower one
    if left.size(1) < right.size(1):
        return _product(left.t(), right.t())
    return _product(right.t(), left.t()).t()


def _onednn_is_faster(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN multiplies x (..., I) by the transpose of weight (O, I) faster than torch's default."""
    return (
        has_onednn()
        and x.dtype == weight.dtype
        and x.dtype in (torch.bfloat16, torch.float32)
        and x.numel() >= _MIN_ROWS * x.size(-1)
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _product(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        needs_rows, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _product(gradient, weight.t()) if needs_rows else None,
            _outer_product(gradient, rows) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


def _multiple(tokens: int) -> int:
    """Round a number of tokens up to a multiple of 64, or of a smaller power of two if there are few."""
    multiple = min(_MULTIPLE, 1 << max(0, tokens.bit_length() - 5))
    return math.ceil(tokens / multiple) * multiple


class _ByteMaskDropout(torch.autograd.Function):
    """Dropout of the numbers whose random bytes are below `threshold`: with probability threshold / 256.

    Drawing the random numbers is most of the cost of dropout. A mask needs eight random bits per number, not a float:
    one 64-bit draw is enough for eight numbers, and p is rounded to a multiple of 1/256 (0.1 becomes 0.1016, and the
    scale 1 / (1 - 0.1016), rounded in bf16).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        count = x.numel()
        draws = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        is_kept = draws.view(torch.uint8)[:count].view(x.shape) >= threshold
        mask = is_kept.to(x.dtype).mul_(256 / (256 - threshold))
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradients[0] * mask, None
