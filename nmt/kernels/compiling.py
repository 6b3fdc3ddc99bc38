"""Compiling the kernels in C++ once on each machine, which takes some seconds, and loading them."""

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

# sums in any order, but NaN remains NaN, and denormal numbers, which -ffast-math turns off for the process, remain
_OPTIONS = ["-shared", "-fPIC", "-O3", "-std=gnu++17"]
_OPTIONS += ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno", "-lm"]
if platform.machine() in ("x86_64", "AMD64"):
    # torch, too, computes as on a processor with fewer instructions by this variable
    _LIKE = {"avx2": "x86-64-v3", "default": "x86-64"}.get(os.environ.get("ATEN_CPU_CAPABILITY", ""), "native")
    _OPTIONS += [f"-march={_LIKE}", "-mprefer-vector-width=512"]
elif sys.platform == "linux":  # compilers of macOS choose the instructions of all its ARM processors by themselves
    _OPTIONS += ["-mcpu=native"]
_SOURCES = sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".cpp", ".h"))
_HOUR = 3600

problem: str | None = None  # after `library` returned None: why, in one line; None if the kernels are off


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load the kernels, compiled now if this machine has not done so before; return None if there are none.

    Then `problem` is the reason, except with NMT_CPU_KERNELS=off.
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
    """Return the result of a kernel; raises MemoryError if it could not allocate what it needs."""
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
        if compiled.stem == f"{name}-{_digest(compiled)}":
            return ctypes.CDLL(str(compiled))
        compiled.unlink()  # it was not written completely, or has changed
    return ctypes.CDLL(str(_compile(compiler, folder, name)))


def _cache_folder() -> Path:
    """Return the folder of compiled kernels, which only this user can write to."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = (caches if caches.is_absolute() else Path.home() / ".cache") / "nmt"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_writable_by_others(folder)
    for left in folder.glob("compiling-*"):  # by a process that was killed
        with suppress(FileNotFoundError):  # another process has ended compiling
            if time.time() - left.stat().st_mtime > _HOUR:
                shutil.rmtree(left, ignore_errors=True)
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
        tempfile.TemporaryDirectory(prefix="compiling-", dir=folder) as beside,
        ThreadPoolExecutor(available_cores()) as threads,
    ):
        made, objects = Path(beside, "kernels.so"), [Path(beside, f"{source.stem}.o") for source in sources]
        for openmp in (["-fopenmp"], []):
            command = [compiler, *_OPTIONS, *openmp, "-o"]
            compilations = [[*command, to, "-c", source] for source, to in zip(sources, objects, strict=True)]
            results = [*threads.map(_run, compilations), _run([*command, made, *objects])]
            if not any(result.returncode for result in results):
                break
        else:
            lines = "".join(result.stderr for result in results).splitlines()
            raise OSError(f"{compiler} failed: {next((line for line in lines if 'error' in line), 'no message')}")
        made.chmod(0o700)
        with made.open("rb+") as file:
            os.fsync(file.fileno())
        return made.replace(folder / f"{name}-{_digest(made)}.so")


def _run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
