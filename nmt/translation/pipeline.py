"""Streams of lines: read line batches, translate or score them in all processes, write the results in order."""

import io
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nmt.errors import DataError
from nmt.system.console import Console, counted
from nmt.system.distributed import rank
from nmt.text.languages import found_instead
from nmt.text.normalize import normalize
from nmt.text.readers.opening import CR_TO_LF, STANDARD_INPUT, decode_line, open_content
from nmt.text.tokenizer import EOS
from nmt.text.words import pharaoh
from nmt.translation.options import TranslateOptions
from nmt.translation.result import plain_json
from nmt.translation.sharing import shared_map
from nmt.translation.sinks import ResumableFile, StreamOutput
from nmt.translation.translator import LINE_BATCH_SIZE, Translator

_LINE_BYTES = 512  # a line batch also ends after so many bytes for each of its lines: lines may be long
_CHUNK_BYTES = 1 << 16
_PLACES_SHOWN = 10


class LineBatch(NamedTuple):
    """Consecutive input lines that are processed together."""

    first: int  # the number of its first line, from 1
    lines: list[bytes]  # without `\n`
    parallel: Sequence[str]  # the line of the parallel text for each line; empty if there is no such text

    @property
    def texts(self) -> list[str]:
        """The lines as text."""
        return [decode_line(line) for line in self.lines]


# Returns the output of a line batch, and the numbers of its lines whose translation has a problem.
Process = Callable[[LineBatch], tuple[str, list[int]]]


@dataclass(frozen=True)
class LineInput:
    """An input stream and, optionally, a text that is parallel to it."""

    stream: BinaryIO
    batch_lines: int = LINE_BATCH_SIZE
    parallel: Sequence[str] | None = None  # a line for each line of the input
    option: str = ""  # the option that names the file of the parallel text

    def progress(self) -> tuple[int, int | None]:
        """Return how many bytes of an input file are read, and its size; 0 and None for other streams."""
        try:
            descriptor = self.stream.fileno()
            return os.lseek(descriptor, 0, os.SEEK_CUR), os.fstat(descriptor).st_size
        except OSError:
            return 0, None

    def batches(self, output: StreamOutput) -> Iterator[LineBatch]:
        """Yield the line batches that the output does not have yet.

        Raises DataError if the parallel text has another number of lines than the input.
        """
        count, texts = 0, self.parallel
        for lines in read_batches(self.stream, self.batch_lines):
            count += len(lines)
            if texts is not None and count > len(texts):
                break
            if remaining := output.remaining(lines):
                start = count - len(remaining)
                yield LineBatch(start + 1, remaining, [] if texts is None else texts[start:count])
        if texts is not None and count != len(texts):
            found, expected = counted(len(texts), "line"), f"{count:,}" if count < len(texts) else "more"
            raise DataError(f"{self.option}: {found}, but the input has {expected}; expected one for each line")


@contextmanager
def open_input(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file, by default standard input, in the first process; the other processes have no lines.

    Raises DataError as `open_content` does, also while it is read.
    """
    if rank() > 0:
        yield io.BytesIO()
    else:
        with open_content(path or STANDARD_INPUT, read_once=True) as stream:
            yield stream


def read_batches(stream: BinaryIO, count: int) -> Iterator[list[bytes]]:
    """Yield batches of `count` lines without line ends; from a pipe or a terminal the available lines.

    So a line that is typed, or written to a pipe whose writer waits for its translation, is translated at once.
    """
    # one system call each: read1 returns the available bytes instead of waiting for more
    read = getattr(stream, "read1", stream.read)
    lines: list[bytes] = []
    parts: list[bytes] = []  # of the unfinished line, joined at its end: in linear time, however long it is
    size = 0
    while chunk := read(_CHUNK_BYTES):
        end, *complete = chunk.split(b"\n")
        parts.append(end)
        if complete:
            lines += [b"".join(parts), *complete[:-1]]
            parts = complete[-1:]
        size += len(chunk)
        while len(lines) >= count:
            yield lines[:count]
            lines, size = lines[count:], 0
        if lines and (size >= count * _LINE_BYTES or not _is_readable(stream)):
            yield lines
            lines, size = [], 0
    if unfinished := b"".join(parts):
        lines.append(unfinished)
    if lines:
        yield lines


def _is_readable(stream: BinaryIO) -> bool:
    """Whether reading returns at once: always for files, and for streams without a descriptor."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def process_lines(
    label: str, source: LineInput, output: StreamOutput, process: Process, console: Console, translator: Translator
) -> list[int]:
    """Write the result of each line batch, in order; the processes of the translator or of torchrun share the batches.

    Returns the numbers of all lines whose translation has a problem. Raises BrokenPipeError when the reader of a pipe
    is gone, DataError when the disk fails, for unreadable input or a parallel text of another length, and errors of
    `process`.
    """
    differing, invalid, with_cr = list[int](), list[int](), list[int]()
    is_typed = source.stream.isatty()
    if is_typed:
        console.info("type or paste text, one sentence per line; Ctrl-D ends")
    if output.lines:
        console.info(f"{counted(output.lines, 'line')} done before; continuing after them")
    # no progress bar on a terminal between typed lines or translations
    hidden, (_, size) = is_typed or output.is_terminal, source.progress()
    try:
        with nullcontext() if hidden else console.progress_through(label, size, "lines") as show:
            for batch, (text, numbers) in _results(source.batches(output), process, translator, source):
                output.write(batch.lines, text.encode())
                differing += numbers
                numbered = list(enumerate(batch.lines, batch.first))
                invalid += [number for number, line in numbered if line.decode(errors="ignore").encode() != line]
                with_cr += [number for number, line in numbered if b"\r" in line.rstrip(b"\r")]
                if show is not None:
                    show(output.lines, source.progress()[0])
    except KeyboardInterrupt:
        if isinstance(output, ResumableFile):
            console.info(f"{counted(output.lines, 'line')} done; the same command continues after them")
        raise
    for numbers, before, after in (
        (invalid, "not UTF-8: ", "the invalid bytes were read as U+FFFD"),
        (with_cr, "CR inside ", f"lines end at LF: if these end at CR, convert them: {CR_TO_LF}"),
    ):
        if numbers:
            lines = counted(len(numbers), "line")
            console.warn(f"{before}{lines} of the input, the first is line {numbers[0]:,}; {after}")
    return differing


