"""What is found without torch is what torch finds."""

import ctypes
import sys
from pathlib import Path

import pytest
import torch

from nmt.kernels import machine
from nmt.kernels.machine import has_amx, is_cpu, prefers_bf16, processor_features

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/cpuinfo")


@linux_only
def test_instruction_sets_are_those_that_torch_finds() -> None:
    features = processor_features()
    assert ("avx2" in features) == torch.cpu._is_avx2_supported()
    assert ("avx512bw" in features) == torch.cpu._is_avx512_supported()
    assert ("avx512_bf16" in features) == torch.cpu._is_avx512_bf16_supported()
    assert has_amx() == torch.cpu._is_amx_tile_supported()


@linux_only
def test_instruction_sets_follow_the_choice_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    features = processor_features.__wrapped__()
    assert not any(name.startswith(("avx512", "amx")) for name in features)
    assert ("avx2" in features) == ("avx2" in processor_features())


@pytest.mark.parametrize(
    ("features", "dim", "variable", "expected"),
    [
        ({"avx512bw", "avx512_bf16"}, 128, "on", True),
        ({"avx512bw", "amx_bf16"}, 512, "on", True),
        ({"avx512bw", "avx512_bf16"}, 64, "on", False),
        ({"avx512bw"}, 512, "on", False),
        ({"avx512bw", "avx512_bf16"}, 512, "off", False),
    ],
)
def test_bf16_is_for_wide_models_on_processors_with_instructions_for_it(
    monkeypatch: pytest.MonkeyPatch, features: set[str], dim: int, variable: str, expected: bool
) -> None:
    monkeypatch.setattr(machine, "processor_features", lambda: features)
    monkeypatch.setenv("NMT_CPU_KERNELS", variable)
    assert prefers_bf16(dim) is expected


@linux_only
@pytest.mark.parametrize(
    ("nvidia", "amd", "expected"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_a_driver_of_a_gpu_leaves_the_choice_to_torch(
    monkeypatch: pytest.MonkeyPatch, nvidia: bool, amd: bool, expected: bool
) -> None:
    def load(name: str) -> None:
        if not nvidia:
            raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(Path, "exists", lambda path: amd and str(path) == "/dev/kfd")
    assert is_cpu("auto") is expected
    assert is_cpu("cpu")
    assert not is_cpu("cuda")
