"""Kernels for CPUs in C++, compiled once on each machine: that takes some seconds at the first use.

products.cpp has products with constant weights and attention_step.cpp attention of one query a hypothesis, both for
inference; attention_rows.cpp has attention of all rows of a batch, forward and backward. They are for Linux on
processors with AVX-512. Where `library` returns None, callers compute the same with torch.

N rows, I inputs, O outputs, V vocabulary; B sentences, K places for hypotheses of each, P positions, D width, H heads.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.kernels.reference import Places, Product

# sums in any order, but NaN remains NaN, and denormal numbers, which -ffast-math turns off for the process, remain
_OPTIONS = ["-shared", "-fPIC", "-O3", "-std=gnu++17", "-march=native", "-mprefer-vector-width=512"]
_OPTIONS += ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno", "-lm"]
_SOURCES = [Path(__file__).with_name(name) for name in ("products.cpp", "attention_step.cpp", "attention_rows.cpp")]
_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p
_MULTIPLY = ctypes.CFUNCTYPE(None, *[_POINTER] * 4, _LONG, ctypes.c_bool)
_ATTEND = ctypes.CFUNCTYPE(None, *[_POINTER] * 4, _LONG, _LONG)
_SCRATCH = ctypes.CFUNCTYPE(_LONG, _LONG, _LONG)
_DEPTHS = {"fp32": 1, "bf16": 2, "int8": 4}  # numbers in 32 bits
_TILE, _LANES = 64, 16  # outputs of a product, and inputs, are multiples of these
_ROWS, _AMX_ROWS = (6, 96), (32, 128)  # rows of tiles of a product, and rows that are converted together
_ZERO_POINT = 128  # added to quantized inputs, which must not be negative
_HOUR = 3600

problem: str | None = None  # after `library` returned None: why, in one line; None if no kernels are expected here


# compilation


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load the kernels, compiled now if this machine has not done so before; return None if there are none.

    Then `problem` is the reason, except with NMT_CPU_KERNELS=off and on machines that the kernels are not made for.
    """
    global problem
    problem = None
    features = set() if sys.platform != "linux" else _processor_features()
    if os.environ.get("NMT_CPU_KERNELS", "on") == "off" or not {"avx512f", "avx512bw", "avx512vl"} <= features:
        return None
    try:
        return _load(sorted(features))
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder
        problem = "the kernels for this processor cannot be used: " + " ".join(str(error).split())
        return None


def _processor_features() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


def _load(features: list[str]) -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise OSError("no C++ compiler (c++ or g++) found")
    status = os.stat(compiler)  # differs after an upgrade; to ask for the version would take longer
    key = hashlib.sha256(repr((compiler, status.st_size, status.st_mtime_ns, _OPTIONS, features)).encode())
    for source in _SOURCES:
        key.update(source.read_bytes())
    folder = _cache_folder()
    name = f"kernels-{key.hexdigest()[:16]}"
    for compiled in folder.glob(f"{name}-*.so"):
        _refuse_writable_by_others(compiled)
        if compiled.stem == f"{name}-{_digest(compiled)}":
            return ctypes.CDLL(str(compiled))
        compiled.unlink()  # it was not written completely, or has changed
    return ctypes.CDLL(str(_compile(compiler, folder, name)))


def _cache_folder() -> Path:
    """Return the folder of compiled kernels, which only this user can write to."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = (caches if caches.is_absolute() else Path.home() / ".cache") / "nmt"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_writable_by_others(folder)
    for left in folder.glob("compiling-*"):  # by a process that was killed
        if time.time() - left.stat().st_mtime > _HOUR:
            shutil.rmtree(left, ignore_errors=True)
    return folder


def _refuse_writable_by_others(path: Path) -> None:
    status = os.stat(path)
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    if status.st_mode & 0o022:
        raise PermissionError(f"other users may change {path}: chmod go-w would forbid it")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _compile(compiler: str, folder: Path, name: str) -> Path:
    """Compile the kernels, with several threads if this compiler has OpenMP; return the file, named by its digest."""
    with tempfile.TemporaryDirectory(prefix="compiling-", dir=folder) as beside:
        made = Path(beside, "kernels.so")
        for openmp in (["-fopenmp"], []):
            command = [compiler, *map(str, _SOURCES), *_OPTIONS, *openmp, "-o", str(made)]
            result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if result.returncode == 0:
                break
        else:
            lines = result.stderr.splitlines()
            raise OSError(f"{compiler} failed: {next((line for line in lines if 'error' in line), 'no message')}")
        made.chmod(0o700)
        with made.open("rb+") as file:
            os.fsync(file.fileno())
        return made.replace(folder / f"{name}-{_digest(made)}.so")


# products


def quantized(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows (N, I) as eight-bit integers, and the scales (N, 1) with which the largest number of each is 127."""
    scales = rows.abs().amax(1, keepdim=True).clamp_(min=1e-30) / 127  # also of a row of zeros not zero
    return (rows / scales).round_().to(torch.int8), scales


@functools.cache
def _has_amx() -> bool:
    """Whether the processor multiplies tiles of bf16 numbers, and the operating system lets this process do so."""
    return getattr(torch.cpu, "_is_amx_tile_supported", bool)() and getattr(torch.cpu, "_init_amx", bool)()


