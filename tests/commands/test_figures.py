"""`nmt figures`: the files, what is left out, and refusals."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from nmt.config import DecodeSettings, MaxLength
from nmt.report.formula_figures import formula_drawings, smoothed_targets
from tests.builders import run_command, save_model, tiny_loaded_model, write_reversal_task

FORMULAS = ["positions", "position-curves", "schedule-noam", "schedules", "label-smoothing", "smoothed-loss"]


def draw_few_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw one figure only in place of all that need no input, to save time."""
    monkeypatch.setattr("nmt.commands.figures.formula_drawings", lambda recipe: [smoothed_targets()])


def test_figures_of_formulas_need_no_input() -> None:
    assert [drawing.name for drawing in formula_drawings()] == FORMULAS


def test_without_input_the_rest_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_few_formulas(monkeypatch)
    output = tmp_path / "figures"
    result = run_command("figures", output)
    assert result.exit_code == 0, result.output
    assert {path.name for path in output.iterdir()} == {"figures.json", "label-smoothing.png", "label-smoothing.svg"}
    (figure,) = json.loads((output / "figures.json").read_text("utf-8"))["figures"]
    assert figure["code"] == "nmt.training.loss.smoothed_cross_entropy"
    assert "left out: attention: no model; add --model MODEL" in result.stderr
    assert "no recipe; add --recipe RECIPE" in result.stderr
    with Image.open(output / "label-smoothing.png") as image:
        assert image.width == 1200
    assert (output / "label-smoothing.svg").read_text("utf-8").startswith("<?xml")


def test_sentence_without_a_model_is_an_error(tmp_path: Path) -> None:
    result = run_command("figures", tmp_path / "figures", "--text", "A cat.")
    assert result.exit_code == 2
    assert "--text: it is the sentence whose attention a model has; add --model MODEL" in result.stderr
    assert not (tmp_path / "figures").exists()


@pytest.mark.slow
def test_missing_model_is_an_error(tmp_path: Path) -> None:
    result = run_command("figures", tmp_path / "figures", "--model", tmp_path / "nope")
    assert result.exit_code == 2
    assert "nope: no such directory; give a model directory or a run directory" in " ".join(result.stderr.split())
    assert not (tmp_path / "figures").exists()


def test_run_adds_corpus_attention_and_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_few_formulas(monkeypatch)
    monkeypatch.chdir(tmp_path)
    recipe = write_reversal_task(tmp_path)
    assert run_command("train", "--config", recipe).exit_code == 0
    result = run_command("figures", "figures", "--model", "run")
    assert result.exit_code == 0, result.output
    assert "left out" not in result.stderr
    found = {path.stem for path in Path("figures").glob("*.png")}
    attention = {"attention-encoder-layer-1", "attention-decoder-layer-1", "attention-cross-layer-1"}
    assert found == {"label-smoothing", "masks", "padding", "training"} | attention
    result = run_command("figures", "others", "--recipe", recipe)
    assert result.exit_code == 0, result.output
    assert {path.stem for path in Path("others").glob("*.png")} == {"label-smoothing", "masks", "padding"}


def test_recipe_without_prepared_corpus_leaves_its_figures_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_few_formulas(monkeypatch)
    result = run_command("figures", tmp_path / "figures", "--recipe", write_reversal_task(tmp_path))
    assert result.exit_code == 0, result.output
    assert "left out: masks, padding: " in result.stderr
    assert "make it with nmt prepare" in result.stderr


def test_empty_translation_leaves_the_attention_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_few_formulas(monkeypatch)
    empty = DecodeSettings(max_length=MaxLength(factor=0, extra=1))  # room for the end of the sentence only
    save_model(tmp_path / "model", replace(tiny_loaded_model(), decode=empty))
    result = run_command("figures", tmp_path / "figures", "--model", tmp_path / "model", "--text", "A cat.")
    assert result.exit_code == 0, result.output
    assert "left out: attention: the translation of 'A cat.' is empty; add --text with another one" in result.stderr
    assert (tmp_path / "figures" / "label-smoothing.png").exists()


def test_missing_matplotlib_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("nmt.report.find_spec", lambda name: None)
    result = run_command("figures", tmp_path / "figures")
    assert result.exit_code == 2
    assert "pip install matplotlib plotly" in result.stderr


def test_empty_text_is_refused(tmp_path: Path) -> None:
    result = run_command("figures", tmp_path / "figures", "--model", tmp_path / "absent", "--text", " ")
    assert result.exit_code == 2
    assert not (tmp_path / "figures").exists()
