"""Readers of text files: lines end only at \\n, and errors name file, line and byte."""

import bz2
import gzip
import io
import lzma
import os
import random
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.readers.opening import decode_line, open_content, open_text, read_lines

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


ASCII_CONTROLS = "".join(map(chr, [*range(0x20), 0x7F]))  # many of them are taken for binary data


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=ASCII_CONTROLS))))
def test_read_inverts_write(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
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


ENGLISH, CHINESE = "hello there, all of you\nsecond line\n", "今天下雨，我们不去公园。\n明天再去吧。\n"
SAFETENSORS = (72).to_bytes(8, "little") + b'{"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'


@pytest.mark.parametrize("text", [ENGLISH, CHINESE])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_wide_encodings_are_refused_with_the_command_that_converts(tmp_path: Path, text: str, encoding: str) -> None:
    path = write(tmp_path / "a.txt", text.encode(encoding))
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    name = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    assert str(caught.value) == (
        f"{path}: expected text in UTF-8, found {name}; convert it: iconv -f {name} -t UTF-8 FILE > NEWFILE"
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"7z\xbc\xaf\x27\x1c" + bytes(40), "a 7z archive"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "a PNG image"),
        (gzip.compress(gzip.compress(b"text", mtime=0), mtime=0), "gzip data inside compressed data"),
        (bz2.compress(lzma.compress(b"text")), "xz data inside compressed data"),
        (gzip.compress(b"PK\x03\x04" + bytes(40), mtime=0), "a zip archive"),
        (SAFETENSORS, "a safetensors file"),
        (random.Random(1).randbytes(3000), "binary data"),
        (gzip.compress(random.Random(2).randbytes(3000), mtime=0), "binary data"),
        (CHINESE.encode("gb18030"), "another encoding: 61% .* iconv -f GB18030"),
        ("Съешь ещё этих мягких булок\n".encode("cp1251"), "another encoding"),
    ],
)
def test_input_other_than_utf8_text_is_refused(tmp_path: Path, content: bytes, found: str) -> None:
    with pytest.raises(DataError, match=f"^{tmp_path / 'a'}: expected text in UTF-8, found {found}"):
        list(read_lines(write(tmp_path / "a", content)))
    with pytest.raises(DataError, match=f"^standard input: expected text in UTF-8, found {found}"):
        open_text(io.BytesIO(content), "standard input").read()


@pytest.mark.parametrize(
    "content",
    [b"\xff \xfd\n", b"nul\0inside\n", b"\0\0\n", "perché no, più tardi\n".encode("latin-1"), b"\x1b[1mbold\x1b[0m"],
)
def test_open_text_keeps_single_invalid_bytes(content: bytes) -> None:
    assert open_text(io.BytesIO(content), "x").read() == content


@given(st.lists(st.binary(max_size=9), max_size=9), st.lists(st.integers(1, 40), max_size=30))
def test_open_text_unpacks_gzip_members_in_any_blocks(members: list[bytes], sizes: list[int]) -> None:
    content = b"a line of text\n" * 5 + b"".join(members)
    packed = gzip.compress(content[:75]) + b"".join(map(gzip.compress, members)) + bytes(7)
    assert open_text(io.BytesIO(packed), "x").read() == content

    class Pipe(io.RawIOBase):
        """Returns as many bytes as `sizes` lists, one entry a call, then single bytes."""

        def __init__(self, data: bytes) -> None:
            self._data, self._sizes = io.BytesIO(data), iter(sizes)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            chunk = self._data.read(min(len(buffer), next(self._sizes, 1)))
            buffer[: len(chunk)] = chunk
            return len(chunk)

    for data in (content, b"\xef\xbb\xbf" + content, packed):
        assert b"".join(open_text(io.BufferedReader(Pipe(data)), "x")) == content


@pytest.mark.parametrize("packed", [False, True])
def test_open_text_returns_a_line_as_soon_as_it_is_written(packed: bool) -> None:
    """The writer sends one line and waits: reading it must not wait for a full block."""
    reader, writer = os.pipe()
    compressor = zlib.compressobj(wbits=31)

    def encode(line: bytes) -> bytes:
        return compressor.compress(line) + compressor.flush(zlib.Z_SYNC_FLUSH) if packed else line

    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as out:
        text = open_text(stream, "x")
        assert text.fileno() == reader
        for line in (b"one\n", b"two\n"):
            out.write(encode(line))
            assert text.read1() == line
        for line in (b"three\n", b"four\n"):
            out.write(encode(line))
            assert text.readline() == line


