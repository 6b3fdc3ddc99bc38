"""Outputs: a stream, or a file that an interrupted process leaves resumable.

    FILE.partial         the output so far; renamed to FILE when complete
    FILE.partial.json    the fingerprint of the work, and how far it is done: lines, bytes, digest of the input

A batch is written before it is recorded. Resuming truncates FILE.partial to the recorded length, so the complete file
equals, byte for byte, that of an uninterrupted process.
"""

import fcntl
import hashlib
import io
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from nmt.config.recorded import differences
from nmt.errors import ConfigError, DataError
from nmt.system.console import counted
from nmt.system.distributed import rank
from nmt.system.files import disk_errors, real_path, write_output

Fingerprint = dict[str, Any]
"""Everything apart from the input that determines the output, as JSON, by the names in recipes and options."""


class StreamOutput:
    """Writes the results of line batches, in order, to a pipe, a terminal or a device, where nothing can be resumed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.lines = 0  # input lines that are processed
        self.is_terminal = stream.isatty()

    def remaining(self, batches: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """Return batches of input lines without those that are processed."""
        return iter(batches)

    def write(self, lines: Sequence[bytes], text: str) -> None:
        """Write the result of input lines. Raises DataError if the disk fails, BrokenPipeError for a closed pipe."""
        self.write_bytes(text.encode())
        self.lines += len(lines)

    def write_bytes(self, data: bytes) -> None:
        """Write bytes. Raises DataError if the disk fails, BrokenPipeError for a closed pipe."""
        _write_all(self._stream, data)


class ResumableFile(StreamOutput):
    """A file that is being written by one process. `resumable_file` opens and closes it."""

    def __init__(self, partial: Path, stream: BinaryIO, record: dict[str, Any]) -> None:
        super().__init__(stream)
        self._partial, self._record, self._input = partial, record, hashlib.sha256()
        self.lines = record["lines"]
        stream.truncate(record["bytes"])
        self._write_record()

    def remaining(self, batches: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """Return the batches after the processed lines. Raises ConfigError if those came from another input."""
        left = self.lines
        for batch in batches:
            processed, unprocessed = batch[:left], batch[left:]
            left -= len(processed)
            self._hash(processed)
            if processed and not left and self._input.hexdigest() != self._record["input"]:
                raise ConfigError(
                    f"{self._partial}: its first {counted(self.lines, 'line')} came from another input; "
                    f"give the same input to continue, or remove {self._partial} to start again"
                )
            if unprocessed:
                yield unprocessed
        if left:
            raise ConfigError(
                f"{self._partial}: made from another input: {counted(self.lines, 'line')} of it done, but this one has "
                f"{self.lines - left:,}; give the same input, or remove {self._partial} to start again"
            )

    def write(self, lines: Sequence[bytes], text: str) -> None:
        """Write the text, then record how far the file is complete."""
        data = text.encode()
        self.write_bytes(data)
        self._hash(lines)
        self.lines += len(lines)
        done = {"lines": self.lines, "bytes": self._record["bytes"] + len(data), "input": self._input.hexdigest()}
        self._record |= done
        self._write_record()

    def _write_record(self) -> None:
        record, new = _records_of(self._partial)
        with _disk_errors():
            new.write_text(json.dumps(self._record, ensure_ascii=False), encoding="utf-8")
            new.replace(record)

    def _hash(self, lines: Sequence[bytes]) -> None:
        if lines:
            self._input.update(b"\n".join(lines) + b"\n")


@contextmanager
def open_output(path: Path | None, fingerprint: Fingerprint, resumable: bool = True) -> Iterator[StreamOutput]:
    """Open a file, by default stdout; in the first process only, the others write nothing.

    Raises DataError if it cannot be opened, and as `resumable_file` does.
    """
    if rank() > 0:
        yield StreamOutput(io.BytesIO())
    elif path is None:
        if sys.stdout is None:
            raise DataError("standard output is closed; name a file with --output")
        yield StreamOutput(sys.stdout.buffer)
    elif resumable and not is_stream(path):
        with resumable_file(path, fingerprint) as output:
            yield output
    else:
        try:
            stream = path.open("wb")
        except OSError as error:
            raise DataError(f"{path}: cannot write it: {error.strerror or error}") from None
        with stream:
            yield StreamOutput(stream)


def write_whole(path: Path | None, data: bytes) -> None:
    """Write a complete output: a file atomically, by default to stdout; in the first process only.

    Raises DataError for an error of the file system.
    """
    if rank() > 0:
        return
    if path is not None and not is_stream(path):
        write_output(path, data)
    else:
        with open_output(path, {}) as output:
            output.write_bytes(data)


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device or an open stream, which cannot be replaced or resumed."""
    if path.absolute().parts[1:2] in (("dev",), ("proc",)):
        return os.path.lexists(path)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def resumable_file(file: Path, fingerprint: Fingerprint) -> Iterator[ResumableFile]:
    """Yield the partial file, with the output of the same work so far; renamed to `file` at the end.

    After an exception it stays, unless it is empty. Raises ConfigError if the partial file is of other work or is being
    written by another process; DataError if it cannot be written.
    """
    place = real_path(file)
    partial = place.with_name(f"{place.name}.partial")
    with disk_errors(file):
        stream = partial.open("ab", buffering=0)
    with stream:
        _lock(stream, partial)
        try:
            record = _read_record(partial, fingerprint)
        except ConfigError:
            if not partial.stat().st_size:
                partial.unlink()
            raise
        with suppress(FileNotFoundError):
            partial.chmod(stat.S_IMODE(place.stat().st_mode))
        output = ResumableFile(partial, stream, record)
        try:
            yield output
        except BaseException:
            if not output.lines:  # nothing to resume
                _remove(partial)
            raise
        with disk_errors(file):
            os.fsync(stream.fileno())
            partial.replace(place)
        _remove(partial)


