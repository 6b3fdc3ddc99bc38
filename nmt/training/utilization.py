"""Model FLOP utilization (Chowdhery et al. 2022): the share of the machine's matrix rate that a training reaches.

A weight and token take 6 floating-point operations: 2 forward, 4 backward. The encoder's weights count with source
tokens, the decoder's and the output's with target tokens. Attention between tokens and padding are not counted.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from nmt.config import RuntimeSettings
from nmt.model.kernels import kernels
from nmt.model.transformer import Transformer
from nmt.system.device import computes_in_bf16


def utilization(operations_each: tuple[int, int], tokens: tuple[int, int], seconds: float, rate: float) -> float:
    """Return the share of `rate` (operations a second) for training on (source, target) tokens in some seconds."""
    return sum(map(int.__mul__, operations_each, tokens)) / seconds / rate


def operations(model: Transformer) -> tuple[int, int]:
    """Return the floating-point operations of a training step per source token and per target token."""
    encoder = sum(parameter.numel() for parameter in model.encoder.parameters())
    decoder = sum(parameter.numel() for parameter in model.decoder.parameters())
    return 6 * encoder, 6 * (decoder + model.output.weight.numel())


def matrix_rate(
    device: torch.device,
    runtime: RuntimeSettings,
    multiply: Callable[[Tensor, Tensor], Tensor] = kernels.linear,
    small: int = 1024,
) -> float:
    """Measure the floating-point operations a second of a large matrix product, in the precision of training.

    On a CPU the matrices have `small` rows and columns, elsewhere 8192. They hold random numbers, since GPUs multiply
    constants faster, and are of the final type, so that no conversion is measured.
    """
    size = small if device.type == "cpu" else 8192
    dtype = torch.bfloat16 if computes_in_bf16(runtime, device) else torch.float32
    a = torch.randn(size, size, device=device, dtype=dtype, generator=torch.Generator(device).manual_seed(0))
    fastest = float("inf")
    with torch.no_grad():
        for _ in range(6):  # the first ones are slow
            started = time.perf_counter()
            multiply(a, a)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            fastest = min(fastest, time.perf_counter() - started)
    return 2 * size**3 / fastest
