"""Read text: UTF-8, plain or compressed, in lines that end at `\\n` only.

`open_content` opens all inputs, and `open_text` reads all text. `read_lines` does both, and names file and line of an
invalid byte; `nmt translate` decodes each line with `decode_line`, since it has an output line for every input line.
"""

import codecs
import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zipfile import BadZipFile

from nmt.errors import DataError
from nmt.text.readers.archive import is_archive, open_member, split_member
from nmt.text.readers.compression import compression_named, compression_of, unpacked

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_INPUT = Path("-")
_CHUNK_BYTES = 1 << 16
_LONGEST_LINE = 1 << 26  # bytes; longer ones are no sentences, and would fill the RAM
_SUSPICIOUS_SHARE, _SUSPICIOUS_BYTES = 0.3, 8
"""Text with at least this share, and this many, of invalid or control bytes in its first block is refused."""
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n\v\f\r\x1b"})

_SIGNATURES = {
    b"PK\x03\x04": "a zip archive (perhaps .zip, .docx, .xlsx or .pt); extract its text, or save it as plain text",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; extract its text",
    b"Rar!\x1a\x07": "a RAR archive; extract its text",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF-1": "a PDF document; extract its text: pdftotext FILE",
    b"\x93NUMPY": "a NumPy array",
    b"\x7fELF": "a program",
}
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_WIDE_ENCODINGS = ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE")
_DOWNLOADED_FOLDERS = ("tatoeba-", "more-en-", "flores200", "newstest")  # folders below `data/` that `make data` fills


def open_text(stream: BinaryIO, name: str) -> io.BufferedReader:
    """Return a stream of the UTF-8 bytes of a text: unpacked, a leading BOM dropped, the first block checked.

    The stream needs no `seek`, and reads no more than requested: of a pipe or a terminal, `read1` and iteration return
    a line as soon as it is there. Iteration yields lines that end at `\\n`. Single invalid bytes are passed on.

    Reading raises DataError, which begins with `name`: UTF-16, UTF-32, another 8-bit or 16-bit encoding, binary data,
    damaged compressed data, an input error.
    """
    return io.BufferedReader(_ChunkStream(stream, _text_chunks(stream, name)), _CHUNK_BYTES)


def decode_line(raw: bytes) -> str:
    """Return a line of input as text, without its `\\n` or `\\r\\n`; bytes that are not UTF-8 become U+FFFD."""
    return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", errors="replace")


def is_utf8(raw: bytes) -> bool:
    """Return whether a line is UTF-8."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def input_name(path: Path) -> str:
    """Return the name of an input in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def read_lines(path: Path, read_once: bool = False) -> Iterator[str]:
    """Yield the lines of a text without their `\\n` or `\\r\\n`; it is opened as by `open_content`.

    Raises DataError: no such file, what `open_text` refuses, a byte that is not UTF-8 (with file and line), or a line
    of more than 64 MiB.
    """
    name = input_name(path)
    with open_content(path, read_once) as file:
        number, begun = 1, bytearray()  # the line that has not ended
        for chunk in _text_chunks(file, name):
            ended, newline, rest = chunk.rpartition(b"\n")
            if newline:
                lines = begun + ended
                yield from _decoded_lines(lines, name, number)
                number, begun = number + lines.count(b"\n") + 1, bytearray()
            begun += rest
            if len(begun) > _LONGEST_LINE:
                raise DataError(f"{name}:{number}: a line of more than 64 MiB; expected one sentence per line")
        if begun:
            yield from _decoded_lines(begun, name, number)


def _decoded_lines(raw: bytearray, name: str, first: int) -> Iterable[str]:
    """Return lines as text; `first` is the number of the first one. Many are decoded at once: half the time."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return (_decoded_line(line, f"{name}:{number}") for number, line in enumerate(raw.split(b"\n"), first))
    lines = text.split("\n")
    return lines if "\r" not in text else (line.removesuffix("\r") for line in lines)


def _decoded_line(raw: bytearray, place: str) -> str:
    try:
        return raw.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place}: not UTF-8: found the byte 0x{raw[error.start]:02X} at byte {error.start + 1} of the line. "
            "Correct the line, or convert the file; if it is Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEWFILE"
        ) from None


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the unpacked content of a file in chunks, unchecked: for formats that declare their encoding.

    Raises DataError as `open_content` does, and for damaged compressed data.
    """
    with open_content(path) as file:
        yield from _unpacked_chunks(file, input_name(path))


