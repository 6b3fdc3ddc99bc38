"""Settings of another time: old names of keys, runs of other formats, differences from recorded settings."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from nmt.config import load_recipe
from nmt.config.recorded import differences
from nmt.errors import ConfigError
from tests.builders import run_command

OLD_RECIPE = """\
name: old
languages: {source: en, target: it}
data:
  train:
    - {tsv: a.tsv, weight: 2}
  valid: {tsv: b.tsv, weight: 2}
  filters:
    duplicates: true
    copies: true
    any_script: true
tokenizer: {size: 8000}
train: {start_from: runs/base}
runtime: {parallel: shard}
run: runs/old
"""


@pytest.fixture
def old_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with texts, a recipe, and a run of four updates written by version 0.1.0."""
    monkeypatch.chdir(tmp_path)  # `runs/latest` is made in the current directory
    with tarfile.open(Path(__file__).parents[1] / "data" / "run-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "reversal"


def present_recipe(old_run: Path) -> Path:
    """Rewrite the recipe with the present names of its keys."""
    text = (old_run / "recipe.yaml").read_text().replace("size:", "vocab_size:").replace("weight:", "oversample:")
    text = text.replace("{duplicates: true, copies: true}", "{keep: [duplicate, copy]}").replace(
        ", parallel: replicate", ""
    )
    (old_run / "recipe.yaml").write_text(text)
    return old_run / "recipe.yaml"


def test_old_names_in_a_recipe_are_refused_with_the_new_names(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(OLD_RECIPE, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_recipe(path)
    assert str(caught.value).splitlines() == [
        f"{path}: 8 problems in the recipe",
        f"  {path}:5: data.train.0.weight: renamed to data.train.0.oversample",
        f"  {path}:6: data.valid.weight: renamed to data.valid.oversample",
        f"  {path}:8: data.filters.duplicates: renamed to data.filters.keep: [duplicate]",
        f"  {path}:9: data.filters.copies: renamed to data.filters.keep: [copy]",
        f"  {path}:10: data.filters.any_script: renamed to data.filters.keep: [script]",
        f"  {path}:11: tokenizer.size: renamed to tokenizer.vocab_size",
        f"  {path}:12: train.start_from: renamed to train.init_from",
        f"  {path}:13: runtime.parallel: found the text 'shard', expected 'ddp' or 'fsdp'; shard is renamed to fsdp",
    ]


def test_old_names_in_an_override_are_refused_with_the_new_names(old_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set tokenizer.size=60: tokenizer.size: renamed to tokenizer.vocab_size"):
        load_recipe(present_recipe(old_run), ["tokenizer.size=60"])


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("marker", [None, '{"format": "nmt run", "format_version": 1}'])
def test_run_of_an_earlier_format_is_refused_and_stays(old_run: Path, marker: str | None) -> None:
    run = old_run / "run"
    if marker is not None:
        (run / "run.json").write_text(marker)
    recipe = present_recipe(old_run)
    before = contents(old_run)
    result = run_command("train", "-c", recipe, "--set", "train.stop.steps=6")
    assert result.exit_code == 2
    expected = (
        "format version 1, this nmt reads version 2: finish it"
        if marker
        else "but no run.json: only the nmt that began"
    )
    assert expected in " ".join(result.stderr.split())
    assert contents(old_run) == before
    reported = run_command("report", run, "-o", old_run / "out.html")
    assert reported.exit_code == 2
    assert ("format version 1" if marker else "has no run.json") in " ".join(reported.stderr.split())
    assert contents(old_run) == before


def test_restart_replaces_a_run_of_an_earlier_format(old_run: Path) -> None:
    (old_run / "run" / "run.json").write_text('{"format": "nmt run", "format_version": 1}')
    result = run_command("train", "-c", present_recipe(old_run), "--restart", "--set", "train.stop.steps=2")
    assert result.exit_code == 0, result.output
    assert [path.name for path in (old_run / "run" / "checkpoints").iterdir()] == ["step-00000002"]


def test_recipe_of_an_old_run_is_refused_with_the_new_names(old_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.size: renamed to tokenizer\.vocab_size"):
        load_recipe(old_run / "run" / "recipe.yaml")


def test_model_of_an_old_run_translates_is_inspected_averaged_and_continued(old_run: Path) -> None:
    run, text = old_run / "run", ("--format", "text", "-i", old_run / "test.tsv")
    assert run_command("translate", "--model", run, *text, "-o", old_run / "out.txt").exit_code == 0
    assert run_command("average", run, "--best", "1", "-o", old_run / "mean").exit_code == 0
    assert run_command("translate", "--model", old_run / "mean", *text, "-o", old_run / "out2.txt").exit_code == 0
    assert (old_run / "out.txt").read_bytes() == (old_run / "out2.txt").read_bytes()
    inspected = run_command("inspect", run, "--json")
    assert json.loads(inspected.stdout)["training"]["step"] == 4
    changes = ("run=run2", "tokenizer={}", f"train.init_from={run}", "train.stop.steps=2")
    result = run_command(
        "train", "-c", present_recipe(old_run), *(one for change in changes for one in ("--set", change))
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"c": 2}, "a": 1}, []),
        ({"a": 1, "b": {"c": True}}, {"a": 2, "b": {"c": False}}, ["a: was 1, now 2", "b.c: was true, now false"]),
        ({"columns": [1, 2]}, {"columns": [2, 1]}, ["columns: was [1, 2], now [2, 1]"]),
        ({"train": [{"tag": None}]}, {"train": [{"tag": "bt"}]}, ['train.0.tag: was null, now "bt"']),
        ({"train": [{"w": 1}]}, {"train": [{"w": 1}, {"w": 2}]}, ["train.1.w: was null, now 2"]),
        ({"train": {"0": {"w": 1}}}, {"train": [{"w": 2}]}, ["train.0.w: was 1, now 2"]),
        ({"valid": None}, {"valid": {"tsv": "a"}}, ['valid.tsv: was null, now "a"']),
        ({"valid": {"tsv": "a"}}, {"valid": None}, ['valid.tsv: was "a", now null']),
        ({"sampling": None}, {"sampling": {}}, ["sampling: was null, now {}"]),
        ({"tokenizer": ["a.model"]}, {"tokenizer": {"size": 8}}, ['tokenizer: was ["a.model"], now {"size": 8}']),
        ({"names": []}, {"names": ["città"]}, ['names: was [], now ["città"]']),
        ({}, {"beam": 4}, ["beam: was null, now 4"]),
        (None, {}, [": was null, now {}"]),
    ],
)
def test_differences_name_the_key_and_both_values(before: Any, now: Any, expected: list[str]) -> None:
    assert [str(difference) for difference in differences(before, now)] == expected
