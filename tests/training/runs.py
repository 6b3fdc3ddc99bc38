"""Start, interrupt, resume and compare small training runs."""

import json
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from nmt.commands.train import train
from nmt.evaluation.metrics import Score
from nmt.report.run_records import RunRecords
from nmt.system.console import Console
from nmt.training.loop import Training
from nmt.training.run import RunDirectory
from nmt.training.validation import Evaluation, ScoredText
from tests.builders import recipe_in

QUIET = Console(quiet=True)
CPU = torch.device("cpu")


class Outcome(NamedTuple):
    """The end of a training."""

    step: int
    reason: str
    signal: int | None


def train_run(folder: Path, run: Path, *overrides: str, console: Console = QUIET) -> Outcome:
    reason, signal = train(recipe_in(folder, f"run={run}", *overrides), console)
    return Outcome(progress(run)["step"], reason, signal)


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return the log as a reader sees it, without measured times and speeds."""
    read = RunRecords(run)
    clocks = ("seconds", "target_tokens_per_second", "loader_wait")
    records = [*read.train, *read.validations, *read.skipped]
    return [{key: value for key, value in record.items() if key not in clocks} for record in records]


def losses(run: Path) -> list[float]:
    return [record["loss"] for record in metrics(run) if record["type"] == "train"]


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """Return all weights and optimizer moments of the last checkpoint."""
    files = sorted((run / "last").glob("*.safetensors"))
    assert [file.stem for file in files] == ["model", "optimizer"]
    return {f"{file.name}: {name}": tensor for file in files for name, tensor in load_file(file).items()}


def progress(run: Path) -> dict[str, Any]:
    content = json.loads((run / "last" / "progress.json").read_text())
    del content["sha256"], content["interval"]["seconds"], content["interval"]["waited"]
    for clock in ("seconds", "validation_seconds", "last_validation"):
        del content[clock]
    return dict(content)


def same_tensors(a: Path, b: Path) -> bool:
    ours, theirs = tensors(a), tensors(b)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def assert_same_run(a: Path, b: Path) -> None:
    assert same_tensors(a, b)
    assert metrics(a) == metrics(b)
    assert progress(a) == progress(b)
    assert saved_steps(a) == saved_steps(b)
    assert [os.readlink(a / name) for name in ("best", "last")] == [os.readlink(b / name) for name in ("best", "last")]


def saved_steps(run: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in RunDirectory(run).saved()]


def interrupt_at(patch: pytest.MonkeyPatch, step: int, number: signal.Signals = signal.SIGINT) -> None:
    """Send this process a signal during the update of a step."""
    plain = Training.step

    def step_and_signal(training: Training, *arguments: Any) -> None:
        plain(training, *arguments)
        if training.progress.step == step:
            signal.raise_signal(number)

    patch.setattr(Training, "step", step_and_signal)


def break_gradients(patch: pytest.MonkeyPatch, *steps: int) -> None:
    """Make a weight's gradient NaN in these steps."""
    plain = Training.__init__

    def broken(training: Training, *arguments: Any) -> None:
        plain(training, *arguments)
        factor = {step: float("nan") for step in steps}
        weight = training.model.encoder_norm.weight
        weight.register_hook(lambda gradient: gradient * factor.get(training.progress.step, 1.0))

    patch.setattr(Training, "__init__", broken)


def evaluation_of(loss: float, bleu: float, chrf: float, output: str = "due") -> Evaluation:
    """Return the evaluation of a text of one sentence."""
    text = ScoredText(["one"], ["uno"], "it")
    return Evaluation([text], [[output]], [(Score("BLEU", bleu, ""), Score("chrF2", chrf, ""))], loss)
