"""The training loop: determinism, the log, stop limits, checkpoints, faults."""

import json
import math
import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import yaml

from nmt.batching.batch import Rows
from nmt.commands.train import train
from nmt.config import MaxLength, load_recipe
from nmt.errors import ConfigError, ModelError
from nmt.model.checkpoint import load_model
from nmt.model.transformer import Transformer
from nmt.report.run_records import RunRecords
from nmt.system.console import Console
from nmt.training import loop
from nmt.training.loop import interruptible
from nmt.training.validation import Evaluation
from tests.builders import write_reversal_task
from tests.training.runs import (
    CPU,
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


def test_only_a_second_ctrl_c_stops_at_once() -> None:
    """A terminal that is closed sends SIGHUP, sometimes twice; nohup ignores it."""
    messages, before = list[str](), signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interruptible(messages.append) as interruption:
            signal.raise_signal(signal.SIGTERM)
            assert interruption.signal is None
            for _ in range(2):
                signal.raise_signal(signal.SIGHUP)
            assert (interruption.signal, len(messages)) == (signal.SIGHUP, 1)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_run_has_checkpoints_links_and_a_consistent_log(uninterrupted: Path) -> None:
    lines = [json.loads(line) for line in (uninterrupted / "metrics.jsonl").read_text().splitlines()]
    assert [(line["type"], line["step"]) for line in lines] == [
        ("train", 3), ("validation", 4), ("train", 6), ("validation", 8), ("train", 9), ("train", 12),
        ("validation", 12),
    ]  # fmt: skip
    assert saved_steps(uninterrupted) == [4, 8, 12]
    assert os.readlink(uninterrupted / "last") == "checkpoints/step-00000012"
    assert (uninterrupted.parent / "runs" / "latest").resolve() == uninterrupted.resolve()
    assert load_recipe(uninterrupted / "recipe.yaml").run == uninterrupted
    training = [line for line in lines if line["type"] == "train"]
    assert all(line["rate"] == 0.003 and 0 <= line["padding"] < 0.5 for line in training)
    assert all(a["target_tokens"] < b["target_tokens"] for a, b in pairwise(training))
    assert training[-1]["target_tokens"] <= 12 * 64
    assert 84 < training[0]["perplexity"] < 840, "the initial model is close to uniform over 336 pieces"
    assert training[-1]["loss"] < training[0]["loss"]
    assert all(line["perplexity"] == pytest.approx(math.exp(line["loss"])) for line in lines)


def test_same_seed_gives_the_same_run_and_another_seed_another(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    torch.rand(7)
    train_run(texts, tmp_path / "run")
    assert_same_run(uninterrupted, tmp_path / "run")
    train_run(texts, tmp_path / "other", "seed=2")
    assert not same_tensors(uninterrupted, tmp_path / "other")


def test_validation_and_logging_intervals_change_no_weight(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    train_run(texts, tmp_path / "run", "train.validate_every=5", "train.log_every=1", "train.keep_best=1")
    assert same_tensors(uninterrupted, tmp_path / "run")
    assert len(losses(tmp_path / "run")) == 12


def test_training_stops_after_epochs_in_which_each_pair_is_read_once(texts: Path, tmp_path: Path) -> None:
    # more groups may carry the last update into the next epoch
    sizes = ("train.batch_tokens=512", "train.length_groups=1", "train.validate_every=100")
    outcome = train_run(texts, tmp_path / "run", "train.stop={steps: null, epochs: 2}", *sizes)
    content = progress(tmp_path / "run")
    assert outcome.reason == "train.stop.epochs is 2"
    assert (content["epoch"], content["group"], content["window"]) == (2, 0, 0)
    prepared = json.loads((texts / "prepared" / "manifest.json").read_text())["train"]
    assert content["target_tokens"] == 2 * (prepared["target"]["tokens"] + prepared["kept"])


def test_validations_at_the_ends_of_epochs_are_exact_on_resume(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every checkpoint stays. The update that ends an epoch may begin the next one."""
    overrides = ("train.validate_every=epoch", "train.keep_best=all", "train.log_every=1", "train.stop.epochs=5")
    overrides += ("train.stop.steps=null", "train.batch_tokens=512")
    train_run(texts, tmp_path / "whole", *overrides)
    records = [(record["type"], record["step"], record["epoch"]) for record in metrics(tmp_path / "whole")]
    epochs = [(step, int(epoch)) for kind, step, epoch in records if kind == "train"]
    ends = [step for (_, before), (step, now) in pairwise([(0, 0), *epochs]) if now > before]
    assert len(ends) == 5
    assert ends == [step for kind, step, _ in records if kind == "validation"] == saved_steps(tmp_path / "whole")
    for step in (ends[0], ends[1] + 1):
        with monkeypatch.context() as patch:
            interrupt_at(patch, step)
            train_run(texts, tmp_path / "parts", *overrides)
    train_run(texts, tmp_path / "parts", *overrides)
    assert same_tensors(tmp_path / "whole", tmp_path / "parts")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    assert saved_steps(tmp_path / "parts") == sorted({*ends, ends[1] + 1})


def test_training_stops_after_validations_without_gain(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(values))
    overrides = ("train.stop.patience=2", "train.best_metric=loss", "train.validate_every=2", "train.keep_best=2")
    outcome = train_run(texts, tmp_path / "run", *overrides)
    assert (outcome.step, outcome.reason) == (8, "no better loss in 2 validations")
    assert saved_steps(tmp_path / "run") == [4, 8], "a loss of 2.0 occurs at step 4 and, without gain, at step 8"
    assert os.readlink(tmp_path / "run" / "best") == "checkpoints/step-00000004"


def test_loss_decides_between_equal_scores(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """BLEU stays 0 while the loss falls: no validation fails, and the log marks the step of the link `best`."""
    values = iter([3.0, 2.5, 2.0, 2.2, 2.1, 1.0])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(values))
    monkeypatch.setattr(Evaluation, "metric", lambda *_: 0.0)
    overrides = ("train.stop.patience=2", "train.validate_every=2")
    outcome = train_run(texts, tmp_path / "run", *overrides, console=Console())
    assert (outcome.step, outcome.reason) == (10, "no better bleu in 2 validations")
    assert os.readlink(tmp_path / "run" / "best") == "checkpoints/step-00000006"
    marked = [line.split()[0] for line in capsys.readouterr().err.splitlines() if line.endswith("best bleu")]
    assert marked == ["2", "4", "6"]


def test_losses_of_training_and_validation_are_the_same_quantity(tmp_path: Path) -> None:
    """Without dropout and at a rate of nearly zero, they are equal on the same text; the objective is smoothed."""
    chosen = write_reversal_task(tmp_path, 40, 40)
    (tmp_path / "valid.tsv").write_text((tmp_path / "train.tsv").read_text())
    still = ["model.dropout=0", "train.schedule={name: constant, rate: 1e-12}", "data.filters.keep=[leak]"]
    one_epoch = ["train.batch_tokens=10000", "train.length_groups=1", "train.log_every=1"]
    one_epoch += ["train.stop.steps=1", "train.validate_every=1"]
    train(load_recipe(chosen, [*still, *one_epoch]), QUIET)
    training, validation = metrics(tmp_path / "run")
    assert training["loss"] == pytest.approx(validation["loss"], rel=1e-5)
    assert training["objective"] != pytest.approx(training["loss"], rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_run_is_validated_in_its_precision(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """Whatever is faster here: loss and translations, and those of the test."""
    monkeypatch.setattr("nmt.kernels.device.prefers_bf16", lambda dim: precision == "fp32")
    found, encode = set(), Transformer.encode

    def recorded(model: Transformer, rows: Rows) -> torch.Tensor:
        found.add((model.training, model.kernels.precision))
        return encode(model, rows)

    monkeypatch.setattr(Transformer, "encode", recorded)
    test = f"data.test={{file: {texts / 'test.tsv'}}}"
    train_run(texts, tmp_path / "run", "train.stop.steps=1", f"runtime.precision={precision}", test)
    assert found == {(True, precision), (False, precision)}


def test_run_without_validation_text_keeps_the_newest_checkpoint(tmp_path: Path) -> None:
    recipe = write_reversal_task(tmp_path, 100, 4)
    content = yaml.safe_load(recipe.read_text())
    del content["data"]["valid"]
    recipe.write_text(yaml.safe_dump(content))
    train(load_recipe(recipe, ["train.stop.steps=9"]), QUIET)
    assert saved_steps(tmp_path / "run") == [9]
    assert not (tmp_path / "run" / "best").exists()
    assert {record["type"] for record in metrics(tmp_path / "run")} == {"train"}


def test_length_limit_is_saved_with_the_model(texts: Path, tmp_path: Path) -> None:
    estimated = json.loads((texts / "prepared" / "manifest.json").read_text())["max_length"]
    for name, limit, found in (
        ("null", "null", estimated),
        ("own", "{factor: 3, extra: 4}", {"factor": 3, "extra": 4}),
    ):
        train_run(texts, tmp_path / name, "train.stop.steps=1", f"decode.max_length={limit}")
        assert load_model(tmp_path / name / "last", CPU).decode.max_length == MaxLength(**found)


def test_five_updates_in_a_row_that_are_not_finite_end_the_run_with_advice(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        break_gradients(patch, 5, 6, 7, 8, 9)
        with pytest.raises(ModelError, match=r"step 9: the 5th update in a row .*: lower train\.schedule's rate or"):
            train_run(texts, tmp_path / "run")
    assert 4 in saved_steps(tmp_path / "run"), "the checkpoint before stays"
    assert RunRecords(tmp_path / "run").state == "diverged"
    monkeypatch.setattr(loop, "mean_loss", lambda *_: float("nan"))
    with pytest.raises(ModelError, match="step 4: the loss on the validation text is nan: lower") as error:
        train_run(texts, tmp_path / "other")
    assert "older checkpoints" not in str(error.value), "there are none"
    assert RunRecords(tmp_path / "other").state == "diverged"


def test_out_of_memory_in_validation_is_an_error_with_advice(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*_arguments: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(loop, "evaluate", too_much)
    with pytest.raises(ConfigError, match=r"the memory of cpu is full: .* decode\.batch_tokens"):
        train_run(texts, tmp_path / "run")
