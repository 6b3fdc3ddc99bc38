"""Sentence pairs are read from files in any format, from archives and by patterns."""

import lzma
import os
import random
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from nmt.config import CorpusFile, LanguagePair
from nmt.errors import DataError
from nmt.text.corpus import (
    SentencePair,
    evenly_spread,
    named_languages,
    read_pairs,
    text_files,
    way_of_reading,
)


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def test_tsv_columns_are_selected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "1\tciao\thello\textra\n2\tsì\tyes\n\n  \n")
    pairs = list(read_pairs(CorpusFile(file=path, columns=(3, 2)), None))
    assert pairs == [
        SentencePair("hello", "ciao"),
        SentencePair("yes", "sì"),
        SentencePair("", ""),
        SentencePair("", ""),
    ]


def test_tsv_without_the_columns_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\nno tab here\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: found 1 column \(no tab\), expected at least 2.*'no tab here'"):
        list(read_pairs(CorpusFile(file=path), None))
    with pytest.raises(DataError, match=r"a\.tsv:1: found 2 columns, expected at least 4, since the source is "):
        list(read_pairs(CorpusFile(file=path, columns=(4, 1)), None))


def test_two_files_are_read_as_pairs(tmp_path: Path) -> None:
    corpus = CorpusFile(source=write(tmp_path / "a.en", "one\n\n"), target=write(tmp_path / "a.it", "uno\ndue"))
    assert list(read_pairs(corpus, None)) == [SentencePair("one", "uno"), SentencePair("", "due")]
    assert list(corpus.files.values()) == [tmp_path / "a.en", tmp_path / "a.it"]


@pytest.mark.parametrize(("short", "long"), [("a.en", "a.it"), ("a.it", "a.en")])
def test_two_files_of_unequal_length_are_refused(tmp_path: Path, short: str, long: str) -> None:
    write(tmp_path / short, "1\n2\n")
    write(tmp_path / long, "1\n2\n3\n4\n5\n")
    corpus = CorpusFile(source=tmp_path / "a.en", target=tmp_path / "a.it")
    with pytest.raises(DataError, match=rf"{long}:3: no line to pair with: .*{long} has 5 lines, .*{short} has 2\."):
        list(read_pairs(corpus, None))


ENGLISH_ITALIAN = LanguagePair(source="en", target="it")
TMX = (
    '<tmx><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv>'
    '<tuv xml:lang="it"><seg>uno</seg></tuv></tu></body></tmx>'
)
ITALIAN_PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8"\n\nmsgid "one"\nmsgstr "uno"\n'
ONE = [SentencePair("one", "uno")]


def pairs(languages: LanguagePair | None = ENGLISH_ITALIAN, **settings: object) -> list[SentencePair]:
    return list(read_pairs(CorpusFile.model_validate(settings), languages))


def archive(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "one\tuno\n"),
        ("ita.txt", "one\tuno\tCC-BY 2.0\n"),
        ("a.csv", 'en,it\n"one",uno\n'),
        ("A.TMX", TMX.format("one")),
        (
            "a.xliff",
            '<xliff source-language="en" target-language="it"><trans-unit><source>one</source><target>uno</target>'
            "</trans-unit></xliff>",
        ),
        ("it.po", ITALIAN_PO),
        ("a.jsonl", '{"en": "one", "it": "uno"}'),
        ("a.unknown", "one\tuno"),
    ],
)
def test_format_is_that_of_the_name(tmp_path: Path, name: str, content: str) -> None:
    assert pairs(file=write(tmp_path / name, content)) == ONE
    packed = tmp_path / f"{name}.xz"
    packed.write_bytes(lzma.compress(content.encode()))
    assert pairs(file=packed) == ONE
    assert pairs(file=archive(tmp_path / "a.zip", **{f"folder/{name}": content, "README": "x"})) == ONE


def test_pair_has_its_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "one\tuno\ntwo\tdue\n")
    assert [(pair.file, pair.line) for pair in pairs(file=path)] == [(str(path), 1), (str(path), 2)]


def test_moses_archive_of_opus_is_two_files(tmp_path: Path) -> None:
    members = {"README": "x", "LICENSE": "x", "X.en-it.xml": "x", "X.en-it.it": "uno\n", "X.en-it.en": "one\n"}
    path = archive(tmp_path / "en-it.txt.zip", **members)
    assert pairs(file=path) == ONE
    assert pairs(LanguagePair(source="it", target="en"), file=path) == [SentencePair("uno", "one")]
    assert pairs(None, file=path) == ONE
    assert named_languages(CorpusFile(file=path)) == ["en", "it"]
    assert pairs(source=path / "X.en-it.en", target=path / "X.en-it.it") == ONE
    assert pairs(file=path)[0].file == str(path / "X.en-it.en")
    several = archive(tmp_path / "all.zip", **{**members, "X.en-it.de": "eins"})
    assert pairs(file=several) == ONE
    with pytest.raises(DataError, match=r"all\.zip: found 3 texts \(X\.en-it\.de, .*; name one as `file: .*zip/NAME`"):
        pairs(None, file=several)


