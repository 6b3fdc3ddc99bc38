"""`nmt figures`: the files, what is left out, and refusals."""

import re
from pathlib import Path

import pytest

from nmt.commands.figures import drawings_of
from nmt.report.concept_figures import positions
from tests.builders import run_command, save_model, tiny_loaded_model, write_reversal_task

KINDS = ("encoder", "decoder", "cross")
OF_SENTENCE = {"one-head", "greedy-steps", "search-tree"}
OF_SENTENCE |= {f"attention-{kind}-{part}" for kind in KINDS for part in ("sheet", "layer-1")}


@pytest.fixture(autouse=True)
def few_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw one figure only in place of all that need no input, to save time."""
    monkeypatch.setattr("nmt.commands.figures.formula_drawings", lambda recipe: [positions()])


def names(folder: Path) -> set[str]:
    assert {path.stem for path in folder.glob("*.svg")} == {path.stem for path in folder.glob("*.png")}
    return {path.stem for path in folder.glob("*.png")}


def test_without_input_the_rest_is_named(tmp_path: Path) -> None:
    output = tmp_path / "figures"
    result = run_command("figures", output)
    assert result.exit_code == 0, result.output
    assert names(output) == {"positions"}
    page = (output / "index.html").read_text("utf-8")
    assert "Each row is the vector that is added to the embedding" in page
    assert "Drawn by nmt.model.positions.sinusoids" in page
    for message in ("attention, search: no model; add --model MODEL", "masks, padding: no recipe; add --recipe RECIPE"):
        assert f"left out: {message}" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "A cat."], "--text: its attention can be drawn only with a model; add --model MODEL"),
        (["--model", "nope"], "nope: no such directory; give a model directory or a run directory"),
        (
            ["--model", "model", "--compare", "model"],
            "--compare: it is a run whose curves are drawn over those of another",
        ),
        (["--model", "model", "--text", " "], "found 0 tokens; figures are drawn of sentences of 1 to 60"),
    ],
)
def test_mistakes_are_errors_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "model", tiny_loaded_model())
    result = run_command("figures", "figures", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not Path("figures").exists()


def test_run_adds_corpus_sentence_and_curves(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr("nmt.commands.figures.write_drawing", lambda drawing, folder: written.append(drawing.name))
    result = run_command("figures", tmp_path / "figures", "--model", uninterrupted, "--compare", uninterrupted)
    assert result.exit_code == 0, result.output
    assert "left out" not in result.stderr
    assert sorted(written) == sorted({
        "positions", "masks", "padding", "training-loss", "training-scores",
        "runs-by-steps", "runs-by-tokens", "runs-by-minutes", *OF_SENTENCE,
    })  # fmt: skip
    page = (tmp_path / "figures" / "index.html").read_text("utf-8")
    plates = [int(number) for number in re.findall(r"<strong>Plate (\d+)\. ", page)]
    assert plates == list(range(1, len(written) + 1))
    assert re.findall(r'<section id="(\w+)">', page) == ["attention", "positions", "training", "search"]
    assert f"<strong>{uninterrupted.name}: " in page
    drawings, _ = drawings_of(uninterrupted / "recipe.yaml", None, None, None)
    assert [drawing.name for drawing in drawings] == ["positions", "masks", "padding"]


def test_model_without_a_corpus_draws_a_given_sentence(tmp_path: Path) -> None:
    save_model(tmp_path / "model", tiny_loaded_model())
    recipe = write_reversal_task(tmp_path)
    _, left_out = drawings_of(recipe, tmp_path / "model", None, None)
    reasons = "\n".join(left_out)
    assert re.search("^masks, padding: .*make it with nmt prepare", reasons, re.MULTILINE)
    assert "no prepared validation text to take a sentence from; add --text SENTENCE" in reasons
    drawings, _ = drawings_of(recipe, tmp_path / "model", None, "the cat sleeps .")
    assert {drawing.name for drawing in drawings} == {"positions", *OF_SENTENCE}
    drawings, left_out = drawings_of(recipe, tmp_path / "model", None, "the cat sleeps . " * 5)
    assert {drawing.name for drawing in drawings} == {"positions", *OF_SENTENCE} - {"one-head"}
    assert "one-head: the sentence has more than 16 tokens" in left_out
