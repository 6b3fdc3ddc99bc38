"""Files, compressed files, members of archives: lines end only at \\n, and errors name file, line and byte."""

import bz2
import gzip
import io
import lzma
import os
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.readers.opening import begin_text, decode_line, open_content, read_lines, split_member, text_members
from tests.builders import write_zip

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SEPARATORS_THAT_ARE_NONE = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i\rj"
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress,
    "zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),  # as the program
}  # fmt: skip
TAR = b"a.en".ljust(257, b"\0") + b"ustar\x0000" + b"\0" * 248 + b"one\n"
LINES = b"".join(b"line %d of a text\n" % number for number in range(20_000))


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
    for compress in COMPRESS.values():
        assert list(read_lines(write(tmp_path / "without_suffix", compress(content.encode())))) == expected


@pytest.mark.parametrize("content", ["A.\rB.\r", "A.\tB.\rC.\tD.", "\r\rA.\r\rB.\n", "A.\r" * 50_000])
def test_text_whose_lines_end_at_cr_is_refused(tmp_path: Path, content: str) -> None:
    """As Excel writes "Text (Macintosh)"."""
    with pytest.raises(DataError, match=r"a\.txt: lines end at CR, expected LF; convert them: tr '\\r' '\\n' < FILE"):
        list(read_lines(write(tmp_path / "a.txt", content)))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))))
