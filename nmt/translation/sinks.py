"""Outputs: a stream, or a file that can be completed after an interruption.

    FILE.partial         the output so far; renamed to FILE when complete
    FILE.partial.json    the fingerprint of the work, and how far it is done: the number and the SHA-256 of the input
                         lines, the bytes of the output

A batch is written before it is recorded. Resuming truncates FILE.partial to the recorded length, so the complete file
equals, byte for byte, that of an uninterrupted process.
"""

import errno
import fcntl
import hashlib
import io
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from nmt.config.section import differences
from nmt.errors import ConfigError, DataError
from nmt.system.console import counted
from nmt.system.distributed import rank
from nmt.system.files import disk_errors, parse_json, real_path, regular_file, write_output

# Names of open streams, which by a shell's redirection may lead to a file.
_OPEN = re.compile(r"/dev/(?:stdout|stderr|fd/(\d+))|/proc/(?:self/fd/(\d+)|.+/fd/\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
# Everything that determines the output except the input, as JSON, by the names in recipes and options.
Fingerprint = dict[str, Any]


class StreamOutput:
    """Writes the results of line batches, in order, to a pipe, a terminal or a device, where nothing can be resumed."""

    def __init__(self, stream: BinaryIO, name: str = "the translations") -> None:
        """Take the stream, and its name in error messages."""
        self._stream, self._name = stream, name
        self.lines = 0  # input lines that are processed
        self.is_terminal = stream.isatty()

    def remaining(self, lines: list[bytes]) -> list[bytes]:
        """Return those of the next input lines that are not processed."""
        return lines

    def write(self, lines: Sequence[bytes], data: bytes) -> None:
        """Write the result of lines. Raises DataError if the disk fails, BrokenPipeError for a closed pipe."""
        raw, rest = getattr(self._stream, "raw", self._stream), memoryview(data)
        try:
            while rest:  # unbuffered: data left in a buffer by a disk error would cause another error at exit
                rest = rest[raw.write(rest) or 0 :]
        except BrokenPipeError:
            raise
        except OSError as error:
            closed = "standard output is closed; name a file with -o" if error.errno == errno.EBADF else ""
            raise DataError(f"cannot write {self._name}: {closed or error.strerror or error}") from None
        self.lines += len(lines)


class ResumableFile(StreamOutput):
    """A file that is being written by one process. `resumable_file` opens and closes it."""

    def __init__(self, partial: Path, stream: BinaryIO, fingerprint: Fingerprint) -> None:
        super().__init__(stream, str(partial))
        self._partial, self.record_file = partial, partial.with_name(f"{partial.name}.json")
        self._record = _read_record(partial, self.record_file, fingerprint)
        self.lines = self._to_skip = self._record["lines"]
        self._digest = hashlib.sha256()  # of the lines that are processed
        stream.truncate(self._record["bytes"])

    def remaining(self, lines: list[bytes]) -> list[bytes]:
        """Return those of the next input lines that are not processed. Raises ConfigError if the others differ."""
        skipped, rest = lines[: self._to_skip], lines[self._to_skip :]
        if skipped:
            self._to_skip -= len(skipped)
            self._update_digest(skipped)
            if not self._to_skip and self._digest.hexdigest() != self._record["sha256"]:
                raise self._other_input(f"the first {counted(self.lines, 'line')} differ")
        return rest

    def write(self, lines: Sequence[bytes], data: bytes) -> None:
        """Write the result of input lines, then record how far the file is complete."""
        if not self.lines:  # without a record, the file may be of another program
            self._write_record()
        super().write(lines, data)
        self._update_digest(lines)
        self._record |= {"lines": self.lines, "bytes": self._record["bytes"] + len(data)}
        self._record["sha256"] = self._digest.hexdigest()
        self._write_record()

    def check_input(self) -> None:
        """Raise ConfigError if the input has fewer lines than were processed before."""
        if self._to_skip:
            given = f"{self.lines - self._to_skip:,}"
            raise self._other_input(f"it had at least {counted(self.lines, 'line')}, but this one has {given}")

    def _update_digest(self, lines: Sequence[bytes]) -> None:
        self._digest.update(b"".join(line + b"\n" for line in lines))

    def _other_input(self, difference: str) -> ConfigError:
        advice = f"give the same input, or remove {self._partial} to start again"
        return ConfigError(f"{self._partial}: made from another input: {difference}; {advice}")

    def _write_record(self) -> None:
        new = self.record_file.with_name(f"{self.record_file.name}.new")
        with disk_errors(self.record_file), open(new, "w", encoding="utf-8", opener=regular_file) as stream:
            try:
                stream.write(json.dumps(self._record, ensure_ascii=False))
                stream.flush()
                new.replace(self.record_file)
            finally:
                new.unlink(missing_ok=True)


@contextmanager
def open_output(path: Path | None, fingerprint: Fingerprint, resumable: bool = True) -> Iterator[StreamOutput]:
    """Open a file, by default stdout; in the first process only, the others write nothing.

    Raises DataError if it cannot be opened, and as `resumable_file` does.
    """
    if rank() > 0:
        yield StreamOutput(io.BytesIO())
    elif path is None:
        yield StreamOutput(sys.stdout.buffer)
    elif resumable and not is_stream(path):
        with resumable_file(path, fingerprint) as output:
            yield output
    else:
        with disk_errors(path):
            stream = open(path, "ab" if is_stream(path) else "wb", opener=_open_stream)  # noqa: SIM115
        with stream:
            yield StreamOutput(stream)


def _open_stream(path: str | Path, flags: int) -> int:
    """Open a file, or return another descriptor of an open stream of this process, which shares its position."""
    match = _OPEN.fullmatch(os.path.abspath(path))
    number = match and (match[1] or match[2] or _STANDARD.get(match[0]))
    return os.open(path, flags, 0o666) if number is None else os.dup(int(number))


def write_whole(path: Path | None, data: bytes) -> None:
    """Write a complete output: a file atomically, by default to stdout; in the first process only.

    Raises DataError for an error of the file system.
    """
    if rank() == 0 and path is not None and not is_stream(path):
        write_output(path, data)
    else:
        with open_output(path, {}) as output:
            output.write([], data)


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device or the name of an open stream, which cannot be replaced or resumed."""
    is_open = _OPEN.fullmatch(str(path.absolute())) is not None
    return path.exists() and (is_open or not (path.is_file() or path.is_dir()))


@contextmanager
def resumable_file(file: Path, fingerprint: Fingerprint) -> Iterator[ResumableFile]:
    """Yield the partial file, with the output of the same work so far; renamed to `file` at the end.

    After an exception it stays, unless it is empty. Raises ConfigError if the partial file is of other work or is being
    written by another process; DataError if it cannot be written.
    """
    place = real_path(file)
    partial = place.with_name(f"{place.name}.partial")
    with disk_errors(file):
        stream = open(partial, "ab", buffering=0, opener=regular_file)  # noqa: SIM115
    with stream:
        with suppress(OSError):  # of a file system without locks
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"{partial}: another process is writing it; wait for its end, or name another output"
                ) from None
        output = ResumableFile(partial, stream, fingerprint)
        try:
            with suppress(FileNotFoundError):
                partial.chmod(stat.S_IMODE(place.stat().st_mode))
            yield output
            output.check_input()
        except BaseException:
            if not partial.stat().st_size:  # nothing to resume
                partial.unlink()
                output.record_file.unlink(missing_ok=True)
            raise
        with disk_errors(file):
            os.fsync(stream.fileno())
            partial.replace(place)
            output.record_file.unlink(missing_ok=True)  # of an empty input there is none


def _read_record(partial: Path, record: Path, fingerprint: Fingerprint) -> dict[str, Any]:
    """Return how far a partial file is complete. Raises ConfigError if it is of other work."""
    if not (size := partial.stat().st_size):
        return {"fingerprint": fingerprint, "lines": 0, "sha256": "", "bytes": 0}
    try:
        progress: dict[str, Any] = parse_json(record.read_bytes())
        before, is_whole = progress["fingerprint"], progress["bytes"] <= size and {"lines", "sha256"} <= progress.keys()
    except (OSError, ValueError, TypeError, KeyError):
        is_whole = False
    if not is_whole:
        raise ConfigError(
            f"{partial}: cannot continue: {record.name}, the record of its work, is missing or damaged; remove both to "
            "start again, if nmt wrote them"
        )
    if before != fingerprint:
        changes = "".join(f"\n  {change}" for change in differences(before, fingerprint))
        raise ConfigError(f"{partial}: begun by another command; repeat that, or remove it to start again{changes}")
    return progress
