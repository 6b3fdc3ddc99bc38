"""Device, precision, threads and seeds: defaults and refusals."""

import functools
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nmt
from nmt.config import RuntimeSettings
from nmt.errors import ConfigError, is_oom
from nmt.kernels import device as device_module
from nmt.kernels import machine
from nmt.system.workers import available_cores
from tests.builders import run_command, write_reversal_task

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def pretend(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, bf16: bool = True) -> list[bool]:
    """Pretend that devices are available; return the list of calls that switch cuDNN attention."""
    cudnn: list[bool] = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", cudnn.append)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(cuda))
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")  # so that it is restored afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16 and not including_emulation)
    return cudnn


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_chooses_the_fastest_device(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, expected: str) -> None:
    pretend(monkeypatch, cuda, mps)
    assert device_module.choose_device(RuntimeSettings()).type == expected
    assert device_module.choose_device(RuntimeSettings(device="cpu")).type == "cpu"


def test_cuda_is_prepared_before_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    cudnn = pretend(monkeypatch, cuda=True, mps=False)
    device_module.choose_device(RuntimeSettings(device="cpu"))
    assert (cudnn, os.environ.get("PYTORCH_ALLOC_CONF")) == ([], None)
    assert device_module.choose_device(RuntimeSettings()) == torch.device("cuda", 0)
    assert (cudnn, os.environ["PYTORCH_ALLOC_CONF"]) == ([False], "expandable_segments:True")


def test_unavailable_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, cuda=False, mps=True)
    with pytest.raises(ConfigError) as caught:
        device_module.choose_device(RuntimeSettings(device="cuda"))
    assert str(caught.value) == "runtime.device: cuda is not available here; this machine has: mps, cpu"


@pytest.mark.parametrize(
    ("precision", "device", "supported", "expected"),
    [
        ("auto", CPU, True, False),
        ("auto", CUDA, True, True),
        ("auto", CUDA, False, False),
        ("auto", torch.device("mps"), True, False),
        ("fp32", CUDA, True, False),
        ("bf16", CPU, False, True),
    ],
)
def test_precision_follows_the_settings(
    monkeypatch: pytest.MonkeyPatch, precision: str, device: torch.device, supported: bool, expected: bool
) -> None:
    pretend(monkeypatch, cuda=True, mps=True, bf16=supported)
    chosen = RuntimeSettings.model_validate({"precision": precision})
    assert (device_module.precision_for(chosen, device) == "bf16") is expected


@pytest.mark.parametrize(
    ("variable", "processes", "expected"),
    [("3", 1, 3), ("2,1", 1, 2), ("0", 1, 8), ("", 1, 8), ("1", 2, 4)],
)
def test_default_thread_count_is_omp_num_threads_unless_torchrun_sets_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, processes: int, expected: int
) -> None:
    monkeypatch.setattr(machine, "available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    assert machine.thread_count(RuntimeSettings()) == expected
    assert machine.thread_count(RuntimeSettings(threads=5)) == 5


@pytest.mark.parametrize(
    ("chosen", "spins"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "passive"}, None)],
)
def test_threads_spin_briefly_unless_the_user_chooses(
    monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str], spins: str | None
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, chosen.get(name, ""))  # so that it is restored afterwards
        if name not in chosen:
            monkeypatch.delenv(name)
    runpy.run_path(str(nmt.__file__))
    assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_importing_the_package_sets_the_spinning_of_threads_before_torch_is_loaded() -> None:
    """As GNU OpenMP itself shows its settings."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command, environment = [sys.executable, "-c", "import nmt, torch"], {**inherited, "OMP_DISPLAY_ENV": "verbose"}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    if "GOMP_" not in shown.stderr:
        pytest.skip("torch is built with another OpenMP than GNU's")
    assert "GOMP_SPINCOUNT = '2000'" in shown.stderr


def test_cores_of_a_container_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {3, 5}, raising=False)
    assert available_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert available_cores(Path("/nowhere")) == 64


@pytest.mark.parametrize(
    ("groups", "limits", "cores"),
    [
        ("0::/", {"cpu.max": "max 100000"}, 64),
        ("0::/", {"cpu.max": "400000 100000"}, 4),
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/a/b", {"cpu.max": "max 100000", "a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        ("0::/of/the/host", {"cpu.max": "200000 100000"}, 2),
        ("3:memory:/x\n2:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "800000", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ("2:cpu,cpuacct:/x", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, 64),
        ("unknown", {"cpu.max": "unknown"}, 64),
    ],
)
def test_quota_of_a_container_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, limits: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: range(64), raising=False)
    files = {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{name}": text for name, text in limits.items()}}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert available_cores(tmp_path) == cores


PARTS = st.lists(st.one_of(st.integers(0, 10**6), st.text(max_size=5)), min_size=1, max_size=4)


@given(PARTS, PARTS)
def test_seeds_are_functions_of_their_purpose(a: list[int | str], b: list[int | str]) -> None:
    assert machine.seed_for(*a) == machine.seed_for(*a)
    assert (machine.seed_for(*a) == machine.seed_for(*b)) == (a == b)
    assert 0 <= machine.seed_for(*a) < 2**63
    torch.Generator().manual_seed(machine.seed_for(*a))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("could not create a primitive descriptor for a matmul primitive"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
        RuntimeError("MPS backend out of memory (MPS allocated: 17 GiB)"),
        torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    ],
    ids=lambda error: str(error)[:60] or type(error).__name__,
)
def test_out_of_memory_errors_are_recognised(error: Exception) -> None:
    assert is_oom(error)


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("train.freeze=[encoding.*]", r"--set train\.freeze=.*: train\.freeze: no weight matches 'encoding\.\*'"),
        ("runtime.device=mps", "--set runtime.device=mps: runtime.device: mps is not available here; this machine has"),
        (
            "model.feed_forward=20_000_000",
            r"recipe\.yaml:9: model: these sizes give 1\.3 billion parameters, ",
        ),
    ],
)
def test_train_refuses_unavailable_devices_before_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, problem: str
) -> None:
    monkeypatch.setattr("torch.backends.mps.is_available", functools.cache(lambda: False))
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 2**20, "SC_PAGE_SIZE": 2**12}.__getitem__)
    recipe = write_reversal_task(tmp_path)
    result = run_command("train", "-c", recipe, "--set", override)
    assert result.exit_code == 2, result.output
    assert re.search(problem, result.output)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "prepared").exists()
