"""Whole searches on CPUs in C++ (search.cpp), without torch.

B sentences, K places for hypotheses and n returned hypotheses of each, P positions, V vocabulary.
"""

import ctypes
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.kernels.compiling import checked, library
from nmt.kernels.constant_products import Floats, address, empty
from nmt.kernels.native import ENCODER_ROWS, NativeModel, SentencesArguments

# The finished hypotheses of each sentence: ids with `<s>`, then arbitrary ids, log-probabilities, and lengths with
# `</s>`; a length is 0 where there is no hypothesis.
Finished = tuple[list[list[list[int]]], list[list[float]], list[list[int]]]

ACTIVE_HYPOTHESES = 480  # in a batch of a search; the KV caches of more do not fit into the processor's cache

_LONG, _POINTER, _FLOAT = ctypes.c_long, ctypes.c_void_p, ctypes.c_float
_STEPS = 16  # steps of a search in one call to C++, which signals do not interrupt


class SearchRules(NamedTuple):
    """The parameters of a step of a search, besides its state."""

    penalties: Sequence[float]  # of lengths 0 … P
    margin: float  # infinite in an exact search
    growth_divisor: int
    extends_each: bool  # greedy search or sampling: each hypothesis is extended by one token
    log_probs: bool  # whether they are needed; greedy search finds the same tokens without them
    no_repeat_ngram: int = 0  # length of the n-grams that may not occur twice; 0: no such rule
    temperature: float = 0.0  # of sampling; 0: the best tokens are chosen
    top_p: float = 1.0


class SearchBatch(NamedTuple):
    """The input of a search: source ids with `</s>`, length limits of outputs, and required prefixes."""

    sentences: Sequence[Sequence[int]]
    limits: Sequence[int]
    prefixes: Sequence[Sequence[int]] | None = None
    noise: Floats | None = None  # (B, K, P) numbers in [0, 1), with which samples are drawn


class _Rules(ctypes.Structure):
    _fields_ = (
        ("penalties", _POINTER), ("candidates", _LONG), ("growth_divisor", _LONG), ("extends_each", _LONG),
        ("as_log_probs", _LONG), ("no_repeat_ngram", _LONG),
        ("margin", _FLOAT), ("temperature", _FLOAT), ("top_p", _FLOAT),
    )  # fmt: skip


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
        ("sources", SentencesArguments), ("source_lengths", _POINTER), ("longest", _LONG),
        ("beams", _Beams), ("rules", _Rules), ("required", _POINTER), ("noise", _POINTER),
        ("models", _POINTER), ("count", _LONG), ("cells", _POINTER),
    )  # fmt: skip


def search(models: Sequence[NativeModel], batch: SearchBatch, sizes: tuple[int, int], rules: SearchRules) -> Finished:
    """Search as `nmt.decoding.search.Search` does with K hypotheses of each sentence; return n of each.

    The probabilities of several models are averaged. `sizes` are (K, n). See search.cpp.
    """
    beam, best = sizes
    count, positions = len(batch.sentences), max(batch.limits)
    source_lengths, ids = np.array([*map(len, batch.sentences)]), np.array([*chain.from_iterable(batch.sentences)])
    offsets, longest = np.cumsum([0, *source_lengths]), int(source_lengths.max())
    required_ids = np.array([*chain.from_iterable(batch.prefixes or ())], np.int64)
    for model in models:
        model.check_ids(ids, required_ids)
    shapes = {
        "lengths": (count,), "limits": (count,), "history": (count, beam, 2, positions),
        "log_probs": (count, beam), "tokens": (count, beam), "finished_tokens": (count, best, positions),
    }  # fmt: skip
    state = {name: np.empty(shapes.get(name, (count, best)), dtype) for name, dtype in _STATE.items()}
    state["limits"][:] = batch.limits
    needs_argmax_only = not rules.log_probs and not rules.no_repeat_ngram
    is_screened = needs_argmax_only and len(models) == 1 and batch.prefixes is None
    model_arguments = [model.arguments(max(longest, positions), is_screened) for model in models]
    cells = [_cells(model, count * (longest + positions * beam)) for model in models]
    penalties, required = np.array(rules.penalties, np.float32), _required(batch)
    assert batch.noise is None or batch.noise.shape == (count, beam, positions)
    model_pointers = (_POINTER * len(models))(*map(ctypes.addressof, model_arguments))
    cell_pointers = (_POINTER * len(models))(*map(address, cells))
    arguments = _Search(
        sources=SentencesArguments(address(ids), address(offsets), count),
        source_lengths=address(source_lengths), longest=longest,
        beams=_Beams(*map(address, state.values()), count, beam, best, positions),
        rules=_Rules(
            address(penalties), 1 if rules.extends_each else beam + 1, rules.growth_divisor, rules.extends_each,
            rules.log_probs, rules.no_repeat_ngram, rules.margin, rules.temperature, rules.top_p,
        ),
        required=address(required), noise=address(batch.noise),
        models=ctypes.addressof(model_pointers), count=len(models), cells=ctypes.addressof(cell_pointers),
    )  # fmt: skip
    loaded = library()
    assert loaded is not None
    checked(loaded.begin_search(ctypes.byref(arguments), _LONG(ENCODER_ROWS)))
    while checked(loaded.continue_search(ctypes.byref(arguments), _LONG(_STEPS))):
        pass
    lengths = state["finished_lengths"]
    tokens = state["finished_tokens"][:, :, : lengths.max()]
    return tokens.tolist(), state["finished_log_probs"].tolist(), lengths.tolist()


def _cells(model: NativeModel, count: int) -> NDArray[Any]:
    """Return `count` cells, each for a key and a value, of each layer."""
    dtype = np.float32 if model.precision == "fp32" else np.uint16  # bf16
    return empty((model.settings.decoder_layers, count, 2 * model.dim), dtype)


def _required(batch: SearchBatch) -> NDArray[np.int64] | None:
    """Return the prefixes (B, P), followed by -1; None if there are none."""
    if batch.prefixes is None:
        return None
    required = np.full((len(batch.sentences), max(batch.limits)), -1)
    for row, prefix in zip(required, batch.prefixes, strict=True):
        row[: len(prefix)] = prefix
    return required
