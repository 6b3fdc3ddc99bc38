"""Operations on matrices of rows on a GPU, in Triton: layer norm, dropout, rotation, gradients of ReLU and biases.

N rows, D width, O outputs. All arithmetic is fp32. Sums over rows have two stages: each program sums its own rows, and
another kernel adds the partial sums; so the result does not depend on which program finishes first.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

NORM_NUMBERS = 2048  # in a block of rows, unless a single row has more
NORM_WARPS = 4
NORM_PROGRAMS = 528  # of the backward pass at most, each with a partial sum

DROPOUT_BLOCK = 1024  # random numbers are drawn for four times as many elements at once
DROPOUT_WARPS = 4
ROUNDS = 7  # of the Philox generator, the fewest that pass all tests of randomness (Salmon et al. 2011)

SUM_ROWS = 32
SUM_COLUMNS = 64
SUM_WARPS = 4
SUM_PROGRAMS = 1024  # at most, together for all columns
ADD_ROWS = 256
ADD_COLUMNS = 16

ROTATE_ROWS = 32
ROTATE_HEADS = 4  # of one program
LOG_BASE = tl.constexpr(math.log(10000.0))  # the wavelengths of rotary positions grow up to 2π · 10000


@dataclass(frozen=True)
class Dropout:
    """A place in a model where numbers are set to 0 with probability p, and the others divided by 1 - p.

    The mask is a function of the seed (1), an integer on the device, of the site, which is the number of the place, and
    of row and column.
    """

    p: float
    seed: Tensor
    site: int

    @property
    def threshold(self) -> int:
        """The bound below which a random number of 31 bits drops its element."""
        return round(self.p * 2**31)

    @property
    def scale(self) -> float:
        """The factor by which elements that are kept are multiplied."""
        return 1 / (1 - self.p)


# residual connection and layer norm


def add_norm(
    residual: tuple[Tensor, Tensor | None], norm: nn.LayerNorm, dropout: Dropout, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return z = x + dropout(y) for a residual (x, y), both (N, D), and the layer norm of z in `dtype`; differentiable.

    x and z are fp32, y is fp32 or bf16; without y, z is x. Later layers must use z, not x: then one kernel adds both
    gradients. Gradients of weight and bias are added to their `grad` if it exists.
    """
    outputs: tuple[Tensor, Tensor] = _AddNorm.apply(  # type: ignore[no-untyped-call]
        *residual, norm.weight, norm.bias, dropout, (dtype, norm.eps)
    )
    return outputs


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor, dropout: Dropout,
        options: tuple[torch.dtype, float],
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        (rows, width), (dtype, epsilon) = x.shape, options
        x, y = x.contiguous(), None if y is None else y.contiguous()
        z = x.view_as(x) if y is None else torch.empty_like(x)
        normalized = torch.empty(rows, width, dtype=dtype, device=x.device)
        statistics = torch.empty(2, rows, dtype=torch.float32, device=x.device)
        if rows:
            constants = _norm_constants(width, dropout)
            _add_norm_kernel[(triton.cdiv(rows, constants["ROWS"]),)](
                x, y, weight, bias, z, normalized, statistics, dropout.seed, dropout.site, rows,
                EPSILON=epsilon, **constants,
            )  # fmt: skip
        ctx.save_for_backward(z, weight, statistics, dropout.seed)
        ctx.parameters, ctx.dropout, ctx.y_type = (weight, bias), dropout, None if y is None else y.dtype
        ctx.set_materialize_grads(False)  # a gradient that is missing need not be read
        return z, normalized

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        z, weight, statistics, seed = ctx.saved_tensors
        z_gradient, output_gradient = (None if gradient is None else gradient.contiguous() for gradient in gradients)
        assert output_gradient is not None, "the normalized output has no gradient"
        rows, width = z.shape
        constants = _norm_constants(width, ctx.dropout)
        programs = max(1, min(NORM_PROGRAMS, triton.cdiv(rows, constants["ROWS"])))
        x_gradient = torch.empty_like(z)
        y_gradient = None if ctx.y_type is None else torch.empty(rows, width, dtype=ctx.y_type, device=z.device)
        sums = torch.empty(programs, 2, width, dtype=torch.float32, device=z.device)
        _add_norm_gradient_kernel[(programs,)](
            z, weight, statistics, z_gradient, output_gradient, x_gradient, y_gradient, sums, seed, ctx.dropout.site,
            rows, programs, **constants,
        )  # fmt: skip
        return x_gradient, y_gradient, *add_sums(sums, *ctx.parameters), None, None


