"""What training costs: operations, the rate of this machine, and the minutes of a proposed training.

A weight and token take 6 floating-point operations: 2 forward, 4 backward. The encoder's weights count with source
tokens, the decoder's and the output's with target tokens. Attention between tokens and padding are not counted.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nmt.config import ModelSettings, RuntimeSettings
from nmt.kernels import Kernels, kernels_for
from nmt.system.device import choose_device, computes_in_bf16, set_threads
from nmt.text.proposing.proposal import Proposal

_SMALLEST, _LARGEST, _PRODUCTS = 1024, 8192, 12  # sizes of matrices, and products of each


@dataclass(frozen=True)
class Cost:
    """A proposal for the device of this machine, and the range of what it takes."""

    proposal: Proposal
    device: str
    minutes: tuple[float, float]


def cost(propose_for: Callable[[str], Proposal]) -> Cost:
    """Choose the device, make the proposal for it, and measure how fast it is."""
    runtime = RuntimeSettings()
    device = choose_device(runtime)
    set_threads(runtime)
    proposal = propose_for(device.type)
    kernels = kernels_for(device, "bf16" if computes_in_bf16(runtime, device) else "fp32")
    seconds = operations(proposal.model, proposal.vocabulary, *proposal.trained_tokens) / matrix_rate(kernels)
    low, high = kernels.utilization
    return Cost(proposal, device.type, (seconds / high / 60, seconds / low / 60))


def operations(model: ModelSettings, vocabulary: int, source_tokens: float, target_tokens: float) -> float:
    """Return the floating-point operations of training on so many tokens."""
    encoder, decoder = model.layer_weights
    return 6 * (encoder * source_tokens + (decoder + vocabulary * model.dim) * target_tokens)


def matrix_rate(kernels: Kernels) -> float:
    """Measure the floating-point operations a second of a large matrix product.

    The fastest of several products counts, and they are short, so that other programs seldom interrupt them: matrices
    of 1,024 rows, or of more where that takes less than a millisecond. They hold random numbers of the final type: GPUs
    multiply constants faster, and nothing is converted.
    """
    size, fastest = _SMALLEST, 0.0
    while fastest < 1e-3 and size <= _LARGEST:
        a = kernels.rounded(torch.randn(size, size, generator=torch.Generator().manual_seed(0)).to(kernels.device))
        seconds = []
        with torch.no_grad():
            for _ in range(_PRODUCTS):  # the first ones are slow
                started = time.perf_counter()
                kernels.read_later(kernels.product(a, a)[0, :1])()
                seconds.append(time.perf_counter() - started)
        rate, fastest = 2 * size**3 / min(seconds), min(seconds)
        size *= 2
    return rate
