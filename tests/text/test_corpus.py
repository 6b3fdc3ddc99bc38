"""Sentence pairs are read from one tab-separated file or from two files with corresponding lines."""

from pathlib import Path

import pytest

from nmt.config import CorpusFile
from nmt.errors import DataError
from nmt.text.corpus import SentencePair, read_pairs


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def test_tsv_columns_are_selected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "1\tciao\thello\textra\n2\tsì\tyes\n\n  \n")
    pairs = list(read_pairs(CorpusFile(tsv=path, columns=(3, 2)), None))
    assert pairs == [
        SentencePair("hello", "ciao"),
        SentencePair("yes", "sì"),
        SentencePair("", ""),
        SentencePair("", ""),
    ]


def test_tsv_without_the_columns_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\nno tab here\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: found 1 column \(no tab\), expected at least 2.*'no tab here'"):
        list(read_pairs(CorpusFile(tsv=path), None))
    with pytest.raises(DataError, match=r"a\.tsv:1: found 2 columns, expected at least 4, since the source is "):
        list(read_pairs(CorpusFile(tsv=path, columns=(4, 1)), None))


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
