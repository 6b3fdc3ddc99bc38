"""The kernels in C++ on tensors: products, the encoder and single steps of searches, and attention of a batch.

layers.cpp has the encoder and the steps, of searches that `nmt.kernels.native` does not do as a whole;
attention_rows.cpp has attention of all rows of a batch, forward and backward.

N rows, I inputs, O outputs; B sentences, K places for hypotheses of each, P positions, D width, H heads.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.kernels.compiling import library
from nmt.kernels.constant_products import ConstantProduct
from nmt.kernels.native import SCRATCH, NativeModel
from nmt.kernels.reference import Cells, Places

_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p
_DECODE = ctypes.CFUNCTYPE(None, *[_POINTER] * 7, _LONG)


@dataclass(frozen=True)
class TensorProduct:
    """A product of tensors with a constant weight."""

    native: ConstantProduct

    def __call__(self, x: Tensor, relu: bool = False) -> Tensor:
        """Map (..., I) to (..., O), followed by ReLU if asked for."""
        x = x.float().contiguous()
        out = x.new_empty(*x.shape[:-1], self.native.outputs)
        self.native.multiply(out.data_ptr(), x.data_ptr(), out.numel() // self.native.outputs, relu)
        return out


class NativeLayers(NativeModel):
    """Also the encoder alone, and the decoder in single steps; see `nmt.kernels.reference.ModelKernels`."""

    def encode(self, x: Tensor, rows: Rows) -> Tensor:
        """Return memory (M, D) for the embeddings of source rows."""
        width, offsets = self._dim // self._heads, rows.offsets
        assert (offsets.dtype == np.int64, offsets.flags.c_contiguous, offsets[-1]) == (True, True, len(x))
        sizes = len(rows.lengths), self._heads, width, rows.longest, 1, False
        attention = (_LONG * 22)(*[0] * 9, offsets.ctypes.data, offsets.ctypes.data, *[0] * 5, *sizes)
        x = x.to(torch.float32, copy=True)
        scratch = torch.empty(self._scratch(len(x), self._scratch_of_attention(width, rows.longest)))
        self._encode(ctypes.byref(self._arguments(rows.longest).encoder), attention, *_addresses(x, scratch))
        return x

    def step(self, tokens: Tensor, target: Cells, source: Cells) -> Tensor:
        """Return hidden states (N, D) for the newest tokens in all places (B, K)."""
        (targets, places), (sources, source_places) = target, source
        assert (tokens.dtype, tokens.is_contiguous()) == (torch.int64, True)
        rows, longest = len(places.rows), max(len(targets[0]), len(sources[0]))
        both = *_checked_places(targets, places), *_checked_places(sources, source_places)
        cells = [tensor.data_ptr() for pair in zip(targets, sources, strict=True) for tensor in pair]
        arrays = (_LONG * len(both))(*both), (_LONG * len(cells))(*cells)
        x = tokens.new_empty(rows, self._dim, dtype=torch.float32)
        scratch, arguments = torch.empty(self._scratch(rows, (2 + self._heads) * longest)), self._arguments(longest)
        pointers = ctypes.addressof(arguments.decoder), ctypes.addressof(arguments.target), tokens.data_ptr(), *arrays
        loaded, name = library(), {torch.float32: "decode_fp32", torch.bfloat16: "decode_bf16"}[targets[0].dtype]
        assert loaded is not None
        _DECODE.in_dll(loaded, name)(*pointers, x.data_ptr(), scratch.data_ptr(), rows)
        return x


def _checked_places(cells: Sequence[Tensor], places: Places) -> list[int]:
    """Return what the kernel reads of places, for cells that they belong to."""
    first, lengths, ancestors = cells[0], places.lengths, places.ancestors
    positions, sentences, beam, _ = first.shape
    assert all((of.dtype, of.shape, of.stride()) == (first.dtype, first.shape, first.stride()) for of in cells)
    assert first.stride(3) == 1
    assert (beam, sentences) == (1 if ancestors is None else places.beam, len(lengths))
    assert (places.rows.dtype, places.rows.stride(), lengths.dtype, lengths.stride()) == (torch.int64, (1,)) * 2
    pointers = [places.rows.data_ptr(), lengths.data_ptr(), 0 if ancestors is None else ancestors.data_ptr()]
    if ancestors is not None:
        assert (ancestors.dtype, ancestors.shape) == (torch.int32, (sentences, beam, positions))
        assert (ancestors.stride(2), ancestors.stride(0)) == (1, beam * ancestors.stride(1))
    return [*pointers, *first.stride()[:3], 0 if ancestors is None else ancestors.stride(1), places.beam, positions]


def _addresses(*tensors: Tensor) -> list[ctypes.c_void_p]:
    return [_POINTER(tensor.data_ptr()) for tensor in tensors]


Offsets = NDArray[np.int64]  # (B+1): the first row of each sentence, and their number


class Layout(NamedTuple):
    """Which rows attend to which: those of a sentence to those of the same sentence."""

    queries: Offsets
    keys: Offsets
    heads: int
    causal: bool = False  # whether a query attends only to the keys up to its own place in the sentence


def attend_rows(queries: Tensor, keys_values: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return softmax(Q K^T / sqrt(d)) V (N, D) of each sentence and head, and the log of the softmax's sums (N, H).

    Queries are (N, D), keys and values side by side (M, 2D); if these are None, queries, keys and values are side by
    side in queries (N, 3D). Both are fp32 or bf16, and may be columns of wider matrices. Sums are fp32, the result has
    the type of the queries. A query without keys gives 0. The result does not depend on the number of threads.
    """
    parts = _parts(queries, keys_values)
    output = queries.new_empty(parts[0].shape)
    logsumexp = queries.new_empty(len(queries), layout.heads, dtype=torch.float32)
    _attend_rows(parts, output, logsumexp, layout, None)
    return output, logsumexp


