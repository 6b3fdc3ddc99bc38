"""The kernels that a model computes with, chosen once for the process, and the modules made of them.

On CPUs the kernels of `nmt.model.cpu` replace plain torch where they are faster. The environment variable
NMT_CPU_KERNELS=off, read when this module is imported, selects plain torch everywhere: slower, with the same results up
to rounding (training then draws other dropout masks). Use it to find out whether a kernel causes a fault.

N rows, I inputs, O outputs; B sentences, T queries, S keys, H heads, d = D/H.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.packing import Packing

if TYPE_CHECKING:
    from nmt.model.cpu import CPUKernels

Precision = Literal["fp32", "bf16", "int8"]
Product = Callable[[Tensor], Tensor]  # x (..., I) to x W^T + b (..., O) for a constant weight and bias


class PlainKernels:
    """Plain torch: the reference for `CPUKernels`, which has the same methods and, up to rounding, the same results."""

    has_bf16 = False  # whether a CPU multiplies bf16 numbers natively, under bf16 autocast
    encoder_tokens = None  # source tokens to encode at a time with prepacked weights; None for any number

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x (..., I) times the transpose of weight (O, I), plus bias (O); differentiable."""
        return F.linear(x, weight, bias)

    def outer_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the sum over rows of left (N, O) times right (N, I), (O, I); not differentiable."""
        return left.t() @ right

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Zero each number with probability p and scale the others by 1 / (1 - p)."""
        return F.dropout(x, p)

    def packed_attention(
        self, queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], heads: int, causal: bool
    ) -> Tensor | None:
        """Return softmax(Q K^T / sqrt(d)) V of all packed sentences (N, D), None if there is no faster kernel for it.

        Queries are (N, D), keys and values side by side (M, 2D); the packings are those of both.
        """
        return None

    def step_attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor | None:
        """Return softmax(Q K^T / sqrt(d)) V (B, H, T, d) for few queries, None if there is no faster kernel for it.

        Queries are (B, H, T, d), keys and values (B, H, S, d); the mask is broadcast to (B, H, T, S), True at keys that
        a query attends to. Not differentiable.
        """
        return None

    def prepack(self, weight: Tensor, bias: Tensor | None, precision: Precision) -> Product | None:
        """Return the linear map of a constant weight (O, I) and bias (O), or None if there is no faster kernel for it.

        In bf16 the result is bf16, too; in int8, weights have a scale for each output and inputs one for each row.
        """
        return None

    def padded_rows(self, rows: int) -> int:
        """Return to how many rows a product of prepacked weights is padded."""
        return rows


def choose_kernels() -> "PlainKernels | CPUKernels":
    """Return the kernels that NMT_CPU_KERNELS selects; `nmt.model.cpu` is imported only for its own."""
    if os.environ.get("NMT_CPU_KERNELS", "on") == "off":
        return PlainKernels()
    from nmt.model.cpu import CPUKernels

    return CPUKernels()


kernels = choose_kernels()


class Linear(nn.Linear):
    """torch's linear map, computed by the chosen kernels."""

    prepacked: Product | None = None

    def prepack(self, precision: Precision) -> None:
        """Copy the weights into their fastest layout for inference."""
        self.prepacked = kernels.prepack(self.weight, self.bias, precision)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        if self.prepacked is not None and not torch.is_grad_enabled():
            return self.prepacked(x)
        return kernels.linear(x, self.weight, self.bias)


class Dropout(nn.Dropout):
    """Dropout (Srivastava et al. 2014), computed by the chosen kernels."""

    def forward(self, x: Tensor) -> Tensor:
        """Map any shape to the same shape."""
        return kernels.dropout(x, self.p) if self.training and self.p else x