def _norm_constants(width: int, dropout: Dropout) -> dict[str, Any]:
    block = max(4, triton.next_power_of_2(width))
    return {
        "D": width,
        "COLUMNS": block,
        "ROWS": max(1, NORM_NUMBERS // block),
        "THRESHOLD": dropout.threshold,
        "SCALE": dropout.scale,
        "ROUNDS": ROUNDS,
        "num_warps": NORM_WARPS,
    }


# a batch has any number of rows: one compilation serves all
_compiled: Any = triton.jit(do_not_specialize=["rows", "programs", "site"])


@triton.jit  # type: ignore[untyped-decorator]
def _keep_mask(
    seed: tl.tensor, site: tl.tensor, row: tl.tensor, QUARTER: tl.constexpr, THRESHOLD: tl.constexpr,
    ROUNDS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return which numbers of rows dropout keeps, (rows, 4 · QUARTER): a function of seed, site, row and column."""
    number = row[:, None] * QUARTER + tl.arange(0, QUARTER)[None, :]
    zero = number * 0
    a, b, c, d = tl.philox(tl.load(seed).to(tl.int64), number, zero, zero + site, zero, ROUNDS)
    random = tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    return (random >> 1).to(tl.int32) >= THRESHOLD  # 31 bits, so that there is no sign bit in the comparison


@_compiled  # type: ignore[untyped-decorator]
def _add_norm_kernel(
    x: tl.tensor, y: tl.tensor, weight: tl.tensor, bias: tl.tensor, z: tl.tensor, normalized: tl.tensor,
    statistics: tl.tensor, seed: tl.tensor, site: tl.tensor, rows: tl.tensor,
    D: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr,
    ROUNDS: tl.constexpr, EPSILON: tl.constexpr,
) -> None:  # fmt: skip
    """Write z and normalized (N, D), and the means and the reciprocal standard deviations: statistics (2, N)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)[None, :]
    inside = column < D
    mask = (row < rows)[:, None] & inside
    offsets = row.to(tl.int64)[:, None] * D + column
    numbers = tl.load(x + offsets, mask=mask, other=0.0)
    if y is not None:
        added = tl.load(y + offsets, mask=mask, other=0.0).to(tl.float32)
        if THRESHOLD:
            added = tl.where(_keep_mask(seed, site, row, COLUMNS // 4, THRESHOLD, ROUNDS), added * SCALE, 0.0)
        numbers += added
        tl.store(z + offsets, numbers, mask=mask)
    mean = tl.sum(numbers, 1) / D
    centered = tl.where(inside, numbers - mean[:, None], 0.0)
    inverse_deviation = 1 / tl.sqrt(tl.sum(centered * centered, 1) / D + EPSILON)
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    result = centered * inverse_deviation[:, None] * scale + shift
    tl.store(normalized + offsets, result.to(normalized.dtype.element_ty), mask=mask)
    tl.store(statistics + row, mean, mask=row < rows)
    tl.store(statistics + rows + row, inverse_deviation, mask=row < rows)


@_compiled  # type: ignore[untyped-decorator]
def _add_norm_gradient_kernel(
    z: tl.tensor, weight: tl.tensor, statistics: tl.tensor, z_gradient: tl.tensor, gradient: tl.tensor,
    x_gradient: tl.tensor, y_gradient: tl.tensor, sums: tl.tensor, seed: tl.tensor, site: tl.tensor,
    rows: tl.tensor, programs: tl.tensor, D: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, ROUNDS: tl.constexpr,
) -> None:  # fmt: skip
    """Write the gradients of x and y (N, D), and sums of the gradients of weight and bias: (programs, 2, D).

    With n = (z - mean) / σ and g = gradient · weight, that of z is (g - Σg/D - n Σ(g n)/D) / σ, plus the gradient
    `z_gradient` of z itself, if there is one.
    """
    column = tl.arange(0, COLUMNS)[None, :]
    inside = column < D
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    weight_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    bias_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, programs * ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside
        offsets = row.to(tl.int64)[:, None] * D + column
        mean = tl.load(statistics + row, mask=row < rows, other=0.0)
        inverse_deviation = tl.load(statistics + rows + row, mask=row < rows, other=0.0)
        n = (tl.load(z + offsets, mask=mask, other=0.0) - mean[:, None]) * inverse_deviation[:, None]
        n = tl.where(inside, n, 0.0)
        g = tl.load(gradient + offsets, mask=mask, other=0.0).to(tl.float32)
        weight_sum += g * n
        bias_sum += g
        g = g * scale
        result = g - (tl.sum(g, 1) / D)[:, None] - n * (tl.sum(g * n, 1) / D)[:, None]
        result *= inverse_deviation[:, None]
        if z_gradient is not None:
            result += tl.load(z_gradient + offsets, mask=mask, other=0.0)
        tl.store(x_gradient + offsets, result, mask=mask)
        if y_gradient is not None:
            if THRESHOLD:
                result = tl.where(_keep_mask(seed, site, row, COLUMNS // 4, THRESHOLD, ROUNDS), result * SCALE, 0.0)
            tl.store(y_gradient + offsets, result.to(y_gradient.dtype.element_ty), mask=mask)
    sum_pointers = sums + tl.program_id(0) * 2 * D + tl.arange(0, COLUMNS)
    tl.store(sum_pointers, tl.sum(weight_sum, 0), mask=tl.arange(0, COLUMNS) < D)
    tl.store(sum_pointers + D, tl.sum(bias_sum, 0), mask=tl.arange(0, COLUMNS) < D)


# dropout


def dropout(x: Tensor, dropout: Dropout) -> Tensor:
    """Return dropout(x), in the type of x; differentiable."""
    if not dropout.threshold:
        return x
    output: Tensor = _DropoutFunction.apply(x, dropout)  # type: ignore[no-untyped-call]
    return output


class _DropoutFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropout: Dropout) -> Tensor:
        ctx.save_for_backward(dropout.seed)
        ctx.dropout = dropout
        return _dropped(x, dropout.seed, dropout)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (seed,) = ctx.saved_tensors
        return _dropped(gradients[0], seed, ctx.dropout), None


def _dropped(x: Tensor, seed: Tensor, dropout: Dropout) -> Tensor:
    x = x.contiguous()
    output = torch.empty_like(x)
    if x.numel():
        _dropout_kernel[(triton.cdiv(x.numel(), 4 * DROPOUT_BLOCK),)](
            x, output, seed, dropout.site, x.numel(), THRESHOLD=dropout.threshold, SCALE=dropout.scale,
            BLOCK=DROPOUT_BLOCK, ROUNDS=ROUNDS, num_warps=DROPOUT_WARPS,
        )  # fmt: skip
    return output


@_compiled  # type: ignore[untyped-decorator]
def _dropout_kernel(
    x: tl.tensor, output: tl.tensor, seed: tl.tensor, site: tl.tensor, count: tl.tensor,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, BLOCK: tl.constexpr, ROUNDS: tl.constexpr,
) -> None:  # fmt: skip
    """Write 4 · BLOCK of the `count` elements of `output`; the mask is that of rows of four elements."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offsets = row.to(tl.int64)[:, None] * 4 + tl.arange(0, 4)[None, :]
    keep = _keep_mask(seed, site, row, 1, THRESHOLD, ROUNDS)
    numbers = tl.load(x + offsets, mask=offsets < count, other=0.0).to(tl.float32)
    tl.store(output + offsets, tl.where(keep, numbers * SCALE, 0.0).to(output.dtype.element_ty), mask=offsets < count)


# sums over rows


def relu_bias_gradients(gradient: Tensor, bias: Tensor, output: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Return the gradient (N, O), with ReLU 0 where its output is 0, and that of the bias, its sum; see `add_sums`."""
    (rows, width), masked = gradient.shape, None if output is None else torch.empty_like(output)
    column_blocks = triton.cdiv(width, SUM_COLUMNS)
    programs = max(1, min(SUM_PROGRAMS // column_blocks, triton.cdiv(rows, SUM_ROWS)))
    sums = torch.empty(programs, width, dtype=torch.float32, device=gradient.device)
    _column_sums_kernel[(column_blocks, programs)](
        gradient, output, masked, sums, rows, programs,
        OUTPUTS=width, ROWS=SUM_ROWS, COLUMNS=SUM_COLUMNS, num_warps=SUM_WARPS,
    )  # fmt: skip
    (new_bias_gradient,) = add_sums(sums, bias)
    return gradient if masked is None else masked, new_bias_gradient


def add_sums(sums: Tensor, *parameters: Tensor) -> list[Tensor | None]:
    """Add partial sums (P, W) of the gradients of parameters, W numbers in all, to their `grad`.

    Returns the gradients of parameters that have no `grad` yet, None for the others.
    """
    gradients: list[Tensor | None] = []
    for number, parameter in enumerate(parameters):
        is_new = parameter.grad is None
        gradient = torch.zeros_like(parameter, memory_format=torch.contiguous_format) if is_new else parameter.grad
        width = parameter.numel()
        _add_sums_kernel[(triton.cdiv(width, ADD_COLUMNS),)](
            sums.view(-1)[number * width :], gradient, sums.size(0),
            STRIDE=sums.numel() // sums.size(0), OUTPUTS=width, ROWS=ADD_ROWS, COLUMNS=ADD_COLUMNS,
        )  # fmt: skip
        gradients.append(gradient if is_new else None)
    return gradients


@_compiled  # type: ignore[untyped-decorator]
def _add_sums_kernel(
    sums: tl.tensor, gradient: tl.tensor, programs: tl.tensor,
    STRIDE: tl.constexpr, OUTPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    """Add the sums over the first dimension of (programs, STRIDE), of its first columns, to `gradient` (OUTPUTS)."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, programs, ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < programs)[:, None] & (column < OUTPUTS)[None, :]
        total += tl.load(sums + row[:, None] * STRIDE + column[None, :], mask=mask, other=0.0)
    old = tl.load(gradient + column, mask=column < OUTPUTS, other=0.0)
    tl.store(gradient + column, old + tl.sum(total, 0), mask=column < OUTPUTS)


@_compiled  # type: ignore[untyped-decorator]
def _column_sums_kernel(
    gradient: tl.tensor, output: tl.tensor, masked: tl.tensor, sums: tl.tensor, rows: tl.tensor, programs: tl.tensor,
    OUTPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    """Write sums (programs, O) of the gradient; with the output of ReLU, mask the gradient first, and write it, too."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(1) * ROWS, rows, programs * ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & (column < OUTPUTS)[None, :]
        offsets = row.to(tl.int64)[:, None] * OUTPUTS + column[None, :]
        g = tl.load(gradient + offsets, mask=mask, other=0.0).to(tl.float32)
        if output is not None:
            g = tl.where(tl.load(output + offsets, mask=mask, other=0.0).to(tl.float32) > 0, g, 0.0)
            tl.store(masked + offsets, g.to(masked.dtype.element_ty), mask=mask)
        total += g
    tl.store(sums + tl.program_id(1) * OUTPUTS + column, tl.sum(total, 0), mask=column < OUTPUTS)


# rotary positions


def rotate(projected: Tensor, heads: int, positions: Tensor) -> Tensor:
    """Rotate queries and keys, of queries, keys and values side by side (N, 3D), in place; differentiable.

    The formula is that of `nmt.kernels.reference.Kernels.rotate`. The backward pass changes the gradient in place.
    """
    output: Tensor = _Rotate.apply(projected, heads, positions)  # type: ignore[no-untyped-call]
    return output


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, heads: int, positions: Tensor) -> Tensor:
        ctx.save_for_backward(positions)
        ctx.heads = heads
        ctx.mark_dirty(projected)
        return _rotated(projected, heads, positions, 1.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (positions,) = ctx.saved_tensors
        return _rotated(gradients[0].contiguous(), ctx.heads, positions, -1.0), None, None


def _rotated(projected: Tensor, heads: int, positions: Tensor, direction: float) -> Tensor:
    half = projected.size(1) // (6 * heads)
    if len(projected):
        _rotate_kernel[(triton.cdiv(len(projected), ROTATE_ROWS), triton.cdiv(2 * heads, ROTATE_HEADS))](
            projected, positions, projected.stride(0), len(projected), direction,
            HALF=half, WIDTH=triton.next_power_of_2(half), HEADS=2 * heads, OWNED=ROTATE_HEADS, ROWS=ROTATE_ROWS,
        )  # fmt: skip
    return projected


@_compiled  # type: ignore[untyped-decorator]
def _rotate_kernel(
    projected: tl.tensor, positions: tl.tensor, stride: tl.tensor, rows: tl.tensor, direction: tl.constexpr,
    HALF: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, OWNED: tl.constexpr, ROWS: tl.constexpr,
) -> None:  # fmt: skip
    """Rotate the pairs of numbers that are HALF apart in a head, in OWNED of the first HEADS heads of each row."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    pair = tl.arange(0, WIDTH)
    mask = (row < rows)[:, None] & (pair < HALF)[None, :]
    position = tl.load(positions + row, mask=row < rows, other=0).to(tl.float32)
    frequency = tl.exp(pair.to(tl.float32) * (-LOG_BASE / HALF))
    angle = position[:, None] * frequency[None, :] * direction
    cosine, sine = tl.cos(angle), tl.sin(angle)
    first = projected + row.to(tl.int64)[:, None] * stride + pair[None, :]
    first_head = tl.program_id(1) * OWNED
    for head in range(first_head, tl.minimum(first_head + OWNED, HEADS)):
        pointers = first + head * (2 * HALF)
        x = tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
        y = tl.load(pointers + HALF, mask=mask, other=0.0).to(tl.float32)
        tl.store(pointers, (x * cosine - y * sine).to(projected.dtype.element_ty), mask=mask)
        tl.store(pointers + HALF, (y * cosine + x * sine).to(projected.dtype.element_ty), mask=mask)
