"""Non-finite updates are skipped; several in a row cause a rollback; rising losses give warnings."""

import json
import re
import signal
from pathlib import Path

import pytest
import torch

from nmt.batching.batch_stream import Prefetcher
from nmt.commands.train import train
from nmt.errors import ModelError
from nmt.model.checkpoint import load_model
from nmt.system.console import Console
from nmt.training.divergence import DivergenceMonitor
from nmt.training.loop import Training
from nmt.training.progress import Progress
from tests.builders import recipe_in, reversal_pairs
from tests.training.runs import (
    break_gradients,
    fails_at_6_to_11_unless_slower,
    interrupt_after,
    metrics,
    progress,
    same_tensors,
    saved_steps,
    skipped_steps,
    tensors,
    train_run,
)


def test_update_with_nan_gradient_is_skipped_and_kept(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_gradients(monkeypatch, lambda progress: progress.step in (2, 7, 8))
    run = tmp_path / "run"
    train_run(texts, run)
    assert skipped_steps(run) == [2, 7, 8]
    (record, *_) = (record for record in metrics(run) if record["type"] == "skipped")
    assert float(record["loss"]) > 0
    assert record["gradient_norm"] == "nan"
    # the validation of step 8 comes with the first update after it
    assert [record["step"] for record in metrics(run) if record["type"] == "validation"] == [4, 9, 12]
    assert (progress(run)["skipped"], progress(run)["skipped_in_a_row"]) == (3, 0)
    kept = json.loads((run / "skipped" / "step-00000007.json").read_text())
    known = set(reversal_pairs(200, 1))
    assert kept["gradient_norm"] == "nan"
    assert {(pair["source"], pair["target"]) for pair in kept["pairs"]} <= known
    assert sum(len(pair["target_ids"]) for pair in kept["pairs"]) <= 64
    err = capsys.readouterr().err
    assert "gradient norm nan: skipped; its batch is in run/skipped/step-00000007.json" in err
    assert progress(run)["target_tokens"] < 9 * 64


def at_steps_2_7_8(progress: Progress) -> bool:
    return progress.step in (2, 7, 8)


@pytest.fixture(scope="module")
def with_skipped(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run that skips updates."""
    run = tmp_path_factory.mktemp("skipped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        break_gradients(patch, at_steps_2_7_8)
        train_run(texts, run)
    return run


@pytest.mark.parametrize("steps", [2, 3, 7])
def test_resumed_run_with_skipped_updates_equals_uninterrupted_run(
    texts: Path, with_skipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The step count of Adam excludes skipped updates."""
    break_gradients(monkeypatch, at_steps_2_7_8)
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps)
        assert train_run(texts, tmp_path / "run").step == steps
    train_run(texts, tmp_path / "run")
    assert same_tensors(with_skipped, tmp_path / "run")
    assert metrics(with_skipped) == metrics(tmp_path / "run")
    assert progress(with_skipped) == progress(tmp_path / "run")


def test_five_skipped_updates_roll_back_to_half_the_rate(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    break_gradients(monkeypatch, fails_at_6_to_11_unless_slower)
    assert train_run(texts, run, "train.log_every=1").step == 12
    assert [(record["step"], record["rate"]) for record in metrics(run) if record["type"] == "train"] == [
        *((step, 0.003) for step in range(1, 5)),
        *((step, 0.0015) for step in range(5, 13)),
    ]
    assert [record["step"] for record in metrics(run) if record["type"] == "validation"] == [4, 8, 12]
    assert skipped_steps(run) == []
    assert (run / "skipped" / "step-00000010.json").exists()
    content = progress(run)
    assert (content["skipped"], content["adjustments"]["rate"], content["rollbacks"], content["rolled_back_to"]) == (
        0,
        0.5,
        1,
        4,
    )
    err = capsys.readouterr().err
    assert "step 10: " in err
    assert "the 5th update in a row that is not finite; back to step 4, with 0.5 of the rate" in err


@pytest.fixture(scope="module")
def with_rollback(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run that goes back to step 4."""
    run = tmp_path_factory.mktemp("rollback") / "run"
    with pytest.MonkeyPatch.context() as patch:
        break_gradients(patch, fails_at_6_to_11_unless_slower)
        train_run(texts, run, "train.accumulate=2")
    return run


# before all of it, among the skipped, in the last of these, after going back, and after the next checkpoint
@pytest.mark.parametrize("steps", [3, 7, 10, 11, 12, 17])
def test_resumed_run_with_a_rollback_equals_uninterrupted_run(
    texts: Path, with_rollback: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    break_gradients(monkeypatch, fails_at_6_to_11_unless_slower)
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps)
        assert train_run(texts, tmp_path / "run", "train.accumulate=2").signal == signal.SIGTERM
    train_run(texts, tmp_path / "run", "train.accumulate=2")
    assert same_tensors(with_rollback, tmp_path / "run")
    assert metrics(with_rollback) == metrics(tmp_path / "run")
    assert progress(with_rollback) == progress(tmp_path / "run")


def test_fourth_rollback_to_a_checkpoint_is_an_error(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_gradients(monkeypatch, lambda progress: progress.step >= 6)
    for _ in range(2):
        with pytest.raises(
            ModelError,
            match=r"5th update in a row .* training has returned to step 4 3 times, the last time with 0.125 "
            r"of its rate: "
            r"lower train\.schedule's rate or lengthen its warmup.*skipped batches are in .*/run/skipped",
        ):
            train_run(texts, tmp_path / "run")
    assert saved_steps(tmp_path / "run") == [4]
    assert load_model(tmp_path / "run" / "last", torch.device("cpu"))


def test_infinite_validation_loss_rolls_back(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Training.step

    def explode(training: Training, feed: Prefetcher) -> None:
        plain(training, feed)
        if training.progress.step == 8 and training.progress.adjustments.rate == 1:
            with torch.no_grad():
                training.model.output.weight.mul_(1e38)

    monkeypatch.setattr(Training, "step", explode)
    train_run(texts, tmp_path / "run")
    assert "step 8: the loss on the validation text is nan; back to step 4" in capsys.readouterr().err
    assert progress(tmp_path / "run")["adjustments"]["rate"] == 0.5
    assert all(tensor.isfinite().all() for tensor in tensors(tmp_path / "run").values())


@pytest.mark.parametrize("validate_every", [1, 2])
def test_divergence_before_the_first_checkpoint_saves_nothing(texts: Path, tmp_path: Path, validate_every: int) -> None:
    overrides = ("train.schedule.rate=1e30", f"train.validate_every={validate_every}")
    with pytest.raises(ModelError, match="there is no checkpoint of a validation to return to: lower"):
        train_run(texts, tmp_path / "run", *overrides)
    assert saved_steps(tmp_path / "run") == []


def test_monitor_warns_once_for_each_rise() -> None:
    """With 100 tokens a uniform prediction has log 100 = 4.6 nats: more than 9.2, or 4.6 above the lowest, diverges."""
    monitor = DivergenceMonitor(100)
    warned = [monitor.warning(loss) is not None for loss in (5.0, 9.0, 3.0, 7.5, 7.7, 9.0, 3.0, 8.0, float("inf"))]
    assert warned == [False, False, False, False, True, False, False, True, False]
    message = DivergenceMonitor(100).warning(4e7)
    assert message is not None
    assert message.startswith("training diverges: 40,000,000.0 nats per token")
    assert "lower train.schedule's rate" in message


@pytest.mark.parametrize("log_every", [2, 100])
def test_finite_divergence_gives_a_warning_and_bounded_perplexity(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], log_every: int
) -> None:
    """In the rows of training and, where no row of training is due, in those of validation."""
    steps = ("train.stop.steps=6", "train.validate_every=6", f"train.log_every={log_every}")
    overrides = ("train.schedule.rate=1e3", *steps)
    train(recipe_in(texts, f"run={tmp_path / 'run'}", *overrides), Console())
    shown = capsys.readouterr().err
    assert "training diverges: " in shown
    assert "> 1,000,000" in shown
    assert max(map(len, re.findall(r"[\d,]+", shown))) < 20
