"""Cores, instructions and GPUs of this machine, found without torch, which takes seconds to import; RAM; seeds."""

import ctypes
import gc
import hashlib
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from nmt.config import RuntimeSettings
from nmt.system.workers import available_cores

_LEAST_BF16_DIM = 128
# arguments of arch_prctl, from Linux's asm/prctl.h: a request for permission to use tile registers
_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


@cache
def processor_features() -> frozenset[str]:
    """Return the instruction sets of a processor under Linux by their names in /proc/cpuinfo; elsewhere none."""
    if sys.platform != "linux":
        return frozenset()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    instructions = set(next((line for line in lines if line.startswith(("flags", "Features"))), "").split())
    # this variable also restricts the instructions that torch uses
    absent = {"avx2": ("avx512", "avx_", "amx"), "default": ("avx", "fma", "amx")}
    for prefix in absent.get(os.environ.get("ATEN_CPU_CAPABILITY", ""), ()):
        instructions = {name for name in instructions if not name.startswith(prefix)}
    return frozenset(instructions)


def prefers_bf16(dim: int) -> bool:
    """Return whether a model of this width computes faster in bf16; in narrow ones, conversions cost what bf16 saves.

    On a processor without instructions for bf16, it is slower than fp32.
    """
    has_bf16 = bool(processor_features() & {"avx512_bf16", "amx_bf16"}) and "avx512bw" in processor_features()
    return has_bf16 and dim >= _LEAST_BF16_DIM and os.environ.get("NMT_CPU_KERNELS", "on") != "off"


@cache
def has_amx() -> bool:
    """Return whether the processor multiplies tiles of bf16 numbers, and the system permits it to this process."""
    if not {"amx_tile", "amx_bf16"} <= processor_features():
        return False
    return bool(ctypes.CDLL(None).syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0)


def is_cpu(device: str) -> bool:
    """Return whether `runtime.device` is certainly the CPU; if not, torch is needed to find the device."""
    if device != "auto" or sys.platform != "linux":
        return device == "cpu"
    with suppress(OSError):  # there is no driver of NVIDIA
        ctypes.CDLL("libcuda.so.1")
        return False
    return not Path("/dev/kfd").exists()  # of AMD's driver


def local_rank() -> tuple[int, int]:
    """Return the local rank of this process, and the local world size: the processes of torchrun on this machine."""
    return int(os.environ.get("LOCAL_RANK") or 0), int(os.environ.get("LOCAL_WORLD_SIZE") or 1)


def thread_count(settings: RuntimeSettings) -> int:
    """Return `runtime.threads`, by default OMP_NUM_THREADS, else the number of cores per process on this machine."""
    processes = local_rank()[1]
    # torchrun sets OMP_NUM_THREADS to 1 for several processes, whatever the number of cores
    omp_num_threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0] if processes == 1 else ""
    limit = int(omp_num_threads) if omp_num_threads.isdigit() else 0
    return settings.threads or limit or max(1, available_cores() // processes)


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


def collect_garbage_rarely() -> None:
    """Exclude the objects of this process so far, such as modules and models, from garbage collection; collect rarely.

    Translating a batch of lines makes many objects that live as long as the batch. Each thousand of them starts a
    collection, and some of these visit every object of torch: half of the host's time in a search on a GPU.
    """
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def seed_for(*parts: int | str) -> int:
    """Return a seed that is a function of its purpose, such as ("dropout", seed, step, batch).

    No generator state has to be saved: resuming, sharding and re-running agree.
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