def _results(
    batches: Iterator[LineBatch], process: Process, translator: Translator, source: LineInput
) -> Iterator[tuple[LineBatch, tuple[str, list[int]]]]:
    """Yield each batch with its result, in several processes if the first one is full and more lines wait."""
    first = list(islice(batches, 1))  # none in the other processes of torchrun
    size = sum(len(line) for batch in first for line in batch.lines)
    is_full = any(len(batch.lines) >= source.batch_lines for batch in first) or size >= source.batch_lines * _LINE_BYTES
    is_long = is_full and _is_readable(source.stream)
    return shared_map(translator, lambda batch: (batch, process(batch)), chain(first, batches), is_long)


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
    started, before = time.monotonic(), output.lines

    def process(batch: LineBatch) -> tuple[str, list[int]]:
        if batch.first == before + 1 and (warning := foreign_input(batch.texts, translator.languages.source)):
            console.warn(warning)
        translations = translator.translate_lines(batch.texts, options, batch.parallel)
        numbered = list(enumerate(translations, start=batch.first))
        if as_json:
            rows = [translation.as_json() for translation in translations]
        elif options.search.n_best > 1:
            rows = [translation.as_table(number) for number, translation in numbered]
        else:
            rows = [translation.as_text() for translation in translations]
        differing = [number for number, translation in numbered if any(translation.diff)]
        return "".join(f"{row}\n" for row in rows), differing

    if differing := process_lines("translating", source, output, process, console, translator):
        since = f"after line {before:,}, where this process continued, " if before else ""
        warning = differing_at("line", [f"{number:,}" for number in differing])
        console.warn(f"{since}{warning}; --json lists them for each line as missing and surplus")
    if not source.stream.isatty():  # else most of the time was spent on typing
        console.info(f"translated {counted(output.lines - before, 'line')} in {time.monotonic() - started:.1f} s")


def foreign_input(texts: Sequence[str], language: str) -> str | None:
    """Return a warning if the first lines of the input are certainly in another language; None for a few lines."""
    try:
        detected = found_instead(texts, language)
    except OSError as error:  # py3langid unpacks its model into a temporary file
        return f"the language of the input is not checked: {error.strerror}; set TMPDIR to a folder with free space"
    lines = f"the first {counted(len(texts), 'line')} of the input"
    return detected and f"{lines} are in {detected}, but the model translates from {language}"


def differing_at(noun: str, places: Sequence[str]) -> str:
    """Return the part of a warning with the number of translations that differ in content, and the first places."""
    problem = "whose translation differs from its source in terms, items, accelerators or numbers"
    return f"{counted(len(places), noun)} {problem}: {first_few(places)}"


def first_few(places: Sequence[str]) -> str:
    """Return the first places for a warning."""
    return ", ".join(places[:_PLACES_SHOWN]) + (", …" if len(places) > _PLACES_SHOWN else "")


def score_batch(
    translator: Translator, options: TranslateOptions, as_json: bool, batch: LineBatch
) -> tuple[str, list[int]]:
    """Return a row for each line with the log-probability of its parallel line by the first model.

    A row has log_prob, number of tokens with `</s>`, the text as the model reads it, and the alignment if requested,
    tab-separated; as JSON {"source", "text", "log_prob", "tokens": [{"token", "log_prob"}, …]}, maybe with "alignment".
    Lines are never split, however long they are.
    """
    pairs = list(zip(batch.texts, map(normalize, batch.parallel), strict=True))
    links_of = translator.align(pairs, options) if options.alignment else [None] * len(pairs)
    tokenizer, rows = translator.tokenizers.target, list[str]()
    for (line, text), forced, links in zip(pairs, translator.force(pairs, options), links_of, strict=True):
        log_probs, log_prob = forced.token_log_probs, sum(forced.token_log_probs)
        if as_json:
            ids = [*tokenizer.encode(text), EOS]
            tokens = [
                {"token": tokenizer.pieces[i], "log_prob": round(token_log_prob, 4)}
                for i, token_log_prob in zip(ids, log_probs, strict=True)
            ]
            content = {"source": line, "text": text, "log_prob": round(log_prob, 4), "tokens": tokens}
            rows.append(plain_json(content if links is None else {**content, "alignment": links}))
        else:
            row = f"{log_prob:.4f}\t{len(log_probs)}\t{text}"
            rows.append(row if links is None else f"{row}\t{pharaoh(links)}")
    return "".join(f"{row}\n" for row in rows), []
