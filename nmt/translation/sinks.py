"""Where translations go: to a stream, or into a file that goes on where it stopped if its process is killed.

    FILE.partial            what is done so far; takes the name FILE when all is done
    FILE.partial.journal    a line for the work that is being done, then one for each piece that is on the disk for good

A piece is written and synced before the journal mentions it, so what the journal does not mention is cut off and done
again: the file that comes out is, byte for byte, that of a process which nobody killed.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from nmt.errors import ConfigError, DataError
from nmt.system.console import counted
from nmt.system.files import sync

_FORMAT_VERSION = 1

Work = Mapping[str, str | int | float | bool | None]
"""All that decides what is written, apart from the input; names are what users call them."""


class Output(Protocol):
    """Takes what became of the input's lines, a piece at a time."""

    @property
    def lines(self) -> int:
        """How many lines of the input are done."""

    @property
    def watched(self) -> bool:
        """Whether a person sees what is written."""

    def rest(self, pieces: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """Return the input, in pieces of lines without `\\n`, without what is done."""

    def add(self, piece: Sequence[bytes], text: str) -> None:
        """Write what became of a piece. Raises DataError when the disk fails, BrokenPipeError if nobody reads."""


class StreamOutput:
    """A pipe, a terminal, a device: what was written is gone, and nobody goes on after it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.lines = 0
        self.watched = stream.isatty()

    def rest(self, pieces: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """Return all: nothing is done."""
        return iter(pieces)

    def add(self, piece: Sequence[bytes], text: str) -> None:
        """Write it."""
        write_all(self._stream, text.encode())
        self.lines += len(piece)


class ResumableFile:
    """A file in the making, held by one process at a time. `resumable_file` opens and ends it."""

    watched = False

    def __init__(self, partial: Path, stream: BinaryIO, work: Work) -> None:
        """Go on with what stands in the file. Raises ConfigError if that is other work's, or nobody knows whose."""
        self._partial = partial
        self._stream = stream
        self._input = hashlib.sha256()
        size = os.fstat(stream.fileno()).st_size
        kept = _read_journal(partial, work) if size else _Kept()
        self.lines, self._bytes, self._expected = kept.lines, kept.bytes, kept.input
        self._stream.truncate(kept.bytes)
        self._journal = journal_of(partial).open("ab", buffering=0)
        self._journal.truncate(kept.journal_bytes)
        if not self.lines:
            self._journal.truncate(0)
            self._note({"format_version": _FORMAT_VERSION, "work": dict(work)})
        os.fsync(self._journal.fileno())

    def rest(self, pieces: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """Return what is left of the input. Raises ConfigError if what is done was made from other lines."""
        remaining = self.lines
        for piece in pieces:
            done, left = piece[:remaining], piece[remaining:]
            remaining -= len(done)
            self._read(done)
            if done and not remaining and self._input.hexdigest() != self._expected:
                raise ConfigError(
                    f"{self._partial}: its first {counted(self.lines, 'line')} came from another input; "
                    f"give the same input to go on, or remove {self._partial} to start afresh"
                )
            if left:
                yield left
        if remaining:
            raise ConfigError(
                f"{self._partial}: made from another input: {counted(self.lines, 'line')} of it done, but this one has "
                f"{self.lines - remaining:,}; give the same input, or remove {self._partial} to start afresh"
            )

    def add(self, piece: Sequence[bytes], text: str) -> None:
        """Write it, and once it is on the disk, say so in the journal."""
        data = text.encode()
        write_all(self._stream, data)
        _sync(self._stream)
        self._read(piece)
        self.lines += len(piece)
        self._bytes += len(data)
        written = hashlib.sha256(data).hexdigest()
        self._note({"lines": self.lines, "bytes": self._bytes, "input": self._input.hexdigest(), "output": written})

    def close(self) -> None:
        """Let go of the journal."""
        self._journal.close()

    def _read(self, lines: Sequence[bytes]) -> None:
        if lines:
            self._input.update(b"\n".join(lines) + b"\n")

    def _note(self, entry: Mapping[str, Any]) -> None:
        write_all(self._journal, (json.dumps(entry, ensure_ascii=False) + "\n").encode())


@contextmanager
def resumable_file(file: Path, work: Work) -> Iterator[ResumableFile]:
    """Yield the file's forerunner, with what is done of the same work; it takes the name `file` on leaving.

    After an exception it stays, to be gone on with. Raises ConfigError if it belongs to other work or if another
    process holds it, DataError if it cannot be written.
    """
    file = file.resolve()  # behind a symbolic link, the forerunner belongs where the link leads
    partial = partial_of(file)
    try:
        stream = partial.open("ab", buffering=0)
    except OSError as error:
        raise DataError(f"{file}: cannot write it: {error.strerror or error}") from None
    with stream:
        _lock(partial, stream.fileno())
        with contextlib.closing(ResumableFile(partial, stream, work)) as output:
            yield output
        _sync(stream)
        partial.replace(file)
        journal_of(partial).unlink(missing_ok=True)
    sync(file.parent)


def partial_of(file: Path) -> Path:
    """Return where a file is written until it is whole."""
    return file.with_name(file.name + ".partial")


def journal_of(partial: Path) -> Path:
    """Return where it stands how much of that is certain."""
    return partial.with_name(partial.name + ".journal")


def write_all(stream: BinaryIO, data: bytes) -> None:
    """Write past the buffer, where what a full disk refused would wait and fail again at exit."""
    raw = getattr(stream, "raw", stream)
    rest = memoryview(data)
    with _refusal_explained():
        while rest:
            rest = rest[raw.write(rest) or 0 :]


def _sync(stream: BinaryIO) -> None:
    with _refusal_explained():
        os.fsync(stream.fileno())


@contextmanager
def _refusal_explained() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"cannot write the translations: {error.strerror or error}") from None


@dataclass(frozen=True)
class _Kept:
    """How far the work is, by the last line of the journal before one that speaks of bytes that are not there."""

    lines: int = 0
    bytes: int = 0
    input: str = ""
    journal_bytes: int = 0


def _read_journal(partial: Path, work: Work) -> _Kept:
    """Return how much of a forerunner is certain. Raises ConfigError if it is of other work."""
    file = journal_of(partial)
    try:
        head, *entries = file.read_bytes().splitlines(keepends=True)
        known = json.loads(head)
        before = dict(known["work"]) if known["format_version"] == _FORMAT_VERSION else {}
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{partial}: cannot go on: {file.name}, which says what it was made from, is missing or damaged; "
            f"remove {partial} to start afresh"
        ) from None
    now = dict(work)
    changes = [
        f"  {key}: was {before.get(key)}, now {now.get(key)}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]
    if changes:
        raise ConfigError(
            "\n".join([f"{partial}: begun by another command; give that one, or remove it to start afresh", *changes])
        )
    kept = _Kept(journal_bytes=len(head))
    with partial.open("rb") as written:
        for line in entries:
            try:
                entry = json.loads(line)
                piece = written.read(entry["bytes"] - kept.bytes)
                certain = line.endswith(b"\n") and hashlib.sha256(piece).hexdigest() == entry["output"]
            except (ValueError, KeyError, TypeError):  # torn in the midst of writing
                certain = False
            if not certain:
                break
            kept = _Kept(entry["lines"], entry["bytes"], entry["input"], kept.journal_bytes + len(line))
    return kept


def _lock(partial: Path, descriptor: int) -> None:
    """Hold the file as long as it is open. Raises ConfigError if another process does, or has just finished it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"{partial}: another process is writing it; let it end, or name another output") from None
    except OSError:
        return  # a file system without locks
    if not (partial.exists() and os.path.samestat(os.fstat(descriptor), partial.stat())):
        raise ConfigError(f"{partial}: another process has just finished it")
