"""`nmt train --dry-run` prints an estimate and writes nothing."""

import hashlib
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nmt.batching.batch_stream import plan_epoch
from nmt.cli import app
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config import Recipe, Stop, load_recipe
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.text.prepared import PreparedCorpus
from nmt.training.trial import Estimate, estimate, render
from tests.builders import write_recipe

CPU = torch.device("cpu")
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    folder = tmp_path_factory.mktemp("estimate")
    rows = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()[:400]
    (folder / "train.tsv").write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    write_recipe(
        folder,
        tokenizer={"vocab_size": 500},
        model={"encoder_layers": 1, "decoder_layers": 1, "dim": 16, "feed_forward": 32, "heads": 2},
        train={"batch_tokens": 256, "accumulate": 2, "stop": {"steps": 2, "epochs": 3}},
        runtime={"device": "cpu", "precision": "fp32", "threads": 1},
        prepared="prepared",
    )
    prepare(load_recipe(folder / "recipe.yaml"), QUIET)
    return folder / "recipe.yaml"


@pytest.fixture(scope="module")
def recipe(file: Path) -> Recipe:
    return load_recipe(file)


@pytest.fixture(scope="module")
def corpus(recipe: Recipe) -> PreparedCorpus:
    return PreparedCorpus.open(recipe.prepared_directory)


def contents(folder: Path) -> dict[str, str]:
    """Return all paths below a folder, with the SHA-256 digest of each file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
    }


def test_estimate_counts_parameters_updates_and_pairs(recipe: Recipe, corpus: PreparedCorpus) -> None:
    result = estimate(recipe, corpus, CPU)
    model = Transformer(recipe.model, 500, 500)
    assert result.parameters == sum(weight.numel() for weight in model.parameters())
    # weight, gradient and two moments, four bytes each
    assert result.state_bytes == 4 * 4 * result.parameters
    groups = plan_epoch(corpus.train, 256 // 4, recipe.seed, 0)
    assert result.updates_an_epoch == len(groups) / 4 / 2
    assert result.pairs == len(corpus.train)
    assert result.target_tokens_per_second > 0
    assert (result.free_bytes, result.peak_bytes) == (None, None)  # measured on CUDA only


def estimate_with(recipe: Recipe, stop: Stop, *device_memory: float) -> Estimate:
    chosen = recipe.model_copy(update={"train": recipe.train.model_copy(update={"stop": stop})})
    return Estimate(chosen, CPU, 1_000, 400, 25.0, (0.1, 0.2), 1500.0, 0.5, *device_memory)  # type: ignore[arg-type]


def test_times_to_each_limit_equal_those_by_hand(recipe: Recipe) -> None:
    stop = Stop(steps=1000, epochs=4, hours=0.25, patience=3)
    result = estimate_with(recipe, stop, 2**30, 3 * 2**30, 4 * 2**30)
    assert result.times() == {"steps": (1000, 500), "epochs": (100, 50), "hours": (1800, 900)}
    text = render(result).splitlines()
    row_of = {line.split("  ")[0]: line for line in text}
    assert row_of["memory"].endswith("3.00 GiB for the largest batches; 4.00 GiB are free")
    assert row_of["batch"].endswith("256 target tokens × 2")
    assert row_of["train.stop.steps 1,000"].endswith("0:08:20, after 1,000 updates")
    assert row_of["train.stop.epochs 4"].endswith("0:00:50, after 100 updates, the first limit")
    assert row_of["train.stop.hours 0.25"].endswith("0:15:00, after 1,800 updates")
    assert row_of["train.stop.patience 3"].endswith("not predictable")
    assert row_of["an epoch"].endswith("0:00:12")
    assert max(map(len, text)) <= 80


def test_largest_batches_that_do_not_fit_are_reported(recipe: Recipe) -> None:
    text = render(estimate_with(recipe, Stop(), 2**20, float("inf"), 2**30))
    assert "memory                    the largest batches do not fit; 1.00 GiB are free" in text
    assert "largest batches" not in render(estimate_with(recipe, Stop(), 2**20))


def test_dry_run_writes_nothing(file: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = contents(file.parent)
    changes = ("train.batch_tokens=auto", "train.schedule={name: linear, warmup: 2}")
    overrides = [argument for change in changes for argument in ("--set", change)]
    result = CliRunner().invoke(app, ["train", "-c", str(file), "--dry-run", *overrides])
    assert result.exit_code == 0, result.output
    assert "2 steps of warm-up leave none of the 2 steps" in " ".join(result.stderr.split())
    assert "train.stop.epochs 3" in result.stdout
    assert "tokens/s" in result.stdout
    assert "auto is" in result.stderr
    assert contents(file.parent) == before
    assert list(tmp_path.iterdir()) == []


def test_dry_run_leaves_an_existing_run_unchanged(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_override = f"run={tmp_path / 'run'}"
    train(load_recipe(file, [run_override]), QUIET)
    before = contents(tmp_path)
    overrides = ["--set", run_override, "--set", "train.batch_tokens=auto"]
    result = CliRunner().invoke(app, ["train", "-c", str(file), "--dry-run", *overrides])
    assert result.exit_code == 0, result.output
    assert "auto is 256, as recorded in" in result.stderr
    assert contents(tmp_path) == before
    assert train(load_recipe(file, [run_override, "train.stop.steps=3"]), QUIET).step == 3


def test_dry_run_refuses_a_missing_test_text(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.commands.train.estimate", None)
    result = CliRunner().invoke(app, ["train", "-c", str(file), "--dry-run", "--set", 'data.test={"file": "/nowhere"}'])
    assert result.exit_code == 2
    assert "/nowhere" in result.stderr