def test_read_inverts_write(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = write(tmp_path_factory.mktemp("lines") / "a.txt", "".join(f"{line}\n" for line in lines))
    if not lines or not lines[0].encode().startswith((b"\x1f\x8b", b"BZh", b"PK")):
        assert list(read_lines(path)) == lines


@given(st.binary())
def test_decode_line_takes_any_bytes(raw: bytes) -> None:
    assert decode_line(raw + b"\r\n") == raw.decode("utf-8", errors="replace")
    assert decode_line(raw + b"x\n") == decode_line(raw + b"x") == (raw + b"x").decode("utf-8", errors="replace")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x\n" * 40_000 + b"perch\xe9 no\n", r"a:40001: not UTF-8: found the byte 0xE9 at byte 6 .* -f LATIN1"),
        (
            "è così\n".encode() + b"a\0\xff\n",
            r"a:2: not UTF-8: found the byte 0xFF at byte 3 .* iconv -c -f UTF-8 -t UTF-8",
        ),
        ("perché\n".encode("utf-16-le"), r"a: expected text in UTF-8, 8 of the first 14 bytes .* iconv -f UTF-16"),
        (("今天天气很好。" * 4 + "\n").encode("utf-16-le") * 9, r"a:1: not UTF-8: .* iconv -f UTF-16"),
        ("今天\n".encode("utf-16"), r"a: expected text in UTF-8, \d of .* iconv -f UTF-16"),
        (TAR, "a: expected text, found a tar archive; unpack it: tar -xf FILE"),
        (
            "今天下雨，我们不去\n".encode("gb18030"),
            r"a: expected text in UTF-8, 1\d of the first 19 .* -f GB18030",
        ),
    ],
)
def test_other_encodings_are_refused_with_the_place_and_the_command_that_converts(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        list(read_lines(write(tmp_path / "a", content)))


@pytest.mark.parametrize("content", [b"\xff \xfd\n", b"nul\0inside\n", b"\x1b[1mbold\x1b[0m"])
def test_few_invalid_bytes_are_text(tmp_path: Path, content: bytes) -> None:
    with open_content(write(tmp_path / "a", b"\xef\xbb\xbf" + content)) as stream:
        begin_text(stream, tmp_path / "a")
        assert stream.read() == content


@pytest.mark.parametrize("suffix", COMPRESS)
def test_text_of_gigabytes_is_unpacked_in_bounded_memory(tmp_path: Path, suffix: str) -> None:
    """Of eight compressed files, one after the other."""
    path = write(tmp_path / "a", COMPRESS[suffix]((b"x" * 999 + b"\n") * 4_000) * 8)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_lines(path)) == 32_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_data_is_refused(tmp_path: Path, suffix: str) -> None:
    packed = COMPRESS[suffix](LINES)
    for damaged in (packed[: len(packed) // 2], packed[:100] + bytes(100) + packed[200:]):
        with pytest.raises(DataError, match=rf"{tmp_path}/a: (damaged or incomplete \(.*copy or download|.*not UTF-8)"):
            list(read_lines(write(tmp_path / "a", damaged)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.txt", "nowhere.txt: no such file"),
        ("data/tatoeba-en-it/train.tsv.gz", "train.tsv.gz: no such file; run `make data`"),
        ("*.tmx", "*.tmx: no such file; a recipe has no patterns: list the files"),
        ("", "expected a file, found a folder"),
        ("pipe", "found something that can be read only once; save it to a file"),
        ("file/below", "cannot read it: Not a directory"),
        ("file.zip/a.en", "file.zip: expected a zip archive with the member a.en"),
    ],
)
def test_other_things_than_files_are_refused(tmp_path: Path, name: str, message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "file", "")
    write(tmp_path / "file.zip", "text")
    with pytest.raises(DataError) as caught:
        list(read_lines(tmp_path / name))
    assert str(caught.value).endswith(message) or message in str(caught.value)


def test_line_of_a_pipe_is_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open(os.open(tmp_path / "pipe", os.O_RDWR), "wb", buffering=0) as writer:
        writer.write(b"one\ntwo")
        with open_content(tmp_path / "pipe", read_once=True) as stream:
            assert stream.read1() == b"one\ntwo"
            writer.write(b"\nthree\n")
            assert stream.read1() == b"\nthree\n"


def test_only_text_of_an_archive_needs_no_name(tmp_path: Path) -> None:
    others = {"README": "x", "LICENSE.txt": "x", "_about.txt": "x", "__MACOSX/._ita.txt": "x", "folder/": ""}
    path = write_zip(tmp_path / "a.zip", **others, **{"ita.txt": "a\tb\n" * 9})
    assert list(read_lines(path)) == list(read_lines(path / "ita.txt")) == ["a\tb"] * 9
    assert list(read_lines(path / "README")) == ["x"]
    assert text_members(path) == ["ita.txt"]
    path.rename(tmp_path / "without_suffix")
    assert list(read_lines(tmp_path / "without_suffix")) == ["a\tb"] * 9
    (tmp_path / "folder.zip").mkdir()
    assert split_member(tmp_path / "folder.zip" / "a.en") == (tmp_path / "folder.zip" / "a.en", None)


@pytest.mark.parametrize("kind", COMPRESS)
def test_member_of_an_archive_may_be_compressed(tmp_path: Path, kind: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(f"a.tsv.{kind}", COMPRESS[kind](LINES))
    assert list(read_lines(tmp_path / "a.zip")) == LINES.decode().splitlines()


def test_archives_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", **{"a.en": "one", "folder/a.it": "uno"})
    sheet = write_zip(tmp_path / "a.xlsx", **{"[Content_Types].xml": "<x/>", "_rels/.rels": "<x/>"})
    content = write_zip(tmp_path / "b.zip", **{"a.en": LINES}).read_bytes()
    flags = content.index(b"PK\x01\x02") + 8  # of the member in the directory of the archive
    newer, moved = (content[:place] + b"\xff\xff\xff\xff" + content[place + 4 :] for place in (flags - 2, flags + 34))
    encrypted = write(tmp_path / "b.zip", content[:flags] + b"\x01" + content[flags + 1 :])
    for named, message in [
        (path, r"a\.zip: expected an archive of one text, found 2; name one as .*/a\.zip/NAME \(a\.en, folder/a\.it\)"),
        (path / "a.de", r"a\.zip: no member a\.de; name one as .*/a\.zip/NAME \(a\.en, folder/a\.it\)"),
        (sheet, r"a\.xlsx: expected an archive of one text, found 0; save it as text or CSV"),
        (encrypted, r"b\.zip: cannot read a\.en: .*password required"),
        (write(tmp_path / "newer.zip", newer), r"newer\.zip: damaged or incomplete \(zip file version"),
        (write(tmp_path / "moved.zip", moved), r"moved\.zip: damaged or incomplete"),
        (write(tmp_path / "c", content[:-30]), "c: damaged or incomplete"),
        (write(tmp_path / "d", content[:100] + bytes(40) + content[140:]), "d: damaged or incomplete"),
    ]:
        with pytest.raises(DataError, match=message):
            list(read_lines(named))


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(gzip.compress("\ufeffè\n".encode()))))
    )
    assert list(read_lines(Path("-"))) == ["è"]
    assert not sys.stdin.closed
