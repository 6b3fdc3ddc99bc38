"""What training costs: operations, the rate of this machine, and the minutes of a proposed training.

A weight and token take 6 floating-point operations: 2 forward, 4 backward. The encoder's weights count with source
tokens, the decoder's and the output's with target tokens. Attention between tokens and padding are not counted.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.config import ModelSettings, RuntimeSettings
from nmt.model import cpu
from nmt.system.device import choose_device, computes_in_bf16, set_threads
from nmt.text.proposing.proposal import Proposal

# Least and largest share of the rate that trainings reach: on a CPU 28 % for the demo, 54 % for dim 256 and 4,096
# tokens (benchmarks/RESULTS.md), 80 % of the rate in fp32 where training chooses bf16; on GPUs it is not measured yet.
_UTILIZATION = {"cpu": (0.2, 1.0), "cuda": (0.05, 0.4), "mps": (0.05, 0.4)}


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
    seconds = operations(proposal.model, proposal.vocabulary, *proposal.trained_tokens) / matrix_rate(device, runtime)
    low, high = _UTILIZATION[device.type]
    return Cost(proposal, device.type, (seconds / high / 60, seconds / low / 60))


def operations(model: ModelSettings, vocabulary: int, source_tokens: float, target_tokens: float) -> float:
    """Return the floating-point operations of training on so many tokens."""
    encoder, decoder = model.layer_weights
    return 6 * (encoder * source_tokens + (decoder + vocabulary * model.dim) * target_tokens)


def matrix_rate(
    device: torch.device,
    runtime: RuntimeSettings,
    multiply: Callable[[Tensor, Tensor], Tensor] = cpu.linear,
) -> float:
    """Measure the floating-point operations a second of a large matrix product, in the precision of training.

    The fastest of several products counts, and on a CPU they are short, so that other programs seldom interrupt them.
    The matrices hold random numbers of the final type: GPUs multiply constants faster, and nothing is converted.
    """
    size, products = (1024, 24) if device.type == "cpu" else (8192, 6)
    dtype = torch.bfloat16 if computes_in_bf16(runtime, device) else torch.float32
    a = torch.randn(size, size, device=device, dtype=dtype, generator=torch.Generator(device).manual_seed(0))
    fastest = float("inf")
    with torch.no_grad():
        for _ in range(products):  # the first ones are slow
            started = time.perf_counter()
            multiply(a, a)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            fastest = min(fastest, time.perf_counter() - started)
    return 2 * size**3 / fastest
