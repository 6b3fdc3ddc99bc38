"""Where lines come from: a file, a pipe or a terminal, in windows, and files with a line for each of these."""

import os
import select
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from nmt.errors import DataError
from nmt.system.console import counted
from nmt.text.corpus import read_lines
from nmt.translation.sinks import Output, Work
from nmt.translation.translator import LINE_BATCH_SIZE

WINDOW_BYTES = 1 << 20
"""A window also ends here: lines may be long."""
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class ParallelLines:
    """A file that has a line for each line of the input."""

    option: str
    """The option that names it."""
    texts: list[str]

    @classmethod
    def read(cls, option: str, path: Path) -> "ParallelLines":
        """Read a text file. Raises DataError as `read_lines` does."""
        return cls(option, list(read_lines(path)))

    @property
    def work(self) -> Work:
        """What of it decides about the output."""
        return {self.option.removeprefix("--"): sha256("\n".join(self.texts).encode()).hexdigest()}

    def misfit(self, found: str) -> DataError:
        """Return the error that there are not as many lines in the input."""
        size = counted(len(self.texts), "line")
        return DataError(f"{self.option}: {size}, but the input has {found}; expected one for each line")


@dataclass(frozen=True)
class LineReader:
    """An input, and maybe texts that stand beside its lines."""

    stream: BinaryIO
    beside: ParallelLines | None = None

    @property
    def typed(self) -> bool:
        """Whether a person types them."""
        return self.stream.isatty()

    @property
    def size(self) -> int | None:
        """How many bytes the input has, if it is a file."""
        try:
            status = os.fstat(self.stream.fileno())
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    @property
    def place(self) -> int:
        """How many bytes of a file are read."""
        return self.stream.tell() if self.stream.seekable() else 0

    def windows(self, output: Output) -> Iterator["LineBatch"]:
        """Yield what the output has not yet. Raises DataError if there are not as many texts beside as lines."""
        before = output.lines
        for lines in output.rest(read_available(self.stream)):
            end = before + len(lines)
            if self.beside is not None and end > len(self.beside.texts):
                raise self.beside.misfit("more")
            yield LineBatch(before + 1, lines, None if self.beside is None else self.beside.texts[before:end])
            before = end
        if self.beside is not None and before < len(self.beside.texts):
            raise self.beside.misfit(f"{before:,}")


@dataclass(frozen=True)
class LineBatch:
    """Lines that are worked at together, without `\\n`."""

    first: int
    """The number of the first of them, from 1."""
    lines: list[bytes]
    beside: list[str] | None
    """What stands beside each."""


def read_available(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines without `\\n` in windows: from a file full ones, from a pipe or a terminal what is there.

    So whoever types a line, or writes one to a pipe and waits, is answered at once.
    """
    # one system call each: read1 returns what is there instead of waiting for more
    read = getattr(stream, "read1", stream.read)
    window: list[bytes] = []
    unfinished: list[bytes] = []
    size = 0
    while chunk := read(_CHUNK_BYTES):
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            window.append(b"".join([*unfinished, line]))
            unfinished.clear()
        if rest:
            unfinished.append(rest)
        size += len(chunk)
        full = len(window) >= LINE_BATCH_SIZE or size >= WINDOW_BYTES
        if window and (full or not _more_waits(stream)):
            yield window
            window, size = [], 0
    if unfinished:
        window.append(b"".join(unfinished))
    if window:
        yield window


def _more_waits(stream: BinaryIO) -> bool:
    """Whether reading would return at once: always for files, and for what cannot be asked."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return True
