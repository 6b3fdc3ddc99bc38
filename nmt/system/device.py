"""The machine: which device, which precision, how many threads, and where randomness comes from."""

import contextlib
import ctypes
import hashlib
import os
import sys
from typing import get_args

import torch

from nmt.config import RuntimeSettings
from nmt.errors import ConfigError


def runtime_settings(device: str, threads: int | None, precision: str = "auto") -> RuntimeSettings:
    """Return the settings for what a command line asks for. Raises ConfigError for what has no known name."""
    for name, value in (("device", device), ("precision", precision)):
        known = get_args(RuntimeSettings.model_fields[name].annotation)
        if value not in known:
            raise ConfigError(f"--{name} {value}: expected one of {', '.join(known)}")
    return RuntimeSettings.model_validate({"device": device, "threads": threads, "precision": precision})


def choose_device(settings: RuntimeSettings) -> torch.device:
    """Return the device to compute on; `auto` takes cuda, then mps, then cpu. Raises ConfigError if it is not there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if settings.device == "auto":
        return _own(next(name for name, there in available.items() if there))
    if not available[settings.device]:
        there = ", ".join(name for name, is_there in available.items() if is_there)
        raise ConfigError(f"runtime.device: {settings.device} is not available here; this machine has: {there}")
    return _own(settings.device)


def _own(name: str) -> torch.device:
    """Return the device of a kind that is this process's own; of several processes, torchrun gives each a number.

    Raises ConfigError if there are fewer GPUs than processes on this machine.
    """
    number, processes = local_place()
    if name != "cuda" or processes == 1:
        return torch.device(name)
    if processes > torch.cuda.device_count():
        raise ConfigError(
            f"{processes} processes on this machine, which has {torch.cuda.device_count()} GPUs; start torchrun with "
            f"--nproc-per-node {torch.cuda.device_count()}"
        )
    return torch.device(name, number)


def local_place() -> tuple[int, int]:
    """Return which of the processes that torchrun started on this machine this is, and how many there are."""
    return int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def set_threads(settings: RuntimeSettings) -> None:
    """Use as many CPU threads as `thread_count` says."""
    torch.set_num_threads(thread_count(settings))


def thread_count(settings: RuntimeSettings) -> int:
    """Return how many CPU threads were asked for, or how many cores there are for each process on this machine."""
    return settings.threads or max(1, available_cores() // local_place()[1])


def reuse_freed_memory() -> None:
    """Let the C library keep what a step frees for the next one, instead of handing it back and asking for it anew.

    The tensors of a step are megabytes large, and glibc returns such pieces to the system at once; getting them
    back, page by page, takes some percent of a training step on a CPU. Elsewhere nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-3, 32 * 2**20)  # M_MMAP_THRESHOLD, the most that glibc takes
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        mallopt(-8, 1)  # M_ARENA_MAX: what one thread has freed shall serve the others


def release_cached_memory(device: torch.device) -> None:
    """Return the free memory that an allocator caches to the device driver or the operating system."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif sys.platform == "linux":
        # under a limit on the process, other allocators need it too, such as oneDNN's for its compiled kernels
        with contextlib.suppress(OSError, AttributeError):  # a C library other than GNU's
            ctypes.CDLL("libc.so.6").malloc_trim(0)


_OUT_OF_MEMORY_MESSAGES = (
    "DefaultCPUAllocator",
    "could not create a primitive",  # oneDNN
    "CUDA error: out of memory",  # of torch.AcceleratorError, which has other causes too
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "MPS backend out of memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception reports that RAM or device memory ran out.

    torch has a class for its CUDA allocator only; elsewhere it raises RuntimeErrors with the message of a library.
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY_MESSAGES)


def available_cores() -> int:
    """Return how many cores this process may use, which in a container is often fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def autocast(settings: RuntimeSettings, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Return the context in which the model computes: bf16 where asked for or where a GPU has it, else fp32."""
    if computes_in_bf16(settings, device):
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


def computes_in_bf16(settings: RuntimeSettings, device: torch.device) -> bool:
    """Tell whether matrix products run in bf16. `auto` never chooses it on a CPU, where it may be emulated."""
    if settings.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return settings.precision == "bf16"


def seed_for(*parts: int | str) -> int:
    """Return a seed that is a function of what it is for, such as ("dropout", seed, step, rank).

    So no generator's state has to be saved, and resuming, sharding and re-running agree.
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
