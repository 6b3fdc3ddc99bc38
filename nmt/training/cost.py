"""What a proposed training will cost on this machine: minutes and memory, from the measured rate of matrix products."""

from collections.abc import Callable
from dataclasses import dataclass

from nmt.config import RuntimeSettings
from nmt.system.device import choose_device, set_threads
from nmt.text.proposing.proposal import Proposal
from nmt.training.utilization import matrix_rate

_UTILIZATION = {"cpu": (0.2, 1.0), "cuda": (0.05, 0.4), "mps": (0.05, 0.4)}
"""Least and largest share of the rate that trainings reach: on a CPU 28 % for the demo, 54 % for dim 256 and 4,096
tokens (benchmarks/RESULTS.md), 80 % of the rate in fp32 where a trial chooses bf16; on GPUs it is not measured yet."""
_RAM = (0.8, 2.2)
"""Factors on the computed memory: 3+3 layers of dim 256 took 0.8 GiB in fp32 and 1.4 GiB in bf16 with 1,024 tokens."""
_PROCESS_BYTES = (350 * 2**20, 650 * 2**20)  # of Python and torch without a model, and with the search for translations


@dataclass(frozen=True)
class Cost:
    """A proposal for the device of this machine, and ranges of what it takes."""

    proposal: Proposal
    device: str
    minutes: tuple[float, float]
    gibibytes: tuple[float, float]
    """Of RAM on a CPU, of device memory otherwise."""


def cost(propose_for: Callable[[str], Proposal]) -> Cost:
    """Choose the device, make the proposal for it, and measure how fast it is."""
    runtime = RuntimeSettings()
    device = choose_device(runtime)
    set_threads(runtime)
    proposal = propose_for(device.type)
    seconds = operations(proposal) / matrix_rate(device, runtime)
    low, high = _UTILIZATION[device.type]
    process = _PROCESS_BYTES if device.type == "cpu" else (0, 0)
    least, most = ((fixed + factor * proposal.ram) / 2**30 for fixed, factor in zip(process, _RAM, strict=True))
    return Cost(proposal, device.type, (seconds / high / 60, seconds / low / 60), (least, most))


def operations(proposal: Proposal) -> float:
    """Return the floating-point operations of the training: 6 for each weight and token (see `utilization`)."""
    model = proposal.model
    encoder = model.encoder_layers * (4 * model.dim**2 + 2 * model.dim * model.feed_forward)
    decoder = model.decoder_layers * (8 * model.dim**2 + 2 * model.dim * model.feed_forward)
    source, target = proposal.trained_tokens
    return 6 * (encoder * source + (decoder + proposal.vocabulary * model.dim) * target)
