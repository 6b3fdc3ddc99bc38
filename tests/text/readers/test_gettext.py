"""PO files: translated messages only, plurals, encodings, errors with the line."""

import gzip
import random
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.text.readers.gettext import read_po

PO = """\
# a comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=CHARSET\\n"
"Language: it\\n"

#: main.c:12
msgid "Open"
msgstr "Apri"

msgctxt "menu"
msgid ""
"Open the "
"file\\n"
msgstr "Apri il file è\\n"

#, fuzzy
msgid "Save"
msgstr "Salva?"

msgid "Close"
msgstr ""

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d documento"
msgstr[1] "%d documenti"

#~ msgid "Old"
#~ msgstr "Vecchio"
"""
PAIRS = [
    ("Open", "Apri"),
    ("Open the file", "Apri il file è"),
    ("%d file", "%d documento"),
    ("%d files", "%d documenti"),
]


@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1"])
def test_translated_messages_are_read_in_the_encoding_of_the_header(tmp_path: Path, encoding: str) -> None:
    content = PO.replace("CHARSET", encoding).encode(encoding)
    (tmp_path / "it.po").write_bytes(content)
    rows = list(read_po(tmp_path / "it.po", reverse=False))
    assert [row[1:] for row in rows] == PAIRS
    assert [row[0] for row in rows] == [7, 11, 24, 24]
    (tmp_path / "it.po.gz").write_bytes(gzip.compress(content))
    assert list(read_po(tmp_path / "it.po.gz", reverse=True)) == [(line, t, s) for line, s, t in rows]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'msgid "a"\nmsgstr "b"c"\n', ":2: invalid syntax of a PO file: unescaped double quote found"),
        (b"some text\nmsgid\n", ":1: invalid syntax of a PO file$"),
        (PO.replace("CHARSET", "UTF-8").encode("latin-1"), ": not in the encoding of its header, utf-8"),
        (random.Random(1).randbytes(200_000), ": "),
    ],
)
def test_invalid_file_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "it.po").write_bytes(content)
    with pytest.raises(DataError, match=rf"it\.po{problem}"):
        list(read_po(tmp_path / "it.po", reverse=False))


def test_file_that_would_fill_the_ram_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.readers.gettext._LARGEST", 1000)
    (tmp_path / "it.po.gz").write_bytes(gzip.compress(b"# comment\n" * 1000))
    with pytest.raises(DataError, match=r"it\.po\.gz: a PO file of more than 64 MiB; divide it"):
        list(read_po(tmp_path / "it.po.gz", reverse=False))


def test_empty_file_has_no_pairs(tmp_path: Path) -> None:
    (tmp_path / "it.po").write_bytes(b"")
    assert list(read_po(tmp_path / "it.po", reverse=False)) == []
