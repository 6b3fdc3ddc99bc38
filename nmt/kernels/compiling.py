"""Compilation of the C++ kernels, once on each machine, which takes some seconds, and their loading."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from nmt.kernels.machine import processor_features
from nmt.system.workers import available_cores

# sums in any order; unlike with -ffast-math, NaN remains NaN, and the process still computes denormal numbers
_OPTIONS = ["-shared", "-fPIC", "-O3", "-std=gnu++17"]
_OPTIONS += ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"]
if platform.machine() in ("x86_64", "AMD64"):
    # this variable also restricts the instructions that torch uses
    _ARCHITECTURE = {"avx2": "x86-64-v3", "default": "x86-64"}.get(os.environ.get("ATEN_CPU_CAPABILITY", ""), "native")
    _OPTIONS += [f"-march={_ARCHITECTURE}", "-mprefer-vector-width=512"]
elif sys.platform == "linux":  # compilers of macOS choose the instructions of all its ARM processors by themselves
    _OPTIONS += ["-mcpu=native"]
_SOURCES = sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".cpp", ".h"))
_HOUR = 3600

problem: str | None = None  # the reason why `library` returned None, in one line; None if the kernels are turned off


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load the kernels, and compile them first if they are not in the cache; return None if that is not possible.

    `problem` is then the reason, except with NMT_CPU_KERNELS=off.
    """
    global problem
    problem = None
    if os.environ.get("NMT_CPU_KERNELS", "on") == "off":
        return None
    try:
        return _load(sorted(processor_features()))
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder
        problem = "the kernels for this processor cannot be used: " + " ".join(str(error).split())
        return None


def checked(result: int) -> int:
    """Return the result of a kernel; raise MemoryError if it is negative, because an allocation failed."""
    if result < 0:
        raise MemoryError("the RAM is full")
    return result


def _load(features: list[str]) -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise OSError("no C++ compiler found; install g++")
    status = os.stat(compiler)  # differs after an upgrade; a call for the version would take longer
    key = hashlib.sha256(repr((compiler, status.st_size, status.st_mtime_ns, _OPTIONS, features)).encode())
    for source in _SOURCES:
        key.update(source.read_bytes())
    folder = _cache_folder()
    name = f"kernels-{key.hexdigest()[:16]}"
    for compiled in folder.glob(f"{name}-*.so"):
        _refuse_writable_by_others(compiled)
        if compiled.stem == f"{name}-{_digest(compiled)}":  # else it was not written completely, or has changed
            return ctypes.CDLL(str(compiled))
    return ctypes.CDLL(str(_compile(compiler, folder, name)))


def _cache_folder() -> Path:
    """Return the folder of compiled kernels, which only this user can write to."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = (caches if caches.is_absolute() else Path.home() / ".cache") / "nmt"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_writable_by_others(folder)
    for leftover in folder.glob("compiling-*"):  # by a process that was killed
        with suppress(FileNotFoundError):  # another process has finished compiling
            if time.time() - leftover.stat().st_mtime > _HOUR:
                shutil.rmtree(leftover, ignore_errors=True)
    return folder


def _refuse_writable_by_others(path: Path) -> None:
    status = os.stat(path)
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    if status.st_mode & 0o022:
        raise PermissionError(f"other users may change {path}: chmod go-w would forbid it")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _compile(compiler: str, folder: Path, name: str) -> Path:
    """Compile the kernels, with several threads if this compiler has OpenMP; return the file, named by its digest."""
    sources = [path for path in _SOURCES if path.suffix == ".cpp"]
    with (
        tempfile.TemporaryDirectory(prefix="compiling-", dir=folder) as temporary,
        ThreadPoolExecutor(available_cores()) as threads,
    ):
        compiled, objects = Path(temporary, "kernels.so"), [Path(temporary, f"{source.stem}.o") for source in sources]
        for openmp in (["-fopenmp"], []):
            command = [compiler, *_OPTIONS, *openmp, "-o"]
            compilations = [[*command, output, "-c", source] for source, output in zip(sources, objects, strict=True)]
            results = [*threads.map(_run, compilations), _run([*command, compiled, *objects])]
            if not any(result.returncode for result in results):
                break
        else:
            lines = "".join(result.stderr for result in results).splitlines()
            raise OSError(f"{compiler} failed: {next((line for line in lines if 'error' in line), 'no message')}")
        compiled.chmod(0o700)
        with compiled.open("rb+") as file:
            os.fsync(file.fileno())
        return compiled.replace(folder / f"{name}-{_digest(compiled)}.so")


def _run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
