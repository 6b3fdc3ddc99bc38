"""Compile the Triton kernels of an update and of a search for a GPU, which need not be there.

    python -m tests.compile_for_gpu CAPABILITY PRECISION

The capability is that of CUDA, such as 90 of an H200. Prints a JSON list of name, bytes of shared memory, and bytes of
the stack of a thread, to which the compiler moves what does not fit into registers. Nothing is computed.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from nmt.config import ModelSettings
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.errors import ModelError
from nmt.kernels import cuda
from nmt.kernels.cuda import CudaKernels
from nmt.model.transformer import Transformer
from tests.kernels.test_cuda import assemble, sentences

CPU, VOCABULARY = torch.device("cpu"), 90


class Gpu:
    """What Triton asks its driver when it compiles."""

    capability: ClassVar[int]

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)


class Enough(Exception):
    """All kernels of a search are compiled."""


class Compiled(CudaKernels):
    """Kernels on a CPU, where only sums of bf16 products in fp32 are missing, which Triton has no part in."""

    @staticmethod
    def advance(*state: Any) -> None:
        cuda.triton_search.advance(*state)
        raise Enough


def product_in_fp32(left: Tensor, right: Tensor) -> Tensor:
    return left.float() @ right.float()


def add_product(total: Tensor | None, left: Tensor, right: Tensor) -> Tensor | None:
    return product_in_fp32(left, right) if total is None else None


def stack_bytes(cubin: bytes) -> int:
    """Return the bytes of the stack, as the tool of NVIDIA that comes with Triton shows them."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(shown.partition("STACK:")[2].split()[0])


def compile_all(precision: str) -> list[tuple[str, int, int]]:
    """Compile what a model with heads of 64 numbers needs."""
    compiled: dict[int, tuple[str, Any]] = {}
    run = JITFunction.run

    def compile_only(function: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(function, *arguments, grid=grid, warmup=True, **options)
        compiled[id(kernel)] = function.fn.__name__, kernel
        return kernel

    JITFunction.run = compile_only
    cuda._product_in_fp32, cuda._add_product = product_in_fp32, add_product
    settings = {"encoder_layers": 1, "decoder_layers": 1, "dim": 128, "feed_forward": 256, "heads": 2}
    model = Transformer(
        ModelSettings.model_validate({**settings, "positions": "rotary", "activation_dropout": 0.1}),
        VOCABULARY,
        VOCABULARY,
    )
    model.compute_with(Compiled(CPU, precision, 256))
    for lengths in ((3, 4), (70, 66)):  # of sentences in one tile, and of a longer one
        batch = assemble([(sentences(lengths[0]), sentences(lengths[1]))], model.kernels.sizes)
        model.loss(batch.copied(model.kernels.to_device), 0.1)[0].backward()
    model.compute_with(Compiled(CPU, precision))
    with torch.no_grad():
        for beam in (1, 4):
            with contextlib.suppress(Enough, IndexError, ModelError):  # of numbers that are not computed
                search([model.eval().for_inference(model.kernels)], [[5, 3]], SearchOptions(beam=beam))
    return [(name, kernel.metadata.shared, stack_bytes(kernel.asm["cubin"])) for name, kernel in compiled.values()]


if __name__ == "__main__":
    Gpu.capability = int(sys.argv[1])
    driver.set_active(Gpu())
    print(json.dumps(compile_all(sys.argv[2])))
