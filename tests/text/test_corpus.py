"""Readers: lines end at \\n only; whatever is wrong with a file is said with its place."""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import CorpusFile
from nmt.errors import DataError
from nmt.text.corpus import SentencePair, decode_line, input_files, read_lines, read_pairs

SEPARATORS_THAT_ARE_NONE = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i\rj"


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", []),
        ("one\ntwo\n", ["one", "two"]),
        ("one\ntwo", ["one", "two"]),
        ("\n\n", ["", ""]),
        ("one\r\ntwo\r\r\n", ["one", "two\r"]),
        ("\ufeffone\n\ufefftwo\n", ["one", "\ufefftwo"]),
        (f"{SEPARATORS_THAT_ARE_NONE}\nend", [SEPARATORS_THAT_ARE_NONE, "end"]),
        ("nul\0inside\n", ["nul\0inside"]),
    ],
)
def test_lines_end_at_newline_only(tmp_path: Path, content: str, expected: list[str]) -> None:
    assert list(read_lines(write(tmp_path / "a.txt", content))) == expected
    assert list(read_lines(write(tmp_path / "b.gz", gzip.compress(content.encode())))) == expected
    assert list(read_lines(write(tmp_path / "gzip_without_suffix", gzip.compress(content.encode())))) == expected


@given(st.lists(st.text().filter(lambda line: "\n" not in line and not line.endswith("\r"))))
def test_written_lines_come_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    write(path, "".join(f"{line}\n" for line in lines))
    read = list(read_lines(path))
    if lines and lines[0].startswith("\ufeff"):
        lines = [lines[0][1:], *lines[1:]]
    assert read == lines


@given(st.binary())
def test_decode_line_takes_any_bytes(raw: bytes) -> None:
    assert decode_line(raw + b"\r\n") == raw.decode("utf-8", errors="replace")
    assert decode_line(raw + b"x\n") == decode_line(raw + b"x") == (raw + b"x").decode("utf-8", errors="replace")


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "latin1.txt", b"good\n" + "perch\xe9 no\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin1\.txt:2: not UTF-8: found the byte 0xE9 at byte 6 .* iconv"):
        list(read_lines(path))


def test_utf16_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt:1: the file is UTF-16, expected UTF-8"):
        list(read_lines(write(tmp_path / "a.txt", "hello\n".encode("utf-16"))))


@pytest.mark.parametrize("cut", [3, 30, -1])
def test_truncated_gzip(tmp_path: Path, cut: int) -> None:
    packed = gzip.compress(b"a line of text\n" * 1000)
    with pytest.raises(DataError, match=r"a\.gz: damaged gzip file"):
        list(read_lines(write(tmp_path / "a.gz", packed[:cut])))


def test_corrupt_gzip(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(20000)))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(DataError, match=r"a\.gz:.*(damaged gzip file|not UTF-8)"):
        list(read_lines(write(tmp_path / "a.gz", bytes(packed))))
    packed[10:14] = b"\xff\xff\xff\xff"
    with pytest.raises(DataError, match=r"a\.gz: damaged gzip file"):
        list(read_lines(write(tmp_path / "a.gz", bytes(packed))))


def test_gz_suffix_on_plain_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.gz: not gzip data, though the name ends in \.gz"):
        list(read_lines(write(tmp_path / "a.gz", "plain\n")))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file$"):
        list(read_lines(tmp_path / "nowhere.txt"))
    with pytest.raises(DataError, match=r"train\.tsv\.gz: no such file; run `make data`"):
        list(read_lines(tmp_path / "data" / "tatoeba-en-it" / "train.tsv.gz"))
    with pytest.raises(DataError, match=r"no file can have such a name"):
        list(read_lines(Path("a\0b")))
    with pytest.raises(DataError, match=r"mine\.tsv: no such file$"):
        list(read_lines(tmp_path / "data" / "mine" / "mine.tsv"))


def test_folder_and_pipe_instead_of_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a text file, found a folder"):
        list(read_lines(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="found something that can be read only once"):
        list(read_lines(tmp_path / "pipe"))
    with pytest.raises(DataError, match="cannot read it: Not a directory"):
        list(read_lines(write(tmp_path / "file", "") / "below"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(tmp_path: Path) -> None:
    path = write(tmp_path / "secret.txt", "x\n")
    path.chmod(0)
    with pytest.raises(DataError, match="cannot read it: Permission denied"):
        list(read_lines(path))


def test_tsv_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "1\tciao\thello\textra\n2\tsì\tyes\n\n  \n")
    pairs = list(read_pairs(CorpusFile(tsv=path, columns=(3, 2))))
    assert pairs == [
        SentencePair("hello", "ciao", str(path), 1),
        SentencePair("yes", "sì", str(path), 2),
        SentencePair("", "", str(path), 3),
        SentencePair("", "", str(path), 4),
    ]


def test_tsv_without_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\nno tab here\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: found 1 column \(no tab\), expected at least 2.*'no tab here'"):
        list(read_pairs(CorpusFile(tsv=path)))
    with pytest.raises(DataError, match=r"a\.tsv:1: found 2 columns, expected at least 4, since the source is "):
        list(read_pairs(CorpusFile(tsv=path, columns=(4, 1))))


def test_two_files(tmp_path: Path) -> None:
    corpus = CorpusFile(source=write(tmp_path / "a.en", "one\n\n"), target=write(tmp_path / "a.it", "uno\ndue"))
    assert [(pair.source, pair.target, pair.line) for pair in read_pairs(corpus)] == [("one", "uno", 1), ("", "due", 2)]
    assert input_files(corpus) == [tmp_path / "a.en", tmp_path / "a.it"]


@pytest.mark.parametrize(("short", "long"), [("a.en", "a.it"), ("a.it", "a.en")])
def test_two_files_of_unequal_length(tmp_path: Path, short: str, long: str) -> None:
    write(tmp_path / short, "1\n2\n")
    write(tmp_path / long, "1\n2\n3\n4\n5\n")
    corpus = CorpusFile(source=tmp_path / "a.en", target=tmp_path / "a.it")
    with pytest.raises(DataError, match=rf"{long}:3: no line to pair with: .*{long} has 5 lines, .*{short} has 2\."):
        list(read_pairs(corpus))
