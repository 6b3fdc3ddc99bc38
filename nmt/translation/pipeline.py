"""Streams of lines: read line batches, process them in all processes, write the results in order."""

import io
import os
import select
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nmt.errors import ConfigError, DataError
from nmt.system.console import Console, counted
from nmt.system.distributed import rank, scatter_map
from nmt.text.identification import Line, found_instead
from nmt.text.readers.opening import (
    STANDARD_INPUT,
    decode_line,
    input_name,
    is_utf8,
    open_content,
    open_text,
    read_lines,
)
from nmt.translation.sinks import Fingerprint, ResumableFile, StreamOutput
from nmt.translation.translator import IMPROBABLE_COST, LINE_BATCH_SIZE, TranslateOptions, Translator

LINE_BATCH_BYTES = 1 << 20  # a line batch also ends after so many bytes: lines may be long
_CHUNK_BYTES = 1 << 16
_PLACES_SHOWN = 10
_MIN_LINES = 20  # of which the language is checked: fewer may be names

DIFFERING = "differs from its source in URLs, placeholders, tags, terms or numbers"
IMPROBABLE = f"has terms or placeholders that lower its log-probability by more than {IMPROBABLE_COST:g}"
"""Problems of a translation, in warnings."""


class ParallelLines(NamedTuple):
    """A text with a line for each line of the input."""

    option: str  # the option that names its file
    texts: list[str]

    @classmethod
    def read(cls, option: str, path: Path) -> "ParallelLines":
        """Read a text file. Raises DataError as `read_lines` does."""
        return cls(option, list(read_lines(path)))

    def fingerprint(self) -> Fingerprint:
        """Return a digest of the text."""
        return {self.option.removeprefix("--"): sha256("\n".join(self.texts).encode()).hexdigest()}

    def wrong_length(self, input_length: str) -> DataError:
        """Return the error for an input that has another number of lines."""
        length = counted(len(self.texts), "line")
        return DataError(f"{self.option}: {length}, but the input has {input_length}; expected one for each line")


class LineBatch(NamedTuple):
    """Consecutive input lines that are processed together."""

    first: int  # the number of its first line, from 1
    lines: list[bytes]  # without `\n`
    parallel: list[str]  # the line of the parallel text for each line; "" if there is no such text
    end: int  # the byte of the input file up to which it was read; 0 if the input is no file

    @property
    def texts(self) -> list[str]:
        """The lines as text."""
        return [decode_line(line) for line in self.lines]


class Remarks(NamedTuple):
    """The numbers of lines that differ in content from their source, and of those whose constraints are improbable."""

    differing: Sequence[int] = ()
    improbable: Sequence[tuple[int, float]] = ()  # with the cost


Process = Callable[[LineBatch], tuple[str, Remarks]]
"""Returns the output of a line batch, and the remarks on its lines."""


@dataclass(frozen=True)
class LineInput:
    """An input stream and, optionally, a text that is parallel to it."""

    stream: BinaryIO
    parallel: ParallelLines | None = None
    scale: int = 1
    """`Translator.scale`: how many times as large as on a CPU a line batch is."""

    @property
    def is_terminal(self) -> bool:
        """Whether the lines are typed."""
        return self.stream.isatty()

    @property
    def size(self) -> int | None:
        """The size of an input file in bytes, None for other streams."""
        try:
            status = os.fstat(self.stream.fileno())
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def batches(self, remaining: Iterable[list[bytes]], processed: int) -> Iterator[LineBatch]:
        """Yield numbered line batches of the remaining lines, which follow so many that are processed already.

        Raises DataError if the parallel text has another number of lines than the input.
        """
        texts = None if self.parallel is None else self.parallel.texts
        is_file, first = self.size is not None, processed + 1
        for lines in remaining:
            parallel = [""] * len(lines) if texts is None else texts[first - 1 : first - 1 + len(lines)]
            if self.parallel is not None and len(parallel) < len(lines):
                raise self.parallel.wrong_length("more")
            end = os.lseek(self.stream.fileno(), 0, os.SEEK_CUR) if is_file else 0
            yield LineBatch(first, lines, parallel, end)
            first += len(lines)
        if self.parallel is not None and first <= len(self.parallel.texts):
            raise self.parallel.wrong_length(f"{first - 1:,}")


@contextmanager
def open_input(path: Path | None, parallel: ParallelLines | None = None, scale: int = 1) -> Iterator[LineInput]:
    """Open lines of text; in the first process only, the others have no lines.

    By default it is standard input. Raises DataError as `open_content` does; reading raises it as `open_text` does.
    """
    if rank() > 0:
        yield LineInput(io.BytesIO())
    else:
        place = path or STANDARD_INPUT
        with open_content(place, read_once=True) as stream:
            yield LineInput(open_text(stream, input_name(place)), parallel, scale)


def read_batches(stream: BinaryIO, scale: int = 1) -> Iterator[list[bytes]]:
    """Yield batches of lines without `\\n`: full ones from a file, from a pipe or a terminal the lines available.

    So a line that is typed, or written to a pipe whose writer waits for its translation, is translated at once.
    """
    # one system call each: read1 returns the available bytes instead of waiting for more
    read = getattr(stream, "read1", stream.read)
    lines: list[bytes] = []
    unfinished: list[bytes] = []
    size = 0
    while chunk := read(_CHUNK_BYTES):
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            lines.append(b"".join([*unfinished, line]))
            unfinished.clear()
        if rest:
            unfinished.append(rest)
        size += len(chunk)
        full = len(lines) >= scale * LINE_BATCH_SIZE or size >= scale * LINE_BATCH_BYTES
        if lines and (full or not _is_readable(stream)):
            yield lines
            lines, size = [], 0
    if unfinished:
        lines.append(b"".join(unfinished))
    if lines:
        yield lines