def _remove(partial: Path) -> None:
    """Remove a partial file, if it is there, and its record."""
    for path in (partial, *_records_of(partial)):
        path.unlink(missing_ok=True)


def _lock(stream: BinaryIO, partial: Path) -> None:
    """Raise ConfigError if another process writes a partial file, or has just finished it."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            f"{partial}: another process is writing it; wait for its end, or name another output"
        ) from None
    except OSError:  # a file system without locks
        return
    if not (partial.exists() and os.path.samestat(os.fstat(stream.fileno()), partial.stat())):
        raise ConfigError(f"{partial}: another process has just finished it")


def _write_all(stream: BinaryIO, data: bytes) -> None:
    """Write without a buffer: data left in one after an error of the disk would cause another error at exit."""
    raw = getattr(stream, "raw", stream)
    rest = memoryview(data)
    with _disk_errors():
        while rest:
            rest = rest[raw.write(rest) or 0 :]


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"cannot write the translations: {error.strerror or error}") from None


def _records_of(partial: Path) -> tuple[Path, Path]:
    """Return the file of the record, and the one in which a new record is written."""
    return partial.with_name(f"{partial.name}.json"), partial.with_name(f"{partial.name}.json.new")


def _read_record(partial: Path, fingerprint: Fingerprint) -> dict[str, Any]:
    """Return how far a partial file is complete. Raises ConfigError if it is of other work."""
    new = {"fingerprint": fingerprint, "lines": 0, "bytes": 0, "input": ""}
    file, size = _records_of(partial)[0], partial.stat().st_size
    if not size and not file.exists():
        return new
    try:
        record = json.loads(file.read_bytes())
        before = dict(record["fingerprint"])
        is_whole = record.keys() == new.keys() and (not size or record["bytes"] <= size)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise ConfigError(
            f"{partial}: cannot continue: {file.name}, the record of its work, is missing or damaged; remove both to "
            "start again, if nmt wrote them"
        )
    if not size:
        return new
    if before != fingerprint:
        changes = "".join(f"\n  {change}" for change in differences(before, fingerprint))
        raise ConfigError(f"{partial}: begun by another command; repeat that, or remove it to start again{changes}")
    return dict(record)
