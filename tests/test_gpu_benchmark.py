"""The script that checks and measures nmt on a GPU, run in small on the CPU."""

import json
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from nmt.decoding.beam import Hypothesis


def test_tiny_run_on_a_cpu_measures_everything_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu, "VARIANTS", gpu.VARIANTS[:2])
    monkeypatch.setattr(gpu, "matrix_rate", lambda *_: 1e12)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--tiny"])
    assert gpu.main() == 0
    *table, summary = capsys.readouterr().out.splitlines()
    values = json.loads(summary)
    assert len(table) == len(values)
    assert not any(line.endswith("FAILED") for line in table)
    assert sum(line.endswith(" ok") for line in table) == 3 * len(gpu.VARIANTS) + 2
    assert values["resumed training: largest difference of a weight"] == 0
    assert values["target tokens/s"] > 0
    assert values["beam 5, batches of 2,048 tokens: target tokens/s"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "rate"), [("NVIDIA H200", 989e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA L4", 121e12), ("Tesla T4", None)]
)
def test_nominal_rate_is_that_of_the_data_sheet(monkeypatch: pytest.MonkeyPatch, name: str, rate: float | None) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert gpu.nominal_rate(torch.device("cuda")) == rate


def test_a_failed_check_is_shown_and_ends_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--tiny"])
    monkeypatch.setattr(gpu, "VARIANTS", [{}])
    monkeypatch.setattr(gpu, "LARGEST_DIFFERENCE", {"fp32": 0.0})
    outputs = iter(range(100))
    monkeypatch.setattr(
        gpu, "search", lambda model, source, *_: [[Hypothesis([next(outputs)], 0.0, 0.0)]] * len(source)
    )
    for name in ("machine", "resuming", "out_of_memory", "training_speed", "decoding_speed"):
        function = lambda setup: []  # noqa: E731
        function.__name__ = name
        monkeypatch.setattr(gpu, name, function)
    assert gpu.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[:2]] == ["FAILED", "FAILED"]
