"""Kernels for CPUs in C++.

products.cpp has products with constant weights, layers.cpp the layers of a search and search.cpp the rest of it, all
for inference; attention_rows.cpp has attention of all rows of a batch, forward and backward. They are for
Linux on processors with AVX2 or AVX-512. Where `library` returns None, callers compute the same with torch.

N rows, I inputs, O outputs, V vocabulary; B sentences, K places for hypotheses of each, P positions, D width, H heads.
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.batching.batch import Rows
from nmt.kernels.compiling import library
from nmt.kernels.reference import Cells, DecoderWeights, LayerWeights, Places, SearchRules, rotary_angles

_LONG, _POINTER, _BOOL, _FLOAT = ctypes.c_long, ctypes.c_void_p, ctypes.c_bool, ctypes.c_float
_MULTIPLY = ctypes.CFUNCTYPE(None, *[_POINTER] * 4, _LONG, _BOOL)
_DECODE = ctypes.CFUNCTYPE(None, *[_POINTER] * 7, _LONG)
_SCRATCH = ctypes.CFUNCTYPE(_LONG, _LONG, _LONG)
_DEPTHS = {"fp32": 1, "bf16": 2}  # numbers in 32 bits; those in 8 bits depend on the processor
_OUTPUTS, _INPUTS = 64, 16  # of a product are multiples of these
_ACTIVATIONS = ("relu", "gelu", "swish", "swiglu")
_ROWS, _AMX_ROWS = (1, 96), (32, 128)  # rows of tiles of a product, and rows that are converted together
_TILES = "multiply_tiles_bf16"
_BLOCK = 128  # rows whose logits are computed at a time in a search
_STEPS = 16  # of a search in one call, which signals do not interrupt


# products


def quantized(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows (N, I) as eight-bit integers, and the scales (N, 1) with which the largest number of each is 127."""
    scales = rows.abs().amax(1, keepdim=True).clamp_(min=1e-30) / 127  # also of a row of zeros not zero
    return (rows / scales).round_().to(torch.int8), scales


@functools.cache
def _has_amx() -> bool:
    """Whether the processor multiplies tiles of bf16 numbers, and the operating system lets this process do so."""
    return getattr(torch.cpu, "_is_amx_tile_supported", bool)() and getattr(torch.cpu, "_init_amx", bool)()


