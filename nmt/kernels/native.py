"""Models in the layout of the C++ kernels, as arrays in RAM, without torch.

layers.cpp implements the layers, forced_decoding.cpp forced decoding, search.cpp the search (see
`nmt.kernels.native_search`). Where `library` returns None, torch computes the same.

S source tokens and T target tokens with `</s>`; V vocabulary, P positions, D width.
"""

import ctypes
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.config import ModelSettings
from nmt.kernels.compiling import checked, library
from nmt.kernels.constant_products import ConstantProduct, Floats, address, in_bf16, product
from nmt.text.tokenizer import BOS

Weights = Mapping[str, Floats]  # by their names in a model directory
ENCODER_ROWS = 1024  # rows encoded at a time: their feed-forward activations fit in the cache of a core

_LONG, _POINTER, _FLOAT = ctypes.c_long, ctypes.c_void_p, ctypes.c_float
_ACTIVATIONS = ("relu", "gelu", "swish", "swiglu")

_KEY_VALUE = "cross_attention.key_value"
# The linear maps and norms of a layer in the order in which the kernels read them; an encoder has no attention to a
# source.
_MAPS = {
    "encoder": ("attention.query_key_value", "attention.output", None, None,
                "feed_forward.inner", "feed_forward.outer"),
    "decoder": ("self_attention.query_key_value", "self_attention.output", "cross_attention.query",
                "cross_attention.output", "feed_forward.inner", "feed_forward.outer"),
}  # fmt: skip
_NORMS = {
    "encoder": ("attention_sublayer.norm", None, "feed_forward_sublayer.norm"),
    "decoder": ("self_attention_sublayer.norm", "cross_attention_sublayer.norm", "feed_forward_sublayer.norm"),
}
_ALL_MAPS = {**_MAPS, "decoder": (*_MAPS["decoder"], _KEY_VALUE)}
_POINTERS_OF_LAYER = len(_MAPS["decoder"]) + 2 * len(_NORMS["decoder"])


def has_kernels(settings: ModelSettings) -> bool:
    """Return whether the kernels support a model: scaled dot products, and no relative positions."""
    return settings.attention_score == "scaled_dot" and settings.positions != "relative"


def weight_shapes(settings: ModelSettings, source: int, target: int) -> dict[str, tuple[int, ...]]:
    """Return the weight names and shapes of a model that has kernels, for the sizes of both vocabularies."""
    dim, inner = settings.dim, settings.feed_forward
    gated = 2 * inner if settings.activation == "swiglu" else inner
    maps = {
        "query_key_value": (3 * dim, dim), "key_value": (2 * dim, dim), "query": (dim, dim), "output": (dim, dim),
        "inner": (gated, dim), "outer": (dim, inner),
    }  # fmt: skip
    shapes = dict[str, tuple[int, ...]]()
    for name in _layer_names(settings, _ALL_MAPS):
        shape = maps[name.rpartition(".")[2]]
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    norms = [*_layer_names(settings, _NORMS), *(("encoder_norm", "decoder_norm") if settings.norm == "pre" else ())]
    shapes |= {f"{norm}.{part}": (dim,) for norm in norms for part in ("weight", "bias")}
    rows = {"source_embedding": source, "target_embedding": target, "output": target}
    stored_count = {"all": 1, "target": 2, "none": 3}[settings.tied_embeddings]  # a tied matrix has its first name only
    for name in list(rows)[:stored_count]:
        tokens = "" if name == "output" else ".tokens"
        shapes[f"{name}{tokens}.weight"] = (settings.padded_vocabulary(rows[name]), dim)
    if settings.positions == "learned":
        shapes |= {f"{side}_embedding.learned.weight": (settings.max_positions, dim) for side in ("source", "target")}
    if settings.output_bias:
        shapes["output_bias"] = (settings.padded_vocabulary(target),)
    return shapes


def _layer_names(settings: ModelSettings, names: Mapping[str, Sequence[str | None]]) -> Iterator[str]:
    """Yield the full names, in all layers, of weights that are named within a layer."""
    for stack, count in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        yield from (f"{stack}.{layer}.{name}" for layer in range(count) for name in names[stack] if name)


def products_of(settings: ModelSettings, weights: Weights, precision: str) -> dict[str, ConstantProduct] | None:
    """Return the products of all linear maps of a model by their names; None if some have no kernel."""
    names = [*_layer_names(settings, _ALL_MAPS)]
    products = {name: product(weights[f"{name}.weight"], weights[f"{name}.bias"], precision) for name in names}
    products["output"] = product(matrix_of(weights), None, precision)
    converted = {name: product for name, product in products.items() if product is not None}
    return converted if len(converted) == len(products) else None


