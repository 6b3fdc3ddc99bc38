"""The languages of a parallel text, and recipes whose texts are in other ones."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.errors import ConfigError, DataError
from nmt.text.corpus import SentencePair
from nmt.text.proposing.direction import check_languages, checked_direction, named_direction, stated_direction
from nmt.text.proposing.profile import TextProfile
from tests.builders import write_lines, write_tsv

ENGLISH = "It is not the first time that they have seen him in this house."
ITALIAN = "Non è la prima volta che lo hanno visto in questa casa."


def profile(source: str, target: str) -> TextProfile:
    made = TextProfile(1)
    for _ in range(100):
        made.add(SentencePair(source, target))
    return made


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["text.en", "text.it"], ("en", "it")),
        (["a/train.en.gz", "b/train.zh.gz"], ("en", "zh")),
        (["en.txt", "it.txt"], ("en", "it")),
        (["corpus.eng.txt", "corpus.zho.txt"], ("en", "zh")),
        (["eng_Latn.dev", "zho_Hant.dev"], ("en", "zh-Hant")),
        (["my.en-it.en", "my.en-it.it"], ("en", "it")),
        (["train.en-zh.tsv.gz"], ("en", "zh")),
        (["eng-ita.txt"], ("en", "it")),
    ],
    ids=" ".join,
)
def test_languages_are_in_the_names_of_files(names: list[str], expected: tuple[str, str]) -> None:
    direction = named_direction(list(map(Path, names)))
    assert direction is not None
    assert (direction.source, direction.target) == expected


@pytest.mark.parametrize(
    "names", [["a.txt", "b.txt"], ["text.tsv"], ["data-set.tsv"], ["en-xx.tsv"], ["x.one", "x.two"]]
)
def test_other_names_have_no_languages(names: list[str]) -> None:
    assert named_direction(list(map(Path, names))) is None


@pytest.mark.parametrize("option", ["en", "english-italian", "en-it-fr", "-", "", "en it", "e-i"])
def test_wrong_forms_of_languages_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=r"--languages: found .*, expected two language codes such as en-it"):
        stated_direction(option)


def mismatch(files: Sequence[str], source: str, target: str) -> str:
    with pytest.raises(ConfigError) as caught:
        checked_direction(named_direction(list(map(Path, files))), list(map(Path, files)), profile(source, target))
    return str(caught.value)


def test_swapped_sides_are_an_error_with_lines_and_advice() -> None:
    message = mismatch(["t.en", "t.it"], ITALIAN, ENGLISH)
    assert f"  t.en: expected en (the file names), found it:\n    line 1: {ITALIAN}\n    line 2: " in message
    assert f"  t.it: expected it (the file names), found en:\n    line 1: {ENGLISH}\n" in message
    assert message.count("    line ") == 6
    assert (
        "For en to it, give t.it t.en --languages en-it; for it to en, give the same files and --languages it-en"
        in (message)
    )


def test_advice_for_swapped_sides_works() -> None:
    for option, source, target in (("en-it", ENGLISH, ITALIAN), ("it-en", ITALIAN, ENGLISH)):
        direction, warning = checked_direction(
            stated_direction(option), [Path("t.it"), Path("t.en")], profile(source, target)
        )
        assert (f"{direction.source}-{direction.target}", warning) == (option, None)


def test_one_wrong_side_is_an_error() -> None:
    message = mismatch(["en-zh.tsv"], ENGLISH, ITALIAN)
    assert "en-zh.tsv, target: expected zh (the file name), found it:" in message
    assert "--languages en-zh" in message
    assert "en-zh.tsv, source" not in message


def test_stated_languages_are_taken_with_a_warning() -> None:
    direction, warning = checked_direction(stated_direction("en-it"), [Path("a"), Path("b")], profile(ENGLISH, ENGLISH))
    assert (direction.source, direction.target) == ("en", "it")
    assert "b: expected it (--languages), found en" in str(warning)
    assert "The languages are taken as stated" in str(warning)


def test_languages_are_detected_where_names_have_none() -> None:
    direction, warning = checked_direction(None, [Path("a"), Path("b")], profile(ENGLISH, ITALIAN))
    assert (direction.source, direction.target, direction.origin, warning) == ("en", "it", "the text", None)
    with pytest.raises(ConfigError, match="state them: --languages en-it"):
        checked_direction(None, [Path("a"), Path("b")], profile("xyz", "zyx"))


PAIRS = [
    (f"The house number {n} is near the sea, and it was not there before.", f"La casa numero {n} è vicino al mare.")
    for n in range(200)
]
SWAPPED = [(target, source) for source, target in PAIRS]
RECIPE = "languages: {{source: en, target: it}}\ndata:\n  train: [{{file: train.tsv}}]\n  {more}\nrun: run\n"


def check(folder: Path, more: str = "") -> None:
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(more=more), encoding="utf-8")
    check_languages(load_recipe(path))


def test_text_in_its_languages_is_accepted(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", PAIRS)
    write_tsv(tmp_path / "few.tsv", SWAPPED[:2])
    check(tmp_path, "test: {file: few.tsv}")


def test_swapped_columns_are_refused_unless_any_language_is_accepted(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", SWAPPED)
    with pytest.raises(DataError) as caught:
        check(tmp_path)
    message = str(caught.value)
    assert message.startswith("data.train.0: the text is not in its languages:\n")
    assert "train.tsv, source: expected en (`languages`), found it:\n    line 1: La casa numero 0" in message
    assert "train.tsv, target: expected it (`languages`), found en:\n    line 1: The house number" in message
    assert "The sides are swapped: exchange the two `columns` of this text" in message
    check(tmp_path, "filters: {keep: [language]}")


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
    monkeypatch.setattr("nmt.text.proposing.direction._FIRST_PAIRS", 100)
    write_tsv(tmp_path / "train.tsv", [(source, source) for source, _ in PAIRS[:100]] + PAIRS * 2)
    check(tmp_path)
    write_tsv(tmp_path / "train.tsv", [(source, source) for source, _ in PAIRS[:100]] * 4)
    with pytest.raises(DataError, match="target: expected it"):
        check(tmp_path)
