"""Operations on matrices of rows on a GPU, in Triton: layer norm, dropout, gradients of ReLU and biases, and the loss.

N rows, D width, O outputs, V vocabulary. All arithmetic is fp32. Sums over rows have two stages: each program sums its
own rows, and torch sums these partial sums; so the result does not depend on which program finishes first.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.text.tokenizer import PAD

EPSILON = 1e-5  # of the layer norm, as in torch

NORM_NUMBERS = 2048  # of a block of rows, as far as D permits
NORM_WARPS = 4
NORM_PROGRAMS = 256  # with a partial sum each in the backward pass: two for each multiprocessor

DROPOUT_BLOCK = 1024  # random numbers are drawn for four blocks at once; results depend on it
DROPOUT_WARPS = 4
ROUNDS = 7  # of the Philox generator, the fewest that pass all tests of randomness (Salmon et al. 2011)

SUM_ROWS = 32
SUM_COLUMNS = 128
SUM_WARPS = 4
SUM_PROGRAMS = 1024  # at most, together for all columns

LOSS_BLOCK = 4096
LOSS_WARPS = 8

ROTATE_ROWS = 8
ROTATE_PAIRS = 256
LOG_BASE = tl.constexpr(math.log(10000.0))  # the wavelengths of rotary positions grow up to 2π · 10000


# layer norm


def norm(x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return x (N, D) fp32 and its layer norm in `dtype`; differentiable.

    Whoever uses x afterwards, such as a residual connection, uses the x returned: then one kernel adds both gradients.
    """
    outputs: tuple[Tensor, Tensor] = _Norm.apply(x, weight, bias, dtype)  # type: ignore[no-untyped-call]
    return outputs


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        rows, width = x.shape
        x = x.contiguous()
        normalized = torch.empty(rows, width, dtype=dtype, device=x.device)
        statistics = torch.empty(2, rows, dtype=torch.float32, device=x.device)
        if rows:
            constants = _norm_constants(width)
            _norm_kernel[(triton.cdiv(rows, constants["ROWS"]),)](
                x, weight, bias, normalized, statistics, rows, EPSILON=EPSILON, **constants
            )
        ctx.save_for_backward(x, weight, statistics)
        ctx.set_materialize_grads(False)  # a gradient that is missing need not be read
        return x.view_as(x), normalized

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        x, weight, statistics = ctx.saved_tensors
        residual, normalized = gradients
        if normalized is None:
            return residual, None, None, None
        rows, width = x.shape
        constants = _norm_constants(width)
        programs = max(1, min(NORM_PROGRAMS, triton.cdiv(rows, constants["ROWS"])))
        x_gradient = torch.empty_like(x)
        sums = torch.empty(programs, 2, width, dtype=torch.float32, device=x.device)
        _norm_gradient_kernel[(programs,)](
            x, weight, statistics,
            None if residual is None else residual.contiguous(), normalized.contiguous(), x_gradient, sums,
            rows, programs, **constants,
        )  # fmt: skip
        weight_gradient, bias_gradient = sums.sum(0)
        return x_gradient, weight_gradient.to(weight.dtype), bias_gradient.to(weight.dtype), None


