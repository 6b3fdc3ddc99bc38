"""Kernels for CPUs: products by oneDNN in fp32, bf16 and eight bits, and attention to short sentences.

Each is used where it is faster than torch's own; in inference those of `nmt.kernels.native` come first. Elsewhere the
same functions compute with plain torch, with the same results up to rounding: on other devices, on processors without
AVX-512, where a build of torch lacks a private operator, and everywhere with NMT_CPU_KERNELS=off in the environment.

On x86 processors torch leaves fp32 products to MKL. On two cores of an AMD EPYC (Zen 5) that reaches 180 GFLOP/s where
oneDNN reaches 380 to 420, both in fp32 (benchmarks/RESULTS.md). Processors with instructions for bf16 multiply such
numbers, with sums in fp32, at twice that rate, with AMX at four times.

N rows, I inputs, O outputs; N queries and M keys of all groups, packed; B sentences, T queries, S keys, D width,
H heads, d = D/H.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.batching.batch import Packing
from nmt.kernels import native

Precision = Literal["fp32", "bf16", "int8"]

ENCODER_TOKENS = 1024  # the feed-forward layers of so many tokens fit in the cache of a core
MAX_ATTENTION_LENGTH = 128  # tokens in a sentence; for longer ones torch's own attention is faster

_LEAST_BF16_DIM = 128
_MIN_ROWS = 16  # with fewer, the call costs more than the product
_TYPICAL_ROWS = 128  # a search computes about so many; oneDNN chooses the layout of packed weights for it

# oneDNN compiles a kernel for each shape and keeps 1,024 of them, most of a gigabyte, while batches of all sizes
# need new ones. Compiling one again takes less time than it saves.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


class Kernels(NamedTuple):
    """The kernels that this processor and this build of torch have."""

    linear: bool = False
    bf16: bool = False  # whether products of bf16 numbers are native; where they are emulated, fp32 is faster
    packed: bool = False
    int8: bool = False
    native: bool = False  # whether to compile and use those of `nmt.kernels.native`
    plain: bool = True  # whether to use no kernel at all

    @classmethod
    def available(cls) -> "Kernels":
        """Look for the operators of torch and for the instructions of the processor."""
        if os.environ.get("NMT_CPU_KERNELS", "on") == "off":
            return cls()
        avx512 = (
            torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
            and torch.backends.cpu.get_cpu_capability() == "AVX512"  # below, MKL is as fast
        )
        linear = avx512 and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        # a torch without these tests counts as a CPU without the instructions
        has = {name: getattr(torch.cpu, f"_is_{name}_supported", bool)() for name in _INSTRUCTIONS}
        return cls(
            linear,
            bf16=linear and (has["avx512_bf16"] or has["amx_tile"]),
            packed=linear and hasattr(torch.ops.mkldnn, "_reorder_linear_weight"),
            int8=avx512 and has["vnni"],
            native=avx512 and sys.platform == "linux",
            plain=False,
        )


_INSTRUCTIONS = ("avx512_bf16", "amx_tile", "vnni")
kernels = Kernels.available()


def prefers_bf16(dim: int) -> bool:
    """Whether a model of this width computes faster in bf16: converting numbers takes a narrow one what it saves."""
    return kernels.bf16 and dim >= _LEAST_BF16_DIM


# products


class Linear(nn.Linear):
    """torch's linear map, with the kernels of this module; its matrix joins `parts` that read the same input."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, parts: int = 1) -> None:
        super().__init__(inputs, outputs, bias)
        self.parts = parts
        self.packed: native.Product | None = None  # for inference, with weights that do not change any more

    def pack(self, precision: Precision) -> bool:
        """Copy the weights into their fastest layout for inference; return whether there is one."""
        self.packed = packed_product(self.weight, self.bias, precision)
        return self.packed is not None

    def forward(self, x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        """Map (..., I) to (..., O), followed by ReLU if asked for; add a residual (..., O)."""
        if self.packed is not None and not torch.is_grad_enabled():
            return self.packed(x, residual, relu)
        return finished(linear(x, self.weight, self.bias), residual, relu)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x (..., I) times the transpose of weight (O, I), plus bias (O); differentiable.

    Under bf16 autocast the operands and the result are rounded to bf16, the sums are fp32.
    """
    if kernels.bf16 and x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        x, weight = x.bfloat16(), weight.bfloat16()
        bias = None if bias is None else bias.bfloat16()
    if not torch.is_grad_enabled() or not _fits(x, weight):
        return _product(x, weight, bias)
    mapped: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    # a view would make it costly to change the result in place, as ReLU does
    return mapped if x.dim() == 2 else mapped.view(*x.shape[:-1], -1)


def finished(output: Tensor, residual: Tensor | None, relu: bool) -> Tensor:
    """Apply to the output of a product, in its place, what follows it."""
    output = output.relu_() if relu else output
    return output if residual is None else output + residual


def outer_product(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum over rows of left (N, O) times right (N, I), (O, I); not differentiable."""
    # oneDNN copies the first operand to make its rows contiguous: that is the narrower one
    if left.size(1) < right.size(1):
        return _product(left.t(), right.t())
    return _product(right.t(), left.t()).t()


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not _fits(rows, weight):
        return F.linear(rows, weight, bias)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return result


def _fits(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN multiplies x (..., I) by the transpose of weight (O, I) faster than torch's default."""
    return (
        not torch.compiler.is_compiling()  # first: the compiler would guard each condition below for each shape
        and kernels.linear
        and x.device.type == "cpu"
        and x.dtype == weight.dtype
        and (x.dtype == torch.bfloat16 or (x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")))
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
            outer_product(gradient, rows) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


# products with constant weights, laid out once in oneDNN's own format


def packed_product(weight: Tensor, bias: Tensor | None, precision: Precision) -> native.Product | None:
    """Return the linear map of a constant weight (O, I) and bias (O), or None if plain torch is as fast.

    In bf16 weights, inputs and results are rounded to bf16, sums are fp32. In int8 weights have a scale for each output
    and inputs one for each row, so that the result for a row does not depend on the others.
    """
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    on_cpu = weight.device.type == "cpu"
    if on_cpu and has_native() and (compiled := native.product(weight, bias, precision)):
        return compiled
    if precision == "int8":
        return _eight_bit_product(weight, bias) if on_cpu and kernels.int8 else None
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    if on_cpu and kernels.packed and (precision == "fp32" or kernels.bf16):
        return _onednn_product(weight, bias, dtype)
    if precision == "fp32":
        return None
    weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)

    def product(x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        return finished(F.linear(x.to(dtype), weight, bias), residual, relu)

    return product


def _onednn_product(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> native.Product:
    outputs = weight.size(0)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype), _TYPICAL_ROWS)
    bias = None if bias is None else bias.to(dtype)

    def product(x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        rows = _padded(x.to(dtype))
        output = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "relu" if relu else "none", [], "").float()
        return finished(_unpadded(output, x, outputs), residual, relu=False)

    return product


def _eight_bit_product(weight: Tensor, bias: Tensor | None) -> native.Product:
    """Return a product of eight-bit integers: x ≈ s · a and w ≈ t · b, so x · w ≈ s · t · Σ a b, exact in integers."""
    numbers, of_outputs = native.quantized(weight)
    columns, of_outputs = numbers.t().contiguous(), of_outputs.t()

    def product(x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        rows, scales = native.quantized(_padded(x))
        output = torch._int_mm(rows, columns) * scales
        scaled = output.mul_(of_outputs) if bias is None else torch.addcmul(bias, output, of_outputs, out=output)
        return finished(_unpadded(scaled, x, len(weight)), residual, relu)

    return product


def screened_product(weight: Tensor, outputs: int, precision: Precision) -> Callable[[Tensor], Tensor] | None:
    """Return `native.screened_product` if it is faster than a product with this precision, otherwise None."""
    available = precision != "int8" and weight.device.type == "cpu" and has_native()
    return native.screened_product(weight.detach(), outputs, precision) if available else None


def has_native() -> bool:
    """Whether the kernels of `nmt.kernels.native` may be used, and a compiler or an earlier use of it has made them."""
    return kernels.native and native.library() is not None


def padded_rows(rows: int) -> int:
    """Round a number of rows up, by a few percent, to a multiple of 8, 16 or 128.

    oneDNN compiles a kernel for each number of rows, which takes as long as the product itself, or longer.
    """
    if has_native():  # any number is as fast
        return rows
    multiple = 8 if rows <= 64 else 16 if rows <= 512 else 128
    return math.ceil(rows / multiple) * multiple


def _padded(x: Tensor) -> Tensor:
    """Return (..., I) as padded rows."""
    rows = x if x.dim() == 2 else x.reshape(-1, x.size(-1))
    missing = padded_rows(rows.size(0)) - rows.size(0)
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows


def _unpadded(output: Tensor, x: Tensor, outputs: int) -> Tensor:
    """Return the rows of the output that belong to x, in its shape."""
    if output.shape[:-1] == x.shape[:-1]:
        return output
    return output[: x.numel() // x.size(-1)].view(*x.shape[:-1], outputs)


# dropout


class Dropout(nn.Dropout):
    """Dropout (Srivastava et al. 2014), in training with the masks of this module."""

    def forward(self, x: Tensor) -> Tensor:
        """Map any shape to the same shape."""
        if kernels.plain or not (self.training and self.p) or x.device.type != "cpu":
            return super().forward(x)
        dropped: Tensor = _ByteMaskDropout.apply(x, min(255, round(self.p * 256)))  # type: ignore[no-untyped-call]
        return dropped


class _ByteMaskDropout(torch.autograd.Function):
    """Multiply by a random mask whose bytes are below `threshold` with probability threshold / 256.

    Drawing the random numbers is most of dropout's cost. A mask needs eight bits a number, not a float: one 64-bit draw
    serves eight numbers, and p is rounded to the nearest multiple of 1/256 (0.1 becomes 0.1016; the scale follows, so
    the expectation is exact).
    """

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


# attention: torch's own is made for long sequences. At the five to twenty tokens of most sentences it takes two to four
# times as long as the plain formulas, if these copy every tensor once and no more.


def fits_packed_attention(queries: Tensor, packings: tuple[Packing, Packing]) -> bool:
    """Whether `packed_attention` is faster than torch's attention."""
    return (
        not (torch.compiler.is_compiling() or kernels.plain)
        and queries.device.type == "cpu"
        and queries.dtype in (torch.float32, torch.bfloat16)
        and max(length for packing in packings for _, length in packing.shapes) <= MAX_ATTENTION_LENGTH
    )


def fits_native_attention(queries: Tensor, packings: Sequence[Packing] = ()) -> bool:
    """Whether `native.attend` computes the attention of these queries, and is faster."""
    return (
        has_native()
        and queries.device.type == "cpu"
        and queries.dtype == torch.float32
        and not torch.is_grad_enabled()
        and max((length for packing in packings for _, length in packing.shapes), default=0) <= MAX_ATTENTION_LENGTH
    )


def packed_attention(
    queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V of each sentence and head (N, D), differentiable: forward and backward at once.

    Queries are (N, D), keys and values side by side (M, 2D); the packings are those of both. Computed in fp32.
    """
    output: Tensor = _PackedAttention.apply(queries, keys_values, packings, heads, causal)  # type: ignore[no-untyped-call]
    return output


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    # oneDNN's bf16 products of matrices as small and varied are slower
    @torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any, queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
    ) -> Tensor:
        output, saved = queries.new_empty(queries.shape), []
        to, of = packings
        groups = zip(to.unpack(queries), of.unpack(keys_values), of.masks, to.unpack(output), strict=True)
        for query, key_value, mask, group_output in groups:
            (q,), (k, v) = _split_heads(query, 1, heads), _split_heads(key_value, 2, heads)
            scores = torch.bmm(q, k.transpose(1, 2)).mul_(q.size(2) ** -0.5)  # (B·H, T, S)
            if causal:
                scores.masked_fill_(scores.new_ones(scores.shape[1:], dtype=torch.bool).triu_(1), float("-inf"))
            elif mask is not None:
                scores.view(len(query), heads, *scores.shape[1:]).masked_fill_(~mask, float("-inf"))
            weights = torch.softmax(scores, dim=-1, out=scores)
            _merge_heads_into(group_output, torch.bmm(weights, v).unsqueeze(0), heads)
            saved += [q, k, v, weights]
        ctx.save_for_backward(*saved)
        ctx.heads, ctx.packings, ctx.rows = heads, packings, keys_values.size(0)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        gradient, (to, of), saved = gradients[0].contiguous(), ctx.packings, ctx.saved_tensors
        query_gradient = torch.empty_like(gradient)
        key_value_gradient = gradient.new_empty(ctx.rows, 2 * gradient.size(1))
        groups = zip(to.unpack(gradient), to.unpack(query_gradient), of.unpack(key_value_gradient), strict=True)
        for number, (group_gradient, to_query, to_key_value) in enumerate(groups):
            q, k, v, weights = saved[4 * number : 4 * number + 4]
            (g,) = _split_heads(group_gradient, 1, ctx.heads)
            to_weights = torch.bmm(g, v.transpose(1, 2))
            # through the softmax: weights · (to_weights - Σ weights · to_weights)
            to_scores = to_weights.sub_((to_weights * weights).sum(-1, keepdim=True)).mul_(weights)
            to_scores.mul_(q.size(2) ** -0.5)
            _merge_heads_into(to_query, torch.bmm(to_scores, k).unsqueeze(0), ctx.heads)
            to_keys_values = k.new_empty(2, *k.shape)
            torch.bmm(to_scores.transpose(1, 2), q, out=to_keys_values[0])
            torch.bmm(weights.transpose(1, 2), g, out=to_keys_values[1])
            _merge_heads_into(to_key_value, to_keys_values, ctx.heads)
        return query_gradient, key_value_gradient, None, None, None


def _split_heads(x: Tensor, count: int, heads: int) -> Tensor:
    """Copy `count` vectors of each token, (B, T, count·D), to (count, B·H, T, d) in fp32."""
    by_head = x.view(*x.shape[:2], count, heads, -1).permute(2, 0, 3, 1, 4)
    copied = by_head.to(torch.float32, memory_format=torch.contiguous_format)
    return copied.reshape(count, -1, *by_head.shape[3:])


def _merge_heads_into(out: Tensor, x: Tensor, heads: int) -> None:
    """Copy (count, B·H, T, d) into (B, T, count·D)."""
    sentences, length, _ = out.shape
    out.view(sentences, length, len(x), heads, -1).permute(2, 0, 3, 1, 4).copy_(
        x.view(len(x), sentences, heads, length, -1)
    )
