"""Kernels for inference in C++, kernels.cpp, compiled once on each machine: it takes two seconds at the first use.

They are for Linux on processors with AVX-512. Without a C++ compiler there are none, and `nmt.model.cpu` computes the
same with torch. A product converts its input, adds the bias and whatever follows in one pass over its rows, in any
number; torch makes a pass for each, and oneDNN compiles a kernel for each number of rows.

N rows, I inputs, O outputs; B sentences, K places for hypotheses of each, S keys, D width, H heads, d = D/H.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

# sums in any order, but NaN remains NaN, and denormal numbers, which -ffast-math turns off for the process, remain
_COMMAND = ["-shared", "-fPIC", "-O3", "-march=native", "-mprefer-vector-width=512"]
_COMMAND += ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno", "-lm"]
_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p
_MULTIPLY = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _POINTER, _LONG, ctypes.c_bool)
_DEPTHS = {"fp32": 1, "bf16": 2, "int8": 4}  # numbers in 32 bits
_TILE, _LANES = 64, 16  # outputs of a product, and inputs, are multiples of these
_ZERO_POINT = 128  # added to quantized inputs, which must not be negative

Product = Callable[..., Tensor]  # (x, residual=None, relu=False)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Compile the kernels, or load them if this machine has done so; None if that fails."""
    source, compiler = Path(__file__).with_name("kernels.cpp"), shutil.which("c++") or shutil.which("g++")
    try:
        features = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
        digest = hashlib.sha256(repr((compiler, _COMMAND, features)).encode() + source.read_bytes()).hexdigest()
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nmt"
        compiled = folder / f"kernels-{digest[:16]}.so"
        if not compiled.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as beside:
                command = [str(compiler), str(source), *_COMMAND, "-o", f"{beside}/kernels.so"]
                subprocess.run(command, check=True, capture_output=True)
                Path(beside, "kernels.so").replace(compiled)
        return ctypes.CDLL(str(compiled))
    except (OSError, StopIteration, RuntimeError, subprocess.CalledProcessError):
        return None


def quantized(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows (N, I) as eight-bit integers, and the scales (N, 1) with which the largest number of each is 127."""
    scales = rows.abs().amax(1, keepdim=True).clamp_(min=1e-30) / 127  # also of a row of zeros not zero
    return (rows / scales).round_().to(torch.int8), scales


def product(weight: Tensor, bias: Tensor | None, precision: str) -> Product | None:
    """Return the linear map of a constant weight (O, I) and bias (O), or None if there is no kernel for it.

    It maps fp32 x (..., I) to x W^T + b (..., O), with `relu` to max(0, x W^T + b), plus a residual if there is one.
    """
    loaded, name, (outputs, inputs) = library(), f"multiply_{precision}", weight.shape
    if loaded is None or not hasattr(loaded, name) or outputs % _TILE or inputs % _LANES:
        return None
    if precision == "bf16" and getattr(torch.cpu, "_is_amx_tile_supported", bool)():
        return None  # oneDNN has the faster instructions
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

    def multiplied(x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        x, residual = x.float().contiguous(), None if residual is None else residual.float().contiguous()
        out = tensors[1].new_empty(*x.shape[:-1], outputs)
        added = None if residual is None else residual.data_ptr()
        multiply(arguments, out.data_ptr(), x.data_ptr(), added, out.numel() // outputs, relu)
        return out

    return multiplied


def screened_product(weight: Tensor, outputs: int, precision: str) -> Callable[[Tensor], Tensor] | None:
    """Return the product with a weight (V, D) for logits of which only the largest matter: in eight bits, then refined.

    Of the first `outputs` logits of a row, those that are at most 2 less than the largest are those of a product with
    this precision, fp32 or bf16. The others have errors of hundredths.
    """
    screen, loaded = product(weight, None, "int8"), library()
    if screen is None or loaded is None:
        return None
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    weight = weight.to(dtype).float().contiguous()

    def multiplied(x: Tensor) -> Tensor:
        logits = screen(x)
        x = x.to(dtype).float().contiguous()
        sizes = len(x), outputs, x.size(1), logits.size(1)
        loaded.refine(*map(_POINTER, (logits.data_ptr(), x.data_ptr(), weight.data_ptr())), *map(_LONG, sizes))
        return logits

    return multiplied


def attend(
    queries: Tensor,
    keys_values: tuple[Tensor, Tensor],
    mask: Tensor | None,
    places: Tensor,
    beam: int,
    newest: Tensor | None = None,
) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V (N, D) of queries (N, D), each in a place (N) of (B, K), for K = `beam`.

    Keys and values are views (B, H, S, d) of the same strides, in fp32 or bf16; the mask (B, 1, K or 1, S) is True at
    visible keys. The newest keys and values (N, 2D), in fp32 and of the strides of the queries, are written first to
    the last K places of S.
    """
    (keys, values), loaded = keys_values, library()
    assert loaded is not None
    _, heads, length, width = keys.shape
    masks, of_mask = (1, 0) if mask is None else (mask.size(2), mask.data_ptr())
    tensors = keys.data_ptr(), values.data_ptr(), of_mask, places.data_ptr()
    arguments = (_LONG * 12)(*tensors, *keys.stride()[:3], beam, masks, length, heads, width)
    out = queries.new_empty(len(queries), heads * width)
    added = None if newest is None else newest.data_ptr()
    pointers = _POINTER(out.data_ptr()), _POINTER(queries.data_ptr()), _POINTER(added)
    kernel = loaded.attend_bf16 if keys.dtype == torch.bfloat16 else loaded.attend_fp32
    kernel(arguments, *pointers, _LONG(queries.stride(0)), _LONG(len(queries)))
    return out
