"""Resumed runs equal uninterrupted runs, and what may change in them."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from nmt.commands.train import train
from nmt.config import Recipe, load_recipe
from nmt.errors import ConfigError
from nmt.system.console import Console
from nmt.text.manifest import Manifest, why_stale
from nmt.training.loop import Training
from nmt.training.resume import check_same_text
from nmt.training.run import RunDirectory
from tests.builders import recipe_in
from tests.training.runs import (
    QUIET,
    assert_same_run,
    break_gradients,
    interrupt_at,
    losses,
    metrics,
    progress,
    same_tensors,
    saved_steps,
    train_run,
)


@pytest.mark.parametrize(("step", "number"), [(1, signal.SIGINT), (4, signal.SIGTERM), (9, signal.SIGHUP)])
def test_resumed_run_equals_uninterrupted_run(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_at(patch, step, number)
        outcome = train_run(texts, run)
    assert (outcome.step, outcome.signal) == (step, number)
    assert "interrupted; the same command resumes it" in outcome.reason
    assert os.readlink(run / "last") == f"checkpoints/step-{step:08d}"
    outcome = train_run(texts, run)
    assert (outcome.step, outcome.signal, outcome.reason) == (12, None, "train.stop.steps is 12")
    assert_same_run(uninterrupted, run)


def test_signal_in_the_last_validation_ends_the_command(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Training.validate

    def signal_and_validate(training: Training) -> None:
        if training.progress.step == 5:
            signal.raise_signal(signal.SIGTERM)
        plain(training)

    monkeypatch.setattr(Training, "validate", signal_and_validate)
    outcome = train_run(texts, tmp_path / "run", "train.stop.steps=5", "train.validate_every=2")
    assert (outcome.step, outcome.signal, outcome.reason) == (5, signal.SIGTERM, "train.stop.steps is 5")


def test_resume_says_what_is_not_as_before(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same number of threads nothing is said; with another one, numbers are rounded in other ways."""
    recipe = recipe_in(texts, f"run={tmp_path}/run", "train.stop.steps=2", "runtime.threads=1")
    train(recipe, Console())
    for steps, threads, expected in (
        (4, 1, ""),
        (6, 2, "the result may differ from an uninterrupted training: threads: was 1, now 2"),
    ):
        capsys.readouterr()
        changes = [f"run={tmp_path}/run", f"train.stop.steps={steps}", f"runtime.threads={threads}"]
        train(recipe_in(texts, *changes), Console())
        message = capsys.readouterr().err
        assert ("the result may differ" in message) == bool(expected)
        assert expected in message.replace("\n", " ")