class ConstantProduct:
    """The linear map x W^T + b of fp32 x (..., I), with `relu` followed by ReLU, for a constant W (O, I) and b (O)."""

    def __init__(self, weight: Tensor, bias: Tensor | None, precision: str, function: str) -> None:
        loaded = library()
        assert loaded is not None
        outputs, inputs = weight.shape
        depth = _DEPTHS.get(precision) or _LONG.in_dll(loaded, "int8_depth").value
        weight, bias = weight.float(), torch.zeros(outputs) if bias is None else bias.float().contiguous()
        numbers, scales, start = weight, torch.ones(outputs), torch.zeros(outputs, dtype=torch.int32)
        if precision == "bf16":
            numbers = weight.bfloat16()
        elif precision == "int8":
            numbers, scales = quantized(weight)
            start = numbers.sum(1, dtype=torch.int32) * -_LONG.in_dll(loaded, "zero_point").value
        width = _LONG.in_dll(loaded, "outputs_of_tile").value
        tiles = numbers.view(outputs // width, width, inputs // depth, depth).transpose(1, 2).contiguous()
        self.outputs, self._tensors = outputs, (tiles, scales, bias, start)
        self._multiply = _MULTIPLY.in_dll(loaded, function)
        address = ctypes.cast(self._multiply, _POINTER).value or 0
        self._struct = (_LONG * 7)(*(tensor.data_ptr() for tensor in self._tensors), inputs, outputs, address)
        self.address = ctypes.addressof(self._struct)
        self._rows = _AMX_ROWS if function == _TILES else _ROWS
        self._converted = inputs // depth

    def scratch(self, rows: int) -> int:
        """Return how many numbers in 32 bits the converted inputs of so many rows take."""
        tile_rows, block_rows = self._rows
        return min(block_rows, -(-rows // tile_rows) * tile_rows) * self._converted

    def __call__(self, x: Tensor, relu: bool = False) -> Tensor:
        x = x.float().contiguous()
        out = self._tensors[1].new_empty(*x.shape[:-1], self.outputs)
        rows = out.numel() // self.outputs
        scratch = x.new_empty(self.scratch(rows))
        pointers = scratch.data_ptr(), out.data_ptr(), x.data_ptr()
        self._multiply(self.address, *pointers, rows, relu)
        return out


def product(weight: Tensor, bias: Tensor | None, precision: str) -> ConstantProduct | None:
    """Return the linear map of a constant weight (O, I) and bias (O), or None if there is no kernel for it."""
    loaded, (outputs, inputs) = library(), weight.shape
    if loaded is None or outputs % _OUTPUTS or inputs % _INPUTS:
        return None
    with_amx = precision == "bf16" and inputs % (2 * _INPUTS) == 0 and _has_amx() and hasattr(loaded, _TILES)
    return ConstantProduct(weight, bias, precision, _TILES if with_amx else f"multiply_{precision}")


# steps of a search


class _Struct(ctypes.Structure):
    # A tensor that it points to. A cache may drop it: two threads that make an entry at a time get two, one is kept.
    table: Tensor | None = None


class _Layers(_Struct):
    _fields_ = (
        *((name, _POINTER) for name in ("layers", "last_weight", "last_bias", "rotations")),
        *((name, _LONG) for name in ("count", "dim", "heads", "inner", "activation", "is_pre_norm")),
        ("epsilon", _FLOAT),
    )


class Layers:
    """The layers of an encoder or a decoder, see `Kernels.encoder`."""

    def __init__(self, weights: LayerWeights) -> None:
        loaded, settings = library(), weights.settings
        assert loaded is not None
        self._weights, self._encode = weights, loaded.encode
        products = [product for layer in weights.products for product in layer if product is not None]
        addresses = [
            [0 if product is None else product.address for product in products]
            + [pointer for norm in norms for pointer in _pointers(norm)]
            for products, norms in zip(weights.products, weights.norms, strict=True)
        ]
        self._layers = (_LONG * (12 * len(addresses)))(*(address for layer in addresses for address in layer))
        self._dim, self._heads, self._is_rotary = settings.dim, settings.heads, settings.positions == "rotary"
        # the outputs of the widest product, and the inputs of the one that converts most of a row
        self._wide = max(product.outputs for product in products)
        self._scratch_of_products = max(products, key=lambda product: product.scratch(1)).scratch
        self._scratch_of_attention = _SCRATCH(("attention_scratch", loaded))
        activation, is_pre = _ACTIVATIONS.index(settings.activation), settings.norm == "pre"
        self._sizes = len(addresses), self._dim, self._heads, settings.feed_forward, activation, is_pre

    def encode(self, x: Tensor, rows: Rows) -> Tensor:
        """Return memory (M, D) for the embeddings of source rows."""
        width = self._dim // self._heads
        offsets, sizes = rows.offsets, (len(rows.lengths), self._heads, width, rows.longest, 1, False)
        assert (offsets.dtype == np.int64, offsets.flags.c_contiguous, offsets[-1]) == (True, True, len(x))
        attention = (_LONG * 22)(*[0] * 9, offsets.ctypes.data, offsets.ctypes.data, *[0] * 5, *sizes)
        x = x.to(torch.float32, copy=True)
        scratch = self._scratch(len(x), self._scratch_of_attention(width, rows.longest))
        self._encode(ctypes.byref(self._struct(rows.longest)), attention, *_addresses(x, scratch))
        return x

    def _scratch(self, rows: int, least: int, before: int = 0) -> Tensor:
        """Return scratch for the layers of so many rows, behind other scratch."""
        of_products = max(least, self._scratch_of_products(rows))
        return torch.empty(before + rows * (3 * self._dim + self._wide) + of_products)

    def _struct(self, longest: int) -> _Layers:
        """Return the arguments that are the same in each call, for positions below `longest`."""
        rotations = _rotations(1 << longest.bit_length(), self._dim // self._heads) if self._is_rotary else None
        address = 0 if rotations is None else rotations.data_ptr()
        pointers = ctypes.addressof(self._layers), *_pointers(self._weights.last_norm), address
        struct = _Layers(*pointers, *self._sizes, self._weights.settings.norm_epsilon)
        struct.table = rotations
        return struct


class _Embedding(_Struct):
    _fields_ = (("tokens", _POINTER), ("positions", _POINTER), ("last", _LONG), ("scale", _FLOAT))


class _Output(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("product", "screen", "weights", "bias")),
        *((name, _LONG) for name in ("vocabulary", "is_bf16")),
    )


class _Rules(ctypes.Structure):
    _fields_ = (
        ("penalties", _POINTER),
        *((name, _LONG) for name in ("candidates", "growth", "is_greedy", "is_normalized")),
        ("margin", _FLOAT),
    )


class Decoder(Layers):
    """The decoder in a search, see `nmt.kernels.reference.Decoder`."""

    def __init__(self, weights: DecoderWeights, precision: str) -> None:
        super().__init__(weights.layers)
        self._decoder, self._precision, loaded = weights, precision, library()
        assert loaded is not None
        names = {torch.float32: "decode_fp32", torch.bfloat16: "decode_bf16"}
        self._decode = {dtype: _DECODE.in_dll(loaded, name) for dtype, name in names.items()}
        self._search = loaded.search_hypotheses

    def step(self, tokens: Tensor, target: Cells, source: Cells) -> Tensor:
        """Return hidden states (N, D) for the newest tokens in all places (B, K)."""
        assert (tokens.dtype, tokens.is_contiguous()) == (torch.int64, True)
        rows = len(target[1].rows)
        arguments, longest = self._arguments(target, source)
        x = tokens.new_empty(rows, self._dim, dtype=torch.float32)
        scratch = self._scratch(rows, (2 + self._heads) * longest)
        layers, embedding, places, cells = arguments
        pointers = ctypes.addressof(layers), ctypes.addressof(embedding), tokens.data_ptr(), places, cells
        self._decode[target[0][0].dtype](*pointers, x.data_ptr(), scratch.data_ptr(), rows)
        return x

    def search(self, beams: Any, target: Cells, source: Cells, rules: SearchRules) -> None:
        """Extend all hypotheses by several tokens."""
        weights, (layers, embedding, places, cells), longest = self._decoder, *self._arguments(target, source)
        screen = self._screen if rules.is_greedy and not rules.log_probs else None
        state = (
            beams.log_probs, beams.tokens, beams.lengths, beams.limits, beams.history, beams.finished,
            beams.finished_log_probs, beams.finished_lengths, beams.finished_tokens,
        )  # fmt: skip
        assert all(tensor.is_contiguous() for tensor in state)
        beam, best, positions = beams.log_probs.size(1), beams.finished.size(1), beams.history.size(3)
        struct = (_LONG * 13)(*(tensor.data_ptr() for tensor in state), len(beams.lengths), beam, best, positions)
        output = _Output(
            weights.product.address, 0 if screen is None else screen[0].address,
            0 if screen is None else screen[1].data_ptr(), 0 if weights.bias is None else weights.bias.data_ptr(),
            weights.vocabulary, self._precision == "bf16",
        )  # fmt: skip
        candidates, is_normalized = 1 if rules.is_greedy else beam + 1, rules.log_probs or not rules.is_greedy
        of_rules = _Rules(
            rules.penalties.data_ptr(), candidates, rules.growth, rules.is_greedy, is_normalized, rules.margin
        )
        rows = beams.log_probs.numel()
        of_products = max(one.scratch(rows) for one in (weights.product, *(screen or ())[:1]))
        before = rows * self._dim + min(rows, _BLOCK) * weights.product.outputs  # hidden states and logits
        scratch = self._scratch(rows, max(of_products, (2 + self._heads) * longest), before)
        decode = ctypes.byref(self._decode[target[0][0].dtype])
        structs = (ctypes.byref(one) for one in (layers, embedding, output))
        self._search(
            decode, *structs, struct, ctypes.byref(of_rules), places, cells, *_addresses(scratch), _LONG(_STEPS)
        )

    def _arguments(self, target: Cells, source: Cells) -> tuple[tuple[Any, ...], int]:
        """Return layers, embedding, places and cells for a kernel, and the number of positions of the cells."""
        (targets, places), (sources, source_places), weights = target, source, self._decoder
        longest = max(len(targets[0]), len(sources[0]))
        table = weights.positions(longest)
        last, address = (0, 0) if table is None else (len(table) - 1, table.data_ptr())
        embedding = _Embedding(weights.tokens.data_ptr(), address, last, weights.scale)
        embedding.table = table
        both = *_checked_places(targets, places), *_checked_places(sources, source_places)
        cells = [tensor.data_ptr() for pair in zip(targets, sources, strict=True) for tensor in pair]
        arrays = (_LONG * len(both))(*both), (_LONG * len(cells))(*cells)
        return (self._struct(longest), embedding, *arrays), longest

    @functools.cached_property
    def _screen(self) -> tuple[ConstantProduct, Tensor] | None:
        """The product to logits in eight bits, and the weights that refine the largest of them.

        Those at most 2 below the largest are as precise as in the other products, the rest have errors of hundredths.
        """
        weights = self._decoder
        screen = (
            None if self._precision == "int8" or weights.bias is not None else product(weights.matrix, None, "int8")
        )
        dtype = torch.bfloat16 if self._precision == "bf16" else torch.float32
        return None if screen is None else (screen, weights.matrix.to(dtype).float().contiguous())


def has_kernels(weights: LayerWeights) -> bool:
    """Return whether all products and the score of attention have a kernel."""
    settings, products = weights.settings, [product for layer in weights.products for product in layer]
    scores = settings.attention_score == "scaled_dot" and settings.positions != "relative"
    return scores and all(product is None or isinstance(product, ConstantProduct) for product in products)


def _pointers(norm: nn.LayerNorm | None) -> tuple[int, int]:
    if norm is None:
        return 0, 0
    assert norm.weight.dtype == norm.bias.dtype == torch.float32
    return norm.weight.data_ptr(), norm.bias.data_ptr()


@functools.cache
def _rotations(positions: int, width: int) -> Tensor:
    """Return the cosines and the sines of the angles of each position, (P, d)."""
    angles = rotary_angles(torch.arange(positions), width, torch.empty(0))
    return torch.cat([angles.cos(), angles.sin()], dim=1)


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
    scratch = torch.empty(threads, _SCRATCH(("attention_scratch", loaded))(width, longest))
    pointers = [tensor.data_ptr() for tensor in (*parts, output, *(gradients or parts), logsumexp, scratch)]
    of_gradients = [tensor.stride(0) for tensor in (gradients or parts)[:2]]
    strides = [queries.stride(0), keys.stride(0), output.stride(0), *of_gradients]
    sizes = len(layout.queries) - 1, layout.heads, width, longest, threads, layout.causal
    arguments = (_LONG * 22)(*pointers, layout.queries.ctypes.data, layout.keys.ctypes.data, *strides, *sizes)
    kernel = loaded.attend_rows_bf16 if queries.dtype == torch.bfloat16 else loaded.attend_rows_fp32
    kernel(arguments, ctypes.c_bool(gradients is not None))
