"""Translations of runs as they were recorded, scores by length, and lines with marked differences."""

import re
from pathlib import Path

import pytest

from nmt.config import LanguagePair, recipe_to_yaml
from nmt.evaluation.metrics import measure
from nmt.report.page import render
from nmt.report.run_records import RunRecords
from nmt.report.translations import System, Text, comparison_html, length_drawings, systems_of_run
from nmt.text.languages import target_language
from tests.builders import tiny_recipe, write_lines, write_tsv
from tests.report.run_files import train_line, write_run

PAIRS = [("one cat", "un gatto"), ("two cats", "due gatti"), ("a dog", "un cane")]
ITALIAN = target_language("it")


def run_with_test(folder: Path, *translations: str) -> RunRecords:
    recipe = tiny_recipe(folder / "run")
    corpus = recipe.data.train[0].model_copy(update={"file": write_tsv(folder / "test.tsv", PAIRS)})
    data = recipe.data.model_copy(update={"test": (corpus,), "valid": (), "train": (corpus,)})
    text = recipe_to_yaml(recipe.model_copy(update={"data": data}), folder / "run")
    run = write_run(folder / "run", [train_line(10, 3.0)], text)
    write_lines(run / "test.txt", *translations)
    return RunRecords(run)


def system(name: str, lines: list[str], reference: list[str], source: list[str] | None = None) -> System:
    return System(name, Text("Test text", LanguagePair("en", "it"), source, reference), lines)


def samples_of(system: System) -> str:
    return render("samples.html", system=system)


def test_translations_of_a_run_are_read_with_their_texts(tmp_path: Path) -> None:
    run = run_with_test(tmp_path, "un gatto", "due cani", "cane")
    (found,), missing = systems_of_run(run, "name")
    assert missing == []
    assert (found.name, found.lines, found.text.title) == ("name", ["un gatto", "due cani", "cane"], "Test text")
    assert found.text.source == [source for source, _ in PAIRS]
    assert found.text.reference == [target for _, target in PAIRS]
    assert found.line_scores == measure("chrf", found.lines, [found.text.reference], ITALIAN).line_scores()


def test_validation_text_of_a_run_has_its_scores(uninterrupted: Path) -> None:
    """The translations that training recorded, against the score that it logged."""
    run = RunRecords(uninterrupted)
    systems, missing = systems_of_run(run, "name")
    assert missing == []
    best = run.best
    assert best is not None
    assert systems[-1].text.title == "Validation text"
    assert systems[-1].scores[0].value == pytest.approx(best["bleu"])


def test_missing_and_changed_texts_are_explained(tmp_path: Path) -> None:
    run = run_with_test(tmp_path, "un gatto")
    systems, missing = systems_of_run(run, "name")
    assert (systems, missing) == (
        [], ["No translations of the test text: test.txt has 1 line, but the text has 3: it has changed."]
    )  # fmt: skip
    (run.path / "test.txt").unlink()
    assert "does not exist yet; nmt train writes it when training ends" in systems_of_run(run, "name")[1][0]
    write_lines(run.path / "test.txt", "un gatto", "due gatti", "un cane")
    (tmp_path / "test.tsv").unlink()
    assert "test.tsv" in systems_of_run(run, "name")[1][0]


def test_scores_by_length_are_those_of_the_lines_of_this_length() -> None:
    reference = ["il gatto dorme sul tappeto", "il cane", "il gatto numero uno dorme sul tappeto rosso"]
    lines = ["il gatto sul tappeto", "il cane", "il cane numero uno dorme sul tappeto"]
    (drawing,) = length_drawings([system("A", lines, reference), system("B", reference, reference)])
    (axes,) = drawing.figure.axes
    short, long = (
        measure("chrf", [lines[i] for i in part], [[reference[i] for i in part]], ITALIAN).score(1000)
        for part in ((0, 1), (2,))
    )
    points = [list(container[0].get_ydata()) for container in axes.containers]
    assert points == [[pytest.approx(short.value), pytest.approx(long.value)], [100, 100]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1–5\n(2)", "6–10\n(1)"]
    assert long.value < short.value
    assert f"It is lowest for 1–5 words ({short.text}, A), " in drawing.caption, "one line has no interval"
    assert length_drawings([system("A", lines[:1], reference[:1])]) == [], "one length"


def test_systems_differ_in_colour_or_marker_and_are_named_below_the_scores() -> None:
    lines = ["il gatto dorme sul tappeto", "il gatto numero uno dorme sul tappeto rosso"]
    (drawing,) = length_drawings([system(name, lines, lines) for name in "abcdefghi"])
    (axes,), (legend,) = drawing.figure.axes, drawing.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list("abcdefghi")
    assert len({(container[0].get_color(), container[0].get_marker()) for container in axes.containers}) == 9
    drawing.figure.canvas.draw()
    assert legend.get_window_extent().y1 < axes.get_tightbbox().y0


def test_samples_are_six_lines_without_repetition_the_worst_last() -> None:
    reference = [f"il gatto {word} dorme" for word in "abcdefghij"]
    lines = [line.replace("gatto", "cane") if number in (2, 5, 7, 9) else line for number, line in enumerate(reference)]
    lines[7] = "x"
    html = samples_of(system("A", lines, reference))
    shown = [int(number) - 1 for number in re.findall(r"line (\d+) ·", html)]
    assert len(shown) == len(set(shown)) == 6
    assert 7 in shown
    assert html == samples_of(system("A", lines, reference))
    assert re.findall(r"line (\d+) ·", samples_of(system("A", ["x"], ["y"]))) == ["1"]


def test_a_line_shows_its_texts_languages_and_faults() -> None:
    html = samples_of(system("run", ["", "A cat sleeps."], ["Il gatto", "Un gatto"], ["The <cat>", "A cat sleeps."]))
    assert "line 1 · chrF 0.0 · empty</p>" in html
    assert '<dt>source</dt><dd lang="en" dir="auto">The &lt;cat&gt;</dd>' in html
    assert '<dd lang="it" dir="auto"><ins>Il gatto</ins></dd>' in html
    assert "<em>empty</em>" in html
    assert " · copy: equals the source</p>" in html


def test_each_of_several_outputs_is_compared_with_the_reference() -> None:
    html = comparison_html([system(name, [line], ["il gatto"]) for name, line in (("a", "un gatto"), ("b", "il cane"))])
    assert '<dt>reference</dt><dd lang="it" dir="auto">il gatto</dd>' in html
    assert '<dt>a</dt><dd lang="it" dir="auto"><del>un</del> gatto</dd>' in html
    assert '<dt>b</dt><dd lang="it" dir="auto">il <del>cane</del></dd>' in html