def test_resumed_run_with_frozen_weights_equals_uninterrupted_run(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = ("train.freeze=['encoder.*']",)
    train_run(texts, tmp_path / "whole", *overrides)
    assert losses(tmp_path / "whole") != losses(uninterrupted), "the setting has an effect"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 5)
        train_run(texts, tmp_path / "run", *overrides)
    train_run(texts, tmp_path / "run", *overrides)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_skipped_updates_are_logged_and_resumed(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results are read a step later; one is pending at the end."""
    break_gradients(monkeypatch, 1, 3, 7, 8)
    train_run(texts, tmp_path / "whole")
    skipped = [record for record in metrics(tmp_path / "whole") if record["type"] == "skipped"]
    assert [record["step"] for record in skipped] == [1, 3, 7, 8]
    assert skipped[1]["next_group"] == [0, 12, 0], "after three updates of four length groups"
    assert "step 3: loss" in capsys.readouterr().err
    for step in (2, 7):
        with monkeypatch.context() as patch:
            interrupt_at(patch, step)
            assert train_run(texts, tmp_path / f"{step}").step == step
        train_run(texts, tmp_path / f"{step}")
        assert_same_run(tmp_path / "whole", tmp_path / f"{step}")


def test_finished_run_stops_at_once_and_a_raised_limit_continues_it(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for _ in range(2):
        assert train_run(texts, run, "train.stop.steps=8").reason.startswith("train.stop.steps is 8")
        assert (saved_steps(run), len(losses(run))) == ([4, 8], 2)
    train_run(texts, run)
    assert_same_run(uninterrupted, run)


@pytest.mark.parametrize(
    "second", [(("b", 1), ("a", 2)), (("a", 2), ("b", 1)), (("a", 1), ("b", 3))], ids=["tags", "weights", "one weight"]
)
def test_changed_tag_or_weight_of_a_text_prevents_a_resume(
    texts: Path, tmp_path: Path, second: tuple[tuple[str, float], ...]
) -> None:
    """Also if only the fingerprint of its text shows the change, as in a run whose recipe was edited."""

    def recipe(weighted: tuple[tuple[str, float], ...]) -> Recipe:
        entries = [
            {"file": str(texts / name), "tag": tag, "oversample": weight}
            for name, (tag, weight) in zip(("train.tsv", "test.tsv"), weighted, strict=True)
        ]
        settings = (f"data.train={json.dumps(entries)}", f"prepared={tmp_path}/prepared", "train.stop.steps=1")
        return recipe_in(texts, f"run={tmp_path}/run", *settings)

    first = recipe((("a", 1), ("b", 2)))
    train(first, QUIET)
    run, manifest = RunDirectory(tmp_path / "run"), Manifest.read(tmp_path / "prepared")
    check_same_text(first, run, manifest)
    assert why_stale(recipe(second)) is None, "the prepared corpus has no tags and weights"
    with pytest.raises(ConfigError, match="the texts or their preparation have changed"):
        check_same_text(recipe(second), run, manifest)
    shutil.copytree(run.saved()[0], newer := run.checkpoint(9))
    (newer / "progress.json").write_text("damaged")
    with pytest.raises(ConfigError, match="the texts or their preparation have changed"):
        check_same_text(recipe(second), run, manifest)
    with pytest.raises(ConfigError, match="this run was started with another recipe"):
        train(recipe(second), QUIET)


def test_a_test_text_that_was_trained_on_is_refused(texts: Path, tmp_path: Path) -> None:
    settings = (f"run={tmp_path}/run", "train.stop.steps=1")
    train(recipe_in(texts, *settings), QUIET)
    sentences = (texts / "train.tsv").read_text().splitlines()[:3]
    (tmp_path / "test.tsv").write_text("".join(f"{line}\n" for line in sentences))
    leaking = recipe_in(texts, *settings, f"data.test={{file: {tmp_path / 'test.tsv'}}}", f"prepared={tmp_path}/other")
    with pytest.raises(ConfigError, match=r"^data\.test: .*was trained on sentences of this test text, .*rule leak"):
        train(leaking, QUIET)


def test_raised_limit_of_a_falling_schedule_continues_with_its_new_rates(texts: Path, tmp_path: Path) -> None:
    schedule = "train.schedule={name: wsd, rate: 0.01, warmup: 2, decay: 0.5}"
    for steps in (8, 16):
        train_run(texts, tmp_path / "run", schedule, "train.log_every=1", f"train.stop.steps={steps}")
    rates = [record["rate"] for record in metrics(tmp_path / "run") if record["type"] == "train"]
    assert rates[:8] == pytest.approx([0.005, *[0.01] * 3, 0.0075, 0.005, 0.0025, 0.0])
    assert rates[8:] == pytest.approx([0.01 * left / 8 for left in range(7, -1, -1)])


def test_lowered_limit_adds_the_missing_validation(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was interrupted at step 5, which is now the limit: its checkpoint exists, its validation does not."""
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 5)
        train_run(texts, run)
    assert progress(run)["validated_at"] == 4
    for _ in range(2):
        train_run(texts, run, "train.stop.steps=5")
        assert progress(run)["validated_at"] == 5
        assert [record["step"] for record in metrics(run) if record["type"] == "validation"] == [4, 5]


def test_auto_batch_tokens_are_recorded(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run equals one with the number in its recipe, and the search is not repeated."""
    train_run(texts, tmp_path / "auto", "train.batch_tokens=auto", "train.stop.steps=1")
    found = load_recipe(tmp_path / "auto" / "recipe.yaml").train.budget
    train_run(texts, tmp_path / "given", f"train.batch_tokens={found}", "train.stop.steps=2")
    monkeypatch.setattr("nmt.training.trial.find_batch_tokens", None)
    train_run(texts, tmp_path / "auto", "train.batch_tokens=auto", "train.stop.steps=2")
    assert same_tensors(tmp_path / "auto", tmp_path / "given")
