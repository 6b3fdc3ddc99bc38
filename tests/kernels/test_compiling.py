"""The cache of the compiled kernels."""

import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch

from nmt.kernels import compiling

needs_native = pytest.mark.skipif(compiling.library() is None, reason="needs a C++ compiler")

compile_or_load = compiling.library.__wrapped__


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty cache, for a library that is compiled in a moment."""
    source = tmp_path / "small.cpp"
    source.write_text('extern "C" int answer() { return 42; }\n')
    monkeypatch.setattr(compiling, "_SOURCES", [source])
    monkeypatch.setattr(compiling, "problem", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NMT_CPU_KERNELS", "on")
    return tmp_path / "cache" / "nmt"


def compiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a compiler before that of the system."""
    path = folder / "bin" / "c++"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


@needs_native
def test_kernels_are_compiled_once_for_each_processor(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile_or_load().answer() == 42
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    (made,) = cache.iterdir()
    before = made.stat().st_mtime_ns
    assert compile_or_load() is not None
    assert [path.stat().st_mtime_ns for path in cache.iterdir()] == [before]
    features = compiling.processor_features()
    monkeypatch.setattr(compiling, "processor_features", lambda: features | {"of-another"})
    assert compile_or_load() is not None
    assert len(list(cache.iterdir())) == 2
    assert compiling.problem is None


@needs_native
@pytest.mark.parametrize("size", [0, 5000])
def test_truncated_library_is_compiled_again(cache: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by two processes, here threads, that find it at a time."""
    compile_or_load()
    (made,) = cache.iterdir()
    content, barrier, digest = made.read_bytes(), Barrier(2), compiling._digest

    def digest_for_both(path: Path) -> str:
        found = digest(path)
        if path == made:
            barrier.wait(60)
        return found

    made.unlink()  # the process has mapped this file
    made.write_bytes(content[:size])
    made.chmod(0o700)
    monkeypatch.setattr(compiling, "_digest", digest_for_both)
    with ThreadPoolExecutor() as threads:
        both = [threads.submit(compile_or_load) for _ in range(2)]
    assert [library.result().answer() for library in both] == [42, 42]
    (again,) = cache.iterdir()
    assert again.stat().st_size == len(content)


@needs_native
def test_changed_library_is_not_loaded(cache: Path) -> None:
    compile_or_load()
    (made,) = cache.iterdir()
    content = made.read_bytes()
    made.unlink()
    made.write_bytes(content.replace(b"answer", b"planted"[:6]))
    made.chmod(0o700)
    assert compile_or_load().answer() == 42


@needs_native
@pytest.mark.parametrize("mode", [0o770, 0o702])
@pytest.mark.parametrize("place", ["folder", "file"])
def test_library_that_others_can_change_is_refused(cache: Path, place: str, mode: int) -> None:
    compile_or_load()
    (made,) = cache.iterdir()
    path = cache if place == "folder" else made
    path.chmod(mode)
    assert compile_or_load() is None
    assert compiling.problem is not None
    assert f"other users may change {path}: chmod go-w would forbid it" in compiling.problem
    path.chmod(0o700)
    assert compile_or_load() is not None
    assert compiling.problem is None


@needs_native
def test_library_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_or_load()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert compile_or_load() is None
    assert compiling.problem is not None
    assert f"{cache} belongs to another user" in compiling.problem


@needs_native
def test_relative_cache_folder_is_ignored(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert compile_or_load() is not None
    assert len(list((tmp_path / "home" / ".cache" / "nmt").iterdir())) == 1
    assert not (tmp_path / "relative").exists()


@needs_native
def test_folders_of_killed_compilations_are_removed(cache: Path) -> None:
    compile_or_load()
    for name, age in (("compiling-old", 7200), ("compiling-new", 60)):
        (cache / name).mkdir()
        os.utime(cache / name, (time.time() - age,) * 2)
    (cache / "compiling-gone").symlink_to("nowhere")  # as if another process removed it meanwhile
    assert compile_or_load() is not None
    (cache / "compiling-gone").unlink()
    assert [path.name for path in cache.glob("compiling-*")] == ["compiling-new"]


@needs_native
def test_missing_compiler_is_a_problem_in_words(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert compile_or_load() is None
    assert compiling.problem is not None
    assert compiling.problem.endswith("no C++ compiler found; install g++")


@needs_native
def test_failing_compiler_is_a_problem_in_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, "printf 'In file x:\n  fatal error: no space left\nmore\n' >&2; exit 1", monkeypatch)
    assert compile_or_load() is None
    assert compiling.problem is not None
    assert compiling.problem.endswith("bin/c++ failed: fatal error: no space left")
    assert list(cache.iterdir()) == []


@needs_native
def test_compiler_without_openmp_is_enough(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("c++") or shutil.which("g++")
    compiler(tmp_path, f'case "$*" in *-fopenmp*) exit 1;; esac; exec {real} "$@"', monkeypatch)
    assert compile_or_load().answer() == 42


def test_kernels_that_are_off_are_no_problem(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "problem", "earlier")
    monkeypatch.setenv("NMT_CPU_KERNELS", "off")
    assert compile_or_load() is compiling.problem is None
    assert not cache.exists()


@needs_native
@pytest.mark.skipif(platform.machine() != "x86_64", reason="of other processors there is one kind of vectors")
@pytest.mark.parametrize("like", ["avx2", "default"])
def test_kernels_for_processors_with_fewer_instructions_are_right(like: str) -> None:
    """SSE2, of `default`, has vectors as long as those of ARM."""
    if torch.backends.cpu.get_cpu_capability() == like.upper():
        pytest.skip("all tests here are those of such a processor")
    file = str(Path(__file__).with_name("test_native.py"))
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", file, "-k", "products or attention"]
    variables = {**os.environ, "ATEN_CPU_CAPABILITY": like}
    result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout
