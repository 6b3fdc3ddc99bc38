"""Linear maps with constant weights: laid out once in oneDNN's own format, in fp32, bf16 or eight bits.

oneDNN compiles a kernel for each number of rows, which takes as long as the product itself, or longer. So rows are
padded to one of a few numbers.

N rows, I inputs, O outputs.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_TYPICAL_ROWS = 128  # a search computes about so many; oneDNN chooses the layout for it
_TINY = 1e-30  # keeps the scale of a row of zeros from being zero
_MAX, _ZERO_POINT = 127, 128  # largest quantized number; added to quantized inputs, which must not be negative


class PackedProduct:
    """A product in fp32 or bf16 with packed weights; that in bf16 has a result in bf16 and sums in fp32."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype = torch.float32) -> None:
        self._outputs, self._dtype = weight.size(0), dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype), _TYPICAL_ROWS)
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        rows = _pad(x.to(self._dtype))
        output: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, "none", [], "")
        return _unpad(output, x, self._outputs)


class ConvertedProduct:
    """A product in bf16 with weights that are converted once, for processors that have no instructions for it."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight.bfloat16()
        self._bias = None if bias is None else bias.bfloat16()

    def __call__(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        return F.linear(x.bfloat16(), self._weight, self._bias)


class EightBitProduct:
    """A product of eight-bit integers: x ≈ s · a and w ≈ t · b, so x · w ≈ s · t · Σ a b, which is exact in integers.

    The scales s of each row and t of each output map the largest number to 127, so that the result for a row does not
    depend on the other rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._outputs = weight.size(0)
        self._scales = weight.abs().amax(1).clamp_(min=_TINY) / _MAX
        quantized = (weight / self._scales.unsqueeze(1)).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(quantized, [_TYPICAL_ROWS, weight.size(1)])
        self._zeros = torch.zeros(self._outputs, dtype=torch.long)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        rows = _pad(x)
        scales = rows.abs().amax(1, keepdim=True).clamp_(min=_TINY).div_(_MAX)
        shifted = (rows * scales.reciprocal()).add_(_ZERO_POINT + 0.5)
        quantized = shifted.to(torch.int16).to(torch.uint8)  # truncates; torch converts to uint8 slowly at once
        output: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantized, 1.0, _ZERO_POINT, self._weight, self._scales, self._zeros, None, 1.0, 0, torch.float32,
            "none", [], "",
        )  # fmt: skip
        scaled = output.mul_(scales) if self._bias is None else torch.addcmul(self._bias, output, scales, out=output)
        return _unpad(scaled, x, self._outputs)


def padded_rows(rows: int) -> int:
    """Round a number of rows up, by a few percent, to a multiple of 8, 16 or 128."""
    multiple = 8 if rows <= 64 else 16 if rows <= 512 else 128
    return math.ceil(rows / multiple) * multiple


def _pad(x: Tensor) -> Tensor:
    """Return (..., I) as padded rows."""
    rows = x if x.dim() == 2 else x.reshape(-1, x.size(-1))
    missing = padded_rows(rows.size(0)) - rows.size(0)
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows


def _unpad(output: Tensor, x: Tensor, outputs: int) -> Tensor:
    """Return the rows of the output that belong to x, in its shape."""
    if output.shape[:-1] == x.shape[:-1]:
        return output
    count = x.numel() // x.size(-1)
    return output[:count].view(*x.shape[:-1], outputs)