def attend_rows_backward(
    gradient: Tensor, queries: Tensor, keys_values: Tensor | None, logsumexp: Tensor, layout: Layout
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of the arguments `queries` and `keys_values` of `attend_rows`, in their types.

    They follow from the gradient of its output (N, D), of the same type, and the second of its results (N, H).
    """
    to_queries = queries.new_empty(queries.shape)
    to_keys_values = None if keys_values is None else keys_values.new_empty(keys_values.shape)
    gradient = gradient if gradient.stride(-1) == 1 else gradient.contiguous()
    gradients = _parts(to_queries, to_keys_values)
    _attend_rows(_parts(queries, keys_values), gradient, logsumexp, layout, gradients)
    return to_queries, to_keys_values


_Parts = tuple[Tensor, Tensor, Tensor]


def _parts(queries: Tensor, keys_values: Tensor | None) -> _Parts:
    """Return views of queries (N, D), keys (M, D) and values (M, D)."""
    if keys_values is None:
        queries, keys, values = queries.chunk(3, dim=1)
    else:
        keys, values = keys_values.chunk(2, dim=1)
    return queries, keys, values


def _attend_rows(parts: _Parts, output: Tensor, logsumexp: Tensor, layout: Layout, gradients: _Parts | None) -> None:
    """Compute output and logsumexp, or from the gradient of the output those of the parts."""
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
    scratch = torch.empty(threads, SCRATCH(("attention_scratch", loaded))(width, longest))
    pointers = [tensor.data_ptr() for tensor in (*parts, output, *(gradients or parts), logsumexp, scratch)]
    of_gradients = [tensor.stride(0) for tensor in (gradients or parts)[:2]]
    strides = [queries.stride(0), keys.stride(0), output.stride(0), *of_gradients]
    sizes = len(layout.queries) - 1, layout.heads, width, longest, threads, layout.causal
    arguments = (_LONG * 22)(*pointers, layout.queries.ctypes.data, layout.keys.ctypes.data, *strides, *sizes)
    kernel = loaded.attend_rows_bf16 if queries.dtype == torch.bfloat16 else loaded.attend_rows_fp32
    kernel(arguments, ctypes.c_bool(gradients is not None))
