"""Device, precision, threads and random seeds."""

import contextlib
import ctypes
import hashlib
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version

import torch

from nmt import __version__
from nmt.config import Recipe, RuntimeSettings
from nmt.config.section import SettingError
from nmt.errors import ConfigError, is_oom
from nmt.system.workers import available_cores


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


def environment(settings: RuntimeSettings) -> dict[str, str | int]:
    """Return what results depend on besides a recipe: versions of the program and its libraries, device, threads."""
    device = choose_device(settings)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "nmt": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "sentencepiece", "sacrebleu")},
        "system": platform.system(),
        "device": f"{device.type} ({name})",
        "precision": "bf16" if computes_in_bf16(settings, device) else "fp32",
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


def local_rank() -> tuple[int, int]:
    """Return the number of this process among those that torchrun started on this machine, and how many there are."""
    return int(os.environ.get("LOCAL_RANK") or 0), int(os.environ.get("LOCAL_WORLD_SIZE") or 1)


def set_threads(settings: RuntimeSettings) -> None:
    """Set the number of CPU threads of torch to `thread_count`."""
    torch.set_num_threads(thread_count(settings))


def thread_count(settings: RuntimeSettings) -> int:
    """Return `runtime.threads`, by default OMP_NUM_THREADS, else the number of cores per process on this machine."""
    processes = local_rank()[1]
    # torchrun sets OMP_NUM_THREADS to 1 for several processes, whatever the number of cores
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0] if processes == 1 else ""
    limit = int(given) if given.isdigit() else 0
    return settings.threads or limit or max(1, available_cores() // processes)


def free_memory(device: torch.device) -> int | None:
    """Return the bytes of device memory that are free or cached by this process; None where it is the RAM."""
    if device.type != "cuda":
        return None
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)


@contextlib.contextmanager
def peak_memory(device: torch.device) -> Iterator[list[int]]:
    """Yield a list to which the most bytes of device memory that are reserved within the block are added."""
    peak: list[int] = []
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    yield peak
    peak.append(torch.cuda.max_memory_reserved(device) if device.type == "cuda" else 0)


def reuse_freed_ram() -> None:
    """Make glibc keep freed memory for the next step instead of returning it to the system.

    Arrays are often megabytes large, and glibc returns blocks of that size at once; to get them back, page by page,
    takes a few percent of a training step on a CPU. No effect with other C libraries.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-3, 32 * 2**20)  # M_MMAP_THRESHOLD, at its maximum
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        mallopt(-8, 1)  # M_ARENA_MAX: all threads reuse the same freed memory


def release_cached_blocks(device: torch.device) -> None:
    """Return the free memory that an allocator caches to the device driver or the operating system."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif sys.platform == "linux":
        # under a limit on the process, other allocators need it too, such as oneDNN's for its compiled kernels
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


def computes_in_bf16(settings: RuntimeSettings, device: torch.device) -> bool:
    """Return whether matrix products run in bf16; `auto` is fp32 on a CPU: training and translation replace it."""
    if settings.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return settings.precision == "bf16"


def seed_for(*parts: int | str) -> int:
    """Return a seed that is a function of its purpose, such as ("dropout", seed, step, batch).

    No generator state has to be saved: resuming, sharding and re-running agree.
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
