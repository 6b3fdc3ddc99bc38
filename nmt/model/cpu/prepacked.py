"""Linear maps whose weights do not change any more: laid out once as the processor likes them best, or in eight bits.

oneDNN compiles a kernel for each number of rows, which takes as long as the product itself, or longer. So rows are
filled up to one of a few numbers.

N rows, I inputs, O outputs.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.model.attention import MultiHeadAttention
from nmt.model.cpu.linear import ONEDNN, Linear, filled_up
from nmt.model.layers import DecoderLayer
from nmt.model.transformer import Transformer

_TYPICAL_ROWS = 128
_TINY = 1e-30
_HALF, _ZERO_POINT = 127, 128
"""The largest quantized number, and what is added to quantized inputs, which must not be negative."""


def pack_weights(model: Transformer, eight_bits: bool = False) -> bool:
    """Make a model that shall not learn any more quicker on a CPU, in place; return whether there was a way.

    In fp32 only rounding changes. In eight bits weights have one scale an output, inputs one a row, so that what
    becomes of a row does not depend on the others.
    """
    if not ONEDNN or model.device.type != "cpu" or (eight_bits and not torch.cpu._is_vnni_supported()):
        return False
    make = EightBitProduct if eight_bits else PackedProduct
    crossing = {layer.cross_attention for layer in model.decoder if isinstance(layer, DecoderLayer)}
    to_self = [one for one in model.modules() if isinstance(one, MultiHeadAttention) and one not in crossing]
    for attention in to_self:
        weight, bias = attention.joined_weights()
        attention.joint = make(weight.detach(), bias.detach())
    joined = {part for attention in to_self for part in (attention.query, attention.key_value)}
    for module in model.modules():
        if isinstance(module, Linear) and module not in joined:
            module.quick = make(module.weight.detach(), None if module.bias is None else module.bias.detach())
    model.packed = True
    return True


class PackedProduct:
    """An fp32 product with packed weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._outputs = weight.size(0)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        rows = _rows(x)
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, "none", [], "")
        return _shaped(found, x, self._outputs)


class EightBitProduct:
    """A product of eight-bit integers: x ≈ s · a and w ≈ t · b, so x · w ≈ s · t · Σ a b, which is exact in integers.

    The scales s of each row and t of each output let the largest number be 127.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._outputs = weight.size(0)
        self._scales = weight.abs().amax(1).clamp_(min=_TINY) / _HALF
        quantized = (weight / self._scales.unsqueeze(1)).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(quantized, [_TYPICAL_ROWS, weight.size(1)])
        self._zeros = torch.zeros(self._outputs, dtype=torch.long)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        rows = _rows(x)
        scales = rows.abs().amax(1, keepdim=True).clamp_(min=_TINY).div_(_HALF)
        raised = (rows * scales.reciprocal()).add_(_ZERO_POINT + 0.5)
        quantized = raised.to(torch.int16).to(torch.uint8)  # cuts off the rest; torch is slow to go there at once
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            quantized, 1.0, _ZERO_POINT, self._weight, self._scales, self._zeros, None, 1.0, 0, torch.float32,
            "none", [], "",
        )  # fmt: skip
        scaled = found.mul_(scales) if self._bias is None else torch.addcmul(self._bias, found, scales, out=found)
        return _shaped(scaled, x, self._outputs)


def _rows(x: Tensor) -> Tensor:
    """Return (..., I) as rows, filled up."""
    rows = x if x.dim() == 2 else x.reshape(-1, x.size(-1))
    missing = filled_up(rows.size(0)) - rows.size(0)
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows


def _shaped(found: Tensor, x: Tensor, outputs: int) -> Tensor:
    """Return what was found for x, without what was filled up."""
    if found.shape[:-1] == x.shape[:-1]:
        return found
    count = x.numel() // x.size(-1)
    return found[:count].view(*x.shape[:-1], outputs)
