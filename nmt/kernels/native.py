"""Kernels for CPUs in C++.

products.cpp has products with constant weights, layers.cpp the layers of a search and search.cpp the rest of it, all
for inference; attention_rows.cpp has attention of all rows of a batch, forward and backward. They are for
Linux on processors with AVX2 or AVX-512. Where `library` returns None, callers compute the same with torch.

N rows, I inputs, O outputs, V vocabulary; B sentences, K places for hypotheses of each, P positions, D width, H heads.
"""

import ctypes
import functools
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.batching.batch import Rows
from nmt.kernels.compiling import library
from nmt.kernels.reference import Cells, Finished, LayerWeights, ModelWeights, Places, SearchRules, rotary_angles

_LONG, _POINTER, _BOOL, _FLOAT = ctypes.c_long, ctypes.c_void_p, ctypes.c_bool, ctypes.c_float
_MULTIPLY = ctypes.CFUNCTYPE(None, *[_POINTER] * 4, _LONG, _BOOL)
_DECODE = ctypes.CFUNCTYPE(None, *[_POINTER] * 7, _LONG)
_SCRATCH = ctypes.CFUNCTYPE(_LONG, _LONG, _LONG)
_DEPTHS = {"fp32": 1, "bf16": 2}  # numbers in 32 bits; those in 8 bits depend on the processor
_OUTPUTS, _INPUTS = 64, 16  # of a product are multiples of these
_ACTIVATIONS = ("relu", "gelu", "swish", "swiglu")
_TILES = "multiply_tiles_bf16"
_ROWS, _AMX_ROWS = (1, "rows_of_block"), (32, "rows_of_tile_block")  # of a tile of a product, and converted together
ENCODER_ROWS = 1024  # that are encoded at a time: of so many, the feed-forward layers fit in the cache of a core
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
        tile_rows, block_rows = _AMX_ROWS if function == _TILES else _ROWS
        self._rows = tile_rows, _LONG.in_dll(loaded, block_rows).value
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


# searches


class _Stack(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("layers", "last_weight", "last_bias", "rotations")),
        *((name, _LONG) for name in ("count", "dim", "heads", "inner", "activation", "is_pre_norm")),
        ("epsilon", _FLOAT),
    )


class _Embedding(ctypes.Structure):
    _fields_ = (("tokens", _POINTER), ("positions", _POINTER), ("last", _LONG), ("scale", _FLOAT))


class _Output(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("product", "screen", "weights", "bias")),
        *((name, _LONG) for name in ("vocabulary", "rounds_inputs")),
    )


class _Model(ctypes.Structure):
    # What it points to is kept here, since of what two threads make at a time, a cache keeps one.
    tables: Sequence[Tensor | None] = ()
    outputs: Sequence[ConstantProduct] = ()
    _fields_ = (
        *(("encoder", _Stack), ("decoder", _Stack), ("source", _Embedding), ("target", _Embedding)),
        *(("output", _Output), ("key_values", _POINTER), ("has_bf16_cells", _LONG)),
    )


class _Rules(ctypes.Structure):
    _fields_ = (
        ("penalties", _POINTER),
        *((name, _LONG) for name in ("candidates", "growth", "is_greedy", "is_normalized")),
        ("margin", _FLOAT),
    )


_STATE = {  # as `nmt.decoding.beam.Beams`
    "log_probs": np.float32, "tokens": np.int64, "lengths": np.int64, "limits": np.int64, "history": np.int32,
    "finished": np.float32, "finished_log_probs": np.float32, "finished_lengths": np.int64, "finished_tokens": np.int32,
}  # fmt: skip


class _Beams(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in _STATE),
        *((name, _LONG) for name in ("sentences", "beam", "best", "positions")),
    )


class _Search(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("ids", "offsets", "source_lengths")),
        *(("longest", _LONG), ("beams", _Beams), ("rules", _Rules), ("cells", _POINTER), ("scratch", _POINTER)),
    )


