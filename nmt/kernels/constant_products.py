"""Products with constant weights in C++ (products.cpp), on arrays in RAM and without torch.

N rows, I inputs, O outputs.
"""

import ctypes
import math
from collections.abc import Sequence
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nmt.kernels.compiling import library
from nmt.kernels.machine import has_amx

Floats = NDArray[np.float32]

_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p
_MULTIPLY = ctypes.CFUNCTYPE(None, *[_POINTER] * 3, _LONG, ctypes.c_bool)
_DEPTHS = {"fp32": 1, "bf16": 2}  # numbers in 32 bits; with int8, it depends on the processor
_OUTPUTS, _INPUTS = 64, 16  # the outputs and the inputs of a product must be multiples of these
_MOST_INPUTS = 2**17  # with int8, whose sums of products must fit in 32 bits
_TILES = "multiply_tiles_bf16"
_CACHE_LINE, _LARGE = 64, 32 << 20  # bytes


def empty(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array that begins a cache line, so that no vector of its numbers is in two of them."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _LARGE:
        data = np.empty(size + _CACHE_LINE, np.uint8)
    else:  # numpy would get pages of 2 MB, zeroed as a whole, although searches use only parts of their largest arrays
        try:
            data = np.frombuffer(mmap(-1, size + _CACHE_LINE, MAP_PRIVATE | MAP_ANONYMOUS), np.uint8)
        except OSError:
            raise MemoryError(f"cannot allocate {size:,} bytes") from None
    start = -address(data) % _CACHE_LINE
    return data[start : start + size].view(dtype).reshape(shape)


def address(array: NDArray[Any] | None) -> int:
    """Return the address of the numbers of a contiguous array, 0 for None."""
    if array is None:
        return 0
    assert array.flags.c_contiguous
    pointer: int = array.__array_interface__["data"][0]
    return pointer


def in_bf16(numbers: Floats) -> NDArray[np.uint16]:
    """Round fp32 numbers to bf16, the upper half of the bits; ties are rounded to even."""
    bits = numbers.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(numbers), 0x7FC0, rounded).astype(np.uint16)


def quantized(rows: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return rows (N, I) as eight-bit integers, and the scales (N, 1) with which the largest number of each is 127."""
    scales = np.maximum(np.abs(rows).max(1, keepdims=True), np.float32(1e-30)) / np.float32(127)  # not 0 for zeros
    with np.errstate(invalid="ignore"):  # a row with NaN or infinity has no valid scale
        return np.rint(rows / scales).astype(np.int8), scales


class ConstantProduct:
    """The linear map x W^T + b of fp32 x (..., I), with `relu` followed by ReLU, for a constant W (O, I) and b (O)."""

    def __init__(self, weight: Floats, bias: Floats | None, precision: str, function: str) -> None:
        loaded = library()
        assert loaded is not None
        outputs, inputs = weight.shape
        depth = _DEPTHS.get(precision) or _LONG.in_dll(loaded, "int8_depth").value
        numbers: NDArray[Any] = np.ascontiguousarray(weight, np.float32)
        scales, initial_sums = np.ones(outputs, np.float32), np.zeros(outputs, np.int32)
        if precision == "bf16":
            numbers = in_bf16(numbers)
        elif precision == "int8":
            numbers, scales = quantized(numbers)
            initial_sums = numbers.sum(1, dtype=np.int32) * np.int32(-_LONG.in_dll(loaded, "zero_point").value)
        width = _LONG.in_dll(loaded, "outputs_of_tile").value
        tiled_view = numbers.reshape(outputs // width, width, inputs // depth, depth).transpose(0, 2, 1, 3)
        tiles = empty(tiled_view.shape, numbers.dtype)
        tiles[:] = tiled_view
        biases = np.zeros(outputs, np.float32) if bias is None else np.ascontiguousarray(bias, np.float32)
        self.outputs: int = outputs
        self._arrays = tiles, scales, biases, initial_sums
        self.function = _MULTIPLY.in_dll(loaded, function)
        pointer = ctypes.cast(self.function, _POINTER).value or 0
        self._struct = (_LONG * 7)(*map(address, self._arrays), inputs, outputs, pointer)
        self.address = ctypes.addressof(self._struct)


def product(weight: Floats, bias: Floats | None, precision: str) -> ConstantProduct | None:
    """Return the linear map of a constant weight (O, I) and bias (O), or None if there is no kernel for it."""
    loaded, (outputs, inputs) = library(), weight.shape
    if loaded is None or outputs % _OUTPUTS or inputs % _INPUTS or (precision == "int8" and inputs > _MOST_INPUTS):
        return None
    with_amx = precision == "bf16" and inputs % (2 * _INPUTS) == 0 and has_amx() and hasattr(loaded, _TILES)
    return ConstantProduct(weight, bias, precision, _TILES if with_amx else f"multiply_{precision}")
