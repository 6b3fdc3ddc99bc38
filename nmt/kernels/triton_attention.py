"""Attention of all rows of a batch on a GPU: forward and backward in Triton, without atomic sums, so deterministic.

N query rows, M key rows, D width, H heads, d = D/H, P tiles. A row attends to the rows of its own sentence, which are
all in one tile (see `nmt.batching.batch`). A program computes a block of rows of one tile and one head: it owns the
rows of one side, and reads the rows of the other side block by block. In bf16, with heads of at most 64 numbers, only a
tile of one sentence longer than `TILE` has more than one block.

Scores, their exponentials and all sums are fp32; the operands of the products have the type of the inputs. Exponentials
are powers of two, with the factor log2(e) in the scale of the scores.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.batching.batch import TILE, Rows
from nmt.kernels.reference import parts_of

FUSED = True  # whether one kernel computes all gradients where no sentence is longer than TILE
WARPS = 4  # of one program; twice as many for fp32
SHARED = 2**16  # bytes of shared memory of a program, which all GPUs have; blocks of wider heads have fewer rows
MOST_OPERANDS = 5  # blocks of rows that a program reads, in the backward pass
STAGES = 1  # of the pipelined loop over blocks, which rarely has a second iteration


def attend(
    queries: Tensor, keys_values: Tensor | None, query_rows: Rows, key_rows: Rows, heads: int, causal: bool
) -> Tensor:
    """Return softmax(Q Kᵀ / √d) V within each sentence, (N, D); differentiable.

    queries are (N, D) and keys_values (M, 2D); or keys_values is None, and queries (N, 3D) are queries, keys and values
    of the same rows side by side. With `causal`, which needs the latter, a row does not attend to later rows. A row
    whose sentence has no keys gets 0. The rows may be column ranges of wider matrices.
    """
    assert len(query_rows.tiles) == len(key_rows.tiles), "both sides must be divided into tiles together"
    assert (len(queries), queries.size(1) % heads) == (len(query_rows.sentences), 0)
    assert keys_values is None or len(keys_values) == len(key_rows.sentences)
    output: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        queries, keys_values, query_rows, key_rows, heads, causal
    )
    return output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys_values: Tensor | None,
        query_rows: Rows,
        key_rows: Rows,
        heads: int,
        causal: bool,
    ) -> Tensor:
        queries = _with_adjacent_columns(queries)
        keys_values = None if keys_values is None else _with_adjacent_columns(keys_values)
        q, k, v = parts_of(queries, keys_values)
        output = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        constants = _constants(q, heads, causal)
        normalizers = torch.empty(heads, q.size(0), dtype=torch.float32, device=q.device)
        _forward_kernel[_grid(query_rows, heads, constants["BLOCK"])](
            q, k, v, output, normalizers,
            query_rows.sentences, key_rows.sentences, query_rows.tiles, key_rows.tiles,
            q.stride(0), k.stride(0), output.stride(0), q.size(0),
            **constants,
        )  # fmt: skip
        ctx.save_for_backward(queries, keys_values, output, normalizers)
        ctx.rows = query_rows, key_rows
        ctx.heads, ctx.causal = heads, causal
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys_values, output, normalizers = ctx.saved_tensors
        gradient = _with_adjacent_columns(gradients[0])
        queries_gradient = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
        keys_values_gradient = None
        if keys_values is not None:
            keys_values_gradient = torch.empty(keys_values.shape, dtype=keys_values.dtype, device=keys_values.device)
        inputs = parts_of(queries, keys_values)
        _differentiate(ctx, inputs, (output, gradient, normalizers), parts_of(queries_gradient, keys_values_gradient))
        return queries_gradient, keys_values_gradient, None, None, None, None


def _differentiate(
    ctx: Any, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], gradients: tuple[Tensor, ...]
) -> None:
    """Write the gradients of the queries, keys and values `inputs`.

    `outputs` are the output, its gradient, and the normalizers.
    """
    q, k, v = inputs
    output, gradient, normalizers = outputs
    query_rows, key_rows = ctx.rows
    rows = query_rows.sentences, key_rows.sentences, query_rows.tiles, key_rows.tiles
    strides = q.stride(0), k.stride(0), output.stride(0), gradient.stride(0), *(g.stride(0) for g in gradients[:2])
    constants = _constants(q, ctx.heads, ctx.causal)
    block = constants["BLOCK"]
    if FUSED and max(query_rows.longest, key_rows.longest) <= TILE == block:
        _gradients_kernel[_grid(query_rows, ctx.heads, block)](
            q, k, v, output, gradient, normalizers, *gradients, *rows, *strides, q.size(0), **constants
        )
        return
    deltas = torch.empty_like(normalizers)
    _query_gradients_kernel[_grid(query_rows, ctx.heads, block)](
        q, k, v, output, gradient, normalizers, deltas, gradients[0], *rows, *strides, q.size(0), **constants
    )
    _key_gradients_kernel[_grid(key_rows, ctx.heads, block)](
        q, k, v, gradient, normalizers, deltas, *gradients[1:], *rows, *strides, q.size(0), **constants
    )


def _with_adjacent_columns(x: Tensor) -> Tensor:
    """Return the matrix itself if the columns of a row are adjacent in memory, else a copy."""
    return x if x.stride(1) == 1 else x.contiguous()


def _grid(rows: Rows, heads: int, block: int) -> tuple[int, int, int]:
    """Return the numbers of tiles, of heads, and of blocks in the largest tile, rounded up to a multiple of TILE."""
    return rows.tiles.size(0) - 1, heads, rows.longest_tiles * (TILE // block)


def _constants(queries: Tensor, heads: int, causal: bool) -> dict[str, Any]:
    """Return the parameters on which the code of the kernels depends."""
    head_width = queries.size(1) // heads
    width = max(16, triton.next_power_of_2(head_width))  # the smallest size of a product is 16
    rows = SHARED // (MOST_OPERANDS * width * queries.element_size())
    block = max(16, min(TILE, 1 << rows.bit_length() - 1))
    return {
        "SCALE": head_width**-0.5,
        "SCALE_2": head_width**-0.5 * math.log2(math.e),
        "CAUSAL": causal,
        "HEAD_WIDTH": head_width,
        "WIDTH": width,
        "BLOCK": block,
        "num_stages": STAGES,
        "num_warps": WARPS * (2 if queries.dtype == torch.float32 else 1),
    }


# functions that the kernels share
#
# `first` is the first row of a block of BLOCK rows, `end` the row after the last one that may be read or written.
# Row numbers are int32, offsets of blocks int64, offsets in a block int32 again, because these need fewer registers.


@triton.jit  # type: ignore[untyped-decorator]
def _owned(tiles: tl.tensor, BLOCK: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Return the first row that this program owns, and the end of its tile or block."""
    tile = tl.program_id(0)
    first = tl.load(tiles + tile) + tl.program_id(2) * BLOCK
    return first, tl.minimum(first + BLOCK, tl.load(tiles + tile + 1))