def product(weight: Tensor, bias: Tensor | None, precision: str) -> Product | None:
    """Return the linear map of a constant weight (O, I) and bias (O), or None if there is no kernel for it.

    It maps fp32 x (..., I) to x W^T + b (..., O), with `relu` to max(0, x W^T + b).
    """
    loaded, name, (outputs, inputs) = library(), f"multiply_{precision}", weight.shape
    with_amx = precision == "bf16" and inputs % (2 * _LANES) == 0 and _has_amx()
    (tile_rows, block_rows), name = (_AMX_ROWS, "multiply_tiles_bf16") if with_amx else (_ROWS, name)
    if loaded is None or not hasattr(loaded, name) or outputs % _TILE or inputs % _LANES:
        return None
    multiply, depth = _MULTIPLY.in_dll(loaded, name), _DEPTHS[precision]
    weight, bias = weight.float(), torch.zeros(outputs) if bias is None else bias.float().contiguous()
    numbers, scales, start = weight, torch.ones(outputs), torch.zeros(outputs, dtype=torch.int32)
    if precision == "bf16":
        numbers = weight.bfloat16()
    elif precision == "int8":
        numbers, scales = quantized(weight)
        start = numbers.sum(1, dtype=torch.int32) * -_ZERO_POINT
    tiles = numbers.view(outputs // _TILE, _TILE, inputs // depth, depth).transpose(1, 2).contiguous()
    tensors = tiles, scales, bias, start
    arguments = (_LONG * 6)(*(tensor.data_ptr() for tensor in tensors), inputs, outputs)

    def multiplied(x: Tensor, relu: bool = False) -> Tensor:
        x = x.float().contiguous()
        out = tensors[1].new_empty(*x.shape[:-1], outputs)
        rows = out.numel() // outputs
        converted = x.new_empty(min(block_rows, -(-rows // tile_rows) * tile_rows), inputs // depth)
        multiply(arguments, converted.data_ptr(), out.data_ptr(), x.data_ptr(), rows, relu)
        return out

    return multiplied


def screened_product(
    weight: Tensor, outputs: int, precision: str, forbidden: Tensor | None = None
) -> Callable[[Tensor], Tensor] | None:
    """Return the product with a weight (V, D) for logits of which only the largest matter: in eight bits, then refined.

    Of the first `outputs` logits of a row, those that are at most 2 less than the largest are those of a product with
    this precision, fp32 or bf16. The others have errors of hundredths. Logits of forbidden ids (F), int64, are -inf.
    """
    screen, loaded = product(weight, None, "int8"), library()
    if screen is None or loaded is None:
        return None
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    weight = weight.to(dtype).float().contiguous()

    def multiplied(x: Tensor) -> Tensor:
        x = x.flatten(0, -2)
        logits = screen(x)
        if forbidden is not None:
            logits[:, forbidden] = float("-inf")
        x = x.to(dtype).float().contiguous()
        sizes = len(x), outputs, x.size(1), logits.size(1)
        loaded.refine(*map(_POINTER, (logits.data_ptr(), x.data_ptr(), weight.data_ptr())), *map(_LONG, sizes))
        return logits

    return multiplied


def add_norm(x: Tensor, y: Tensor | None, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """Return z = x + y (..., D) in fp32, x without y, and its layer norm; not differentiable."""
    loaded = library()
    assert loaded is not None
    x, y = x.contiguous(), None if y is None else y.float().contiguous()
    z, normalized = x if y is None else torch.empty_like(x), torch.empty_like(x)
    tensors = (z, normalized, x, y, norm.weight, norm.bias)
    pointers = (_POINTER(None if tensor is None else tensor.data_ptr()) for tensor in tensors)
    loaded.add_norm(*pointers, _LONG(x.numel() // x.size(-1)), _LONG(x.size(-1)), ctypes.c_float(norm.eps))
    return z, normalized


# attention


def attend(queries: Tensor, cells: Tensor, places: Places, heads: int, newest: Tensor | None = None) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V (N, D) of queries (N, D), see `Kernels.attend_step`.

    Cells (P, B, K or 1, 2D) are fp32 or bf16. The newest keys and values (N, 2D), in fp32 and of the strides of the
    queries, are first written to their cells.
    """
    rows, lengths, ancestors, loaded = places.rows, places.lengths, places.ancestors, library()
    assert loaded is not None
    dim = queries.size(1)
    assert (queries.dtype, queries.stride(1), cells.stride(3), cells.size(3)) == (torch.float32, 1, 1, 2 * dim)
    assert (rows.dtype, rows.is_contiguous(), lengths.dtype, lengths.is_contiguous()) == (torch.int64, True) * 2
    assert cells.dtype in (torch.float32, torch.bfloat16)
    assert (len(rows), len(lengths)) == (len(queries), cells.size(1))
    assert cells.size(2) == (1 if ancestors is None else places.beam)
    if ancestors is not None:
        assert (ancestors.dtype, ancestors.stride(2)) == (torch.int32, 1)
        assert ancestors.shape == (cells.size(1), places.beam, len(cells))
        assert ancestors.stride(0) == places.beam * ancestors.stride(1)
    assert newest is None or (newest.dtype == torch.float32 and newest.stride() == queries.stride())
    scratch = queries.new_empty((2 + heads) * len(cells))  # offsets of cells, in 64 bits, and weights
    tensors = (cells, rows, lengths, ancestors, scratch)
    pointers = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    of_ancestors = 0 if ancestors is None else ancestors.stride(1)
    sizes = places.beam, len(cells), heads, dim // heads
    arguments = (_LONG * 13)(*pointers, *cells.stride()[:3], of_ancestors, *sizes)
    out = queries.new_empty(len(queries), dim)
    added = None if newest is None else newest.data_ptr()
    attend = _ATTEND(("attend_bf16" if cells.dtype == torch.bfloat16 else "attend_fp32", loaded))
    attend(arguments, out.data_ptr(), queries.data_ptr(), added, queries.stride(0), len(queries))
    return out


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