def matrix_of(weights: Weights) -> Floats:
    """Return the output matrix (V and padding, D)."""
    names = ("output.weight", "target_embedding.tokens.weight", "source_embedding.tokens.weight")
    return next(weights[name] for name in names if name in weights)


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
        ("vocabulary", _LONG), ("rounds_inputs", _LONG), ("norm", _FLOAT), ("scale", _FLOAT),
    )  # fmt: skip


class ModelArguments(ctypes.Structure):
    # keeps arrays of the pointers alive: if two threads make equal tables, the cache keeps only one of them
    references: Sequence[object] = ()
    _fields_ = (
        ("encoder", _Stack), ("decoder", _Stack), ("source", _Embedding), ("target", _Embedding),
        ("output", _Output), ("key_values", _POINTER), ("has_bf16_cells", _LONG),
    )  # fmt: skip


class SentencesArguments(ctypes.Structure):
    _fields_ = (("ids", _POINTER), ("offsets", _POINTER), ("count", _LONG))


class _Pairs(ctypes.Structure):
    _fields_ = (
        ("sources", SentencesArguments), ("targets", SentencesArguments),
        ("labels", _POINTER), ("log_probs", _POINTER), ("weights", _POINTER),
    )  # fmt: skip


class Screen(NamedTuple):
    """An approximate output projection in eight bits, see `Output` in model.h."""

    product: ConstantProduct
    matrix: Floats  # (V and padding, D)
    norm: float  # the greatest norm of a row
    scale: float  # the greatest scale of a row in eight bits


