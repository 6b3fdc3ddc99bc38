"""Resumed runs equal uninterrupted runs, and other recipes and texts are refused."""

import os
import signal
from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.training import loop
from nmt.training.progress import Progress
from tests.training.runs import (
    assert_same_run,
    interrupt_at,
    metrics,
    progress,
    same_tensors,
    saved_steps,
    train_run,
)


@pytest.mark.parametrize("step", [1, 4, 5, 6, 9])
def test_resumed_run_equals_uninterrupted_run(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    run = tmp_path / "run"
    interrupt_at(monkeypatch, step)
    outcome = train_run(texts, run)
    assert (outcome.step, outcome.signal) == (step, signal.SIGINT)
    assert "interrupted; the same command resumes it" in outcome.reason
    assert os.readlink(run / "last") == f"checkpoints/step-{step:08d}"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    outcome = train_run(texts, run)
    assert (outcome.step, outcome.signal, outcome.reason) == (12, None, "train.stop.steps is 12")
    assert same_tensors(uninterrupted, run)
    assert metrics(uninterrupted) == metrics(run)
    assert progress(uninterrupted) == progress(run)


def test_signal_cancels_a_validation(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "evaluate", lambda *_: signal.raise_signal(signal.SIGTERM))
        assert train_run(texts, run).signal == signal.SIGTERM
    assert saved_steps(run) == [4]
    assert progress(run)["validated_at"] == 0
    train_run(texts, run)
    assert_same_run(uninterrupted, run)


def test_run_with_a_raised_limit_equals_a_longer_run(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    train_run(texts, tmp_path / "run", "train.stop.steps=8")
    train_run(texts, tmp_path / "run")
    assert_same_run(uninterrupted, tmp_path / "run")


def test_raised_limit_of_a_falling_schedule_continues_with_its_new_rates(texts: Path, tmp_path: Path) -> None:
    """The run is the same if it is resumed once more in between; a limit that is not changed changes nothing."""
    schedule = "train.schedule={name: wsd, rate: 0.01, warmup: 2, decay: 0.5}"
    overrides = (schedule, "train.log_every=1", "train.validate_every=4", "train.stop.patience=2")
    for run in (tmp_path / "a", tmp_path / "b"):
        train_run(texts, run, *overrides, "train.stop.steps=8")
        assert progress(run)["schedule_end"] == 8
    done = [record for record in metrics(tmp_path / "a") if record["type"] == "train"]
    assert [record["rate"] for record in done] == pytest.approx([0.005, *[0.01] * 3, 0.0075, 0.005, 0.0025, 0.0])
    train_run(texts, tmp_path / "a", *overrides, "train.stop.steps=16")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, 10)
        train_run(texts, tmp_path / "b", *overrides, "train.stop.steps=16")
    train_run(texts, tmp_path / "b", *overrides, "train.stop.steps=16")
    assert_same_run(tmp_path / "a", tmp_path / "b")
    records = metrics(tmp_path / "a")
    rates = [record["rate"] for record in records if record["type"] == "train"]
    assert rates[8:] == pytest.approx([0.01 * left / 8 for left in range(7, -1, -1)])
    assert [record for record in records if record["type"] == "schedule"] == [
        {"type": "schedule", "step": 9, "steps": 16, "steps_before": 8}
    ]
    assert load_recipe(tmp_path / "a" / "recipe.yaml").train.stop.steps == 16


def test_patience_begins_again_with_another_end_of_the_schedule() -> None:
    """The higher rate makes the next validations worse than the best one before."""
    state = Progress(step=8)
    state.schedule_end = 8
    assert not state.end_schedule_at(8)
    assert not state.end_schedule_at(5)
    gains = []
    for step, metric in ((8, 30.0), (10, 20.0), (12, 21.0), (14, 20.5), (16, 31.0)):
        state.step = step
        if step == 10:
            assert state.end_schedule_at(16)
        assert state.record_validation(metric, 1.0, keep=3) == (metric in (30.0, 31.0))
        gains.append(state.validations_without_gain)
    assert gains == [0, 0, 0, 1, 0]
    assert state.best == [(31.0, 16), (30.0, 8), (21.0, 12)]


def test_resumed_run_with_accumulated_batches_equals_uninterrupted_run(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_run(texts, tmp_path / "a", "train.accumulate=3", "train.stop.steps=8")
    interrupt_at(monkeypatch, 3)
    train_run(texts, tmp_path / "b", "train.accumulate=3", "train.stop.steps=8")
    train_run(texts, tmp_path / "b", "train.accumulate=3", "train.stop.steps=8")
    assert same_tensors(tmp_path / "a", tmp_path / "b")


def test_resumed_run_with_subword_sampling_equals_uninterrupted_run(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sampled batches were prefetched before the interruption and are read again."""
    overrides = ("train.subword_sampling=0.3", "train.stop.steps=8")
    train_run(texts, tmp_path / "a", *overrides)
    interrupt_at(monkeypatch, 3)
    assert train_run(texts, tmp_path / "b", *overrides).step == 3
    train_run(texts, tmp_path / "b", *overrides)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert metrics(tmp_path / "a")[0]["loss"] != metrics(uninterrupted)[0]["loss"]


def test_auto_batch_tokens_are_recorded_and_reused(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run equals one with the number in its recipe, and the search is not repeated."""
    train_run(texts, tmp_path / "auto", "train.batch_tokens=auto", "train.stop.steps=1")
    found = load_recipe(tmp_path / "auto" / "recipe.yaml").train.budget
    train_run(texts, tmp_path / "given", f"train.batch_tokens={found}", "train.stop.steps=2")
    monkeypatch.setattr("nmt.training.auto_settings.find_batch_tokens", None)
    train_run(texts, tmp_path / "auto", "train.batch_tokens=auto", "train.stop.steps=2")
    assert same_tensors(tmp_path / "auto", tmp_path / "given")


def test_finished_run_stops_at_once_and_writes_nothing(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the last validation was not among the best."""
    losses = iter([1.0, 2.0, 3.0, 0.5])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    overrides = ("train.best_metric=loss", "train.keep_best=1")
    train_run(texts, tmp_path / "run", *overrides)
    before = metrics(tmp_path / "run")
    outcome = train_run(texts, tmp_path / "run", *overrides)
    assert (outcome.step, outcome.reason) == (12, "train.stop.steps is 12")
    assert metrics(tmp_path / "run") == before
    assert saved_steps(tmp_path / "run") == [4, 12]


def test_lowered_limit_adds_the_missing_validation(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was interrupted at step 5, which is now the limit: its checkpoint exists, its validation does not."""
    run = tmp_path / "run"
    interrupt_at(monkeypatch, 5)
    train_run(texts, run)
    assert progress(run)["validated_at"] == 4
    for _ in range(2):
        train_run(texts, run, "train.stop.steps=5")
        assert progress(run)["validated_at"] == 5
        assert [record["step"] for record in metrics(run) if record["type"] == "validation"] == [4, 5]
        assert 5 in [step for _, step in progress(run)["best"]]


def test_patience_counts_across_an_interruption(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([2.0, 2.5, 2.5])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    interrupt_at(monkeypatch, 5)
    overrides = ("train.stop.patience=2", "train.best_metric=loss", "train.validate_every=2")
    assert train_run(texts, tmp_path / "run", *overrides).signal == signal.SIGINT
    assert train_run(texts, tmp_path / "run", *overrides).step == 6


@pytest.mark.parametrize("key", ["tsv", "file"])
def test_moved_text_resumes(texts: Path, tmp_path: Path, key: str) -> None:
    moved = tmp_path / "moved.tsv"
    moved.write_bytes((texts / "train.tsv").read_bytes())
    for steps, place in ((4, texts / "train.tsv"), (8, moved)):
        overrides = f"data.train=[{{{key}: {place}}}]", f"prepared={tmp_path / 'prepared'}", f"train.stop.steps={steps}"
        assert train_run(texts, tmp_path / "run", *overrides).step == steps


def test_keep_last_counts_across_an_interruption(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the training was interrupted between two of them."""
    overrides = ("train.keep_last=3", "train.keep_best=1", "train.validate_every=2")
    losses = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 2)
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    train_run(texts, tmp_path / "whole", *overrides, "train.best_metric=loss")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 9)
        train_run(texts, tmp_path / "run", *overrides, "train.best_metric=loss")
    train_run(texts, tmp_path / "run", *overrides, "train.best_metric=loss")
    assert saved_steps(tmp_path / "whole") == saved_steps(tmp_path / "run") == [2, 8, 10, 12]