def test_pattern_stands_for_all_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in ("b.tmx", "a.tmx", "below/c.tmx"):
        write(tmp_path / name, TMX.format(name))
    assert [pair.source for pair in pairs(file=tmp_path / "*.tmx")] == ["a.tmx", "b.tmx"]
    assert [pair.source for pair in pairs(file=tmp_path / "**" / "*.tmx")] == ["a.tmx", "b.tmx", "below/c.tmx"]
    write(tmp_path / "below" / "a.tmx", TMX.format("same name"))
    files = text_files(CorpusFile(file=tmp_path / "**" / "a.tmx"))
    assert files == {"file.0": tmp_path / "a.tmx", "file.1": tmp_path / "below" / "a.tmx"}
    write(tmp_path / "[x].tsv", "one\tuno")
    assert pairs(file=tmp_path / "[x].tsv") == ONE


def test_patterns_of_two_sides_are_paired(tmp_path: Path) -> None:
    for name in ("a.en", "a.it", "b.en", "b.it"):
        write(tmp_path / name, f"{name}\n")
    found = pairs(source=tmp_path / "*.en", target=tmp_path / "*.it")
    assert found == [SentencePair("a.en", "a.it"), SentencePair("b.en", "b.it")]
    (tmp_path / "b.it").unlink()
    with pytest.raises(DataError, match=r"expected equally many files of both languages, found for .*en 2 and .*it 1"):
        pairs(source=tmp_path / "*.en", target=tmp_path / "*.it")


def test_pattern_without_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"/\*\.tmx: no file has such a name"):
        pairs(file=tmp_path / "*.tmx")
    assert text_files(CorpusFile(file=tmp_path / "*.tmx")) == {"file": tmp_path / "*.tmx"}
    (tmp_path / "a.tmx").mkdir()
    for path in (tmp_path / "*.tmx", tmp_path / "a.tmx"):
        with pytest.raises(DataError, match=r"a\.tmx: expected a file, found a folder; .*/a\.tmx/\*\.SUFFIX"):
            pairs(file=path)


def test_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.tsv")).touch()
    with pytest.raises(DataError, match=r"a\ufffd\.tsv: the name of this file is not UTF-8; rename it"):
        pairs(file=tmp_path / "*.tsv")


def test_columns_must_fit_the_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a tmx file has no columns"):
        pairs(file=write(tmp_path / "a.tmx", TMX), columns=(2, 1))
    with pytest.raises(DataError, match=r"`columns` of jsonl are keys, as in \[translation\.en"):
        pairs(file=write(tmp_path / "a.jsonl", "{}"), columns=(2, 1))
    with pytest.raises(DataError, match=r"`columns` of a PO file are \[1, 2\], or \[2, 1\]"):
        pairs(file=write(tmp_path / "a.po", ITALIAN_PO), columns=("a", "b"))
    assert pairs(file=tmp_path / "a.po", columns=(2, 1)) == [SentencePair("uno", "one")]
    nested = write(tmp_path / "b.jsonl", '{"a": {"x": "one"}, "b": "uno"}')
    assert pairs(file=nested, columns=("a.x", "b")) == ONE


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "one\tuno\n", []),
        ("a.csv", "id,it,en\n1,uno,one\n", ["it", "en"]),
        ("a.csv", "ENGLISH,Chinese (Simplified)\none,一\n", ["en", "zh"]),
        ("a.tsv", "No\tItalian\tenglish\n1\tuno\tone\n", ["it", "en"]),
        ("a.jsonl", '{"English": "one", "Italian": "uno"}', ["en", "it"]),
        ("a.tmx", TMX.format("one"), ["en", "it"]),
        ("a.jsonl", '{"translation": {"it": "uno", "en": "one"}}', ["it", "en"]),
        ("a.po", ITALIAN_PO, []),
        ("a.tmx", "<tmx/>", []),
    ],
)
def test_languages_that_a_file_names(tmp_path: Path, name: str, content: str, expected: list[str]) -> None:
    assert named_languages(CorpusFile(file=write(tmp_path / name, content))) == expected


def test_way_of_reading_names_format_and_members(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", **{"x.tmx": TMX})
    assert way_of_reading(CorpusFile(file=path / "x.tmx")) == "tmx x.tmx"
    assert way_of_reading(CorpusFile(source=Path("a"), target=Path("b"))) == "two files"
    assert way_of_reading(CorpusFile(file=Path("*.po.gz"))) == "po"


def test_unrelated_files_of_unequal_length_are_not_described_as_corresponding(tmp_path: Path) -> None:
    choose = random.Random(1)
    files = [
        write(tmp_path / name, "".join(f"{'x' * choose.choice(range(5, 90))}\n" for _ in range(count)))
        for name, count in (("a.en", 600), ("a.it", 605))
    ]
    with pytest.raises(DataError) as caught:
        pairs(source=files[0], target=files[1])
    assert "a.en has 600. The two files" in str(caught.value)


def test_sample_is_spread_over_the_text() -> None:
    pairs = [SentencePair("a", "b", "train.tsv", number) for number in range(1, 50_001)]
    lines = [pair.line for pair in evenly_spread(pairs, 19_999)]
    assert 10_000 <= len(lines) < 20_000
    assert {after - before for before, after in pairwise(lines)} == {4}
    assert lines[-1] > 49_990
