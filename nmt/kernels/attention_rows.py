"""Attention of all rows of a batch in C++ (attention_rows.cpp), forward and backward, on tensors.

N and M rows of two sides, B sentences, D width, H heads.
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.kernels.compiling import checked, library
from nmt.kernels.reference import parts_of

_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p

Offsets = NDArray[np.int64]  # (B+1): the first row of each sentence, and the number of rows


class Layout(NamedTuple):
    """Where the sentences of a batch are in the rows of both sides, and what a query attends to in its sentence."""

    queries: Offsets
    keys: Offsets
    heads: int
    causal: bool = False  # whether a query attends only to the keys up to its own place in the sentence


def attend(queries: Tensor, keys_values: Tensor | None, layout: Layout) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V (N, D) of each sentence and head; differentiable.

    Queries are (N, D), keys and values side by side (M, 2D); if these are None, queries, keys and values are side by
    side in queries (N, 3D). Both are fp32 or bf16, and may be columns of wider matrices. Sums are fp32, the result has
    the type of the queries. A query without keys gives 0. The result does not depend on the number of threads.
    """
    output: Tensor = _Attention.apply(queries, keys_values, layout)  # type: ignore[no-untyped-call]
    return output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys_values: Tensor | None, layout: Layout) -> Tensor:
        parts = parts_of(queries, keys_values)
        output = queries.new_empty(parts[0].shape)
        logsumexp = queries.new_empty(len(queries), layout.heads, dtype=torch.float32)  # of the softmax
        _attend_rows(parts, output, logsumexp, layout, None)
        ctx.save_for_backward(queries, keys_values, logsumexp)
        ctx.layout = layout
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        queries, keys_values, logsumexp = ctx.saved_tensors
        queries_gradient = queries.new_empty(queries.shape)
        keys_values_gradient = None if keys_values is None else keys_values.new_empty(keys_values.shape)
        gradient = gradients[0] if gradients[0].stride(-1) == 1 else gradients[0].contiguous()
        part_gradients = parts_of(queries_gradient, keys_values_gradient)
        _attend_rows(parts_of(queries, keys_values), gradient, logsumexp, ctx.layout, part_gradients)
        return queries_gradient, keys_values_gradient, None


def _attend_rows(
    parts: tuple[Tensor, ...], output: Tensor, logsumexp: Tensor, layout: Layout, gradients: tuple[Tensor, ...] | None
) -> None:
    """Write output and logsumexp; or, with `gradients`, write those, and `output` is the gradient of the output."""
    queries, keys, _ = parts
    loaded, threads = library(), torch.get_num_threads()
    assert loaded is not None
    width, longest = queries.size(1) // layout.heads, int(np.diff(layout.keys).max(initial=0))
    for tensor in (*parts, output):
        assert (tensor.dtype, tensor.stride(1), tensor.size(1)) == (queries.dtype, 1, layout.heads * width)
    assert (output.shape, logsumexp.shape) == (queries.shape, (len(queries), layout.heads))
    for offsets, rows in ((layout.queries, queries), (layout.keys, keys)):
        assert (offsets.dtype.name, offsets.shape) == ("int64", layout.queries.shape)
        assert offsets.flags.c_contiguous
        assert (offsets[0], offsets[-1]) == (0, len(rows))
        assert (np.diff(offsets) >= 0).all()
    pointers = [tensor.data_ptr() for tensor in (*parts, output, *(gradients or parts), logsumexp)]
    gradient_strides = [tensor.stride(0) for tensor in (gradients or parts)[:2]]
    strides = [queries.stride(0), keys.stride(0), output.stride(0), *gradient_strides]
    sizes = len(layout.queries) - 1, layout.heads, width, longest, threads, layout.causal
    arguments = (_LONG * 21)(*pointers, layout.queries.ctypes.data, layout.keys.ctypes.data, *strides, *sizes)
    assert queries.dtype in (torch.float32, torch.bfloat16)
    kernel = loaded.attend_rows_bf16 if queries.dtype == torch.bfloat16 else loaded.attend_rows_fp32
    checked(kernel(arguments, ctypes.c_bool(gradients is not None)))
