"""The operations of the model on each kind of device: one interface, and the only place that knows devices."""

import torch

from nmt.config import RuntimeSettings
from nmt.kernels.cpu import CpuKernels, prefers_bf16
from nmt.kernels.reference import Kernels, Precision, Results

__all__ = ["Kernels", "Precision", "Results", "kernels_for", "precision_for"]


def kernels_for(device: torch.device, precision: Precision = "fp32", target_rows: int = 0) -> Kernels:
    """Return the fastest kernels for a device; in training, batches have about so many target rows."""
    if device.type == "cpu":
        return CpuKernels(device, precision)
    return Kernels(device, precision)


def precision_for(runtime: RuntimeSettings, device: torch.device, dim: int) -> Precision:
    """Return the precision of a model of this width: `auto` is bf16 where that is faster, otherwise fp32."""
    if runtime.precision != "auto":
        return runtime.precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if device.type == "cpu" and prefers_bf16(dim) else "fp32"