@contextmanager
def open_content(path: Path, read_once: bool = False) -> Iterator[BinaryIO]:
    """Open a file, a member of a zip archive (`archive.zip/member`), its only text member, or `-`, standard input.

    With `read_once` it may be a pipe or a device. Raises DataError when it cannot be read.
    """
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise DataError("standard input is closed; name a file as input")
        yield sys.stdin.buffer
        return
    archive, member = split_member(path)
    with open_file(archive, read_once) as file:
        start = file.peek(_CHUNK_BYTES) if archive.is_file() else b""  # a pipe may have nothing to read yet
        if is_archive(start):
            with open_member(file, archive, member) as content:
                yield content
            return
        if member is not None:
            raise DataError(f"{archive}: expected a zip archive, which contains {member}; found another kind of file")
        named = compression_named(path.suffix)
        if named is not None and start and compression_of(start) != named:
            raise DataError(
                f"{path}: not {named.name} data, though the name ends in {named.suffix}; rename it, or copy it again"
            )
        yield file


def open_file(path: Path, read_once: bool = False) -> io.BufferedReader:
    """Open a file as it is. Raises DataError when it is no readable file; with `read_once` it may be a pipe."""
    try:
        if path.is_dir():
            raise DataError(f"{path}: expected a text file, found a folder")
        if path.exists() and not (read_once or path.is_file()):
            raise DataError(
                f"{path}: expected a text file, found something that can be read only once; save it to a file"
            )
        return path.open("rb")
    except FileNotFoundError:
        folders = pairwise(path.parts[:-1])
        fetched = any(above == "data" and folder.startswith(_DOWNLOADED_FOLDERS) for above, folder in folders)
        advice = "; run `make data` to fetch the corpora that the shipped recipes use" if fetched else ""
        raise DataError(f"{path}: no such file{advice}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot read it: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{str(path)!r}: no file can have such a name; write another one") from None


class _ChunkStream(io.RawIOBase):
    """Chunks that were made from a stream, as a stream."""

    def __init__(self, stream: BinaryIO, chunks: Iterator[bytes]) -> None:
        self._stream = stream
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        self._rest = self._rest or next(filter(None, self._chunks), b"")
        size = min(len(view), len(self._rest))
        view[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _text_chunks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the bytes of a text as they arrive, unpacked and checked."""
    chunks = _unpacked_chunks(stream, name)
    first = _first_block(chunks)
    inner = compression_of(first)
    refusal = _other_content(first) if inner is None else f"{inner.name} data inside compressed data; unpack it once"
    if refusal is not None:
        raise DataError(f"{name}: expected text in UTF-8, found {refusal}")
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from chunks


def _unpacked_chunks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the bytes of a stream as they arrive, unpacked if they are compressed.

    Raises DataError, which begins with `name`, for an error of reading and for damaged data.
    """
    read = getattr(stream, "read1", stream.read)  # returns what is there instead of waiting for a full chunk
    chunks = iter(lambda: read(_CHUNK_BYTES) or b"", b"")
    try:
        first = _first_block(chunks)
        compression = compression_of(first)
        arriving = chain([first], chunks)
        yield from arriving if compression is None else unpacked(arriving, compression, name)
    except OSError as error:
        raise DataError(f"{name}: reading failed: {error.strerror or error}") from None
    except (BadZipFile, zlib.error, LZMAError, EOFError) as error:  # the others are reported by `unpacked`
        raise DataError(f"{name}: damaged zip archive ({error}); copy or download it again") from None


def _first_block(chunks: Iterator[bytes]) -> bytes:
    """Return the first chunks up to a full block or the end of a line, whichever comes first."""
    block = b""
    for chunk in chunks:
        block += chunk
        if b"\n" in chunk or len(block) >= _CHUNK_BYTES or compression_of(block) is not None:
            break
    return block


def _other_content(block: bytes) -> str | None:
    """Return what the first block of a file holds instead of UTF-8, and what to do about it; None if it is text."""
    for signature, found in _SIGNATURES.items():
        if block.startswith(signature):
            return found
    if block[5:9] == b"\0\0\0{":
        return "a safetensors file"
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if block.startswith(mark)), None)
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    invalid = len(block) - len(decoder.decode(block).encode()) - len(decoder.getstate()[0])
    controls = len(block) - len(block.translate(None, _CONTROLS))
    if encoding is None and invalid + controls < max(_SUSPICIOUS_BYTES, _SUSPICIOUS_SHARE * len(block)):
        return None
    if encoding is None and b"\0" in block:
        encoding = next((name for name in _WIDE_ENCODINGS if _decodes(block, name)), None)
    if encoding is not None:
        return f"{encoding}; convert it: iconv -f {encoding} -t UTF-8 FILE > NEWFILE"
    if controls > invalid / 10:
        return "binary data"
    return (
        f"another encoding: {invalid / len(block):.0%} of its first bytes are not UTF-8; convert it from what it is "
        "written in: iconv -f GB18030 -t UTF-8 FILE > NEWFILE (or -f BIG5, SHIFT_JIS, CP1251, …)"
    )


def _decodes(block: bytes, encoding: str) -> bool:
    """Whether the start of a file is text in an encoding of 16 or 32 bits: nearly all of it printable."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(block)
    except UnicodeDecodeError:
        return False
    return sum(character.isprintable() or character.isspace() for character in text) > 0.95 * len(text)
