"""The operations of the model on each kind of device: one interface, and the only place that depends on devices."""

import torch

from nmt.config import RuntimeSettings
from nmt.kernels.cpu import CpuKernels, prefers_bf16
from nmt.kernels.reference import Kernels, Precision, Results

__all__ = ["Kernels", "Precision", "Results", "kernels_for", "precision_for"]


def kernels_for(device: torch.device, precision: Precision = "fp32", target_rows: int = 0) -> Kernels:
    """Return the fastest kernels for a device; in training, most batches have so many target rows.

    Where those for the device cannot be used, `Kernels.problem` is the reason.
    """
    if device.type == "cpu":
        return CpuKernels(device, precision)
    plain = Kernels(device, precision)
    if device.type != "cuda":
        return plain
    try:
        from nmt.kernels.cuda import CudaKernels  # Triton takes a second to import

        kernels = CudaKernels(device, precision, target_rows)
        kernels.check()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # of a compiler, a driver, or a Triton that does not support the GPU
        reason = str(error).strip().rpartition("\n")[2] or type(error).__name__
        plain.problem = f"no Triton kernels, so this is several times as slow: {reason}"
        return plain
    return kernels


def precision_for(runtime: RuntimeSettings, device: torch.device, dim: int) -> Precision:
    """Return the precision of a model of this width: `auto` is bf16 where that is faster, otherwise fp32."""
    if runtime.precision != "auto":
        return runtime.precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if device.type == "cpu" and prefers_bf16(dim) else "fp32"