class NativeModel:
    """A model whose weights are laid out for the kernels. Several threads may search with it at a time."""

    def __init__(
        self,
        settings: ModelSettings,
        weights: Weights,
        products: Mapping[str, ConstantProduct],
        vocabulary: int,
        precision: str,
    ) -> None:
        """Take weights of the shapes of `weight_shapes`, their products, and V without padding."""
        loaded = library()
        assert loaded is not None
        self.settings, self._weights, self._products = settings, weights, products
        self.precision, self._vocabulary = precision, vocabulary
        self._force, self.dim = loaded.force, settings.dim
        self._layers = {stack: self._addresses_of_layers(stack) for stack in _MAPS}
        key_values = [products[f"decoder.{i}.{_KEY_VALUE}"].address for i in range(settings.decoder_layers)]
        self._key_values = (_LONG * len(key_values))(*key_values)
        self._arguments_made = dict[tuple[int, bool], ModelArguments]()

    def force(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], with_attention: bool
    ) -> list[tuple[list[float], Floats]]:
        """Return log-probabilities of given targets, and the mean (T, S) of all heads' attention to the source.

        Without attention the latter is (0, S). Pairs are source and target ids with `</s>`. See forced_decoding.cpp.
        """
        sources, targets = (list(map(len, side)) for side in zip(*pairs, strict=True))
        source_offsets, target_offsets = (np.cumsum([0, *lengths]) for lengths in (sources, targets))
        ids, labels = (np.array([*chain.from_iterable(side)]) for side in zip(*pairs, strict=True))
        target_ids = np.concatenate([[BOS], labels[:-1]])
        target_ids[target_offsets[:-1]] = BOS
        self.check_ids(ids, labels)
        sizes = [with_attention * s * t for s, t in zip(sources, targets, strict=True)]
        log_probs, weights = np.empty(len(labels), np.float32), np.zeros(sum(sizes), np.float32)
        arguments = self.arguments(max(*sources, *targets))
        batch = _Pairs(
            sources=SentencesArguments(address(ids), address(source_offsets), len(pairs)),
            targets=SentencesArguments(address(target_ids), address(target_offsets), len(pairs)),
            labels=address(labels), log_probs=address(log_probs), weights=address(weights) if with_attention else None,
        )  # fmt: skip
        checked(self._force(ctypes.byref(arguments), ctypes.byref(batch)))
        results = np.split(log_probs, target_offsets[1:-1]), np.split(weights, np.cumsum(sizes)[:-1])
        return [
            (pair_log_probs.tolist(), pair_weights.reshape(-1, s))
            for pair_log_probs, pair_weights, s in zip(*results, sources, strict=True)
        ]

    def check_ids(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> None:
        """Raise AssertionError unless all ids are in the vocabularies."""
        assert 0 <= source.min() <= source.max() < len(self._weights["source_embedding.tokens.weight"])
        assert 0 <= target.min(initial=0) <= target.max(initial=0) < self._vocabulary

    def arguments(self, longest: int, is_screened: bool = False) -> ModelArguments:
        """Return the arguments that are the same in each call, for positions below `longest`."""
        key = 1 << longest.bit_length(), is_screened
        if (cached := self._arguments_made.get(key)) is None:
            cached = self._arguments_made[key] = self._make_arguments(*key)
        return cached

    def _make_arguments(self, positions: int, is_screened: bool) -> ModelArguments:
        settings, weights, stacks = self.settings, self._weights, list[_Stack]()
        rotations = _rotations(positions, self.dim // settings.heads) if settings.positions == "rotary" else None
        kind = _ACTIVATIONS.index(settings.activation), settings.norm == "pre"
        for stack, addresses in self._layers.items():
            count, last_norm = len(addresses) // _POINTERS_OF_LAYER, self._addresses_of_norm(f"{stack}_norm")
            sizes = count, self.dim, settings.heads, settings.feed_forward, *kind
            pointers = ctypes.addressof(addresses), *last_norm, address(rotations)
            stacks.append(_Stack(*pointers, *sizes, settings.norm_epsilon))
        sinusoids = _sinusoids(positions, self.dim) if settings.positions == "sinusoidal" else None
        embeddings = list[_Embedding]()
        for side in ("source", "target"):
            table = weights.get(f"{side}_embedding.learned.weight", sinusoids)
            last = 0 if table is None else len(table) - 1
            tokens = weights.get(f"{side}_embedding.tokens.weight", weights["source_embedding.tokens.weight"])
            embeddings.append(_Embedding(address(tokens), address(table), last, self.dim**0.5))
        output = _Output(
            product=self._products["output"].address, bias=address(weights.get("output_bias")),
            vocabulary=self._vocabulary, rounds_inputs=self.precision == "bf16",
        )  # fmt: skip
        if screen := self._screen if is_screened else None:
            output.screen, output.weights = screen.product.address, address(screen.matrix)
            output.norm, output.scale = screen.norm, screen.scale
        key_values = ctypes.addressof(self._key_values)
        arguments = ModelArguments(*stacks, *embeddings, output, key_values, self.precision != "fp32")
        arguments.references = rotations, sinusoids, screen
        return arguments

    @functools.cached_property
    def _screen(self) -> Screen | None:
        """The output projection in eight bits, and the weights with which the largest logits are recomputed.

        Logits that may be the largest are as precise as those of the full projection; errors of others are hundredths.
        """
        matrix = matrix_of(self._weights)
        if self.precision == "int8" or self.settings.output_bias:
            return None
        screen = product(matrix, None, "int8")
        if screen is None:
            return None
        if self.precision == "bf16":
            matrix = (in_bf16(matrix).astype(np.uint32) << 16).view(np.float32)
        norm, largest = np.linalg.norm(matrix, axis=1).max(), np.abs(matrix).max()
        return Screen(screen, matrix, float(norm), float(largest) / 127)

    def _addresses_of_layers(self, stack: str) -> Any:
        """Return the addresses of the products and norms of each layer."""
        count = self.settings.encoder_layers if stack == "encoder" else self.settings.decoder_layers
        addresses = list[int]()
        for layer in range(count):
            maps = [name and self._products[f"{stack}.{layer}.{name}"] for name in _MAPS[stack]]
            addresses += [product.address if product else 0 for product in maps]
            for norm in _NORMS[stack]:
                addresses += self._addresses_of_norm(norm and f"{stack}.{layer}.{norm}")
        return (_LONG * len(addresses))(*addresses)

    def _addresses_of_norm(self, name: str | None) -> tuple[int, int]:
        weight, bias = (self._weights.get(f"{name}.{part}") for part in ("weight", "bias"))
        return address(weight), address(bias)


def laid_out(settings: ModelSettings, weights: Weights, vocabulary: int, precision: str) -> NativeModel | None:
    """Return a model in the layout of the kernels; None if they are not available or do not support it."""
    products = products_of(settings, weights, precision) if has_kernels(settings) else None
    return None if products is None else NativeModel(settings, weights, products, vocabulary, precision)


@functools.cache
def _rotations(positions: int, width: int) -> Floats:
    """Return the cosines and the sines of the angles of each position, (P, d), see `Kernels.rotate`."""
    angles = _angles(positions, width)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@functools.cache
def _sinusoids(positions: int, dim: int) -> Floats:
    """Return the vectors of positions (P, D), see `nmt.model.positions.sinusoids`."""
    angles = _angles(positions, dim)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(positions, dim).astype(np.float32)


def _angles(positions: int, width: int) -> NDArray[np.float64]:
    """Return the angles (P, d/2): m · 10000^(-2i/d) for the i-th pair of numbers at position m.

    The products are rounded to fp32, as in training; their sines and cosines are computed in fp64.
    """
    exponents = np.arange(0, width, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / width)
    frequencies = np.exp(exponents.astype(np.float64)).astype(np.float32)
    angles = np.arange(positions, dtype=np.float32)[:, None] * frequencies
    return angles.astype(np.float64)
