"""Sentence pairs are read from files in any format and from archives."""

import lzma
from itertools import islice, pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest

from nmt.config import CorpusFile, LanguagePair
from nmt.errors import DataError
from nmt.text import corpus
from nmt.text.corpus import named_languages, parts_of, read_pairs, text_files
from nmt.translation.documents import translating
from nmt.translation.documents.document import ReadOptions
from tests.builders import write_lines, write_zip

ENGLISH_ITALIAN = LanguagePair(source="en", target="it")
TMX = (
    '<tmx><header srclang="en"/><body><tu><tuv xml:lang="it-IT"><seg>uno</seg></tuv>'
    '<tuv xml:lang="en"><seg>one</seg></tuv></tu></body></tmx>'
)
XLIFF = (
    '<xliff><file source-language="en" target-language="it"><trans-unit><source>one</source><target>uno</target>'
    "</trans-unit></file></xliff>"
)
ONE = [("one", "uno")]


def pairs(languages: LanguagePair | None = ENGLISH_ITALIAN, **settings: object) -> list[tuple[str, str]]:
    return [pair[:2] for pair in read_pairs(CorpusFile.model_validate(settings), languages)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RecursionError, "nested too deeply"), (OverflowError, "a number in it is too large"), (MemoryError, "too large")],
)
def test_limits_of_python_are_errors_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], reason: str
) -> None:
    path = write_lines(tmp_path / "a.tsv", "a\tb")
    monkeypatch.setattr("nmt.text.corpus.read_table", Mock(side_effect=error))
    with pytest.raises(DataError, match=rf"a\.tsv: cannot read it: {reason}"):
        pairs(file=path)
    monkeypatch.setitem(translating._READERS, "json", Mock(side_effect=error))
    with pytest.raises(DataError, match=rf"a\.json: cannot read it: {reason}"):
        translating.read_document(b"{}", "a.json", ReadOptions("json"))


def test_tsv_columns_are_selected_and_pairs_have_their_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.tsv", "1\tciao\thello\textra", "2\tsì\tyes", "", "  ", "no tab here")
    found = read_pairs(CorpusFile(file=path, columns=(3, 2)), None)
    assert list(islice(found, 4)) == [("hello", "ciao", 1), ("yes", "sì", 2), ("", "", 3), ("", "", 4)]
    with pytest.raises(
        DataError, match=r"a\.tsv:5: found 1 column \(no tab\), expected at least 3, since source and.*'no tab here'"
    ):
        next(found)
    with pytest.raises(DataError, match=r"a\.tsv:2: found 3 columns, expected at least 4"):
        pairs(file=path, columns=(4, 1))


def test_two_files_are_read_as_pairs(tmp_path: Path) -> None:
    source, target = write_lines(tmp_path / "a.en", "one", ""), write_lines(tmp_path / "a.it", "uno", "due")
    assert pairs(source=source, target=target) == [*ONE, ("", "due")]
    assert text_files(CorpusFile(source=source, target=target)) == {"source": source, "target": target}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ita.txt", "one\tuno\tCC-BY 2.0"),
        ("a.csv", 'en,it\n"one",uno'),
        ("A.TMX", TMX),
        ("a.jsonl", '{"en": "one", "it": "uno"}'),
        ("a.sdlxliff", XLIFF),
        ("a.mxliff", XLIFF),
        ("a.po", 'msgid "one"\nmsgstr "uno"'),
        ("a.unknown", "one\tuno"),
    ],
)
def test_format_is_that_of_the_name(tmp_path: Path, name: str, content: str) -> None:
    assert pairs(file=write_lines(tmp_path / name, content)) == ONE
    packed = tmp_path / f"{name}.xz"
    packed.write_bytes(lzma.compress(content.encode()))
    assert pairs(file=packed) == ONE
    path = write_zip(tmp_path / "a.zip", **{f"folder/{name}": content, "README": "x"})
    assert pairs(file=path) == pairs(file=path / "folder" / name) == ONE
    assert text_files(CorpusFile(file=path / "folder" / name)) == {"file": path}


def test_moses_archive_of_opus_is_two_files(tmp_path: Path) -> None:
    members = {"README": "x", "LICENSE": "x", "X.en-it.xml": "x", "X.en-it.it": "uno\n", "X.en-it.en": "one\n"}
    path = write_zip(tmp_path / "en-it.txt.zip", **members)
    assert pairs(file=path) == pairs(None, file=path) == ONE
    assert pairs(LanguagePair(source="it", target="en"), file=path) == [("uno", "one")]
    assert named_languages(CorpusFile(file=path)) == ["en", "it"]
    assert pairs(source=path / "X.en-it.en", target=path / "X.en-it.it") == ONE
    assert parts_of(CorpusFile(file=path), None) == [path / "X.en-it.en", path / "X.en-it.it"]
    several = write_zip(tmp_path / "all.zip", **{**members, "X.en-it.de": "eins"})
    assert pairs(file=several) == ONE
    unrelated = write_zip(tmp_path / "unrelated.zip", **{"a.txt": "one", "b.txt": "uno"})
    for file, found in ((several, r"3 texts \(X\.en-it\.de, "), (unrelated, r"2 texts \(a\.txt, b\.txt\)")):
        for languages in (None, LanguagePair(source="en", target="fr")):
            with pytest.raises(DataError, match=rf"\.zip: found {found}.*; name one, as {file}/.*, or the two of"):
                pairs(languages, file=file)


def test_columns_must_fit_the_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a file of this format has no columns"):
        pairs(file=write_lines(tmp_path / "a.tmx", TMX), columns=(2, 1))
    with pytest.raises(DataError, match=r"`columns` of JSON lines are keys, as in \[translation\.en"):
        pairs(file=write_lines(tmp_path / "a.jsonl", "{}"), columns=(2, 1))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "id,it,en", ["it", "en"]),
        ("a.tsv", "No\tita\teng", ["ita", "eng"]),
        ("a.tmx", TMX, ["en", "it-IT"]),
        ("a.jsonl", '{"translation": {"it": "uno", "en": "one"}}', ["it", "en"]),
        ("a.xlf", XLIFF, ["en", "it"]),
        ("a.po", 'msgid ""\nmsgstr "Language: it"', []),
        ("a.tmx", "<tmx/>", []),
        ("a.jsonl", "", []),
    ],
)
def test_languages_that_a_file_names(tmp_path: Path, name: str, content: str, expected: list[str]) -> None:
    assert named_languages(CorpusFile(file=write_lines(tmp_path / name, content))) == expected


def test_sample_is_spread_over_the_start_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "SAMPLE", 199)
    monkeypatch.setattr(corpus, "FIRST_PAIRS", 500)
    path = write_lines(tmp_path / "a.tsv", *["a\tb"] * 1000)
    lines = [pair.line for pair in corpus.sample_of(CorpusFile(file=path), None)]
    assert 100 <= len(lines) < 200
    assert {after - before for before, after in pairwise(lines)} == {4}
    assert 496 < lines[-1] <= 500
