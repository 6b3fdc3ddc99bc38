"""Open files, members of zip archives and standard input; unpack them; read lines of UTF-8, which end at `\\n` only.

Compression is recognized by the content, whatever the name. `read_lines` names file and line of an invalid byte; `nmt
translate` decodes each line with `decode_line`, since it has an output line for every input line.
"""

import bz2
import codecs
import errno
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO
from zipfile import BadZipFile, ZipFile

from nmt.errors import DataError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STANDARD_INPUT = Path("-")
CR_TO_LF = "tr '\\r' '\\n' < FILE > NEWFILE"
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
# By the first bytes of a file.
_OPENERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open, b"\x28\xb5\x2f\xfd": zstd.open,
}  # fmt: skip
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_WORD = "word/document.xml"  # a member of every .docx, which is opened as it is
# Members of an archive that are no text for training: folders, hidden files, descriptions, alignments (OPUS).
_NO_TEXT = re.compile(r"(^|/)([._]|(readme|licen[cs]e|copying|copyright|about|changelog)\b)|/$|\.(xml|ids|rels)$", re.I)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLOCK_BYTES = 1 << 16
_FIRST_BYTES, _SUSPICIOUS_BYTES, _SUSPICIOUS_SHARE = 1 << 13, 8, 0.3
_DOWNLOADED_FOLDERS = ("tatoeba-", "more-en-", "flores200", "newstest")  # filled by `make data`


def decode_line(raw: bytes) -> str:
    """Return a line of input as text, without its `\\n` or `\\r\\n`; bytes that are not UTF-8 become U+FFFD."""
    return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", errors="replace")


