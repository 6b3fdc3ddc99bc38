"""The training loop: determinism, the log, stop limits, and checkpoints."""

import json
import math
import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import yaml

from nmt.batching.batch import Batch
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config import MaxLength, load_recipe
from nmt.errors import ConfigError
from nmt.model.checkpoint import load_model
from nmt.system.console import Console
from nmt.training import loop
from nmt.training import step as step_module
from nmt.training.run import RunDirectory
from nmt.training.validation import Evaluation
from tests.builders import (
    SOURCE_WORDS,
    TARGET_WORDS,
    recipe_in,
    record_digests,
    reversal_pairs,
    write_reversal_task,
    write_tsv,
)
from tests.training.runs import (
    CPU,
    QUIET,
    assert_same_run,
    interrupt_after,
    interrupt_at,
    metrics,
    progress,
    same_tensors,
    saved_steps,
    train_run,
)


def test_estimated_max_length_is_saved_with_the_model(texts: Path, tmp_path: Path) -> None:
    estimated = json.loads((texts / "prepared" / "manifest.json").read_text())["max_length"]
    assert estimated["extra"] == 5
    stop = "train.stop.steps=1"
    train_run(texts, tmp_path / "null", stop)
    assert load_model(tmp_path / "null" / "last", CPU).decode.max_length == MaxLength(**estimated)
    train_run(texts, tmp_path / "own", stop, "decode.max_length={factor: 3, extra: 4}")
    assert load_model(tmp_path / "own" / "last", CPU).decode.max_length == MaxLength(factor=3, extra=4)
    train_run(texts, tmp_path / "null", stop)  # a recipe without decode.max_length resumes the run


def test_length_groups_equal_accumulated_smaller_batches(texts: Path, tmp_path: Path) -> None:
    """One batch of 64 tokens in 4 length groups equals 4 accumulated batches of 16 tokens up to rounding."""
    quiet = ("model.dropout=0", "train.adam_epsilon=1e-3", "train.log_every=1")
    train_run(texts, tmp_path / "groups", *quiet, "train.batch_tokens=64", "train.length_groups=4")
    train_run(
        texts, tmp_path / "batches", *quiet, "train.batch_tokens=16", "train.length_groups=1", "train.accumulate=4"
    )
    train_run(texts, tmp_path / "one", *quiet, "train.batch_tokens=64", "train.length_groups=1")
    groups, batches, one = (
        [record["loss"] for record in metrics(tmp_path / name) if record["type"] == "train"]
        for name in ("groups", "batches", "one")
    )
    assert groups == pytest.approx(batches, rel=1e-5)
    assert groups != pytest.approx(one, rel=1e-3)


def test_run_directory_contains_checkpoints_links_and_log(uninterrupted: Path) -> None:
    assert [(record["type"], record["step"]) for record in metrics(uninterrupted)] == [
        ("train", 3),
        ("validation", 4),
        ("train", 6),
        ("validation", 8),
        ("train", 9),
        ("train", 12),
        ("validation", 12),
    ]
    assert saved_steps(uninterrupted) == [4, 8, 12]
    assert os.readlink(uninterrupted / "last") == "checkpoints/step-00000012"
    assert (uninterrupted / "best").is_symlink()
    latest = uninterrupted.parent / "runs" / "latest"
    assert latest.is_symlink()
    assert latest.resolve() == uninterrupted.resolve()
    assert load_recipe(uninterrupted / "recipe.yaml").run == uninterrupted
    assert not load_model(uninterrupted / "best", torch.device("cpu")).model.training


def test_log_records_are_consistent(uninterrupted: Path, texts: Path) -> None:
    records = metrics(uninterrupted)
    training = [record for record in records if record["type"] == "train"]
    assert all(record["rate"] == 0.003 for record in training)
    assert all(0 <= record["padding"] < 0.5 for record in training)
    assert all(record["gradient_norm"] > 0 for record in training)
    assert all(a["target_tokens"] < b["target_tokens"] for a, b in pairwise(records) if a["step"] < b["step"])
    assert training[-1]["target_tokens"] <= 12 * 64
    assert training[-1]["loss"] < training[0]["loss"]
    # the initial model is close to uniform over 80 pieces
    assert 20 < training[0]["perplexity"] < 200
    for record in records:
        if record["type"] == "validation":
            assert record["perplexity"] == pytest.approx(2.718281828459045 ** record["loss"])
            assert 0 <= record["bleu"] <= 100
            assert 0 <= record["chrf"] <= 100


