"""Faster kernels for CPUs: oneDNN products in fp32 and bf16, attention to short sentences, fast dropout masks.

Each operator of torch that is private, and so may change with any release, is looked up when the kernels are chosen.
Where one is missing, plain torch computes instead, and the other kernels stay in use.
"""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.model.cpu import short_attention
from nmt.model.cpu.onednn import linear, outer_product
from nmt.model.cpu.prepacked import ConvertedProduct, EightBitProduct, PackedProduct, padded_rows
from nmt.model.packing import Packing

if TYPE_CHECKING:
    from nmt.model.kernels import Precision


class CPUKernels:
    """Kernels that are used for tensors on a CPU whose type and shape they are faster for; others are left to torch.

    `nmt.model.kernels.PlainKernels` defines what the methods return.
    """

    encoder_tokens = 1024  # the feed-forward layers of so many tokens fit in the cache of a core

    def __init__(self) -> None:
        avx512 = (
            torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
            and torch.backends.cpu.get_cpu_capability() == "AVX512"  # below, MKL is as fast
        )
        self.has_linear = avx512 and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        # where bf16 is emulated, it is slower than fp32; a torch without these tests counts as a CPU without bf16
        self.has_bf16 = self.has_linear and any(
            getattr(torch.cpu, test, bool)() for test in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        )
        self.has_packed = self.has_linear and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        self.has_eight_bits = (
            avx512
            and hasattr(torch.ops.onednn, "qlinear_prepack")
            and hasattr(torch.ops.onednn, "qlinear_pointwise")
            and getattr(torch.cpu, "_is_vnni_supported", bool)()
        )

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multiply by oneDNN, which is twice as fast as MKL on processors with AVX-512.

        Under bf16 autocast the operands and the result are rounded to bf16, the sums are fp32.
        """
        if not self.has_linear:
            return F.linear(x, weight, bias)
        if self.has_bf16 and torch.is_autocast_enabled("cpu"):
            x, weight = x.bfloat16(), weight.bfloat16()
            bias = None if bias is None else bias.bfloat16()
        return linear(x, weight, bias)

    def outer_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply by oneDNN, the narrower operand transposed."""
        return outer_product(left, right) if self.has_linear else left.t() @ right

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Draw a byte for each number instead of a float."""
        return byte_mask_dropout(x, p) if x.device.type == "cpu" else F.dropout(x, p)

    def packed_attention(
        self, queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
    ) -> Tensor | None:
        """Attend by batched products of small matrices, which is faster than torch's kernel for short sentences."""
        if not short_attention.fits(queries, packings, self.has_bf16):
            return None
        return short_attention.packed_attention(queries, keys_values, packings, heads, causal)

    def step_attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor | None:
        """Attend by one product over all sentences and heads."""
        return short_attention.step_attention(q, k, v, mask) if q.device.type == "cpu" else None

    def prepack(
        self, weight: Tensor, bias: Tensor | None, precision: "Precision"
    ) -> EightBitProduct | PackedProduct | ConvertedProduct | None:
        """Lay weights out for oneDNN once instead of with each product."""
        if weight.device.type != "cpu":
            return None
        if precision == "int8":
            return EightBitProduct(weight, bias) if self.has_eight_bits else None
        if precision == "bf16":
            packed = self.has_packed and self.has_bf16
            return PackedProduct(weight, bias, torch.bfloat16) if packed else ConvertedProduct(weight, bias)
        return PackedProduct(weight, bias) if self.has_packed else None

    def padded_rows(self, rows: int) -> int:
        """Round up to one of few numbers, since oneDNN compiles a kernel for each."""
        return padded_rows(rows)


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
