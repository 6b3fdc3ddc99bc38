"""The languages of a parallel text, and recipes whose texts are in other ones."""

from pathlib import Path

import pytest

from nmt.config import CorpusFile, LanguagePair
from nmt.errors import ConfigError, DataError
from nmt.text.direction import (
    Direction,
    Origin,
    check_languages,
    checked_sides,
    known_direction,
    named_direction,
    shown_direction,
    with_text_columns,
)
from tests.builders import recipe_in, write_lines, write_recipe, write_tsv

ENGLISH = "It is not the first time that they have seen him in this house."
ITALIAN = "Non è la prima volta che lo hanno visto in questa casa."
STATED = Direction(LanguagePair("en", "it"), Origin.OPTION)
NAMED = Direction(LanguagePair("en", "it"), Origin.FILE_NAMES)


def two_files(folder: Path, source: str, target: str) -> CorpusFile:
    names = write_lines(folder / "t.en", *[source] * 100), write_lines(folder / "t.it", *[target] * 100)
    return CorpusFile(source=names[0], target=names[1])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["text.en", "text.it"], ("en", "it")),
        (["a/train.en.gz", "b/train.zh.gz"], ("en", "zh")),
        (["corpus.eng.txt", "corpus.zho.txt"], ("en", "zh")),
        (["eng_Latn.dev", "zho_Hant.dev"], ("en", "zh-Hant")),
        (["my.en-it.en", "my.en-it.it"], ("en", "it")),
        (["s.sr_Cyrl", "s.sr_Latn"], ("sr_Cyrl", "sr_Latn")),
        (["cmn-eng.tsv"], ("zh", "en")),
        (["train.en-zh.tsv.gz"], ("en", "zh")),
        (["eng-ita.txt"], ("en", "it")),
        (["a.txt", "b.txt"], None),
        (["data-set.tsv"], None),
    ],
    ids=str,
)
def test_languages_are_in_the_names_of_files(names: list[str], expected: tuple[str, str] | None) -> None:
    direction = named_direction(list(map(Path, names)))
    assert (direction and direction.languages) == expected


@pytest.mark.parametrize("option", ["en", "english-italian", "en-it-fr", "-", "", "en it", "e-i"])
def test_wrong_forms_of_languages_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=r"--languages: found .*, expected two language codes such as en-it"):
        known_direction(option, CorpusFile(file=Path("a.tsv")))


def test_swapped_sides_are_an_error_with_lines_unless_stated_languages_exchange_them(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, ITALIAN, ENGLISH)
    with pytest.raises(ConfigError) as caught:
        checked_sides(corpus, NAMED, [])
    message = str(caught.value)
    assert f"/t.en: expected en (the file names), found it:\n    line 1: {ITALIAN}\n    line 2: " in message
    assert f"/t.it: expected it (the file names), found en:\n    line 1: {ENGLISH}\n" in message
    assert message.count("    line ") == 6
    assert message.endswith("the translation: --languages en-it; swapped sides are then exchanged")
    warnings = list[str]()
    assert checked_sides(corpus, STATED, warnings) == CorpusFile(source=corpus.target, target=corpus.source)
    for direction in (
        Direction(LanguagePair("it", "en"), Origin.FILE_NAMES),
        Direction(LanguagePair("it", "en"), Origin.FILE),
    ):
        assert checked_sides(corpus, direction, warnings) == corpus
    assert warnings == []


def test_one_wrong_side_is_an_error_unless_the_languages_are_stated(tmp_path: Path) -> None:
    corpus, warnings = CorpusFile(file=write_tsv(tmp_path / "en-zh.tsv", [(ENGLISH, ITALIAN)] * 100)), list[str]()
    with pytest.raises(ConfigError) as caught:
        checked_sides(corpus, Direction(LanguagePair("en", "zh"), Origin.FILE_NAME), warnings)
    assert "en-zh.tsv, target: expected zh (the name of the file), found it:" in str(caught.value)
    assert "--languages en-zh; they are then used" in str(caught.value)
    assert "en-zh.tsv, source" not in str(caught.value)
    assert warnings == []
    corpus = two_files(tmp_path, ENGLISH, ENGLISH)
    assert checked_sides(corpus, STATED, warnings) == corpus
    (warning,) = warnings
    assert "t.it: expected it (--languages), found en" in warning
    assert warning.endswith("The languages are taken as stated")


def test_languages_are_those_of_the_text_where_names_have_none_or_the_other_order(tmp_path: Path) -> None:
    corpora = [two_files(tmp_path, ENGLISH, ITALIAN)]
    assert shown_direction(None, corpora) == Direction(LanguagePair("en", "it"), Origin.TEXT)
    assert shown_direction(named_direction([Path("ita-eng.zip")]), corpora) == shown_direction(None, corpora)
    for known in (NAMED, named_direction([Path("en-it.tsv")]), named_direction([Path("en-fr.tsv")])):
        assert shown_direction(known, corpora) == known
    with pytest.raises(ConfigError, match="state them: --languages en-it"):
        shown_direction(None, [two_files(tmp_path, "1", "2")])
    short = CorpusFile(file=write_tsv(tmp_path / "ita-eng.txt", [("Hi.", ITALIAN)] * 100))
    known = named_direction([Path("ita-eng.txt")])
    assert shown_direction(known, [short]) == Direction(LanguagePair("en", "it"), Origin.TEXT)
    stated, warnings = Direction(LanguagePair("it", "en"), Origin.OPTION), list[str]()
    assert (checked_sides(short, stated, warnings).columns, warnings) == ((2, 1), [])


@pytest.mark.parametrize(("source", "columns"), [("点击这里打开文件", (2, 1)), ("Firefox ESR", (1, 2))])
def test_script_of_a_side_in_no_certain_language_shows_whether_sides_are_swapped(
    tmp_path: Path, source: str, columns: tuple[int, int]
) -> None:
    corpus = CorpusFile(file=write_tsv(tmp_path / "a.tsv", [(source, "NetworkManager VPN")] * 100))
    assert checked_sides(corpus, Direction(LanguagePair("en", "zh"), Origin.OPTION), []).columns == columns
    if columns == (2, 1):
        with pytest.raises(ConfigError, match=f"source: expected en .*, found zh:\n    line 1: {source}\n"):
            checked_sides(corpus, Direction(LanguagePair("en", "zh"), Origin.TEXT), [])


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
    for source in (ENGLISH, "17", ""):  # also a column of numbers, or an empty one, before the text
        write_tsv(tmp_path / "wrong.tsv", [(source, ENGLISH)] * 100)
        with pytest.raises(
            DataError, match=r"target: expected it (.|\n)*Name other files, set the `columns` of a table"
        ):
            check(tmp_path, test={"file": "wrong.tsv"})
