"""How much of what the machine can multiply a training makes use of (model FLOP utilization, Chowdhery et al. 2022).

Learning takes 6 floating-point operations a weight and token: 2 forward, 4 backward. The encoder's weights work for
source tokens, the decoder's and the output's for target tokens. Attention between tokens is not counted, nor padding.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from nmt.config import RuntimeSettings
from nmt.model.kernels import kernels
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.device import autocast


class Utilization:
    """Turns token counts into a share of the rate of matrix products, which it measures when it is made."""

    def __init__(self, model: Transformer, device: torch.device, runtime: RuntimeSettings) -> None:
        self._each = operations(model)
        self._rate = distributed.size() * matrix_rate(device, runtime)

    def share(self, source_tokens: int, target_tokens: int, seconds: float) -> float:
        """Return which share of the machine learning so many tokens in so many seconds is."""
        by_source, by_target = self._each
        return (by_source * source_tokens + by_target * target_tokens) / seconds / self._rate


def operations(model: Transformer) -> tuple[int, int]:
    """Return the floating-point operations that learning from a source token and from a target token takes."""
    encoder = sum(parameter.numel() for parameter in model.encoder.parameters())
    decoder = sum(parameter.numel() for parameter in model.decoder.parameters())
    return 6 * encoder, 6 * (decoder + model.output.weight.numel())


def matrix_rate(
    device: torch.device,
    runtime: RuntimeSettings,
    multiply: Callable[[Tensor, Tensor], Tensor] = kernels.linear,
    small: int = 1024,
) -> float:
    """Return the floating-point operations a second of a large matrix product, in the precision of training.

    On a CPU the matrices have `small` rows and columns, elsewhere 8192.
    """
    size = small if device.type == "cpu" else 8192
    a = torch.ones(size, size, device=device)
    quickest = float("inf")
    with torch.no_grad(), autocast(runtime, device):
        for _ in range(6):  # the first ones are slow
            started = time.perf_counter()
            multiply(a, a)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            quickest = min(quickest, time.perf_counter() - started)
    return 2 * size**3 / quickest