def input_name(path: Path) -> str:
    """Return the name of an input in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def read_lines(path: Path, read_once: bool = False) -> Iterator[str]:
    """Yield the lines of a text without their `\\n` or `\\r\\n`; it is opened as by `open_content`.

    Raises DataError as `open_content` does, for another encoding, for a byte that is not UTF-8 (with its line), and if
    most lines end at `\\r` only.
    """
    with open_content(path, read_once) as stream:
        begin_text(stream, path)
        number = 1
        while block := b"".join(stream.readlines(_BLOCK_BYTES)):  # decoded at once, in half the time
            try:
                text = block.decode()
            except UnicodeDecodeError as error:
                before, newline = block[: error.start], b"\n"
                raise DataError(
                    f"{input_name(path)}:{number + before.count(newline)}: not UTF-8: found the byte "
                    f"0x{block[error.start]:02X} at byte {error.start - before.rfind(newline)} of the line; correct "
                    f"it, or {_advice(block)}"
                ) from None
            if number == 1 and text.rstrip("\r").count("\r") - text.count("\r\n") > text.count("\n"):
                raise DataError(f"{input_name(path)}: lines end at CR, expected LF; convert them: {CR_TO_LF}")
            lines = text.removesuffix("\n").split("\n")
            number += len(lines)
            yield from lines if "\r" not in text else (line.removesuffix("\r") for line in lines)


def begin_text(stream: BinaryIO, path: Path) -> None:
    """Skip a byte order mark of UTF-8 in a stream. Raises DataError for other encodings and binary data."""
    start = first_bytes(stream)
    if start[257:262] == b"ustar":
        raise DataError(f"{input_name(path)}: expected text, found a tar archive; unpack it: tar -xf FILE")
    suspicious = len(start) - len(start.decode(errors="ignore").encode()) + start.count(0)
    if suspicious >= max(_SUSPICIOUS_BYTES, _SUSPICIOUS_SHARE * len(start)) or start.startswith(_UTF16):
        problem = f"{suspicious} of the first {len(start)} bytes belong to another encoding or to binary data"
        raise DataError(f"{input_name(path)}: expected text in UTF-8, {problem}; {_advice(start)}")
    if start.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))


def first_bytes(stream: BinaryIO) -> bytes:
    """Return the first bytes of a stream without consuming them; none of a terminal, which would wait for input."""
    peek = getattr(stream, "peek", lambda _: b"")
    return b"" if stream.isatty() else bytes(peek(_FIRST_BYTES))


def _advice(raw: bytes) -> str:
    """Return how to convert bytes that are not UTF-8, by the encoding that they probably have."""
    text = raw.decode(errors="replace")
    if sum(sign > "\x7f" for sign in text) > 2 * text.count("\ufffd"):  # most characters are right
        return "leave such bytes out: iconv -c -f UTF-8 -t UTF-8 FILE > NEWFILE"
    if raw.startswith(_UTF16) or raw.count(0) > len(raw) // 100:  # each line end of a Chinese text has a zero
        encoding = "UTF-16"
    else:  # most bytes of Chinese in GB18030 are not ASCII, few of a European text in Latin-1
        encoding = "GB18030" if sum(byte >= 0x80 for byte in raw) > len(raw) // 3 else "LATIN1"
    return f"convert it from its encoding (LATIN1, UTF-16, GB18030, …): iconv -f {encoding} -t UTF-8 FILE > NEWFILE"


@contextmanager
def open_content(path: Path, read_once: bool = False) -> Iterator[io.BufferedReader]:
    """Open `-`, a file, or a member of a zip archive (`archive.zip/member`, by default its only text); decompress it.

    With `read_once`, it may be a pipe or a device. Raises DataError if it cannot be opened, or later if a read fails.
    """
    archive, member = split_member(path)
    opened: Any = nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else open_file(archive, read_once)
    with _damage_reported(path), opened as stream:
        file = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
        start = b"" if file.isatty() else file.peek(6)
        if start.startswith(_ZIP) and archive.is_file():
            with ZipFile(file) as members:
                if member is None and _WORD in members.namelist():
                    file.seek(0)
                    yield file
                    return
                with _open_member(archive, members, member) as content:
                    yield _decompressed(io.BufferedReader(content))
        elif member is not None:
            raise DataError(f"{archive}: expected a zip archive with the member {member}, found another kind of file")
        else:
            yield _decompressed(file)


def _decompressed(file: Any) -> io.BufferedReader:
    start = b"" if file.isatty() else file.peek(6)
    opener = next((opener for signature, opener in _OPENERS.items() if start.startswith(signature)), None)
    return file if opener is None else io.BufferedReader(opener(file))


def open_file(path: Path, read_once: bool = False) -> io.BufferedReader:
    """Open a file without decompression. Raises DataError unless it is a readable file, or with `read_once` a pipe."""
    if path.is_dir() or (path.exists() and not (read_once or path.is_file())):
        kind = "a folder" if path.is_dir() else "something that can be read only once; save it to a file"
        raise DataError(f"{path}: expected a file, found {kind}")
    try:
        return path.open("rb")
    except FileNotFoundError:
        advice = "; a recipe has no patterns: list the files" if re.search(r"[*?\[]", path.name) else ""
        if any(folder.startswith(_DOWNLOADED_FOLDERS) for folder in path.parts[:-1]):
            advice = "; run `make data` to fetch the corpora that the shipped recipes use"
        raise DataError(f"{path}: no such file{advice}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot read it: {error.strerror}") from None


def split_member(path: Path) -> tuple[Path, str | None]:
    """Split a path into a file on disk and the member of that zip archive, None if the path names no member.

    >>> split_member(Path("data/corpus.txt"))
    (PosixPath('data/corpus.txt'), None)
    """
    archive = next((above for above in path.parents if above.suffix.lower() == ".zip" and above.is_file()), None)
    return (path, None) if archive is None else (archive, path.relative_to(archive).as_posix())


def text_members(path: Path) -> list[str]:
    """Return the names of the texts in an archive, sorted; empty if the name does not end in .zip."""
    if path.suffix.lower() != ".zip":
        return []
    with open_file(path) as file, _damage_reported(path), ZipFile(file) as archive:
        return _texts(archive)


def _texts(archive: ZipFile) -> list[str]:
    return sorted(name for name in archive.namelist() if not _NO_TEXT.search(name))


def _open_member(path: Path, archive: ZipFile, name: str | None) -> IO[bytes]:
    """Open a member of an archive, by default its only text."""
    texts = _texts(archive)
    chosen = texts if name is None else [name] if name in archive.namelist() else []
    if len(chosen) != 1:
        problem = f"expected an archive of one text, found {len(texts)}" if name is None else f"no member {name}"
        advice = f"name one as {path}/NAME ({', '.join(texts[:8])})"
        raise DataError(f"{path}: {problem}; {advice if texts else 'save it as text or CSV (UTF-8)'}")
    try:
        return archive.open(chosen[0])
    except RuntimeError as error:  # encrypted, or compressed in a rare way
        raise DataError(f"{path}: cannot read {chosen[0]}: {error}; extract it with another program") from None


@contextmanager
def limits_reported(name: str) -> Iterator[None]:
    """Raise DataError, with the name of an input, if its content exceeds a limit of recursion, of numbers or of RAM."""
    try:
        yield
    except (RecursionError, OverflowError, MemoryError) as error:
        reasons = {RecursionError: "nested too deeply", OverflowError: "a number in it is too large"}
        reason = reasons.get(type(error), "too large for the RAM")
        raise DataError(f"{name}: cannot read it: {reason}; make it simpler, or split it into several files") from None


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError, BadZipFile, NotImplementedError, OSError) as error:
        code = getattr(error, "errno", None)  # without one, it is of a decompressor
        if code == errno.EBADF:
            raise DataError("standard input is closed; name a file, for nmt translate with -i") from None
        if code not in (None, errno.EINVAL):  # EINVAL: a negative position in an archive
            raise
        raise DataError(f"{input_name(path)}: damaged or incomplete ({error}); copy or download it again") from None
