"""`nmt runs`: a row for each run, what differs, the order, and runs that cannot be read."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from nmt.commands import runs as module
from nmt.report.run_records import differing_settings, find_runs, run_row
from nmt.system.files import lock_folder
from tests.builders import run_command, save_model, tiny_loaded_model
from tests.report.run_files import train_line, validation_line, write_run


def rows_of(*arguments: object) -> list[dict[str, object]]:
    result = run_command("runs", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout))


def table_of(folder: Path) -> list[list[str]]:
    result = run_command("runs", folder)
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()]


def write_runs(folder: Path) -> Path:
    """Write three runs: of 5 and 9 BLEU, and one of another seed in a folder of its own without a validation."""
    first = write_run(folder / "first", [train_line(10, 3.0), validation_line(10, 2.0, 5.0)])
    write_run(folder / "second", [train_line(20, 3.0), validation_line(20, 2.5, 9.0)])
    third = write_run(folder / "deep" / "third", [train_line(60, 4.0)])
    recipe = third / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 1", "seed: 7"))
    scores = [
        {"name": "BLEU", "value": value, "signature": "x", "language": code} for code, value in (("it", 2), ("zh", 4))
    ]
    (first / "test.json").write_text(json.dumps(scores))
    return folder


def test_a_link_is_no_second_run_and_a_run_may_be_given_itself(tmp_path: Path) -> None:
    folder = write_runs(tmp_path / "runs")
    (folder / "latest").symlink_to("second")
    (folder / "elsewhere").symlink_to(write_run(tmp_path / "other", [train_line(1, 1.0)]))
    assert set(find_runs(folder)) == {"first", "second", "deep/third", "other"}
    assert set(find_runs(folder / "latest")) == {"second"}
    assert [row["name"] for row in rows_of(folder, folder / "first", folder / "latest")] == [
        "second", "first", "deep/third", "other",
    ]  # fmt: skip
    namesake = write_run(tmp_path / "others" / "first", [train_line(1, 1.0)])
    names = {str(folder / "first"), str(namesake), "second", "deep/third", "other"}
    assert {row["name"] for row in rows_of(folder, namesake.parent)} == names, "paths of those with equal names"


def test_the_tokenizer_of_a_fine_tuned_run_is_not_that_of_the_defaults(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [train_line(1, 1.0)])
    assert "tokenizer.type" in run_row("run", run)["settings"]
    save_model(tmp_path / "base", tiny_loaded_model())
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["train"]["init_from"] = str(tmp_path / "base")
    (run / "recipe.yaml").write_text(yaml.safe_dump({**recipe, "tokenizer": {}}))
    row = run_row("run", run)
    assert row["remark"] == "interrupted"
    assert not [key for key in row["settings"] if key.startswith("tokenizer")]
    base = run_row("base", write_run(tmp_path / "trained", [train_line(1, 1.0)]))
    assert list(differing_settings([base, row])) == ["train.init_from"]  # no column for each key of the tokenizer


def test_rows_have_the_numbers_of_the_run_and_the_orders_are_those_of_the_values(
    uninterrupted: Path, tmp_path: Path
) -> None:
    folder = write_runs(tmp_path)
    (row,) = [row for row in rows_of(folder) if row["name"] == "first"]
    assert (row["steps"], row["tokens"], row["minutes"]) == (10, 1000, pytest.approx(10 / 60))
    assert row["valid"] == {"step": 10, "loss": 2.0, "bleu": 5.0, "chrf": 15.0}
    assert row["test"] == {"BLEU": 3}
    for order, names in (("validation", "second first third"), ("test", "first third second")):
        rows = rows_of(folder, "--sort", order)
        assert [str(row["name"]).removeprefix("deep/") for row in rows] == names.split()
    assert [row["minutes"] for row in rows_of(folder, "--sort", "minutes")] == pytest.approx([1 / 6, 1 / 3, 1])
    inspected = json.loads(run_command("inspect", uninterrupted, "--json").stdout)
    row = run_row("run", uninterrupted)
    assert row["parameters"] == inspected["parameters"]["total"]
    assert (row["pairs"], row["tokens"]) == (inspected["training"]["pairs"], inspected["training"]["target_tokens"])


def test_table_has_only_the_keys_that_differ_and_on_a_terminal_those_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_runs(tmp_path)
    head, *rows = table_of(folder)
    assert head == ["name", "seed", "steps", "tokens", "minutes", "valid", "BLEU", "test", "BLEU", "remark"]
    assert [row[:2] for row in rows] == [["second", "1"], ["first", "1"], ["deep/third", "7"]]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    lines = []
    for width in ("200", "50"):
        monkeypatch.setenv("COLUMNS", width)
        module.print_rows(module.runs([folder], "name"))
        lines.append(re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out))
    assert ["seed" in text for text in lines] == [True, False]
    assert "deep/third" in lines[1]
    assert max(map(len, lines[1].splitlines())) <= 50


def test_damaged_and_running_runs_are_rows_with_a_remark(tmp_path: Path) -> None:
    folder = write_runs(tmp_path)
    (folder / "first" / "recipe.yaml").write_text("- no recipe")
    (folder / "second" / "metrics.jsonl").write_text("damage\n")
    starting = write_run(folder / "starting", [])
    shutil.copytree(folder / "deep" / "third", folder / "old")
    (folder / "old" / "run.json").write_text('{"format": "nmt run", "format_version": 1}')
    with lock_folder(starting, pytest.fail, pytest.fail):
        remarks = {row["name"]: row["remark"] for row in rows_of(folder)}
    assert remarks.pop("deep/third") == "interrupted"
    assert remarks.pop("starting") == "training now: nothing is logged yet"
    assert remarks["second"].startswith("metrics.jsonl:1: damaged"), "no long path, since a table cuts it"
    assert "format version 1" in remarks["old"]
    assert remarks["first"]
    empty = run_command("runs", tmp_path / "nothing")
    assert empty.exit_code == 2
    assert "no run in this folder" in empty.stderr