def test_gzip_with_high_compression_is_read_in_bounded_memory(tmp_path: Path) -> None:
    packed = gzip.compress(b"0123456789\n" * 4_000_000)
    tracemalloc.start()
    try:
        text = open_text(io.BytesIO(packed), "x")
        assert sum(map(len, iter(text.read1, b""))) == 44_000_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_zip_archive_in_a_stream_is_refused() -> None:
    with pytest.raises(DataError, match=r"^standard input: expected text in UTF-8, found a zip archive"):
        open_text(io.BytesIO(b"PK\x03\x04" + bytes(40)), "standard input").read()


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst"])
def test_name_of_another_compression_is_refused(tmp_path: Path, suffix: str) -> None:
    content = lzma.compress(b"x") if suffix == "gz" else gzip.compress(b"x")
    with pytest.raises(DataError, match=rf"a\.{suffix}: not .* data, though the name ends in \.{suffix}"):
        list(read_lines(write(tmp_path / f"a.{suffix}", content)))


def test_line_too_long_for_a_sentence_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.text.readers.opening._LONGEST_LINE", 100_000)
    with pytest.raises(DataError, match=r"a\.txt:30001: a line of more than 64 MiB"):
        list(read_lines(write(tmp_path / "a.txt", "short\n" * 30_000 + "x" * 200_000 + "\nend\n")))


@pytest.mark.parametrize("cut", [3, 30, -1])
def test_truncated_gzip_is_refused(tmp_path: Path, cut: int) -> None:
    packed = gzip.compress(b"a line of text\n" * 1000)
    with pytest.raises(DataError, match=r"a\.gz: damaged gzip file"):
        list(read_lines(write(tmp_path / "a.gz", packed[:cut])))


def test_corrupt_gzip_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(random.Random(3).randbytes(20000).hex().encode()))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(DataError, match=r"a\.gz:.*(damaged gzip file|not UTF-8|expected text in UTF-8)"):
        list(read_lines(write(tmp_path / "a.gz", bytes(packed))))
    packed[10:14] = b"\xff\xff\xff\xff"
    with pytest.raises(DataError, match=r"a\.gz: damaged gzip file"):
        list(read_lines(write(tmp_path / "a.gz", bytes(packed))))


def test_plain_text_with_gz_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.gz: not gzip data, though the name ends in \.gz"):
        list(read_lines(write(tmp_path / "a.gz", "plain\n")))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file$"):
        list(read_lines(tmp_path / "nowhere.txt"))
    with pytest.raises(DataError, match=r"train\.tsv\.gz: no such file; run `make data`"):
        list(read_lines(tmp_path / "data" / "tatoeba-en-it" / "train.tsv.gz"))
    with pytest.raises(DataError, match=r"no file can have such a name"):
        list(read_lines(Path("a\0b")))
    with pytest.raises(DataError, match=r"mine\.tsv: no such file$"):
        list(read_lines(tmp_path / "data" / "mine" / "mine.tsv"))


def test_folder_and_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a text file, found a folder"):
        list(read_lines(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="found something that can be read only once"):
        list(read_lines(tmp_path / "pipe"))
    with pytest.raises(DataError, match="expected a text file, found a folder"):
        list(read_lines(tmp_path, read_once=True))
    with pytest.raises(DataError, match="cannot read it: Not a directory"):
        list(read_lines(write(tmp_path / "file", "") / "below"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "secret.txt", "x\n")
    path.chmod(0)
    with pytest.raises(DataError, match="cannot read it: Permission denied"):
        list(read_lines(path))


def test_pipe_is_read_once_and_its_first_line_at_once(tmp_path: Path) -> None:
    """Opening waits for a writer, but not for what it writes."""
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with open_content(tmp_path / "pipe", read_once=True) as stream:
            os.write(writer, b"one\ntwo")
            assert open_text(stream, "x").readline() == b"one\n"
    finally:
        os.close(writer)