def test_same_seed_gives_the_same_run(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    torch.manual_seed(99)
    torch.rand(7)
    assert train_run(texts, tmp_path / "run").step == 12
    assert_same_run(uninterrupted, tmp_path / "run")


def test_another_seed_gives_another_run(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    train_run(texts, tmp_path / "run", "seed=2")
    assert not same_tensors(uninterrupted, tmp_path / "run")


def test_validation_and_logging_intervals_change_no_weight(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    train_run(texts, tmp_path / "run", "train.validate_every=5", "train.log_every=1", "train.keep_best=1")
    assert same_tensors(uninterrupted, tmp_path / "run")
    losses = [record["loss"] for record in metrics(tmp_path / "run") if record["type"] == "train"]
    assert len(losses) == 12


def test_training_stops_after_epochs(texts: Path, tmp_path: Path) -> None:
    outcome = train_run(
        texts,
        tmp_path / "run",
        "train.stop.steps=null",
        "train.stop.epochs=2",
        "train.batch_tokens=512",
        "train.length_groups=1",  # more groups may carry the last update into the next epoch
        "train.validate_every=100",
    )
    content = progress(tmp_path / "run")
    assert outcome.reason == "train.stop.epochs is 2"
    assert (content["epoch"], content["group"]) == (2, 0)
    # each epoch contains each pair once, with its end symbol
    prepared = json.loads((texts / "prepared" / "manifest.json").read_text())["train"]
    assert content["target_tokens"] == 2 * (prepared["target"]["tokens"] + prepared["kept"])


def test_warmup_longer_than_the_training_gives_a_warning(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["train.schedule={name: linear, rate: 1e-3, warmup: 2}", "train.validate_every=9"]
    for steps in (2, 3):
        train(recipe_in(texts, f"run={tmp_path / str(steps)}", *options, f"train.stop.steps={steps}"), Console())
        message = " ".join(capsys.readouterr().err.split())
        assert ("2 steps of warm-up leave none of the 2 steps" in message) == (steps == 2)


def test_training_stops_after_hours(texts: Path, tmp_path: Path) -> None:
    outcome = train_run(texts, tmp_path / "run", "train.stop.hours=1e-9")
    assert (outcome.step, outcome.reason) == (1, "train.stop.hours is 1e-09")
    assert saved_steps(tmp_path / "run") == [1]


def test_training_stops_after_validations_without_gain(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    overrides = ("train.stop.patience=2", "train.best_metric=loss", "train.validate_every=2", "train.keep_best=2")
    outcome = train_run(texts, tmp_path / "run", *overrides)
    assert (outcome.step, outcome.reason) == (8, "no better loss in 2 validations")
    # a loss of 2.0 occurs at step 4 and, without gain, at step 8
    assert saved_steps(tmp_path / "run") == [4, 8]
    assert progress(tmp_path / "run")["best"] == [[-2.0, 4], [-2.0, 8]]
    assert os.readlink(tmp_path / "run" / "best") == "checkpoints/step-00000004"


def test_loss_decides_between_equal_scores(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """BLEU stays 0 while the loss falls: no validation fails, and the log marks the step of the link `best`."""
    losses = iter([3.0, 2.5, 2.0, 2.2, 2.1, 1.0])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    monkeypatch.setattr(Evaluation, "metric", lambda *_: 0.0)
    overrides = ("train.stop.patience=2", "train.validate_every=2")
    outcome = train(recipe_in(texts, f"run={tmp_path / 'run'}", *overrides), Console())
    assert (outcome.step, outcome.reason) == (10, "no better bleu in 2 validations")
    assert os.readlink(tmp_path / "run" / "best") == "checkpoints/step-00000006"
    marked = [line.split()[0] for line in capsys.readouterr().err.splitlines() if line.endswith("best bleu")]
    assert marked == ["2", "4", "6"]


def test_losses_of_the_log_are_cross_entropies_and_objective_is_smoothed(texts: Path, tmp_path: Path) -> None:
    """Without dropout and at a rate of nearly zero, training and validation on the same text have the same loss."""
    (tmp_path / "text").mkdir()
    chosen = write_reversal_task(tmp_path / "text", 40, 40)
    (tmp_path / "text" / "valid.tsv").write_text((tmp_path / "text" / "train.tsv").read_text())
    overrides = ("model.dropout=0", "train.label_smoothing=0.3", "train.stop={steps: null, epochs: 1}",
                 "train.log_every=1", "train.length_groups=1", "train.schedule.rate=1e-30",
                 "data.filters.keep=[leak]")  # fmt: skip
    train(load_recipe(chosen, overrides), QUIET)
    records = metrics(tmp_path / "text" / "run")
    ends = [0, *(record["target_tokens"] for record in records if record["type"] == "train")]
    tokens = [after - before for before, after in pairwise(ends)]
    training = [record for record in records if record["type"] == "train"]
    mean = {
        name: sum(n * record[name] for n, record in zip(tokens, training, strict=True)) / sum(tokens)
        for name in ("loss", "objective")
    }
    assert mean["loss"] == pytest.approx(records[-1]["loss"], rel=1e-5)
    assert mean["objective"] != pytest.approx(mean["loss"], rel=1e-3)
    assert all(record["perplexity"] == pytest.approx(math.exp(record["loss"])) for record in records)


def test_run_of_an_earlier_version_without_objective_resumes(texts: Path, tmp_path: Path) -> None:
    train_run(texts, tmp_path / "run", "train.stop.steps=8")
    file = tmp_path / "run" / "metrics.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    before = [{key: value for key, value in record.items() if key != "objective"} for record in records]
    file.write_text("".join(f"{json.dumps(record)}\n" for record in before))
    checkpoint = tmp_path / "run" / "last"
    content = json.loads((checkpoint / "progress.json").read_text())
    del content["best_loss"]
    (checkpoint / "progress.json").write_text(json.dumps(content))
    record_digests(checkpoint)
    assert train_run(texts, tmp_path / "run").step == 12
    assert [json.loads(line) for line in file.read_text().splitlines()][: len(before)] == before


def test_run_without_validation_text_writes_checkpoints(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_reversal_task(tmp_path, 100, 4)
    content = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    del content["data"]["valid"]
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(content))
    chosen = recipe_in(tmp_path, f"run={tmp_path / 'run'}", "train.stop.steps=9")
    prepare(chosen, QUIET)
    interrupt_at(monkeypatch, 8, signal.SIGTERM)
    outcome = train(chosen, QUIET)
    assert outcome.signal == signal.SIGTERM
    assert saved_steps(tmp_path / "run") == [4, 8]
    saves: list[int] = []
    plain = RunDirectory.save
    monkeypatch.setattr(RunDirectory, "save", lambda run, *rest: (saves.append(rest[2].step), plain(run, *rest))[1])
    train(chosen, QUIET, restart=True)
    train(chosen, QUIET)
    assert {4, 8, 9} <= set(saves)
    assert saved_steps(tmp_path / "run") == [9]
    assert not (tmp_path / "run" / "best").exists()
    assert {record["type"] for record in metrics(tmp_path / "run")} == {"train"}


def test_validation_line_longer_than_learned_positions_is_split(tmp_path: Path) -> None:
    write_reversal_task(tmp_path, 100, 4)
    write_tsv(tmp_path / "valid.tsv", [*reversal_pairs(3, 2), (" ".join(SOURCE_WORDS * 3), " ".join(TARGET_WORDS * 3))])
    overrides = (
        "model.positions=learned",
        "model.max_positions=11",
        "data.filters.max_tokens=10",
        "train.stop.steps=2",
    )
    chosen = recipe_in(tmp_path, f"run={tmp_path / 'run'}", *overrides)
    prepare(chosen, QUIET)
    assert train(chosen, QUIET).step == 2


@pytest.mark.parametrize("steps", [1, 5])
def test_batches_above_the_largest_that_fits_are_split(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], steps: int
) -> None:
    plain, failed = step_module.pad_to_multiple, []

    def small(batch: Batch, longest: int | None) -> Batch:
        if batch.padded_tokens > 100:
            failed.append(batch.padded_tokens)
            raise torch.OutOfMemoryError
        return plain(batch, longest)

    monkeypatch.setattr(step_module, "pad_to_multiple", small)
    train_run(texts, tmp_path / "whole")
    largest = progress(tmp_path / "whole")["adjustments"]["largest_batch"]
    assert 1 <= len(failed) <= 2
    assert largest == failed[-1] * 3 // 4
    message = (
        f"did not fit into the memory of cpu and was processed in parts; from now on batches of more than {largest}"
    )
    assert capsys.readouterr().err.count(message) == 1
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps)
        train_run(texts, tmp_path / "run")
    train_run(texts, tmp_path / "run")
    assert same_tensors(tmp_path / "whole", tmp_path / "run")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "run")
    assert progress(tmp_path / "whole") == progress(tmp_path / "run")


def test_out_of_memory_in_validation_raises_config_error(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*_arguments: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(loop, "evaluate", too_much)
    with pytest.raises(ConfigError, match=r"the memory of cpu is full, .* lower decode\.batch_tokens"):
        train_run(texts, tmp_path / "run")