@triton.jit  # type: ignore[untyped-decorator]
def _load(
    matrix: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    stride: tl.tensor,
    H: tl.constexpr,
    W: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Load the H columns of this program's head, (BLOCK, W), with 0 in columns from H and rows from `end` on."""
    row = tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, W)[None, :]
    mask = first + row < end
    if W != H:
        mask = mask & (column < H)
    start = first * tl.cast(stride, tl.int64) + tl.program_id(1) * H
    return tl.load(matrix + start + (row * stride + column), mask=mask, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _store(
    matrix: tl.tensor,
    x: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    stride: tl.tensor,
    H: tl.constexpr,
    W: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the H columns of this program's head, from x (BLOCK, W)."""
    row = tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, W)[None, :]
    mask = first + row < end
    if W != H:
        mask = mask & (column < H)
    start = first * tl.cast(stride, tl.int64) + tl.program_id(1) * H
    tl.store(matrix + start + (row * stride + column), x.to(matrix.dtype.element_ty), mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _load_statistic(
    statistic: tl.tensor, first: tl.tensor, end: tl.tensor, rows: tl.tensor, other: tl.tensor, BLOCK: tl.constexpr
) -> tl.tensor:
    """Load one number a row, (BLOCK), of a matrix (H, N) fp32."""
    row = first + tl.arange(0, BLOCK)
    return tl.load(statistic + tl.program_id(1) * tl.cast(rows, tl.int64) + row, mask=row < end, other=other)


@triton.jit  # type: ignore[untyped-decorator]
def _store_statistic(
    statistic: tl.tensor, x: tl.tensor, first: tl.tensor, end: tl.tensor, rows: tl.tensor, BLOCK: tl.constexpr
) -> None:
    row = first + tl.arange(0, BLOCK)
    tl.store(statistic + tl.program_id(1) * tl.cast(rows, tl.int64) + row, x, mask=row < end)


@triton.jit  # type: ignore[untyped-decorator]
def _scores(
    q: tl.tensor, k: tl.tensor, query_sentences: tl.tensor, key_sentences: tl.tensor,
    first_query: tl.tensor, query_end: tl.tensor, first_key: tl.tensor, key_end: tl.tensor,
    SCALE_2: tl.constexpr, CAUSAL: tl.constexpr, BLOCK: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the scores (BLOCK queries, BLOCK keys) times log2(e), -inf where a row may not attend.

    Queries from `query_end` on and keys from `key_end` on belong to no sentence.
    """
    query = first_query + tl.arange(0, BLOCK)
    key = first_key + tl.arange(0, BLOCK)
    query_sentence = tl.load(query_sentences + query, mask=query < query_end, other=-1)
    key_sentence = tl.load(key_sentences + key, mask=key < key_end, other=-2)
    attends = query_sentence[:, None] == key_sentence[None, :]
    if CAUSAL:
        attends = attends & (key[None, :] <= query[:, None])
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * SCALE_2
    return tl.where(attends, scores, float("-inf"))


# one compilation serves all batches: neither the number of rows nor the alignment of row numbers changes the code
_compiled: Any = triton.jit(
    do_not_specialize=["rows"],
    do_not_specialize_on_alignment=["query_sentences", "key_sentences", "query_tiles", "key_tiles"],
)


@_compiled  # type: ignore[untyped-decorator]
def _forward_kernel(
    queries: tl.tensor, keys: tl.tensor, values: tl.tensor, output: tl.tensor, normalizers: tl.tensor,
    query_sentences: tl.tensor, key_sentences: tl.tensor, query_tiles: tl.tensor, key_tiles: tl.tensor,
    query_stride: tl.tensor, key_stride: tl.tensor, output_stride: tl.tensor, rows: tl.tensor,
    SCALE: tl.constexpr, SCALE_2: tl.constexpr, CAUSAL: tl.constexpr,
    HEAD_WIDTH: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Write the output of the owned queries, and for each the base-2 logarithm of its sum of exponentials.

    That is +inf for a query without keys, so that the weights that the backward pass computes from it are 0.
    """
    first, end = _owned(query_tiles, BLOCK)
    if first < end:
        key_end = tl.load(key_tiles + tl.program_id(0) + 1)
        if CAUSAL:
            key_end = end
        q = _load(queries, first, end, query_stride, HEAD_WIDTH, WIDTH, BLOCK)
        largest = tl.full([BLOCK], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK], tl.float32)
        weighted = tl.zeros([BLOCK, WIDTH], tl.float32)
        for key in range(tl.load(key_tiles + tl.program_id(0)), key_end, BLOCK):
            k = _load(keys, key, key_end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
            v = _load(values, key, key_end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
            scores = _scores(
                q, k, query_sentences, key_sentences, first, end, key, key_end, SCALE_2, CAUSAL, BLOCK
            )  # fmt: skip
            new_largest = tl.maximum(largest, tl.max(scores, 1))
            # -inf minus -inf is not a number
            subtracted = tl.where(new_largest == float("-inf"), 0.0, new_largest)
            weights = tl.exp2(scores - subtracted[:, None])
            correction = tl.exp2(largest - subtracted)
            total = total * correction + tl.sum(weights, 1)
            product = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
            weighted = weighted * correction[:, None] + product
            largest = new_largest
        is_finite = total > 0
        divisor = tl.where(is_finite, total, 1.0)
        _store(output, weighted / divisor[:, None], first, end, output_stride, HEAD_WIDTH, WIDTH, BLOCK)
        normalizer = tl.where(is_finite, largest + tl.log2(divisor), float("inf"))
        _store_statistic(normalizers, normalizer, first, end, rows, BLOCK)


# With weights P = 2^(scores - normalizer) and the gradient G of the output O:
#   dV = Pᵀ G,  dS = P (G Vᵀ - delta) with delta = Σ O G in each row,  dQ = dS K / √d,  dK = dSᵀ Q / √d


@_compiled  # type: ignore[untyped-decorator]
def _gradients_kernel(
    queries: tl.tensor, keys: tl.tensor, values: tl.tensor, output: tl.tensor, output_gradient: tl.tensor,
    normalizers: tl.tensor,
    queries_gradient: tl.tensor, keys_gradient: tl.tensor, values_gradient: tl.tensor,
    query_sentences: tl.tensor, key_sentences: tl.tensor, query_tiles: tl.tensor, key_tiles: tl.tensor,
    query_stride: tl.tensor, key_stride: tl.tensor, output_stride: tl.tensor, output_gradient_stride: tl.tensor,
    query_gradient_stride: tl.tensor, key_gradient_stride: tl.tensor, rows: tl.tensor,
    SCALE: tl.constexpr, SCALE_2: tl.constexpr, CAUSAL: tl.constexpr,
    HEAD_WIDTH: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Write all gradients of a tile that is one block on both sides.

    This needs five products, the two kernels for longer sentences need seven.
    """
    query, query_end = _owned(query_tiles, BLOCK)
    key, key_end = _owned(key_tiles, BLOCK)
    if (query < query_end) | (key < key_end):
        q = _load(queries, query, query_end, query_stride, HEAD_WIDTH, WIDTH, BLOCK)
        k = _load(keys, key, key_end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
        v = _load(values, key, key_end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
        o = _load(output, query, query_end, output_stride, HEAD_WIDTH, WIDTH, BLOCK)
        g = _load(output_gradient, query, query_end, output_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)
        normalizer = _load_statistic(normalizers, query, query_end, rows, float("inf"), BLOCK)
        scores = _scores(
            q, k, query_sentences, key_sentences, query, query_end, key, key_end, SCALE_2, CAUSAL, BLOCK
        )  # fmt: skip
        weights = tl.exp2(scores - normalizer[:, None])
        dv = tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
        _store(values_gradient, dv, key, key_end, key_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)
        delta = tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)
        ds = (weights * (tl.dot(g, tl.trans(v), input_precision="ieee") - delta[:, None])).to(q.dtype)
        dq = tl.dot(ds, k, input_precision="ieee") * SCALE
        _store(queries_gradient, dq, query, query_end, query_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)
        dk = tl.dot(tl.trans(ds), q, input_precision="ieee") * SCALE
        _store(keys_gradient, dk, key, key_end, key_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)


@_compiled  # type: ignore[untyped-decorator]
def _query_gradients_kernel(
    queries: tl.tensor, keys: tl.tensor, values: tl.tensor, output: tl.tensor, output_gradient: tl.tensor,
    normalizers: tl.tensor, deltas: tl.tensor,
    queries_gradient: tl.tensor,
    query_sentences: tl.tensor, key_sentences: tl.tensor, query_tiles: tl.tensor, key_tiles: tl.tensor,
    query_stride: tl.tensor, key_stride: tl.tensor, output_stride: tl.tensor, output_gradient_stride: tl.tensor,
    query_gradient_stride: tl.tensor, key_gradient_stride: tl.tensor, rows: tl.tensor,
    SCALE: tl.constexpr, SCALE_2: tl.constexpr, CAUSAL: tl.constexpr,
    HEAD_WIDTH: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Write the gradients and the deltas of the owned queries."""
    first, end = _owned(query_tiles, BLOCK)
    if first < end:
        key_end = tl.load(key_tiles + tl.program_id(0) + 1)
        if CAUSAL:
            key_end = end
        q = _load(queries, first, end, query_stride, HEAD_WIDTH, WIDTH, BLOCK)
        o = _load(output, first, end, output_stride, HEAD_WIDTH, WIDTH, BLOCK)
        g = _load(output_gradient, first, end, output_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)
        normalizer = _load_statistic(normalizers, first, end, rows, float("inf"), BLOCK)
        delta = tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)
        _store_statistic(deltas, delta, first, end, rows, BLOCK)
        dq = tl.zeros([BLOCK, WIDTH], tl.float32)
        for key in range(tl.load(key_tiles + tl.program_id(0)), key_end, BLOCK):
            k = _load(keys, key, key_end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
            v = _load(values, key, key_end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
            scores = _scores(
                q, k, query_sentences, key_sentences, first, end, key, key_end, SCALE_2, CAUSAL, BLOCK
            )  # fmt: skip
            weights = tl.exp2(scores - normalizer[:, None])
            ds = weights * (tl.dot(g, tl.trans(v), input_precision="ieee") - delta[:, None])
            dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
        _store(queries_gradient, dq * SCALE, first, end, query_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)


@_compiled  # type: ignore[untyped-decorator]
def _key_gradients_kernel(
    queries: tl.tensor, keys: tl.tensor, values: tl.tensor, output_gradient: tl.tensor, normalizers: tl.tensor,
    deltas: tl.tensor,
    keys_gradient: tl.tensor, values_gradient: tl.tensor,
    query_sentences: tl.tensor, key_sentences: tl.tensor, query_tiles: tl.tensor, key_tiles: tl.tensor,
    query_stride: tl.tensor, key_stride: tl.tensor, output_stride: tl.tensor, output_gradient_stride: tl.tensor,
    query_gradient_stride: tl.tensor, key_gradient_stride: tl.tensor, rows: tl.tensor,
    SCALE: tl.constexpr, SCALE_2: tl.constexpr, CAUSAL: tl.constexpr,
    HEAD_WIDTH: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Write the gradients of the owned keys and values."""
    first, end = _owned(key_tiles, BLOCK)
    if first < end:
        first_query = tl.load(query_tiles + tl.program_id(0))
        query_end = tl.load(query_tiles + tl.program_id(0) + 1)
        if CAUSAL:
            first_query = first
        k = _load(keys, first, end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
        v = _load(values, first, end, key_stride, HEAD_WIDTH, WIDTH, BLOCK)
        dk = tl.zeros([BLOCK, WIDTH], tl.float32)
        dv = tl.zeros([BLOCK, WIDTH], tl.float32)
        for query in range(first_query, query_end, BLOCK):
            q = _load(queries, query, query_end, query_stride, HEAD_WIDTH, WIDTH, BLOCK)
            g = _load(output_gradient, query, query_end, output_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)
            normalizer = _load_statistic(normalizers, query, query_end, rows, float("inf"), BLOCK)
            delta = _load_statistic(deltas, query, query_end, rows, 0.0, BLOCK)
            scores = _scores(
                q, k, query_sentences, key_sentences, query, query_end, first, end, SCALE_2, CAUSAL, BLOCK
            )  # fmt: skip
            weights = tl.exp2(scores - normalizer[:, None])
            dv += tl.dot(tl.trans(weights.to(g.dtype)), g, input_precision="ieee")
            ds = weights * (tl.dot(g, tl.trans(v), input_precision="ieee") - delta[:, None])
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
        _store(keys_gradient, dk * SCALE, first, end, key_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)
        _store(values_gradient, dv, first, end, key_gradient_stride, HEAD_WIDTH, WIDTH, BLOCK)
