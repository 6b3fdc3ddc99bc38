"""Training: it learns, it is the same every time, and being stopped in any way changes nothing."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from nmt.batching.batch import Batch
from nmt.batching.prefetch import Prefetcher
from nmt.commands import train as stage
from nmt.commands.prepare import prepare
from nmt.commands.train import Outcome, check_may_prepare, train
from nmt.config import MaxLength, Recipe, Stop, TrainSettings, load_recipe
from nmt.errors import ConfigError, DataError, ModelError
from nmt.model.checkpoint import load_model
from nmt.system.console import Console
from nmt.text.provenance import why_stale
from nmt.training import loop
from nmt.training.display import HEAD, TrainingDisplay, clock
from nmt.training.loop import Training
from nmt.training.oom import size_of
from nmt.training.progress import Progress
from nmt.training.run import RunDirectory
from nmt.training.step import Updater

QUIET = Console(quiet=True)
CPU = torch.device("cpu")
SOURCE_WORDS = ["ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru"]
TARGET_WORDS = ["sab", "tec", "vid", "zof", "jug", "hal", "kem", "win", "xop", "yur"]
TINY = {"encoder_layers": 1, "decoder_layers": 1, "dim": 16, "feed_forward": 32, "heads": 2, "dropout": 0.1}


def pairs(count: int, seed: int, longest: int = 6) -> list[tuple[str, str]]:
    """Return sentences of an easy language with their translations: word for word, in reversed order."""
    choose = random.Random(seed)
    numbers = [choose.choices(range(10), k=choose.randint(2, longest)) for _ in range(count)]
    return [
        (" ".join(SOURCE_WORDS[n] for n in sentence), " ".join(TARGET_WORDS[n] for n in reversed(sentence)))
        for sentence in numbers
    ]


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))


def write_texts(folder: Path, training: int, held_out: int) -> None:
    write(folder / "train.tsv", pairs(training, 1))
    write(folder / "valid.tsv", pairs(held_out, 2))
    write(folder / "test.tsv", pairs(held_out, 3))
    content: dict[str, Any] = {
        "name": "reversal",
        "languages": {"source": "en", "target": "it"},
        "data": {"train": [{"tsv": "train.tsv"}], "valid": {"tsv": "valid.tsv"}},
        "tokenizer": {"vocab_size": 80, "byte_fallback": False, "type": "bpe"},
        "model": TINY,
        "train": {
            "batch_tokens": 64,
            "schedule": {"name": "constant", "rate": 0.003},
            "stop": {"steps": 12},
            "validate_every": 4,
            "log_every": 3,
        },
        "runtime": {"device": "cpu", "threads": 1},
        "run": "run",
        "prepared": "prepared",
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(content))


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus that the tests share."""
    folder = tmp_path_factory.mktemp("texts")
    write_texts(folder, 200, 6)
    prepare(load_recipe(folder / "recipe.yaml"), QUIET)
    return folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where runs/latest goes


def recipe(folder: Path, run: Path, *overrides: str) -> Recipe:
    return load_recipe(folder / "recipe.yaml", [f"run={run}", *overrides])


def go(folder: Path, run: Path, *overrides: str) -> Outcome:
    return train(recipe(folder, run, *overrides), QUIET)


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return what was logged, but for what a clock says."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    clocks = ("seconds", "target_tokens_per_second", "loader_wait", "utilization")
    return [{key: value for key, value in record.items() if key not in clocks} for record in records]


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """Return all weights, averaged ones included, and moments of the last checkpoint."""
    files = sorted((run / "last").glob("*.safetensors"))
    assert len(files) >= 2
    return {f"{file.name}: {name}": tensor for file in files for name, tensor in load_file(file).items()}


def progress(run: Path) -> dict[str, Any]:
    content = json.loads((run / "last" / "progress.json").read_text())
    del content["seconds"], content["window"]["seconds"], content["window"]["waited"]
    return dict(content)


def same_tensors(a: Path, b: Path) -> bool:
    ours, theirs = tensors(a), tensors(b)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_longest_translation_is_learnt_and_travels_with_the_model(texts: Path, tmp_path: Path) -> None:
    learnt = json.loads((texts / "prepared" / "manifest.json").read_text())["max_length"]
    assert learnt["extra"] == 5
    stop = "train.stop.steps=1"
    go(texts, tmp_path / "null", stop)
    assert load_model(tmp_path / "null" / "last", CPU).decode.max_length == MaxLength(**learnt)
    go(texts, tmp_path / "own", stop, "decode.max_length={factor: 3, extra: 4}")
    assert load_model(tmp_path / "own" / "last", CPU).decode.max_length == MaxLength(factor=3, extra=4)
    go(texts, tmp_path / "null", stop)  # and a run whose recipe says nothing is the same run still


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
    """Send this process a signal right after a step's update."""
    plain = Training.step

    def step_and_signal(training: Training, feed: Prefetcher) -> None:
        plain(training, feed)
        if training.progress.step == step:
            signal.raise_signal(number)

    monkeypatch.setattr(Training, "step", step_and_signal)