def _is_readable(stream: BinaryIO) -> bool:
    """Whether reading returns at once: always for files, and for streams without a descriptor."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def process_lines(
    label: str,
    source: LineInput,
    output: StreamOutput,
    process: Process,
    console: Console,
) -> Remarks:
    """Write the result of each line batch, in order; torchrun's processes share the batches. Returns all remarks.

    Raises BrokenPipeError when the reader of a pipe is gone, DataError when the disk fails, for unreadable input or a
    parallel text of another length, and errors of `process`.
    """
    differing: list[int] = []
    improbable: list[tuple[int, float]] = []
    invalid: list[int] = []
    if source.is_terminal:
        console.info("type or paste text, one sentence per line; Ctrl-D ends")
    if output.lines:
        console.info(f"{counted(output.lines, 'line')} done before; continuing after them")
    # no progress bar on a terminal between typed lines or translations
    hidden = source.is_terminal or output.is_terminal
    remaining = output.remaining(read_batches(source.stream, source.scale))
    batches = source.batches(remaining, output.lines)
    try:
        with nullcontext(_show_nothing) if hidden else console.progress_through(label, source.size, "lines") as show:
            for batch, text, remarks in scatter_map(batches, lambda batch: (batch, *process(batch))):
                output.write(batch.lines, text)
                differing += remarks.differing
                improbable += remarks.improbable
                invalid += [number for number, line in enumerate(batch.lines, batch.first) if not is_utf8(line)]
                show(output.lines, batch.end)
    except KeyboardInterrupt:
        if isinstance(output, ResumableFile):
            console.info(f"{counted(output.lines, 'line')} done; the same command continues after them")
        raise
    if invalid:
        console.warn(
            f"not UTF-8: {counted(len(invalid), 'line')} of the input, the first is line {invalid[0]:,}; "
            "the invalid bytes were read as U+FFFD"
        )
    return Remarks(differing, improbable)


def _show_nothing(lines: int, position: int) -> None:
    """Stand for the progress that is hidden."""


def translate_stream(
    translator: Translator,
    source: LineInput,
    output: StreamOutput,
    options: TranslateOptions,
    as_json: bool,
    console: Console,
) -> None:
    """Translate the remaining lines of a stream; the lines of its parallel text are prefixes of the translations.

    Plain output is one line for each line. With n_best above 1 it is rows of line number, rank, log_prob and text;
    with `as_json` one JSON object per line. Raises as `process_lines` does.
    """
    if options.alignment and options.n_best > 1 and not as_json:
        raise ConfigError("--alignment: a table of the n best has no column for it; add --json, which has it")
    started, before = time.monotonic(), output.lines

    def process(batch: LineBatch) -> tuple[str, Remarks]:
        if batch.first == before + 1 and (warning := foreign_input(batch.texts, translator.languages.source)):
            console.warn(warning)
        return translate_batch(translator, options, as_json, batch)

    remarks = process_lines("translating", source, output, process, console)
    since = f"after line {before:,}, where this process continued, " if before else ""
    if remarks.differing:
        warning = translations_with(DIFFERING, "line", [f"{number:,}" for number in remarks.differing])
        console.warn(f"{since}{warning}; --json lists them for each line as missing and surplus")
    if remarks.improbable:
        warning = translations_with(IMPROBABLE, "line", [f"{line:,} ({cost:.1f})" for line, cost in remarks.improbable])
        console.warn(f"{since}{warning}; check their place and form; --json has constraint_cost for each line")
    if not source.is_terminal:  # else most of the time was spent on typing
        console.info(f"translated {counted(output.lines - before, 'line')} in {time.monotonic() - started:.1f} s")


def translate_batch(
    translator: Translator, options: TranslateOptions, as_json: bool, batch: LineBatch
) -> tuple[str, Remarks]:
    """Translate a line batch; return its output and the remarks on its lines."""
    translations = translator.translate_lines(batch.texts, options, batch.parallel)
    numbered = list(enumerate(translations, start=batch.first))
    if as_json:
        rows = [one.as_json() for one in translations]
    else:
        rows = [one.as_table(number) if options.n_best > 1 else one.as_text() for number, one in numbered]
    remarks = Remarks(
        [number for number, one in numbered if any(one.diff)],
        [(number, one.constraint_cost or 0.0) for number, one in numbered if one.is_improbable],
    )
    return "".join(f"{row}\n" for row in rows), remarks


def foreign_input(texts: Sequence[str], language: str) -> str | None:
    """Return a warning if the first lines of the input are certainly in another language; None for a few lines."""
    lines = [Line(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    if len(lines) < _MIN_LINES or (found := found_instead(lines, language)) is None:
        return None
    return (
        f"the first {counted(len(lines), 'line')} of the input are in {found}, but the model translates from {language}"
    )


def translations_with(problem: str, noun: str, places: Sequence[str]) -> str:
    """Return the part of a warning with the number of translations that have a problem, and where a few of them are."""
    shown = ", ".join(places[:_PLACES_SHOWN]) + (", …" if len(places) > _PLACES_SHOWN else "")
    return f"{counted(len(places), noun)} whose translation {problem}: {shown}"
