"""Read parallel text: lines that end at `\\n` and nowhere else, pairs that know where they came from."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import IO, cast

from nmt.config import CorpusFile
from nmt.errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"
_FETCHED = ("tatoeba-", "more-en-", "flores200", "newstest")
"""Folders below `data/` that `make data` fills."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence, its translation, and the place where they were read (line counted from 1)."""

    source: str
    target: str
    file: str
    line: int


def decode_line(raw: bytes) -> str:
    """Return a line of input as text, without its `\\n` or `\\r\\n`; bytes that are not UTF-8 become U+FFFD."""
    return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", errors="replace")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, plain or gzip, without their `\\n` or `\\r\\n` and without a leading BOM.

    Raises DataError: no such file, damaged gzip, or bytes that are not UTF-8 (with file and line).
    """
    number = 0
    with _readable(path), _unpacked(path) as file:
        for raw in file:
            number += 1
            try:
                line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(_not_utf8(path, number, raw, error)) from None
            yield line.removeprefix("\ufeff") if number == 1 else line


def read_pairs(corpus: CorpusFile) -> Iterator[SentencePair]:
    """Yield the pairs of a corpus in order, as they stand in the file; a blank line is a pair of empty sentences.

    Raises DataError: a tsv line without its columns, or two files that differ in their number of lines.
    """
    if corpus.tsv is not None:
        return _read_tsv(corpus.tsv, corpus.columns)
    assert corpus.source is not None
    assert corpus.target is not None
    return _read_two_files(corpus.source, corpus.target)


def input_files(corpus: CorpusFile) -> list[Path]:
    """Return the files that a corpus is read from."""
    return [path for path in (corpus.tsv, corpus.source, corpus.target) if path is not None]


def open_file(path: Path) -> io.BufferedReader:
    """Open a file as it is. Raises DataError when it is no readable file."""
    try:
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "something that can be read only once; save it to a file"
            raise DataError(f"{path}: expected a text file, found {kind}")
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file{_how_to_fetch(path)}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot read it: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{str(path)!r}: no file can have such a name; write another one") from None


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, through gzip if that is what it holds."""
    with open_file(path) as raw:
        start = raw.peek(2)[:2]
        if start == _GZIP_MAGIC:
            with gzip.open(raw, "rb") as unpacked:
                yield cast(IO[bytes], unpacked)
        elif path.suffix == ".gz" and start:
            raise DataError(f"{path}: not gzip data, though the name ends in .gz; rename it, or copy it again")
        else:
            yield raw


def _read_tsv(path: Path, columns: tuple[int, int]) -> Iterator[SentencePair]:
    source, target = columns[0] - 1, columns[1] - 1
    needed = max(columns)
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) < needed:
            if line and not line.isspace():
                raise DataError(_too_few_columns(path, number, fields, columns))
            fields = [""] * needed
        yield SentencePair(fields[source], fields[target], str(path), number)


def _read_two_files(source: Path, target: Path) -> Iterator[SentencePair]:
    sources, targets = read_lines(source), read_lines(target)
    for number, (source_line, target_line) in enumerate(zip_longest(sources, targets), start=1):
        if source_line is None or target_line is None:
            total = number + sum(1 for _ in (targets if source_line is None else sources))
            short, long = (source, target) if source_line is None else (target, source)
            raise DataError(
                f"{long}:{number}: no line to pair with: {long} has {total:,} lines, {short} has {number - 1:,}. "
                "The two files must hold a sentence and its translation on lines of the same number"
            )
        yield SentencePair(source_line, target_line, str(source), number)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what can go wrong in the midst of a file into a DataError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file ({error}); copy or download it again") from None
    except OSError as error:
        raise DataError(f"{path}: reading failed: {error.strerror or error}") from None


def _too_few_columns(path: Path, number: int, fields: list[str], columns: tuple[int, int]) -> str:
    found = "1 column (no tab)" if len(fields) == 1 else f"{len(fields)} columns"
    start = "\t".join(fields)
    shown = repr(start if len(start) <= 60 else start[:60] + "…")
    return (
        f"{path}:{number}: found {found}, expected at least {max(columns)}, "
        f"since the source is column {columns[0]} and the target column {columns[1]}: {shown}. "
        "Separate the columns with one tab, or set `columns` of this corpus in the recipe"
    )


def _not_utf8(path: Path, number: int, raw: bytes, error: UnicodeDecodeError) -> str:
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"{path}:1: the file is UTF-16, expected UTF-8. Convert it: iconv -f UTF-16 -t UTF-8 FILE"
    return (
        f"{path}:{number}: not UTF-8: found the byte 0x{raw[error.start]:02X} at byte {error.start + 1} of the line. "
        "Mend the line, or convert the file: iconv -f LATIN1 -t UTF-8 FILE, if Latin-1 is what it is"
    )


def _how_to_fetch(path: Path) -> str:
    folders = path.parts[:-1]
    fetched = any(above == "data" and folder.startswith(_FETCHED) for above, folder in pairwise(folders))
    return "; run `make data` to fetch the corpora that the shipped recipes use" if fetched else ""