class ModelKernels:
    """All layers of a model, see `nmt.kernels.reference.ModelKernels`."""

    def __init__(self, weights: ModelWeights, precision: str) -> None:
        self._weights, self._precision, loaded = weights, precision, library()
        assert loaded is not None
        self._encode, self._begin, self._continue = loaded.encode, loaded.begin_search, loaded.continue_search
        self._continue.restype, self._rows_of_logits = _BOOL, _LONG.in_dll(loaded, "rows_of_logits").value
        names = {torch.float32: "decode_fp32", torch.bfloat16: "decode_bf16"}
        self._decode = {dtype: _DECODE.in_dll(loaded, name) for dtype, name in names.items()}
        self._scratch_of_attention = _SCRATCH(("attention_scratch", loaded))
        self._dim, self._heads = weights.decoder.settings.dim, weights.decoder.settings.heads
        self._layers = [_addresses_of(layers) for layers in (weights.encoder, weights.decoder)]
        self._key_values = (_LONG * len(weights.key_values))(*(product.address for product in weights.key_values))
        products: list[ConstantProduct] = [
            product for layers in weights[:2] for layer in layers.products for product in layer if product
        ]
        # the outputs of the widest product, and the inputs of the one that converts most of a row
        self._wide = max(product.outputs for product in products)
        self._converts_most = max(products, key=lambda product: product.scratch(1))
        self._models = dict[tuple[int, bool], _Model]()

    def encode(self, x: Tensor, rows: Rows) -> Tensor:
        """Return memory (M, D) for the embeddings of source rows."""
        width, offsets = self._dim // self._heads, rows.offsets
        assert (offsets.dtype == np.int64, offsets.flags.c_contiguous, offsets[-1]) == (True, True, len(x))
        sizes = len(rows.lengths), self._heads, width, rows.longest, 1, False
        attention = (_LONG * 22)(*[0] * 9, offsets.ctypes.data, offsets.ctypes.data, *[0] * 5, *sizes)
        x = x.to(torch.float32, copy=True)
        scratch = torch.empty(self._scratch(len(x), self._scratch_of_attention(width, rows.longest)))
        self._encode(ctypes.byref(self._model(rows.longest).encoder), attention, *_addresses(x, scratch))
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
        scratch, model = torch.empty(self._scratch(rows, (2 + self._heads) * longest)), self._model(longest)
        pointers = ctypes.addressof(model.decoder), ctypes.addressof(model.target), tokens.data_ptr(), *arrays
        self._decode[targets[0].dtype](*pointers, x.data_ptr(), scratch.data_ptr(), rows)
        return x

    def search(
        self, sentences: Sequence[Sequence[int]], limits: Sequence[int], sizes: tuple[int, int], rules: SearchRules
    ) -> Finished:
        """Search, see `begin_search` and `continue_search` in search.cpp."""
        beam, best = sizes
        count, positions, source_lengths = len(sentences), max(limits), np.array([*map(len, sentences)])
        ids, offsets = np.array([*chain.from_iterable(sentences)]), np.cumsum([0, *source_lengths])
        assert 0 <= ids.min() <= ids.max() < len(self._weights.source.tokens)
        longest, hypotheses = int(source_lengths.max()), count * beam
        model = self._model(max(longest, positions), rules.is_greedy and not rules.log_probs)
        shapes = {
            **{"lengths": (count,), "limits": (count,), "history": (count, beam, 2, positions)},
            **{"log_probs": (count, beam), "tokens": (count, beam), "finished_tokens": (count, best, positions)},
        }
        state = {name: np.empty(shapes.get(name, (count, best)), dtype) for name, dtype in _STATE.items()}
        state["limits"][:] = limits
        cells = torch.empty(
            len(self._key_values), count * (longest + positions * beam), 2 * self._dim,
            dtype=torch.bfloat16 if model.has_bf16_cells else torch.float32,
        )  # fmt: skip
        scratch = torch.empty(self._scratch_of_search(model, (len(ids), longest), (hypotheses, positions)))
        is_normalized, candidates = rules.log_probs or not rules.is_greedy, 1 if rules.is_greedy else beam + 1
        of_rules = rules.penalties.data_ptr(), candidates, rules.growth, rules.is_greedy, is_normalized, rules.margin
        beams = *(array.ctypes.data for array in state.values()), count, beam, best, positions
        arrays = (array.ctypes.data for array in (ids, offsets, source_lengths))
        search = _Search(*arrays, longest, beams, of_rules, cells.data_ptr(), scratch.data_ptr())
        arguments = ctypes.byref(model), ctypes.byref(search)
        self._begin(*arguments, _LONG(ENCODER_ROWS))
        while self._continue(*arguments, _LONG(_STEPS)):
            pass
        lengths = state["finished_lengths"]
        tokens = state["finished_tokens"][:, :, : lengths.max()]
        return tokens.tolist(), state["finished_log_probs"].tolist(), lengths.tolist()

    def _scratch_of_search(self, model: _Model, sources: tuple[int, int], targets: tuple[int, int]) -> int:
        """Return how many numbers the encoder or a step needs, for numbers of tokens or hypotheses and of positions."""
        (tokens, longest), (hypotheses, positions), dim = sources, targets, self._dim
        rows = min(tokens, max(longest, ENCODER_ROWS))
        to_encode = rows * dim + self._scratch(rows, self._scratch_of_attention(dim // self._heads, longest))
        least = max(product.scratch(hypotheses) for product in model.outputs)
        to_decode = self._scratch(hypotheses, max(least, (2 + self._heads) * max(longest, positions)))
        logits: int = min(hypotheses, self._rows_of_logits) * self._weights.product.outputs
        return max(to_encode, hypotheses * dim + logits + to_decode)

    def _scratch(self, rows: int, least: int) -> int:
        """Return how many numbers the layers need for so many rows; `least` is what attention needs."""
        return rows * (3 * self._dim + self._wide) + max(least, self._converts_most.scratch(rows))

    def _model(self, longest: int, is_screened: bool = False) -> _Model:
        """Return the arguments that are the same in each call, for positions below `longest`."""
        key = 1 << longest.bit_length(), is_screened
        if (model := self._models.get(key)) is None:
            model = self._models[key] = self._made(*key)
        return model

    def _made(self, positions: int, is_screened: bool) -> _Model:
        weights, layers, embeddings = self._weights, list[_Stack](), list[_Embedding]()
        tables = list[Tensor | None]()
        for (settings, _, norms, last_norm), addresses in zip(weights[:2], self._layers, strict=True):
            rotations = _rotations(positions, self._dim // self._heads) if settings.positions == "rotary" else None
            activation, is_pre_norm = _ACTIVATIONS.index(settings.activation), settings.norm == "pre"
            sizes = len(norms), self._dim, self._heads, settings.feed_forward, activation, is_pre_norm
            pointers = ctypes.addressof(addresses), *_pointers(last_norm), _address(rotations)
            layers.append(_Stack(*pointers, *sizes, settings.norm_epsilon))
            tables.append(rotations)
        for tokens, scale, table_of in weights[2:4]:
            table = table_of(positions)
            last = 0 if table is None else len(table) - 1
            embeddings.append(_Embedding(tokens.data_ptr(), _address(table), last, scale))
            tables.append(table)
        screen, outputs = self._screen if is_screened else None, [weights.product]
        if screen is not None:
            outputs.append(screen[0])
            tables.append(screen[1])
        output = _Output(
            *(weights.product.address, screen[0].address if screen else 0, _address(screen[1] if screen else None)),
            *(_address(weights.bias), weights.vocabulary, self._precision == "bf16"),
        )
        model = _Model(*layers, *embeddings, output, ctypes.addressof(self._key_values), self._precision != "fp32")
        model.tables, model.outputs = tables, outputs
        return model

    @functools.cached_property
    def _screen(self) -> tuple[ConstantProduct, Tensor] | None:
        """The product to logits in eight bits, and the weights that refine the largest of them.

        Those at most 2 below the largest are as precise as in the other products, the rest have errors of hundredths.
        """
        weights = self._weights
        if self._precision == "int8" or weights.bias is not None:
            return None
        screen = product(weights.matrix, None, "int8")
        dtype = torch.bfloat16 if self._precision == "bf16" else torch.float32
        return None if screen is None else (screen, weights.matrix.to(dtype).float().contiguous())


def has_kernels(weights: ModelWeights) -> bool:
    """Return whether all products and the score of attention have a kernel."""
    settings = weights.decoder.settings
    products = [product for layers in weights[:2] for layer in layers.products for product in layer]
    scores = settings.attention_score == "scaled_dot" and settings.positions != "relative"
    return scores and all(product is None or isinstance(product, ConstantProduct) for product in products)


def _addresses_of(layers: LayerWeights) -> Any:
    """Return the addresses of the products and norms of each layer."""
    addresses = [
        [0 if product is None else product.address for product in products]
        + [pointer for norm in norms for pointer in _pointers(norm)]
        for products, norms in zip(layers.products, layers.norms, strict=True)
    ]
    return (_LONG * (12 * len(addresses)))(*(address for layer in addresses for address in layer))


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


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
