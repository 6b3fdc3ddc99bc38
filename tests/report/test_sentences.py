"""The sentences of a report: which lines, and that their numbers are those of the translation and of the search."""

from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.decoding.alignment import attention
from nmt.errors import DataError
from nmt.report import sentences
from nmt.report.sentences import draw_sentence, drawn_sentences
from nmt.text.prepared import PreparedCorpus
from nmt.translation.translator import Translator
from tests.builders import run_command, tiny_loaded_model, write_lines

SOURCE = "the cat sleeps on the mat ."


def test_sentence_has_the_translation_and_its_search() -> None:
    translator = Translator(tiny_loaded_model())
    one = draw_sentence(translator, 3, SOURCE)
    (translation,) = translator.translate([SOURCE])
    assert (one.line, one.source, one.translation) == (3, SOURCE, translation.text)
    assert one.links == translator.align([(SOURCE, translation.text)])[0]
    expected = attention(translator.models[0], SOURCE, translation.text)
    assert one.attention.source == expected.source
    assert one.attention.weights.cross.equal(expected.weights.cross)
    best = max(
        (node for node in one.tree.nodes if node.outcome == "finished"),
        key=lambda n: n.total / one.options.penalty(n.step),
    )
    assert best.total == pytest.approx(translation.log_prob, abs=1e-4)


def test_lines_are_those_of_the_test_text(uninterrupted: Path, tmp_path: Path) -> None:
    recipe = load_recipe(uninterrupted / "recipe.yaml")
    source, target = write_lines(tmp_path / "a", "ba", "ce " * 90, "", "di fo"), write_lines(tmp_path / "b", *"1234")
    test = recipe.data.train[0].model_copy(update={"file": None, "source": source, "target": target})
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"test": (test,)})})
    drawn, remarks = drawn_sentences(uninterrupted, recipe, [4, 2, 3], tmp_path)
    assert [(one.line, one.source) for one in drawn] == [(4, "di fo")]
    assert [remark.split(" has ")[0] for remark in remarks] == ["Line 2", "Line 3"]
    drawn, remarks = drawn_sentences(uninterrupted, recipe, [], tmp_path)
    assert [one.line for one in drawn] == [1]
    with pytest.raises(DataError, match="--line: found 5, but the text has 4 lines"):
        drawn_sentences(uninterrupted, recipe, [5], tmp_path)
    without = recipe.model_copy(update={"data": recipe.data.model_copy(update={"test": (), "valid": ()})})
    with pytest.raises(DataError, match="no test and no validation text"):
        drawn_sentences(uninterrupted, without, [], tmp_path)
    assert sentences._first_lines(["it"] * 9) == [1, 2, 3]
    assert sentences._first_lines(["it"] * 4 + ["zh"]) == [1, 2, 5]


def test_lines_are_those_of_the_prepared_validation_text_if_the_files_are_gone(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    recipe = load_recipe(uninterrupted / "recipe.yaml")
    gone = recipe.data.train[0].model_copy(update={"file": tmp_path / "gone.tsv"})
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"test": (gone,)})})
    drawn, (remark,) = drawn_sentences(uninterrupted, recipe, [], texts / "prepared")
    assert drawn[0].source == PreparedCorpus.open(texts / "prepared").valid_sources[0]
    assert "since the test text cannot be read: " in remark
    assert "gone.tsv: no such file" in remark
    for lines, prepared in (([1], texts / "prepared"), ([], tmp_path)):
        with pytest.raises(DataError, match=r"gone\.tsv: no such file"):
            drawn_sentences(uninterrupted, recipe, lines, prepared)


def test_sentence_whose_weights_do_not_fit_in_the_page_is_named(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe(uninterrupted / "recipe.yaml")
    (one,), _ = drawn_sentences(uninterrupted, recipe, [1], tmp_path)
    layers, heads = one.attention.weights.encoder.shape[:2]
    source, target = len(one.attention.source) + 1, len(one.attention.target) + 1
    assert one.weight_count == layers * heads * (source * source + target * target + target * source)
    monkeypatch.setattr(sentences, "_MOST_WEIGHTS", one.weight_count)
    drawn, (remark,) = drawn_sentences(uninterrupted, recipe, [1, 1], tmp_path)
    assert len(drawn) == 1
    assert remark.startswith("Line 1 is left out: ")


def test_line_that_the_text_does_not_have_is_refused(uninterrupted: Path, tmp_path: Path) -> None:
    result = run_command(
        "report", uninterrupted, "-o", tmp_path / "page.html", "--line", "99", "--validation-lines", "1"
    )
    assert result.exit_code == 2
    assert "--line: found 99, but the text has 6 lines" in result.stderr
    assert "translating" not in result.stderr  # refused before the work
    assert not (tmp_path / "page.html").exists()
