"""Reading a run: complete, training, interrupted, damaged, of an earlier version, or none at all."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from matplotlib.figure import Figure

from nmt.commands.prepare import prepare
from nmt.config import load_recipe
from nmt.errors import ConfigError, DataError, ModelError, NMTError
from nmt.report.drawing import in_legend
from nmt.report.run_records import RunRecords, run_row, setting_text
from nmt.system.console import Console
from nmt.system.files import lock_folder
from tests.builders import write_recipe, write_tsv
from tests.report.run_files import train_line, validation_line, write_run


def test_lines_are_sorted_into_kinds_in_the_order_of_steps(tmp_path: Path) -> None:
    skipped = {"type": "skipped", "step": 15, "loss": "nan", "gradient_norm": "inf"}
    lines = [train_line(10, 3.0), train_line(20, 2.0), skipped, validation_line(20, 1.9, 7.0), train_line(20, 2.5)]
    run = RunRecords(write_run(tmp_path / "run", lines))
    assert [(record["step"], record["loss"]) for record in run.train] == [(10, 3.0), (20, 2.5)]
    assert [record["step"] for record in run.validations] == [20]
    assert run.skipped == [skipped]


def test_incomplete_last_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    with (run / "metrics.jsonl").open("ab") as stream:
        stream.write(json.dumps(train_line(20, 2.0)).encode()[:40] + "…".encode()[:1])
    assert [record["step"] for record in RunRecords(run).train] == [10]


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", '{"type": "train"}', "\x00\x00", "", "[" * 100_000, '{"type": "x", "step": 1e999}',
        '{"type": "x", "step": ' + "1" * 5000 + "}", '{"type": [], "step": 1}',
        json.dumps(train_line(20, 2.0) | {"loss": "2"}), json.dumps(validation_line(20, 2.0, 1.0) | {"bleu": None}),
    ],
    ids=range(11),
)  # fmt: skip
def test_other_damage_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    log = run / "metrics.jsonl"
    log.write_text(log.read_text() + f"{line}\n")
    with pytest.raises(DataError, match=r"metrics\.jsonl:2: damaged: not a record of nmt train; remove this line"):
        RunRecords(run)


def test_damaged_recipe_and_scores_are_errors(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    for content in ('[{"name": "BLEU", "value": null}]', "text", "[1]", "[{}]", "null", "[" * 100_000, "1e999"):
        (run / "test.json").write_text(content)
        with pytest.raises(NMTError, match=r"test\.json: damaged.*; remove it, and nmt train writes it again"):
            RunRecords(run)
    (run / "recipe.yaml").write_text("train: {stop: 4")
    with pytest.raises(ConfigError, match=r"recipe\.yaml:1"):
        RunRecords(run)


def test_run_of_another_format_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    (run / "run.json").write_text(json.dumps({"format": "nmt run", "format_version": 1}))
    with pytest.raises(ConfigError, match=r"run: the run has format version 1, this nmt reads version 6: finish it"):
        RunRecords(run)
    (run / "run.json").unlink()
    with pytest.raises(ModelError, match=r"run: this folder is not a run, or has no run\.json"):
        RunRecords(run)
    with pytest.raises(ModelError, match="nowhere: no folder of this name; expected the folder that 'run' in a recipe"):
        RunRecords(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"nothing is logged yet; .*train\.log_every steps"):
        RunRecords(write_run(tmp_path / "empty", []))


def test_state_of_a_run_is_that_of_its_limits_and_lock(uninterrupted: Path, tmp_path: Path) -> None:
    assert RunRecords(uninterrupted).state == ""
    copy = tmp_path / "run"
    shutil.copytree(uninterrupted, copy, symlinks=True)
    recipe = copy / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("steps: 12", "steps: 100"))
    assert RunRecords(copy).state == "interrupted"
    with lock_folder(copy, lambda holder: None, lambda message: None):
        assert RunRecords(copy).state == "training now"
    assert RunRecords(copy).state == "interrupted"


@pytest.mark.parametrize(("metric", "best"), [("bleu", 20), ("chrf", 20), ("loss", 30)])
def test_best_validation_is_that_of_the_metric(tmp_path: Path, metric: str, best: int) -> None:
    lines = [validation_line(10, 3.0, 5.0), validation_line(20, 2.0, 9.0), validation_line(30, 1.0, 8.0)]
    run = write_run(tmp_path / "run", lines)
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("best_metric: bleu", f"best_metric: {metric}"))
    found = RunRecords(run).best
    assert found is not None
    assert found["step"] == best


def test_costs_are_those_of_the_progress_after_the_last_line_of_the_log(uninterrupted: Path, tmp_path: Path) -> None:
    """An epoch has each pair as often as the weight of its text states."""
    shutil.copytree(uninterrupted, tmp_path / "run", symlinks=True)
    whole, log = run_row("run", tmp_path / "run"), tmp_path / "run" / "metrics.jsonl"
    first = log.read_text().splitlines(keepends=True)[0]
    log.write_text(first)
    recipe = tmp_path / "run" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("oversample: 1.0", "oversample: 10.0"))
    row = run_row("run", tmp_path / "run")
    assert json.loads(first)["step"] < row["steps"] == whole["steps"]
    assert (row["tokens"], row["epochs"]) == (whole["tokens"], pytest.approx(whole["epochs"], rel=0.2))
    assert row["pairs"] is None, "the text is no longer the one of the checkpoints"
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    row = run_row("run", tmp_path / "run")
    assert row["pairs_per_epoch"] == 10 * whole["pairs_per_epoch"] == 10 * whole["pairs"]


def test_a_corpus_that_was_prepared_again_is_not_that_of_the_run(uninterrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(uninterrupted, tmp_path / "run", symlinks=True)
    write_tsv(tmp_path / "more.tsv", [("ba ce di fo gu la me", "kem hal jug zof vid tec sab")])
    recipe = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    recipe["data"]["train"].append({"file": "more.tsv"})
    changed = write_recipe(tmp_path, **{**recipe, "prepared": "run/prepared", "run": "other"})
    prepare(load_recipe(changed), Console(quiet=True))
    run = RunRecords(tmp_path / "run")
    with pytest.raises(DataError, match="prepared: it was prepared again, and is not what this run was trained on"):
        run.corpus()
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    assert run_row("run", tmp_path / "run")["pairs"] is None, "its recipe has another number of texts"


def test_the_model_of_a_run_has_the_name_of_the_run() -> None:
    assert [setting_text(path) for path in ("/a/base/best", "/a/base/last", "/a/train.tsv")] == [
        "base",
        "base",
        "train.tsv",
    ]


def test_names_in_a_legend_are_short_and_shown() -> None:
    axes = Figure().subplots()
    for name in ("_run", "a" * 99 + "z"):
        axes.plot([1], [1], label=in_legend(name))
    assert axes.get_legend_handles_labels()[1] == [" _run", f"…{'a' * 44}z"]
