"""Reading a run: complete, training, interrupted, damaged, of an earlier version, or none at all."""

import json
import shutil
from pathlib import Path

import pytest

from nmt.errors import ConfigError, ModelError
from nmt.report.run_records import RunRecords
from nmt.system.files import lock_folder
from tests.report.run_files import train_line, validation_line, write_run


def test_lines_are_sorted_into_kinds_in_the_order_of_steps(tmp_path: Path) -> None:
    skipped = {"type": "skipped", "step": 15, "loss": "nan", "gradient_norm": "inf"}
    lines = [train_line(10, 3.0), train_line(20, 2.0), skipped, validation_line(20, 1.9, 7.0), train_line(20, 2.5)]
    run = RunRecords(write_run(tmp_path / "run", lines))
    assert [(record["step"], record["loss"]) for record in run.train] == [(10, 3.0), (20, 2.5)]
    assert [record["step"] for record in run.validations] == [20]
    assert run.skipped == [skipped]
    assert (run.name, run.last_step, run.problems) == ("run", 20, [])


def test_incomplete_last_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    with (run / "metrics.jsonl").open("ab") as stream:
        stream.write(json.dumps(train_line(20, 2.0)).encode()[:40] + "…".encode()[:1])
    found = RunRecords(run)
    assert [record["step"] for record in found.train] == [10]
    assert found.problems == [
        "The last line of metrics.jsonl is incomplete: the process was killed while it was written."
    ]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"type": "train"}', '{"type": "validation", "step": 1}', "\x00\x00", "[" * 100_000]
)
def test_other_damaged_lines_are_named(tmp_path: Path, line: str) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    log = run / "metrics.jsonl"
    log.write_text(f"{line}\n" + log.read_text())
    assert RunRecords(run).problems == ["metrics.jsonl:1: not a record of nmt train; 1 line ignored."]


def test_run_of_another_format_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    (run / "run.json").write_text(json.dumps({"format": "nmt run", "format_version": 1}))
    with pytest.raises(ConfigError, match=r"run: the run has format version 1, this nmt reads version 3: finish it"):
        RunRecords(run)
    (run / "run.json").unlink()
    with pytest.raises(ModelError, match=r"run: this folder is not a run, or has no run\.json"):
        RunRecords(run)


def test_state_of_a_run_is_that_of_its_limits_and_lock(uninterrupted: Path, tmp_path: Path) -> None:
    assert RunRecords(uninterrupted).state == ("complete", "train.stop.steps")
    copy = tmp_path / "run"
    shutil.copytree(uninterrupted, copy, symlinks=True)
    recipe = copy / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("steps: 12", "steps: 100"))
    assert RunRecords(copy).state == ("interrupted", "nmt train resumes it")
    with lock_folder(copy, lambda holder: None, lambda message: None):
        assert RunRecords(copy).state == ("training", "now")
    assert RunRecords(copy).state == ("interrupted", "nmt train resumes it")
    assert RunRecords(uninterrupted).environment["threads"] >= 1


@pytest.mark.parametrize(("metric", "best"), [("bleu", 20), ("chrf", 20), ("loss", 30)])
def test_best_validation_is_that_of_the_metric_without_a_link(tmp_path: Path, metric: str, best: int) -> None:
    lines = [validation_line(10, 3.0, 5.0), validation_line(20, 2.0, 9.0), validation_line(30, 1.0, 8.0)]
    run = write_run(tmp_path / "run", lines)
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("best_metric: bleu", f"best_metric: {metric}"))
    found = RunRecords(run).best
    assert found is not None
    assert found["step"] == best


def test_best_validation_is_that_of_the_link(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [validation_line(10, 3.0, 5.0), validation_line(20, 2.0, 5.0)])
    (run / "checkpoints" / "step-00000020").mkdir()
    (run / "best").symlink_to("checkpoints/step-00000020")
    found = RunRecords(run).best
    assert found is not None
    assert found["step"] == 20


def test_missing_or_unreadable_recipe_is_a_problem_and_no_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)], recipe="train: {stop: 4")
    found = RunRecords(run)
    assert found.recipe is None
    assert found.name == "run"
    assert "The recipe cannot be read" in found.problems[0]
    assert found.recipe_text == "train: {stop: 4"
    (run / "recipe.yaml").unlink()
    assert RunRecords(run).recipe_text == ""


@pytest.mark.parametrize(
    "content", ["{", "[]", "[1]", "null", '[{"name": "BLEU"}]', '[{"name": "BLEU", "value": null}]']
)
def test_damaged_test_scores_are_left_out(tmp_path: Path, content: str) -> None:
    run = write_run(tmp_path / "run", [train_line(10, 3.0)])
    (run / "test.json").write_text(content)
    assert RunRecords(run).test_scores == []


def test_what_is_not_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere: no folder of this name; expected the folder that 'run' in a recipe"):
        RunRecords(tmp_path / "nowhere")
    (tmp_path / "photos").mkdir()
    with pytest.raises(ModelError, match="photos: this folder is not a run"):
        RunRecords(tmp_path / "photos")
    with pytest.raises(ModelError, match=r"nothing is logged yet; .*train\.log_every steps"):
        RunRecords(write_run(tmp_path / "run", []))