@pytest.fixture(scope="session")
def uninterrupted(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    before = Path.cwd()
    os.chdir(folder)
    go(texts, folder / "run")
    os.chdir(before)
    return folder / "run"


# the same every time


def test_length_groups_are_smaller_batches_accumulated(texts: Path, tmp_path: Path) -> None:
    """A batch of 64 tokens in four groups is four batches of 16 tokens that make one update, but for rounding."""
    quiet = ("model.dropout=0", "train.adam_epsilon=1e-3", "train.log_every=1")
    go(texts, tmp_path / "groups", *quiet, "train.batch_tokens=64", "train.length_groups=4")
    go(texts, tmp_path / "batches", *quiet, "train.batch_tokens=16", "train.length_groups=1", "train.accumulate=4")
    go(texts, tmp_path / "one", *quiet, "train.batch_tokens=64", "train.length_groups=1")
    groups, batches, one = (
        [record["loss"] for record in metrics(tmp_path / name) if record["type"] == "train"]
        for name in ("groups", "batches", "one")
    )
    assert groups == pytest.approx(batches, rel=1e-5)
    assert groups != pytest.approx(one, rel=1e-3)


def test_what_a_run_leaves_behind(uninterrupted: Path) -> None:
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


def test_what_the_log_says_adds_up(uninterrupted: Path, texts: Path) -> None:
    records = metrics(uninterrupted)
    training = [record for record in records if record["type"] == "train"]
    assert all(record["rate"] == 0.003 for record in training)
    assert all(0 <= record["padding"] < 0.5 for record in training)
    assert all(record["gradient_norm"] > 0 for record in training)
    assert all(a["target_tokens"] < b["target_tokens"] for a, b in pairwise(records) if a["step"] < b["step"])
    assert training[-1]["target_tokens"] <= 12 * 64
    assert training[-1]["loss"] < training[0]["loss"]
    # of 80 pieces each is as probable as the others at first
    assert 20 < training[0]["perplexity"] < 200
    for record in records:
        if record["type"] == "validation":
            assert record["perplexity"] == pytest.approx(2.718281828459045 ** record["loss"])
            assert 0 <= record["bleu"] <= 100
            assert 0 <= record["chrf"] <= 100


def test_the_same_seed_gives_the_same_run(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    torch.manual_seed(99)
    torch.rand(7)
    assert go(texts, tmp_path / "run").step == 12
    assert_same_run(uninterrupted, tmp_path / "run")


def test_another_seed_gives_another(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    go(texts, tmp_path / "run", "seed=2")
    assert not same_tensors(uninterrupted, tmp_path / "run")


def test_how_often_one_looks_changes_no_weight(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    go(texts, tmp_path / "run", "train.validate_every=5", "train.log_every=1", "train.keep_best=1")
    assert same_tensors(uninterrupted, tmp_path / "run")
    losses = [record["loss"] for record in metrics(tmp_path / "run") if record["type"] == "train"]
    assert len(losses) == 12


# stopping and going on


@pytest.mark.parametrize("step", [1, 4, 5, 6, 9])
def test_interrupted_and_resumed_is_as_if_never_interrupted(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    run = tmp_path / "run"
    interrupt_at(monkeypatch, step)
    outcome = go(texts, run)
    assert (outcome.step, outcome.signal) == (step, signal.SIGINT)
    assert "interrupted, the same command goes on from here" in outcome.reason
    assert os.readlink(run / "last") == f"checkpoints/step-{step:08d}"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    outcome = go(texts, run)
    assert (outcome.step, outcome.signal, outcome.reason) == (12, None, "train.stop.steps is 12")
    assert same_tensors(uninterrupted, run)
    assert metrics(uninterrupted) == metrics(run)
    assert progress(uninterrupted) == progress(run)


def test_a_signal_does_not_wait_for_the_end_of_a_validation(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "evaluate", lambda *_: signal.raise_signal(signal.SIGTERM))
        assert go(texts, run).signal == signal.SIGTERM
    assert saved_steps(run) == [4]
    assert progress(run)["validated_at"] == 0
    go(texts, run)
    assert_same_run(uninterrupted, run)


def test_a_longer_limit_goes_on_as_if_it_had_been_there(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    go(texts, tmp_path / "run", "train.stop.steps=8")
    go(texts, tmp_path / "run")
    assert_same_run(uninterrupted, tmp_path / "run")


def test_accumulated_batches_resume_too(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(texts, tmp_path / "a", "train.accumulate=3", "train.stop.steps=8")
    interrupt_at(monkeypatch, 3)
    go(texts, tmp_path / "b", "train.accumulate=3", "train.stop.steps=8")
    go(texts, tmp_path / "b", "train.accumulate=3", "train.stop.steps=8")
    assert same_tensors(tmp_path / "a", tmp_path / "b")


def test_sampled_segmentations_resume_too(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that are not the plain ones, that were read ahead, and that are read again."""
    overrides = ("train.subword_sampling=0.3", "train.stop.steps=8")
    go(texts, tmp_path / "a", *overrides)
    interrupt_at(monkeypatch, 3)
    assert go(texts, tmp_path / "b", *overrides).step == 3
    go(texts, tmp_path / "b", *overrides)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert metrics(tmp_path / "a")[0]["loss"] != metrics(uninterrupted)[0]["loss"]


def test_auto_trains_with_what_it_finds(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the number had been given: nothing of the trial is left. Later it is not looked for again."""
    go(texts, tmp_path / "auto", "train.batch_tokens=auto", "train.stop.steps=1")
    found = load_recipe(tmp_path / "auto" / "recipe.yaml").train.budget
    go(texts, tmp_path / "given", f"train.batch_tokens={found}", "train.stop.steps=2")
    monkeypatch.setattr("nmt.training.auto_batch.find_batch_tokens", None)
    go(texts, tmp_path / "auto", "train.batch_tokens=auto", "train.stop.steps=2")
    assert same_tensors(tmp_path / "auto", tmp_path / "given")


def test_a_finished_run_says_so_and_adds_nothing(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the last validation was not among the best."""
    losses = iter([1.0, 2.0, 3.0, 0.5])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    overrides = ("train.best_metric=loss", "train.keep_best=1")
    go(texts, tmp_path / "run", *overrides)
    before = metrics(tmp_path / "run")
    outcome = go(texts, tmp_path / "run", *overrides)
    assert (outcome.step, outcome.reason) == (12, "train.stop.steps is 12")
    assert metrics(tmp_path / "run") == before
    assert saved_steps(tmp_path / "run") == [4, 12]


def test_a_validation_after_the_fact_is_remembered(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted at 5 and told to end there: the validation comes when the checkpoint is there already."""
    run = tmp_path / "run"
    interrupt_at(monkeypatch, 5)
    go(texts, run)
    assert progress(run)["validated_at"] == 4
    for _ in range(2):
        go(texts, run, "train.stop.steps=5")
        assert progress(run)["validated_at"] == 5
        assert [record["step"] for record in metrics(run) if record["type"] == "validation"] == [4, 5]
        assert 5 in [step for _, step in progress(run)["best"]]


def test_restart_begins_anew(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(texts, run, "seed=5", "train.stop.steps=4")
    with pytest.raises(ConfigError, match="seed: was 5, now 1"):
        go(texts, run)
    train(recipe(texts, run), QUIET, restart=True)
    assert_same_run(uninterrupted, run)


def test_other_text_is_refused(tmp_path: Path) -> None:
    write_texts(tmp_path, 100, 4)
    prepare(recipe(tmp_path, tmp_path / "run"), QUIET)
    go(tmp_path, tmp_path / "run", "train.stop.steps=2")
    write(tmp_path / "train.tsv", pairs(100, 9))
    prepare(recipe(tmp_path, tmp_path / "run"), QUIET)
    with pytest.raises(ConfigError, match=r"run: the training or validation text has changed .*--restart"):
        go(tmp_path, tmp_path / "run", "train.stop.steps=4")
    train(recipe(tmp_path, tmp_path / "run", "train.stop.steps=1"), QUIET, restart=True)


def test_the_corpus_of_a_run_is_not_replaced(texts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    alone = [f"prepared={run / 'prepared'}"]
    prepare(recipe(texts, run, *alone), QUIET)
    go(texts, run, "train.stop.steps=2", *alone)
    changed = recipe(texts, run, "tokenizer.vocab_size=70", *alone)
    before = (run / "prepared" / "manifest.json").read_bytes()
    with pytest.raises(
        ConfigError, match=r"tokenizer.vocab_size: was 80, now 70; undo the change, choose another run:"
    ):
        check_may_prepare(changed, why_stale(changed), restart=False)
    check_may_prepare(changed, why_stale(changed), restart=True)
    with RunDirectory(run).locked(), pytest.raises(ModelError, match="is training here"):
        check_may_prepare(changed, why_stale(changed), restart=True)
    assert (run / "prepared" / "manifest.json").read_bytes() == before
    same = recipe(texts, run, *alone)
    check_may_prepare(same, why_stale(same), restart=False)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.init_from={run}", "is in the run that --restart empties"),
        ("train.freeze=[encodr.*]", "no weight is called 'encodr.*'"),
        pytest.param(
            "runtime.device=cuda",
            "cuda is not available",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_a_restart_that_cannot_begin_leaves_the_run_as_it_is(
    texts: Path, tmp_path: Path, override: str, message: str
) -> None:
    run = tmp_path / "run"
    go(texts, run, "train.stop.steps=2")
    before = saved_steps(run)
    changed = recipe(texts, run, override.format(run=run))
    with pytest.raises(ConfigError, match=re.escape(message)):
        train(changed, QUIET, restart=True)
    assert saved_steps(run) == before
    assert go(texts, run, "train.stop.steps=3").step == 3


def test_two_at_once_are_refused(texts: Path, tmp_path: Path) -> None:
    with (
        RunDirectory(tmp_path / "run").locked(),
        pytest.raises(ModelError, match=f"process {os.getpid()} .* is training here"),
    ):
        go(texts, tmp_path / "run")


# limits


def test_stop_by_epochs(texts: Path, tmp_path: Path) -> None:
    outcome = go(
        texts,
        tmp_path / "run",
        "train.stop.steps=null",
        "train.stop.epochs=2",
        "train.batch_tokens=512",
        "train.length_groups=1",  # else the last update may reach into the next epoch
        "train.validate_every=100",
    )
    content = progress(tmp_path / "run")
    assert outcome.reason == "train.stop.epochs is 2"
    assert (content["epoch"], content["group"]) == (2, 0)
    # each epoch shows each pair once, with its end symbol
    prepared = json.loads((texts / "prepared" / "manifest.json").read_text())["train"]
    assert content["target_tokens"] == 2 * (prepared["target"]["tokens"] + prepared["kept"])


def test_a_rate_that_will_not_fall_is_told(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["train.schedule={name: linear, rate: 1e-3, warmup: 2}", "train.validate_every=9"]
    for steps in (2, 3):
        train(recipe(texts, tmp_path / str(steps), *options, f"train.stop.steps={steps}"), Console())
        said = " ".join(capsys.readouterr().err.split())
        assert ("2 steps of rising leave none of train.stop.steps, 2, to fall" in said) == (steps == 2)


def test_stop_by_hours(texts: Path, tmp_path: Path) -> None:
    outcome = go(texts, tmp_path / "run", "train.stop.hours=1e-9")
    assert (outcome.step, outcome.reason) == (1, "train.stop.hours is 1e-09")
    assert saved_steps(tmp_path / "run") == [1]


def test_stop_by_patience(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    overrides = ("train.stop.patience=2", "train.best_metric=loss", "train.validate_every=2", "train.keep_best=2")
    outcome = go(texts, tmp_path / "run", *overrides)
    assert (outcome.step, outcome.reason) == (8, "no better loss in 2 validations")
    # 2.0 came at step 4 and, no better, at step 8
    assert saved_steps(tmp_path / "run") == [4, 8]
    assert [value for value, _ in progress(tmp_path / "run")["best"]] == [-2.0, -2.0]


def test_patience_survives_an_interruption(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([2.0, 2.5, 2.5])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    interrupt_at(monkeypatch, 5)
    overrides = ("train.stop.patience=2", "train.best_metric=loss", "train.validate_every=2")
    assert go(texts, tmp_path / "run", *overrides).signal == signal.SIGINT
    assert go(texts, tmp_path / "run", *overrides).step == 6


# what may go wrong


def break_gradients(monkeypatch: pytest.MonkeyPatch, when: Callable[[Progress], bool]) -> None:
    """Let a weight's gradient be no number in the steps that the function says."""
    plain = Training.__init__

    def broken(training: Training, *arguments: Any) -> None:
        plain(training, *arguments)
        weight = training.model.encoder_norm.weight
        weight.register_hook(lambda gradient: gradient * (float("nan") if when(training.progress) else 1.0))

    monkeypatch.setattr(Training, "__init__", broken)


def fails_at_6_to_11_unless_slower(progress: Progress) -> bool:
    return 6 <= progress.step <= 11 and progress.adjustments.rate == 1


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Send this process a signal in the n-th step that it makes, of whatever number."""
    made: list[int] = []
    plain = Training.step

    def step_and_signal(training: Training, feed: Prefetcher) -> None:
        made.append(training.progress.step)
        if len(made) == steps:
            signal.raise_signal(signal.SIGTERM)
        plain(training, feed)

    monkeypatch.setattr(Training, "step", step_and_signal)


def skipped_steps(run: Path) -> list[int]:
    return [record["step"] for record in metrics(run) if record["type"] == "skipped"]


def test_an_update_that_is_no_number_is_skipped(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_gradients(monkeypatch, lambda progress: progress.step in (2, 7, 8))
    run = tmp_path / "run"
    go(texts, run)
    assert skipped_steps(run) == [2, 7, 8]
    (record, *_) = (record for record in metrics(run) if record["type"] == "skipped")
    assert float(record["loss"]) > 0
    assert record["gradient_norm"] == "nan"
    # the validation of step 8 comes with the first update after it
    assert [record["step"] for record in metrics(run) if record["type"] == "validation"] == [4, 9, 12]
    assert (progress(run)["skipped"], progress(run)["skipped_in_a_row"]) == (3, 0)
    kept = json.loads((run / "skipped" / "step-00000007.json").read_text())
    known = set(pairs(200, 1))
    assert kept["gradient_norm"] == "nan"
    assert {(pair["source"], pair["target"]) for pair in kept["pairs"]} <= known
    assert sum(len(pair["target_ids"]) for pair in kept["pairs"]) <= 64
    err = capsys.readouterr().err
    assert f"gradient norm nan: skipped; its batch is in {run / 'skipped' / 'step-00000007.json'}" in err
    assert progress(run)["target_tokens"] < 9 * 64


@pytest.mark.parametrize("steps", [2, 3, 7])
def test_skipped_and_interrupted_is_as_if_never_interrupted(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Adam counts the updates that were made, not the steps."""
    break_gradients(monkeypatch, lambda progress: progress.step in (2, 7, 8))
    go(texts, tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps)
        assert go(texts, tmp_path / "run").step == steps
    go(texts, tmp_path / "run")
    assert same_tensors(tmp_path / "whole", tmp_path / "run")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "run")
    assert progress(tmp_path / "whole") == progress(tmp_path / "run")


def test_after_five_in_a_row_training_goes_back_and_slows_down(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    break_gradients(monkeypatch, fails_at_6_to_11_unless_slower)
    assert go(texts, run, "train.log_every=1").step == 12
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
    assert "the 5th update in a row that is not finite; back to step 4 and on with 0.5 of the rate" in err


# before all of it, among the skipped, in the last of these, after going back, and after the next checkpoint
@pytest.mark.parametrize("steps", [3, 7, 10, 11, 12, 17])
def test_gone_back_and_interrupted_is_as_if_never_interrupted(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    break_gradients(monkeypatch, fails_at_6_to_11_unless_slower)
    go(texts, tmp_path / "whole", "train.accumulate=2")
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps)
        assert go(texts, tmp_path / "run", "train.accumulate=2").signal == signal.SIGTERM
    go(texts, tmp_path / "run", "train.accumulate=2")
    assert same_tensors(tmp_path / "whole", tmp_path / "run")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "run")
    assert progress(tmp_path / "whole") == progress(tmp_path / "run")


def test_going_back_again_and_again_ends(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_gradients(monkeypatch, lambda progress: progress.step >= 6)
    for _ in range(2):
        with pytest.raises(
            ModelError,
            match=r"5th update in a row .* 3 times training has gone back to step 4, at last with 0.125 of its rate: "
            r"lower train\.schedule's rate or lengthen its warmup.*skipped batches are in .*/run/skipped",
        ):
            go(texts, tmp_path / "run")
    assert saved_steps(tmp_path / "run") == [4]
    assert load_model(tmp_path / "run" / "last", torch.device("cpu"))


def test_weights_that_explode_are_taken_back(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Training.step

    def explode(training: Training, feed: Prefetcher) -> None:
        plain(training, feed)
        if training.progress.step == 8 and training.progress.adjustments.rate == 1:
            with torch.no_grad():
                training.model.output.weight.mul_(1e38)

    monkeypatch.setattr(Training, "step", explode)
    go(texts, tmp_path / "run")
    assert "step 8: the loss on the validation text is nan; back to step 4" in capsys.readouterr().err
    assert progress(tmp_path / "run")["adjustments"]["rate"] == 0.5
    assert all(tensor.isfinite().all() for tensor in tensors(tmp_path / "run").values())


@pytest.mark.parametrize("validate_every", [1, 2])
def test_numbers_that_explode_at_once_are_never_saved(texts: Path, tmp_path: Path, validate_every: int) -> None:
    overrides = ("train.schedule.rate=1e30", f"train.validate_every={validate_every}")
    with pytest.raises(ModelError, match="there is no checkpoint of a validation to go back to: lower"):
        go(texts, tmp_path / "run", *overrides)
    assert saved_steps(tmp_path / "run") == []


def test_without_validation_text_checkpoints_come_all_the_same(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_texts(tmp_path, 100, 4)
    content = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    del content["data"]["valid"]
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(content))
    chosen = recipe(tmp_path, tmp_path / "run", "train.stop.steps=9")
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


def test_a_validation_sentence_too_long_for_learned_positions_is_cut(tmp_path: Path) -> None:
    write_texts(tmp_path, 100, 4)
    write(tmp_path / "valid.tsv", [*pairs(3, 2), (" ".join(SOURCE_WORDS * 3), " ".join(TARGET_WORDS * 3))])
    overrides = (
        "model.positions=learned",
        "model.max_positions=11",
        "data.filters.max_tokens=10",
        "train.stop.steps=2",
    )
    chosen = recipe(tmp_path, tmp_path / "run", *overrides)
    prepare(chosen, QUIET)
    assert train(chosen, QUIET).step == 2


def test_the_test_text_is_translated_with_the_best(texts: Path, tmp_path: Path) -> None:
    corpus = {"tsv": str(texts / "test.tsv")}
    chosen = recipe(texts, tmp_path / "run", "train.stop.steps=2", f"data.test={json.dumps(corpus)}")
    outcome = train(chosen, QUIET)
    assert outcome.test is not None
    written = (tmp_path / "run" / "test.txt").read_text().split("\n")
    assert written == [*outcome.test.translations, ""]
    assert len(outcome.test.translations) == 6
    scores = json.loads((tmp_path / "run" / "test.json").read_text())
    assert [score["name"] for score in scores] == ["BLEU", "chrF2"]
    assert [score["value"] for score in scores] == [outcome.test.bleu.value, outcome.test.chrf.value]


@pytest.mark.parametrize(("content", "problem"), [(None, "no such file"), ("", "no sentence pairs"), ("x", "no tab")])
def test_a_wrong_test_text_shows_before_the_training(
    texts: Path, tmp_path: Path, content: str | None, problem: str
) -> None:
    file = tmp_path / "wrong.tsv"
    if content is not None:
        file.write_text(content)
    chosen = recipe(texts, tmp_path / "run", f"data.test={json.dumps({'tsv': str(file)})}")
    with pytest.raises(DataError, match=problem):
        train(chosen, QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("steps", [1, 5])
def test_batches_that_do_not_fit_are_cut_from_then_on(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], steps: int
) -> None:
    plain, failed = Updater.loss, []

    def small(updater: Updater, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        if size_of(batch) > 100:
            failed.append(size_of(batch))
            raise torch.OutOfMemoryError
        return plain(updater, batch)

    monkeypatch.setattr(Updater, "loss", small)
    go(texts, tmp_path / "whole")
    learnt = progress(tmp_path / "whole")["adjustments"]["largest_batch"]
    assert 1 <= len(failed) <= 2
    assert learnt == failed[-1] * 3 // 4
    said = (
        f"batch did not fit in the memory of cpu, so it was learnt in parts; from now on batches of more than {learnt}"
    )
    assert capsys.readouterr().err.count(said) == 1
    with monkeypatch.context() as patch:
        interrupt_after(patch, steps)
        go(texts, tmp_path / "run")
    go(texts, tmp_path / "run")
    assert same_tensors(tmp_path / "whole", tmp_path / "run")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "run")
    assert progress(tmp_path / "whole") == progress(tmp_path / "run")


def test_a_validation_that_does_not_fit_is_explained(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*_arguments: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(loop, "evaluate", too_much)
    with pytest.raises(ConfigError, match=r"the memory of cpu is full, .* lower decode\.batch_tokens"):
        go(texts, tmp_path / "run")


def test_a_run_that_is_a_file(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("x")
    with pytest.raises(ModelError, match="run: expected a folder for the run, found a file"):
        go(texts, tmp_path / "run")


def test_latest_that_is_no_link_is_not_replaced(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs" / "latest").mkdir(parents=True)
    go(texts, tmp_path / "run", "train.stop.steps=1")
    assert "runs/latest: cannot link it" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "latest").is_symlink()
    assert saved_steps(tmp_path / "run") == [1]


def test_latest_that_cannot_be_written_is_a_warning(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(stage, "point", refuse)
    stage.link_latest(tmp_path / "run", Console(quiet=True))
    assert f"cannot link it to {tmp_path / 'run'}: Permission denied; pass --model" in capsys.readouterr().err


def test_news_for_people(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(recipe(texts, tmp_path / "run", "train.stop.steps=4"), Console())
    captured = capsys.readouterr()
    assert captured.out == ""
    said = captured.err.splitlines()
    assert said[0].startswith("reversal: ")
    assert "on cpu (1 threads)" in said[0] or "on cpu (1 thread)" in said[0]
    assert said.count(HEAD) == 1
    row, valid = said[said.index(HEAD) + 1 : said.index(HEAD) + 3]
    assert re.fullmatch(r" +3 +\S+ +\S+ +\S+ +\S+ +[\d,]+ +\d+% +\S+% +\d:\d\d:\d\d", row)
    assert len(row) == len(HEAD) <= 80
    assert re.fullmatch(r" +4  valid  loss \S+  perplexity \S+  BLEU \S+  chrF \S+  best bleu", valid)
    assert said[-1] == f"stopped after step 4: train.stop.steps is 4; saved in {tmp_path / 'run'}"


# real processes


def start(repository: Path, texts: Path, run: Path, *overrides: str) -> "subprocess.Popen[str]":
    settings = [part for override in (f"run={run}", *overrides) for part in ("--set", override)]
    command = [sys.executable, "-m", "nmt.cli", "train", "--config", str(texts / "recipe.yaml"), *settings]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    return subprocess.Popen(
        command, cwd=run.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_saves_and_the_same_command_goes_on(
    repository: Path, texts: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    run = tmp_path / "run"
    with start(repository, texts, run, "train.stop.steps=100000", "train.validate_every=1000") as process:
        wait_for(run / "metrics.jsonl", process)
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == code, err
    assert out == ""
    assert "interrupted, the same command goes on from here" in err
    (stopped,) = saved_steps(run)
    assert f"stopped after step {stopped:,}" in err
    go(texts, run, f"train.stop.steps={stopped + 2}", "train.validate_every=1000")
    assert progress(run)["step"] == stopped + 2


@pytest.mark.slow
def test_a_signal_saves_and_the_training_goes_on(repository: Path, texts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with start(repository, texts, run, "train.stop.steps=100000", "train.validate_every=100000") as process:
        wait_for(run / "metrics.jsonl", process)
        for _ in range(2):
            before = saved_steps(run)
            process.send_signal(signal.SIGUSR1)
            while saved_steps(run) == before:
                assert process.poll() is None
                time.sleep(0.02)
        process.kill()
        process.communicate()
    first, second = saved_steps(run)
    assert first < second
    go(texts, run, f"train.stop.steps={second + 1}", "train.validate_every=100000")
    assert progress(run)["step"] == second + 1


SLOW_TO_SAVE = """
import sys, time
import nmt.cli, nmt.training.run

def seal_slowly(directory, plain=nmt.training.run.seal):
    if "00000004" not in directory.name:
        print("saving", flush=True)
        time.sleep(10**6)
    plain(directory)

nmt.training.run.seal = seal_slowly
nmt.cli.main()
"""


@pytest.mark.slow
def test_a_second_interrupt_ends_at_once_and_harms_nothing(
    repository: Path, uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    arguments = ["train", "--config", str(texts / "recipe.yaml"), "--set", f"run={run}"]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_SAVE, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "saving\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "interrupted" in err
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000004"]
    go(texts, run)
    assert_same_run(uninterrupted, run)


@pytest.mark.slow
def test_killed_and_resumed_is_as_if_never_killed(
    repository: Path, uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with start(repository, texts, run, "train.stop.steps=100000") as process:
        wait_for(run / "checkpoints" / "step-00000004", process)
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    for later in RunDirectory(run).saved():
        # however quick it was, let it have been killed before its second checkpoint
        if later.name > "step-00000004":
            subprocess.run(["rm", "-r", str(later)], check=True)
    go(texts, run)
    assert_same_run(uninterrupted, run)


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    """A language that reverses its words must be learnt well from 3,000 sentences."""
    write_texts(tmp_path, 3000, 60)
    size = {"encoder_layers": 1, "decoder_layers": 1, "dim": 64, "feed_forward": 128, "heads": 4, "dropout": 0.0}
    schedule = {"name": "linear", "rate": 0.005, "warmup": 40}
    chosen = recipe(
        tmp_path,
        tmp_path / "run",
        f"model={json.dumps(size)}",
        f"train.schedule={json.dumps(schedule)}",
        "train.batch_tokens=512",
        "train.stop.steps=500",
        "train.validate_every=250",
        "train.log_every=100",
        f"data.test={json.dumps({'tsv': str(tmp_path / 'test.tsv')})}",
    )
    prepare(chosen, QUIET)
    outcome = train(chosen, QUIET)
    assert outcome.test is not None
    known = {source for source, _ in pairs(3000, 1)}
    expected = [(source, target) for source, target in pairs(60, 3)]
    unseen = [
        (t, target)
        for t, (source, target) in zip(outcome.test.translations, expected, strict=True)
        if source not in known
    ]
    assert len(unseen) > 20
    assert sum(translation == target for translation, target in unseen) >= 0.9 * len(unseen)
    assert outcome.test.bleu.value >= 90


def test_time_left() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 3725, 360_000)] == ["0:00:00", "0:01:00", "1:02:05", "100:00:00"]

    def left(stop: Stop, progress: Progress) -> str:
        return TrainingDisplay(QUIET, TrainSettings(stop=stop)).time_left(progress)

    assert left(Stop(steps=100), Progress(step=25, seconds=60)) == "0:03:00"
    assert left(Stop(steps=100, hours=0.025), Progress(step=25, seconds=60)) == "0:00:30"
    assert left(Stop(steps=None, patience=2), Progress(step=25, seconds=60)) == "until stopped"


def test_texts_may_move_while_a_run_waits(texts: Path, tmp_path: Path) -> None:
    go(texts, tmp_path / "run", "train.stop.steps=4")
    moved = tmp_path / "moved.tsv"
    moved.write_bytes((texts / "train.tsv").read_bytes())
    assert go(texts, tmp_path / "run", f"data.train.0.tsv={moved}", "train.stop.steps=8").step == 8


def test_a_run_that_saved_nothing_binds_to_no_recipe(texts: Path, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    run.begin(recipe(texts, run.path), restart=False)
    run.begin(recipe(texts, run.path, "model.dim=32"), restart=False)
    assert load_recipe(run.recipe).model.dim == 32


# averages of the weights


@pytest.mark.parametrize("step", [3, 8, 10])
def test_a_moving_average_survives_an_interruption_to_the_bit(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    go(texts, tmp_path / "whole", "train.ema=0.9")
    interrupt_at(monkeypatch, step)
    assert go(texts, tmp_path / "run", "train.ema=0.9").signal == signal.SIGINT
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    go(texts, tmp_path / "run", "train.ema=0.9")
    assert same_tensors(tmp_path / "whole", tmp_path / "run")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "run")
    training = [load_file(tmp_path / run / "last" / "training.safetensors") for run in ("whole", "run")]
    assert all(torch.equal(weight, training[1][name]) for name, weight in training[0].items())


def test_an_average_changes_what_translates_and_not_what_learns(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    go(texts, tmp_path / "run", "train.ema=0.9")

    def weights(run: Path, file: str) -> dict[str, torch.Tensor]:
        return load_file(run / "last" / f"{file}.safetensors")

    averaged, learning = (weights(tmp_path / "run", file) for file in ("model", "training"))
    for found, expected in (
        (learning, weights(uninterrupted, "model")),
        (weights(tmp_path / "run", "optimizer"), weights(uninterrupted, "optimizer")),
    ):
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert not any(torch.equal(averaged[name], weight) for name, weight in learning.items())
    losses = [
        [record["loss"] for record in metrics(run) if record["type"] == kind]
        for kind in ("train", "validation")
        for run in (uninterrupted, tmp_path / "run")
    ]
    assert losses[0] == losses[1]
    assert losses[2] != losses[3]


def test_the_average_is_that_of_the_weights_of_all_steps(texts: Path, tmp_path: Path) -> None:
    """Each step's weights are the last of a run that long."""
    for step in range(1, 5):
        go(texts, tmp_path / f"{step}", f"train.stop.steps={step}", "train.ema=0.25")
    history = [load_file(tmp_path / f"{step}" / "last" / "training.safetensors") for step in range(1, 5)]
    found = [load_file(tmp_path / f"{step}" / "last" / "model.safetensors") for step in range(1, 5)]
    for name, weight in found[3].items():
        # decays of (1+t)/(10+t), from the fourth on of 0.25
        expected = found[0][name].double()
        for step, decay in ((2, 3 / 12), (3, 0.25), (4, 0.25)):
            expected = decay * expected + (1 - decay) * history[step - 1][name].double()
        torch.testing.assert_close(weight.double(), expected, rtol=1e-5, atol=1e-7)


def test_as_many_of_the_last_checkpoints_stay_as_asked_for(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the training was interrupted between two of them."""
    overrides = ("train.keep_last=3", "train.keep_best=1", "train.validate_every=2")
    losses = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 2)
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    go(texts, tmp_path / "whole", *overrides, "train.best_metric=loss")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 9)
        go(texts, tmp_path / "run", *overrides, "train.best_metric=loss")
    go(texts, tmp_path / "run", *overrides, "train.best_metric=loss")
    assert saved_steps(tmp_path / "whole") == saved_steps(tmp_path / "run") == [2, 8, 10, 12]


# fine-tuning


def fine_tuning(texts: Path, tmp_path: Path, start: Path, *overrides: str) -> Recipe:
    """Return the recipe of another text without a word on model and tokenizer, starting from another run."""
    write(tmp_path / "other.tsv", pairs(120, 7))
    content = yaml.safe_load((texts / "recipe.yaml").read_text())
    del content["model"], content["tokenizer"], content["prepared"]
    content["data"] = {"train": [{"tsv": "other.tsv"}], "valid": {"tsv": str(texts / "valid.tsv")}}
    content["train"]["init_from"] = str(start)
    content["run"] = "tuned"
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(content))
    return load_recipe(tmp_path / "recipe.yaml", list(overrides))


def test_fine_tuning_begins_with_the_weights_and_tokenizer_of_a_run(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    chosen = fine_tuning(texts, tmp_path, uninterrupted, "train.stop.steps=4", "train.schedule.rate=1e-12")
    assert chosen.model == load_recipe(uninterrupted / "recipe.yaml").model
    prepare(chosen, QUIET)
    train(chosen, QUIET)
    start = load_file(uninterrupted / "best" / "model.safetensors")
    found = load_file(tmp_path / "tuned" / "last" / "model.safetensors")
    assert start.keys() == found.keys()
    for name, weight in start.items():  # a rate of next to nothing leaves them as they are
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-9)
    assert (tmp_path / "tuned" / "last" / "tokenizer.model").read_bytes() == (
        uninterrupted / "best" / "tokenizer.model"
    ).read_bytes()


def test_fine_tuning_resumes_like_any_run(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = fine_tuning(texts, tmp_path, uninterrupted)
    prepare(chosen, QUIET)
    train(chosen.model_copy(update={"run": tmp_path / "whole", "prepared": chosen.prepared_directory}), QUIET)
    interrupt_at(monkeypatch, 5)
    train(chosen, QUIET)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    # the recipe that the run keeps says the same
    train(load_recipe(chosen.run / "recipe.yaml"), QUIET)
    assert same_tensors(tmp_path / "whole", chosen.run)
    assert metrics(tmp_path / "whole") == metrics(chosen.run)


def test_frozen_weights_do_not_change_by_a_bit(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    overrides = ("train.freeze=['encoder*', '*embedding*']", "train.weight_decay=0.1", "train.ema=0.5")
    chosen = fine_tuning(texts, tmp_path, uninterrupted, *overrides)
    prepare(chosen, QUIET)
    train(chosen, QUIET)
    start = load_file(uninterrupted / "best" / "model.safetensors")
    for file in ("model.safetensors", "training.safetensors"):
        found = load_file(chosen.run / "last" / file)
        same = {name for name, weight in start.items() if torch.equal(found[name], weight)}
        assert same == {name for name in start if name.startswith("encoder") or "embedding" in name}
    assert not any("encoder" in name for name in load_file(chosen.run / "last" / "optimizer.safetensors"))


def test_a_model_that_does_not_fit_is_refused(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        fine_tuning(texts, tmp_path, uninterrupted, "model={dim: 32, heads: 2, norm: post, dropout: 0.5}")
    start = uninterrupted / "best"
    assert str(caught.value).split("\n") == [
        f"--set model={{dim: 32, heads: 2, norm: post, dropout: 0.5}}: model.dim: found 32, but the model of "
        f"train.init_from has 16; leave it out, for it comes with {start}",
        f"--set model={{dim: 32, heads: 2, norm: post, dropout: 0.5}}: model.norm: found post, but the model of "
        f"train.init_from has pre; leave it out, for it comes with {start}",
    ]
    assert fine_tuning(texts, tmp_path, uninterrupted, "model={heads: 2, dropout: 0.5}").model.dropout == 0.5
    with pytest.raises(ConfigError, match=r"train.init_from: .*nowhere: no model here; expected a model directory or"):
        fine_tuning(texts, tmp_path, tmp_path / "nowhere")


def test_a_damaged_start_is_refused(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    shutil.copytree(uninterrupted / "best", start)
    chosen = fine_tuning(texts, tmp_path, start)
    prepare(chosen, QUIET)
    content = bytearray((start / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (start / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=r"start/model.safetensors: damaged"):
        train(chosen, QUIET)


def test_two_passes_make_another_run_that_resumes_too(
    uninterrupted: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-Drop is not lost when validation has looked at the model: all losses stay above those of one pass."""
    go(texts, tmp_path / "whole", "train.r_drop=5", "train.log_every=1", "train.schedule.rate=1e-9")
    go(texts, tmp_path / "plain", "train.log_every=1", "train.schedule.rate=1e-9")
    losses = [[r["loss"] for r in metrics(tmp_path / run) if r["type"] == "train"] for run in ("whole", "plain")]
    assert all(a > b + 0.01 for a, b in zip(*losses, strict=True))
    interrupt_at(monkeypatch, 5)
    go(texts, tmp_path / "run", "train.r_drop=5", "train.log_every=1", "train.schedule.rate=1e-9")
    go(texts, tmp_path / "run", "train.r_drop=5", "train.log_every=1", "train.schedule.rate=1e-9")
    assert same_tensors(tmp_path / "whole", tmp_path / "run")