def _norm_constants(width: int) -> dict[str, Any]:
    block = triton.next_power_of_2(width)
    return {"D": width, "COLUMNS": block, "ROWS": max(1, NORM_NUMBERS // block), "num_warps": NORM_WARPS}


# a batch has any number of rows: one compilation serves all
_compiled: Any = triton.jit(do_not_specialize=["rows", "programs", "site"])


@_compiled  # type: ignore[untyped-decorator]
def _norm_kernel(
    x: tl.tensor, weight: tl.tensor, bias: tl.tensor, normalized: tl.tensor, statistics: tl.tensor, rows: tl.tensor,
    D: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, EPSILON: tl.constexpr,
) -> None:  # fmt: skip
    """Write normalized (N, D), and the means and the reciprocal standard deviations: statistics (2, N)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)[None, :]
    inside = column < D
    mask = (row < rows)[:, None] & inside
    at = row.to(tl.int64)[:, None] * D + column
    numbers = tl.load(x + at, mask=mask, other=0.0)
    mean = tl.sum(numbers, 1) / D
    centered = tl.where(inside, numbers - mean[:, None], 0.0)
    deviation = 1 / tl.sqrt(tl.sum(centered * centered, 1) / D + EPSILON)
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    result = centered * deviation[:, None] * scale + shift
    tl.store(normalized + at, result.to(normalized.dtype.element_ty), mask=mask)
    tl.store(statistics + row, mean, mask=row < rows)
    tl.store(statistics + rows + row, deviation, mask=row < rows)


@_compiled  # type: ignore[untyped-decorator]
def _norm_gradient_kernel(
    x: tl.tensor, weight: tl.tensor, statistics: tl.tensor, residual: tl.tensor, gradient: tl.tensor,
    x_gradient: tl.tensor, sums: tl.tensor,
    rows: tl.tensor, programs: tl.tensor, D: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
) -> None:  # fmt: skip
    """Write the gradient of x (N, D), and sums of the gradients of weight and bias: (programs, 2, D).

    With n = (x - mean) / deviation and g = gradient · weight, that of x is (g - Σg/D - n Σ(g n)/D) / deviation, plus
    the gradient `residual` of the x that was passed through, if there is one.
    """
    column = tl.arange(0, COLUMNS)[None, :]
    inside = column < D
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    weight_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    bias_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, programs * ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside
        at = row.to(tl.int64)[:, None] * D + column
        mean = tl.load(statistics + row, mask=row < rows, other=0.0)
        deviation = tl.load(statistics + rows + row, mask=row < rows, other=0.0)
        n = (tl.load(x + at, mask=mask, other=0.0) - mean[:, None]) * deviation[:, None]
        n = tl.where(inside, n, 0.0)
        g = tl.load(gradient + at, mask=mask, other=0.0).to(tl.float32)
        weight_sum += g * n
        bias_sum += g
        g = g * scale
        result = (g - (tl.sum(g, 1) / D)[:, None] - n * (tl.sum(g * n, 1) / D)[:, None]) * deviation[:, None]
        if residual is not None:
            result += tl.load(residual + at, mask=mask, other=0.0)
        tl.store(x_gradient + at, result, mask=mask)
    to = sums + tl.program_id(0) * 2 * D + tl.arange(0, COLUMNS)
    tl.store(to, tl.sum(weight_sum, 0), mask=tl.arange(0, COLUMNS) < D)
    tl.store(to + D, tl.sum(bias_sum, 0), mask=tl.arange(0, COLUMNS) < D)


# dropout


def add_dropout(x: Tensor, y: Tensor, p: float, seed: Tensor, site: int) -> Tensor:
    """Return x + dropout(y), fp32; differentiable. x is fp32, y of the same size fp32 or bf16; 0 <= p < 1.

    What is dropped depends only on the seed, an integer on the device, on the site, which numbers the calls in a model,
    and on the position of the element.
    """
    if p == 0:
        return x + y
    output: Tensor = _AddDropout.apply(x, y, p, seed, site)  # type: ignore[no-untyped-call]
    return output


def dropout(x: Tensor, p: float, seed: Tensor, site: int) -> Tensor:
    """Return dropout(x), see `add_dropout`."""
    if p == 0:
        return x
    output: Tensor = _AddDropout.apply(None, x, p, seed, site)  # type: ignore[no-untyped-call]
    return output


class _AddDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor | None, y: Tensor, p: float, seed: Tensor, site: int) -> Tensor:
        ctx.save_for_backward(seed)
        ctx.p, ctx.site, ctx.dtype = p, site, y.dtype
        return _dropped(x, y, p, (seed, site), y.dtype if x is None else x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (seed,) = ctx.saved_tensors
        x_gradient = gradients[0] if ctx.needs_input_grad[0] else None
        y_gradient = None
        if ctx.needs_input_grad[1]:
            y_gradient = _dropped(None, gradients[0], ctx.p, (seed, ctx.site), ctx.dtype)
        return x_gradient, y_gradient, None, None, None


def _dropped(x: Tensor | None, y: Tensor, p: float, source: tuple[Tensor, int], dtype: torch.dtype) -> Tensor:
    """Return dropout(y) in `dtype`, plus x if there is one; the random numbers are from a seed and a site."""
    y = y.contiguous()
    output = torch.empty(y.shape, dtype=dtype, device=y.device)
    if y.numel():
        _dropout_kernel[(triton.cdiv(y.numel(), 4 * DROPOUT_BLOCK),)](
            None if x is None else x.contiguous(), y, output, *source, y.numel(),
            THRESHOLD=round(p * 2**31), SCALE=1 / (1 - p), BLOCK=DROPOUT_BLOCK, ROUNDS=ROUNDS, num_warps=DROPOUT_WARPS,
        )  # fmt: skip
    return output


@_compiled  # type: ignore[untyped-decorator]
def _dropout_kernel(
    x: tl.tensor, y: tl.tensor, output: tl.tensor, seed: tl.tensor, site: tl.tensor, count: tl.tensor,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, BLOCK: tl.constexpr, ROUNDS: tl.constexpr,
) -> None:  # fmt: skip
    """Write 4 blocks of `output`, which has `count` elements.

    One call of the generator gives four numbers, for elements that are BLOCK apart.
    """
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    zero = number * 0
    a, b, c, d = tl.philox(tl.load(seed).to(tl.int64), number, zero, zero + site, zero, ROUNDS)
    first = tl.program_id(0).to(tl.int64) * (4 * BLOCK) + tl.arange(0, BLOCK)
    _drop(x, y, output, a, first, count, THRESHOLD, SCALE)
    _drop(x, y, output, b, first + BLOCK, count, THRESHOLD, SCALE)
    _drop(x, y, output, c, first + 2 * BLOCK, count, THRESHOLD, SCALE)
    _drop(x, y, output, d, first + 3 * BLOCK, count, THRESHOLD, SCALE)


@triton.jit  # type: ignore[untyped-decorator]
def _drop(
    x: tl.tensor,
    y: tl.tensor,
    output: tl.tensor,
    random: tl.tensor,
    at: tl.tensor,
    count: tl.tensor,
    THRESHOLD: tl.constexpr,
    SCALE: tl.constexpr,
) -> None:
    mask = at < count
    kept = (random >> 1).to(tl.int32) >= THRESHOLD  # 31 bits, so that the comparison has no sign to mistake
    result = tl.where(kept, tl.load(y + at, mask=mask, other=0.0).to(tl.float32) * SCALE, 0.0)
    if x is not None:
        result += tl.load(x + at, mask=mask, other=0.0)
    tl.store(output + at, result.to(output.dtype.element_ty), mask=mask)


# sums over rows


def relu_gradient(gradient: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient (N, O) where the output of ReLU is not 0, and the sums of that over the rows, (O) fp32."""
    masked = torch.empty_like(output)
    return masked, _column_sums(gradient.contiguous(), output, masked)


def column_sums(gradient: Tensor) -> Tensor:
    """Return the sums over the rows of a matrix (N, O), (O) fp32."""
    return _column_sums(gradient.contiguous(), None, None)


def _column_sums(gradient: Tensor, output: Tensor | None, masked: Tensor | None) -> Tensor:
    rows, width = gradient.shape
    column_blocks = triton.cdiv(width, SUM_COLUMNS)
    programs = max(1, min(SUM_PROGRAMS // column_blocks, triton.cdiv(rows, SUM_ROWS)))
    sums = torch.empty(programs, width, dtype=torch.float32, device=gradient.device)
    _column_sums_kernel[(column_blocks, programs)](
        gradient, output, masked, sums, rows, programs,
        OUTPUTS=width, ROWS=SUM_ROWS, COLUMNS=SUM_COLUMNS, num_warps=SUM_WARPS,
    )  # fmt: skip
    return sums.sum(0)


@_compiled  # type: ignore[untyped-decorator]
def _column_sums_kernel(
    gradient: tl.tensor, output: tl.tensor, masked: tl.tensor, sums: tl.tensor, rows: tl.tensor, programs: tl.tensor,
    OUTPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    """Write sums (programs, O); with the output of ReLU, sum what passes it, and write that as well."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(1) * ROWS, rows, programs * ROWS):
        row = first + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & (column < OUTPUTS)[None, :]
        at = row.to(tl.int64)[:, None] * OUTPUTS + column[None, :]
        g = tl.load(gradient + at, mask=mask, other=0.0).to(tl.float32)
        if output is not None:
            g = tl.where(tl.load(output + at, mask=mask, other=0.0).to(tl.float32) > 0, g, 0.0)
            tl.store(masked + at, g.to(masked.dtype.element_ty), mask=mask)
        total += g
    tl.store(sums + tl.program_id(1) * OUTPUTS + column, tl.sum(total, 0), mask=column < OUTPUTS)


# the loss


def loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Return the sums of the smoothed losses and of the negative log-likelihoods, fp32, in nats.

    The logits (n, padded V), contiguous, become the gradient p - q of the first sum, with the target distribution q of
    `nmt.training.loss`. labels (n) int32. Rows whose label is padding count nothing; columns from `vocabulary` on
    belong to no token. The gradients of both are 0.
    """
    rows = logits.size(0)
    sums = torch.empty(2, rows, dtype=torch.float32, device=logits.device)
    if rows:
        _loss_kernel[(rows,)](
            logits, labels, sums, rows, smoothing, smoothing / (vocabulary - 2),
            PADDING=PAD, V=vocabulary, WIDTH=logits.size(1),
            BLOCK=min(LOSS_BLOCK, triton.next_power_of_2(logits.size(1))), num_warps=LOSS_WARPS,
        )  # fmt: skip
    loss, likelihood = sums.sum(1)
    return loss, likelihood


@_compiled  # type: ignore[untyped-decorator]
def _loss_kernel(
    logits: tl.tensor, labels: tl.tensor, sums: tl.tensor, rows: tl.tensor, SMOOTHING: tl.constexpr,
    SHARE: tl.constexpr,
    PADDING: tl.constexpr, V: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Turn one row of logits into its gradient; write its loss and negative log-likelihood, sums (2, N).

    With e = ε/(V-2) and Z = log Σ exp z, the smoothed loss is Z - (1-ε-e) z_target - e (Σ z - z_pad).
    """
    row = tl.program_id(0)
    label = tl.load(labels + row)
    counted = label != PADDING
    logits += row.to(tl.int64) * WIDTH
    target = tl.load(logits + label).to(tl.float32)
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
    loss = normalizer - (1 - SMOOTHING - SHARE) * target - SHARE * tl.sum(total, 0)
    tl.store(sums + row, tl.where(counted, loss, 0.0))
    tl.store(sums + rows + row, tl.where(counted, normalizer - target, 0.0))
    tl.debug_barrier()  # all threads have read the logit of the target before one overwrites it
    for first in range(0, WIDTH, BLOCK):
        column = first + tl.arange(0, BLOCK)
        z = tl.load(logits + column, mask=column < V, other=float("-inf")).to(tl.float32)
        q = tl.where(column == PADDING, 0.0, SHARE) + tl.where(column == label, 1 - SMOOTHING - SHARE, 0.0)
        gradient = tl.where(counted & (column < V), tl.exp(z - normalizer) - q, 0.0)
        tl.store(logits + column, gradient.to(logits.dtype.element_ty), mask=column < WIDTH)


# rotary positions


def rotate(projected: Tensor, heads: int, positions: Tensor) -> Tensor:
    """Return queries, keys and values side by side (N, 3D), the first two rotated, as `nmt.model.positions.rotate`."""
    output: Tensor = _Rotate.apply(projected, heads, positions)  # type: ignore[no-untyped-call]
    return output


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, heads: int, positions: Tensor) -> Tensor:
        ctx.save_for_backward(positions)
        ctx.heads = heads
        return _rotated(projected, heads, positions, 1.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (positions,) = ctx.saved_tensors
        return _rotated(gradients[0], ctx.heads, positions, -1.0), None, None


def _rotated(projected: Tensor, heads: int, positions: Tensor, direction: float) -> Tensor:
    projected = projected.contiguous()
    output = torch.empty_like(projected)
    pairs = projected.size(1) // 2  # of queries, keys and values
    if len(projected):
        _rotate_kernel[(triton.cdiv(len(projected), ROTATE_ROWS), triton.cdiv(pairs, ROTATE_PAIRS))](
            projected, output, positions, len(projected), direction,
            HALF=projected.size(1) // (6 * heads), PAIRS=pairs, ROWS=ROTATE_ROWS, COLUMNS=ROTATE_PAIRS,
        )  # fmt: skip
    return output


@_compiled  # type: ignore[untyped-decorator]
def _rotate_kernel(
    projected: tl.tensor, output: tl.tensor, positions: tl.tensor, rows: tl.tensor, direction: tl.constexpr,
    HALF: tl.constexpr, PAIRS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    """Rotate pairs of numbers that are HALF apart in a head; those of the values, the last third, are copied."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    pair = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (row < rows)[:, None] & (pair < PAIRS)[None, :]
    first = row.to(tl.int64)[:, None] * (2 * PAIRS) + ((pair // HALF) * (2 * HALF) + pair % HALF)[None, :]
    x = tl.load(projected + first, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(projected + first + HALF, mask=mask, other=0.0).to(tl.float32)
    frequency = tl.exp((pair % HALF).to(tl.float32) * (-LOG_BASE / HALF))
    position = tl.load(positions + row, mask=row < rows, other=0).to(tl.float32)
    angle = position[:, None] * tl.where(pair < PAIRS // 3 * 2, frequency, 0.0)[None, :] * direction
    cosine, sine = tl.cos(angle), tl.sin(angle)
    tl.store(output + first, (x * cosine - y * sine).to(output.dtype.element_ty), mask=mask)
    tl.store(output + first + HALF, (y * cosine + x * sine).to(output.dtype.element_ty), mask=mask)
