"""The languages of a parallel text, and recipes whose texts are in other ones."""

from pathlib import Path

import pytest

from nmt.config import CorpusFile
from nmt.errors import ConfigError, DataError
from nmt.text.proposing.direction import (
    Direction,
    check_languages,
    checked_direction,
    known_direction,
    named_direction,
    with_text_columns,
)
from nmt.text.readers import SentencePair
from tests.builders import recipe_in, write_lines, write_recipe, write_tsv

ENGLISH = "It is not the first time that they have seen him in this house."
ITALIAN = "Non è la prima volta che lo hanno visto in questa casa."
STATED = Direction("en", "it", "--languages")


def text(source: str, target: str) -> list[SentencePair]:
    return [SentencePair(source, target, number) for number in range(1, 101)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["text.en", "text.it"], ("en", "it")),
        (["a/train.en.gz", "b/train.zh.gz"], ("en", "zh")),
        (["corpus.eng.txt", "corpus.zho.txt"], ("en", "zh")),
        (["eng_Latn.dev", "zho_Hant.dev"], ("en", "zh-Hant")),
        (["my.en-it.en", "my.en-it.it"], ("en", "it")),
        (["train.en-zh.tsv.gz"], ("en", "zh")),
        (["eng-ita.txt"], ("en", "it")),
        (["a.txt", "b.txt"], None),
        (["data-set.tsv"], None),
    ],
    ids=str,
)
def test_languages_are_in_the_names_of_files(names: list[str], expected: tuple[str, str] | None) -> None:
    direction = named_direction(list(map(Path, names)))
    assert (direction and direction[:2]) == expected


@pytest.mark.parametrize("option", ["en", "english-italian", "en-it-fr", "-", "", "en it", "e-i"])
def test_wrong_forms_of_languages_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=r"--languages: found .*, expected two language codes such as en-it"):
        known_direction(option, CorpusFile(file=Path("a.tsv")))


def test_swapped_sides_are_an_error_with_lines_and_advice_that_works() -> None:
    files = [Path("t.en"), Path("t.it")]
    with pytest.raises(ConfigError) as caught:
        checked_direction(named_direction(files), files, text(ITALIAN, ENGLISH))
    message = str(caught.value)
    assert f"  t.en: expected en (the file names), found it:\n    line 1: {ITALIAN}\n    line 2: " in message
    assert f"  t.it: expected it (the file names), found en:\n    line 1: {ENGLISH}\n" in message
    assert message.count("    line ") == 6
    assert "give t.it t.en --languages en-it; for it to en, give the same files and --languages it-en" in message
    for direction, pairs in ((STATED, text(ENGLISH, ITALIAN)), (Direction("it", "en", ""), text(ITALIAN, ENGLISH))):
        assert checked_direction(direction, files, pairs) == (direction, None)


def test_one_wrong_side_is_an_error_unless_the_languages_are_stated() -> None:
    with pytest.raises(ConfigError) as caught:
        checked_direction(Direction("en", "zh", "the file names"), [Path("en-zh.tsv")], text(ENGLISH, ITALIAN))
    assert "en-zh.tsv, target: expected zh (the file names), found it:" in str(caught.value)
    assert "--languages en-zh" in str(caught.value)
    assert "en-zh.tsv, source" not in str(caught.value)
    direction, warning = checked_direction(STATED, [Path("a"), Path("b")], text(ENGLISH, ENGLISH))
    assert direction == STATED
    assert "b: expected it (--languages), found en" in str(warning)
    assert "The languages are taken as stated" in str(warning)


def test_languages_are_detected_where_names_have_none() -> None:
    files = [Path("a"), Path("b")]
    assert checked_direction(None, files, text(ENGLISH, ITALIAN)) == (Direction("en", "it", "the text"), None)
    with pytest.raises(ConfigError, match="state them: --languages en-it"):
        checked_direction(None, files, text("1", "2"))


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        (["1\teng\tA house.\t9\tita\tUna casa.\tCK", "2\teng\tThe sea.\t8\tita\tIl mare.\t\\N"], (3, 6)),
        (["Hi.\tCiao!\tCC-BY 2.0 (France)", "Run!\tCorri!\tCC-BY 2.0"], (1, 2)),
        (["http://a.org/1\tA house\t一座房子", "http://a.org/2\tThe sea\t大海"], (2, 3)),
        (["id\tit\ten", "1\tcasa\thouse"], (1, 2)),
        (["A house.\t", "The sea.\t"], (1, 2)),
    ],
)
def test_columns_of_text_are_found_beside_ids_and_codes(
    tmp_path: Path, lines: list[str], columns: tuple[int, int]
) -> None:
    corpus = CorpusFile(file=write_lines(tmp_path / "a.tsv", *lines))
    assert with_text_columns(corpus, None).columns == columns


def check(folder: Path, **texts: object) -> None:
    write_recipe(folder, data={"train": [{"file": "train.tsv"}], **texts})
    check_languages(recipe_in(folder))


def test_text_in_its_languages_few_lines_and_an_unlike_start_are_accepted(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", [(ENGLISH, ENGLISH)] * 100 + [(ENGLISH, ITALIAN)] * 400)
    write_tsv(tmp_path / "few.tsv", [(ITALIAN, ENGLISH)] * 99)
    check(tmp_path, test={"file": "few.tsv"})


def test_swapped_columns_are_refused_unless_any_language_is_accepted(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", [(ITALIAN, ENGLISH)] * 100)
    with pytest.raises(DataError) as caught:
        check(tmp_path)
    message = str(caught.value)
    assert message.startswith("data.train.0: the text is not in its languages:\n")
    assert f"train.tsv, source: expected en (`languages`), found it:\n    line 1: {ITALIAN}\n" in message
    assert f"train.tsv, target: expected it (`languages`), found en:\n    line 1: {ENGLISH}\n" in message
    assert "The sides are swapped: exchange the two `columns` of this text" in message
    check(tmp_path, filters={"keep": ["language"]})


def test_wrong_files_of_other_texts_are_refused(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", [(ENGLISH, ITALIAN)] * 100)
    write_lines(tmp_path / "v.en", *[ITALIAN] * 100)
    write_lines(tmp_path / "v.it", *[ENGLISH] * 100)
    with pytest.raises(DataError, match=r"data\.valid: (.|\n)*v\.en: expected en(.|\n)*exchange `source` and `target`"):
        check(tmp_path, valid={"source": "v.en", "target": "v.it"})
    write_tsv(tmp_path / "wrong.tsv", [(ENGLISH, ENGLISH)] * 100)
    with pytest.raises(DataError, match=r"target: expected it (.|\n)*Name other files, set the `columns` of a table"):
        check(tmp_path, test={"file": "wrong.tsv"})
