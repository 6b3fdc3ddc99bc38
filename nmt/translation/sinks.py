"""Outputs: a stream, or a file that an interrupted process leaves resumable.

    FILE.partial            the output so far; renamed to FILE when complete
    FILE.partial.journal    a line with the fingerprint of the work, then one for each batch that is on the disk

A batch is written and synced before the journal records it. Resuming truncates FILE.partial to the recorded batches, so
the complete file equals, byte for byte, that of an uninterrupted process.
"""

import contextlib
import hashlib
import io
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from nmt.config.recorded import differences
from nmt.errors import ConfigError, DataError
from nmt.system.console import counted
from nmt.system.distributed import rank
from nmt.system.files import has_name, lock, replace_file
from nmt.system.ownership import check_file, write_output

_FORMAT_VERSION = 2

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

    def __init__(
        self, partial: Path, stream: BinaryIO, journal: BinaryIO, done: "_Done", fingerprint: Fingerprint
    ) -> None:
        super().__init__(stream)
        self._partial, self._journal, self._input = partial, journal, hashlib.sha256()
        self.lines, self._bytes, self._expected_input = done.lines, done.bytes, done.input
        stream.truncate(done.bytes)
        journal.truncate(done.journal_bytes)
        if not self.lines:
            journal.truncate(0)
            self._record({"format_version": _FORMAT_VERSION, "fingerprint": fingerprint})
        os.fsync(journal.fileno())

    def remaining(self, batches: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """Return the batches after the processed lines. Raises ConfigError if those came from another input."""
        left = self.lines
        for batch in batches:
            processed, unprocessed = batch[:left], batch[left:]
            left -= len(processed)
            self._hash(processed)
            if processed and not left and self._input.hexdigest() != self._expected_input:
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
        """Write and sync the text, then record it in the journal."""
        data = text.encode()
        _write_all(self._stream, data)
        with _disk_errors():
            os.fsync(self._stream.fileno())
        self._hash(lines)
        self.lines += len(lines)
        self._bytes += len(data)
        written = hashlib.sha256(data).hexdigest()
        self._record({"lines": self.lines, "bytes": self._bytes, "input": self._input.hexdigest(), "output": written})

    def _hash(self, lines: Sequence[bytes]) -> None:
        if lines:
            self._input.update(b"\n".join(lines) + b"\n")

    def _record(self, entry: Mapping[str, Any]) -> None:
        _write_all(self._journal, (json.dumps(entry, ensure_ascii=False) + "\n").encode())


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

    Raises ConfigError if the file must not be replaced, DataError for an error of the file system.
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

    After an exception it stays, unless it is empty. Raises ConfigError if `file` must not be replaced, if the partial
    file is of other work or is being written by another process; DataError if it cannot be written.
    """
    file = check_file(file)
    partial, journal_path = (file.with_name(f"{file.name}.{kind}") for kind in ("partial", "partial.journal"))
    with contextlib.ExitStack() as files:
        stream = files.enter_context(_open_beside(file, partial))
        if lock(stream.fileno()) == "busy":
            raise ConfigError(f"{partial}: another process is writing it; wait for its end, or name another output")
        if not has_name(stream.fileno(), partial):
            raise ConfigError(f"{partial}: another process has just finished it")
        own = [partial]
        try:
            done = _read_journal(partial, journal_path, fingerprint)
            journal = files.enter_context(_open_beside(file, journal_path))
            output = ResumableFile(partial, stream, journal, done, fingerprint)
            own.append(journal_path)
            yield output
        except BaseException:
            has_output = os.fstat(stream.fileno()).st_size > 0
            for path in [] if has_output else own:  # nothing to resume
                path.unlink()
            raise
        with _disk_errors():
            os.fsync(stream.fileno())
            replace_file(partial, file)
        journal_path.unlink(missing_ok=True)


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


def _open_beside(file: Path, path: Path) -> BinaryIO:
    """Open or create a file to append to, readable at most by those who may read `file`; no links, no waiting."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return open(os.open(path, flags, 0o600 if file.exists() else 0o666), "ab", buffering=0)
    except OSError as error:
        raise DataError(f"{file}: cannot write it: {path.name}: {error.strerror}; name another output") from None


class _Done(NamedTuple):
    """The state after the last batch that both files hold."""

    lines: int = 0
    bytes: int = 0
    input: str = ""
    journal_bytes: int = 0


def _read_journal(partial: Path, journal: Path, fingerprint: Fingerprint) -> _Done:
    """Return how much of a partial file is complete. Raises ConfigError if it, or the journal, is of other work."""
    data, size = journal.read_bytes() if journal.exists() else b"", partial.stat().st_size
    if not data and not size:
        return _Done()
    head, *entries = data.splitlines(keepends=True) or [b""]
    try:
        first = json.loads(head)
        version = first["format_version"]
        before = dict(first["fingerprint"]) if version == _FORMAT_VERSION else {}
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{partial}: cannot continue: {journal.name}, the record of its work, is missing or damaged; remove both "
            "to start again, if nmt wrote them"
        ) from None
    if not size:
        return _Done()
    if version != _FORMAT_VERSION:
        raise ConfigError(
            f"{partial}: written by another version of nmt (format {version}, expected {_FORMAT_VERSION}); finish it "
            f"with that version, or remove {partial} to start again"
        )
    if before != fingerprint:
        changes = "".join(f"\n  {change}" for change in differences(before, fingerprint))
        raise ConfigError(f"{partial}: begun by another command; repeat that, or remove it to start again{changes}")
    done = _Done(journal_bytes=len(head))
    with partial.open("rb") as written:
        for line in entries:
            try:
                entry = json.loads(line)
                batch = written.read(entry["bytes"] - done.bytes)
                complete = line.endswith(b"\n") and hashlib.sha256(batch).hexdigest() == entry["output"]
            except (ValueError, KeyError, TypeError):  # the process ended while it wrote the entry
                complete = False
            if not complete:
                break
            done = _Done(entry["lines"], entry["bytes"], entry["input"], done.journal_bytes + len(line))
    return done
