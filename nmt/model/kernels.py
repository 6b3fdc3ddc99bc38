"""The kernels that a model computes with, chosen once for the process, and the modules made of them.

On CPUs the kernels of `nmt.model.cpu` replace plain torch where they are faster. The environment variable
NMT_CPU_KERNELS=off, read when this module is imported, selects plain torch everywhere: slower, with the same results up
to rounding (training then draws other dropout masks). Use it to find out whether a kernel causes a fault.
"""

import os

import torch
from torch import Tensor, nn

from nmt.model.plain import PlainKernels, Product


def choose_kernels() -> PlainKernels:
    """Return the kernels that NMT_CPU_KERNELS selects."""
    if os.environ.get("NMT_CPU_KERNELS", "on") == "off":
        return PlainKernels()
    from nmt.model.cpu import CPUKernels

    return CPUKernels()


kernels = choose_kernels()


class Linear(nn.Linear):
    """torch's linear map, computed by the chosen kernels."""

    prepacked: Product | None = None

    def prepack(self, eight_bits: bool) -> None:
        """Copy the weights into their fastest layout for inference."""
        self.prepacked = kernels.prepack(self.weight, self.bias, eight_bits)

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
