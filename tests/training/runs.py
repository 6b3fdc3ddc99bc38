"""Start, interrupt, resume and compare small training runs."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from nmt.batching.batch_stream import Prefetcher
from nmt.commands.train import Outcome, train
from nmt.evaluation.metrics import Score
from nmt.system.console import Console
from nmt.training.loop import Training
from nmt.training.progress import Progress
from nmt.training.run import RunDirectory
from nmt.training.validation import Evaluation, Sample, TextEvaluation
from tests.builders import recipe_in

QUIET = Console(quiet=True)
CPU = torch.device("cpu")


def train_run(folder: Path, run: Path, *overrides: str) -> Outcome:
    return train(recipe_in(folder, f"run={run}", *overrides), QUIET)


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return the log records without measured times and speeds."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    clocks = ("seconds", "target_tokens_per_second", "loader_wait")
    return [{key: value for key, value in record.items() if key not in clocks} for record in records]


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """Return all weights and optimizer moments of the last checkpoint."""
    files = sorted((run / "last").glob("*.safetensors"))
    assert len(files) >= 2
    return {f"{file.name}: {name}": tensor for file in files for name, tensor in load_file(file).items()}


def progress(run: Path) -> dict[str, Any]:
    content = json.loads((run / "last" / "progress.json").read_text())
    del content["seconds"], content["interval"]["seconds"], content["interval"]["waited"]
    return dict(content)


def same_tensors(a: Path, b: Path) -> bool:
    ours, theirs = tensors(a), tensors(b)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def assert_same_run(a: Path, b: Path) -> None:
    assert same_tensors(a, b)
    assert metrics(a) == metrics(b)
    assert progress(a) == progress(b)
    assert saved_steps(a) == saved_steps(b)
    assert {name: os.readlink(a / name) for name in ("best", "last")} == {
        name: os.readlink(b / name) for name in ("best", "last")
    }


def saved_steps(run: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in RunDirectory(run).saved()]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int, number: signal.Signals = signal.SIGINT) -> None:
    """Send this process a signal after the update of a step."""
    plain = Training.step

    def step_and_signal(training: Training, feed: Prefetcher) -> None:
        plain(training, feed)
        if training.progress.step == step:
            signal.raise_signal(number)

    monkeypatch.setattr(Training, "step", step_and_signal)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Send this process SIGTERM at the n-th step that it executes, whatever the step's number."""
    made: list[int] = []
    plain = Training.step

    def step_and_signal(training: Training, feed: Prefetcher) -> None:
        made.append(training.progress.step)
        if len(made) == steps:
            signal.raise_signal(signal.SIGTERM)
        plain(training, feed)

    monkeypatch.setattr(Training, "step", step_and_signal)


def break_gradients(monkeypatch: pytest.MonkeyPatch, when: Callable[[Progress], bool]) -> None:
    """Make a weight's gradient NaN in the steps for which `when` is true."""
    plain = Training.__init__

    def broken(training: Training, *arguments: Any) -> None:
        plain(training, *arguments)
        weight = training.model.encoder_norm.weight
        weight.register_hook(lambda gradient: gradient * (float("nan") if when(training.progress) else 1.0))

    monkeypatch.setattr(Training, "__init__", broken)


def fails_at_6_to_11_unless_slower(progress: Progress) -> bool:
    return 6 <= progress.step <= 11 and progress.adjustments.rate == 1


def skipped_steps(run: Path) -> list[int]:
    return [record["step"] for record in metrics(run) if record["type"] == "skipped"]


_SAMPLE = Sample("one", "uno", "due")


def evaluation_of(loss: float, bleu: float, chrf: float, sample: Sample = _SAMPLE) -> Evaluation:
    """Return the evaluation of a text of one sentence."""
    scores = Score("BLEU", bleu, ""), Score("chrF2", chrf, "")
    return Evaluation((TextEvaluation("it", [sample.output], *scores, sample),), loss)
