"""The choice of a device and its kernels, precision and threads."""

import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version

import torch
from torch import nn

from nmt import __version__
from nmt.config import Recipe, RuntimeSettings
from nmt.config.section import SettingError
from nmt.errors import ConfigError, is_oom
from nmt.kernels.constant_products import Floats
from nmt.kernels.cpu import CpuKernels
from nmt.kernels.machine import has_amx, local_rank, prefers_bf16, thread_count
from nmt.kernels.reference import Kernels, Precision


def choose_device(settings: RuntimeSettings) -> torch.device:
    """Return the device to compute on, with several GPUs that of this process; `auto` tries cuda, then mps, then cpu.

    Raises ConfigError if it is not available, or if there are more processes than GPUs.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    names = [name for name, is_available in available.items() if is_available]
    name = names[0] if settings.device == "auto" else settings.device
    if name not in names:
        raise SettingError("runtime.device", f"{name} is not available here; this machine has: {', '.join(names)}")
    return _prepare_cuda() if name == "cuda" else torch.device(name)


def kernels_for(device: torch.device, precision: Precision = "fp32", target_rows: int = 0) -> Kernels:
    """Return the fastest kernels for a device; `target_rows` is the size of most batches in training.

    If the kernels for this device cannot be used, `Kernels.problem` is the reason.
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


def precision_for(runtime: RuntimeSettings, device: torch.device, dim: int = 0) -> Precision:
    """Return the precision of a model of this width, 0 if none is known: `auto` is bf16 where that is faster."""
    if runtime.precision != "auto":
        return runtime.precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if device.type == "cpu" and prefers_bf16(dim) else "fp32"


def arrays_of(model: nn.Module) -> dict[str, Floats] | None:
    """Return the weights of a model by name, in fp32; None if they are not in RAM."""
    weights = dict(model.named_parameters())
    if any(weight.device.type != "cpu" for weight in weights.values()):
        return None
    return {name: weight.detach().float().contiguous().numpy() for name, weight in weights.items()}


def environment(settings: RuntimeSettings) -> dict[str, str | int]:
    """Return what results depend on besides a recipe: versions of the program and its libraries, device, threads."""
    device = choose_device(settings)
    name = f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}{', AMX' * has_amx()}"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "nmt": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "numpy", "sentencepiece", "sacrebleu")},
        "system": platform.system(),
        "device": f"{device.type} ({name})",
        "kernels": kernels_for(device, precision_for(settings, device)).description,
        "threads": torch.get_num_threads(),
    }


def check_machine(recipe: Recipe) -> None:
    """Raise SettingError if this machine lacks the device of a recipe, or has too little RAM for the weights."""
    choose_device(recipe.runtime)
    weights = 4 * recipe.model.weight_count(*[recipe.tokenizer.largest_vocabulary] * 2)
    ram = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if weights > ram:
        raise SettingError(
            "model",
            f"these sizes give {weights / 4e9:,.1f} billion parameters, {weights / 2**30:,.1f} GiB in fp32, but this "
            f"machine has {ram / 2**30:,.1f} GiB of RAM; reduce encoder_layers, decoder_layers, dim or feed_forward",
        )


def _prepare_cuda() -> torch.device:
    """Return this process's GPU and set what CUDA needs before its first use."""
    number, processes = local_rank()
    if processes > torch.cuda.device_count():
        raise ConfigError(
            f"{processes} processes on this machine, which has {torch.cuda.device_count()} GPUs; start torchrun with "
            f"--nproc-per-node {torch.cuda.device_count()}"
        )
    if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        # batches of many shapes fragment the memory otherwise
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    # torch >= 2.11 prefers cuDNN attention on Hopper GPUs, which builds a plan for each new shape and can return NaN
    # (https://github.com/pytorch/pytorch/issues/196678)
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda", number)


def set_threads(settings: RuntimeSettings) -> None:
    """Set the number of CPU threads of torch to `thread_count`."""
    torch.set_num_threads(thread_count(settings))


def free_memory(device: torch.device) -> int | None:
    """Return the bytes of device memory that are free or cached by this process; None if that is the RAM."""
    if device.type != "cuda":
        return None
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)


@contextlib.contextmanager
def peak_memory(device: torch.device) -> Iterator[list[int]]:
    """Yield a list that contains, after the block, the peak of reserved device memory in bytes."""
    peak: list[int] = []
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    yield peak
    peak.append(torch.cuda.max_memory_reserved(device) if device.type == "cuda" else 0)


def release_cached_blocks(device: torch.device) -> None:
    """Release free memory, which the allocator caches, to the device driver or the operating system."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif sys.platform == "linux":
        # if the process has a memory limit, other allocators need this memory, such as oneDNN's for compiled kernels
        with contextlib.suppress(OSError, AttributeError):  # a C library other than GNU's
            ctypes.CDLL("libc.so.6").malloc_trim(0)


@contextlib.contextmanager
def oom_explained(device: torch.device) -> Iterator[None]:
    """Turn an out-of-memory error into a ConfigError."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_oom(error):
            raise
        raise ConfigError(
            f"the memory of {device} is full: lower train.batch_tokens, or decode.batch_tokens if it was translating, "
            "make the model smaller, or free memory that other programs use"
        ) from None
