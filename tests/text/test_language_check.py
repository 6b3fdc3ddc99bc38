"""Texts that are not in the languages of their recipe are refused with lines of the text."""

from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.errors import DataError
from nmt.text.preparing.language_check import check_languages
from tests.builders import write_lines, write_tsv

PAIRS = [
    (f"The house number {n} is near the sea, and it was not there before.", f"La casa numero {n} è vicino al mare.")
    for n in range(200)
]
SWAPPED = [(target, source) for source, target in PAIRS]
RECIPE = "name: a\nlanguages: {{source: en, target: it}}\ndata:\n  train: [{{tsv: train.tsv}}]\n  {more}\nrun: run\n"


def check(folder: Path, more: str = "") -> None:
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(more=more), encoding="utf-8")
    check_languages(load_recipe(path))


def test_text_in_its_languages_is_accepted(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", PAIRS)
    write_tsv(tmp_path / "few.tsv", SWAPPED[:2])
    check(tmp_path, "test: {tsv: few.tsv}")


def test_swapped_columns_are_refused_unless_any_language_is_accepted(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", SWAPPED)
    with pytest.raises(DataError) as caught:
        check(tmp_path)
    message = str(caught.value)
    assert message.startswith("data.train.0: the text is not in its languages:\n")
    assert "train.tsv, source: expected en (`languages`), found it:\n    line 1: La casa numero 0" in message
    assert "train.tsv, target: expected it (`languages`), found en:\n    line 1: The house number" in message
    assert "The sides are swapped: exchange the two `columns` of this text" in message
    check(tmp_path, "accept_any_language: true")


def test_swapped_files_of_the_validation_text_are_refused(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", PAIRS)
    write_lines(tmp_path / "v.en", *(target for _, target in PAIRS))
    write_lines(tmp_path / "v.it", *(source for source, _ in PAIRS))
    with pytest.raises(DataError, match=r"data\.valid: (.|\n)*v\.en: expected en(.|\n)*exchange `source` and `target`"):
        check(tmp_path, "valid: {source: v.en, target: v.it}")


def test_one_wrong_side_is_refused(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", [(source, source) for source, _ in PAIRS])
    with pytest.raises(
        DataError, match=r"target: expected it (.|\n)*Name other files, set its `columns`, or change `languages`; or"
    ):
        check(tmp_path)


def test_text_whose_start_is_unlike_the_rest_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.preparing.language_check._FIRST_PAIRS", 50)
    write_tsv(tmp_path / "train.tsv", [(source, source) for source, _ in PAIRS[:50]] + PAIRS * 2)
    check(tmp_path)
    write_tsv(tmp_path / "train.tsv", [(source, source) for source, _ in PAIRS[:50]] * 8)
    with pytest.raises(DataError, match="target: expected it"):
        check(tmp_path)
