"""Streams of lines: read line batches, translate them in all processes, write the results in order."""

import io
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch

from nmt.decoding.engine import RemoteEngine, TorchEngine, answers
from nmt.system.console import Console, counted
from nmt.system.distributed import rank, scatter_map, world_size
from nmt.system.workers import WorkerPool
from nmt.text.languages import found_instead
from nmt.text.readers.opening import CR_TO_LF, STANDARD_INPUT, decode_line, open_content
from nmt.translation.options import TranslateOptions
from nmt.translation.sinks import ResumableFile, StreamOutput
from nmt.translation.translator import LINE_BATCH_SIZE, Translator

LINE_BATCH_BYTES = 1 << 20  # a line batch also ends after so many bytes: lines may be long
_CHUNK_BYTES = 1 << 16
_PLACES_SHOWN = 10


class LineBatch(NamedTuple):
    """Consecutive input lines that are translated together."""

    first: int  # the number of its first line, from 1
    lines: list[bytes]  # without `\n`


# A line batch, its output, and the numbers of its lines whose translation differs in content.
Translated = tuple[LineBatch, str, list[int]]


@contextmanager
def open_input(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file, by default standard input; in the first process only, the others have no lines.

    Raises DataError as `open_content` does, also while it is read.
    """
    if rank() > 0:
        yield io.BytesIO()
    else:
        with open_content(path or STANDARD_INPUT, read_once=True) as stream:
            yield stream


def read_batches(stream: BinaryIO, scale: int = 1) -> Iterator[list[bytes]]:
    """Yield batches of lines without `\n`: full ones from a file, from a pipe or a terminal the lines available.

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
        full = len(lines) >= scale * LINE_BATCH_SIZE or size >= scale * LINE_BATCH_BYTES
        if lines and (full or not _is_readable(stream)):
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


def translate_stream(
    translator: Translator,
    stream: BinaryIO,
    output: StreamOutput,
    options: TranslateOptions,
    as_json: bool,
    console: Console,
) -> None:
    """Write the translations of the remaining lines of a stream; the processes of torchrun share the line batches.

    Plain output is one line for each line. With n_best above 1 it is rows of line number, rank, log_prob and text;
    with `as_json` one JSON object per line. Raises BrokenPipeError when the reader of a pipe is gone, DataError when
    the disk fails and for unreadable input.
    """
    started, before, is_typed = time.monotonic(), output.lines, stream.isatty()
    if is_typed:
        console.info("type or paste text, one sentence per line; Ctrl-D ends")
    if before:
        console.info(f"{counted(before, 'line')} done before; continuing after them")
    differing, invalid, with_cr = list[int](), list[int](), list[int]()
    work = partial(_translate_batch, translator, options, as_json)
    # no progress bar on a terminal between typed lines or translations
    hidden, (_, size) = is_typed or output.is_terminal, _progress(stream)
    try:
        with nullcontext() if hidden else console.progress_through("translating", size, "lines") as show:
            for batch, text, numbers in _results(translator, work, _batches(stream, translator, output, console)):
                output.write(batch.lines, text.encode())
                numbered = list(enumerate(batch.lines, batch.first))
                differing += numbers
                invalid += [number for number, line in numbered if not _is_utf8(line)]
                with_cr += [number for number, line in numbered if b"\r" in line.rstrip(b"\r")]
                if show is not None:
                    show(output.lines, _progress(stream)[0])
    except KeyboardInterrupt:
        if isinstance(output, ResumableFile):
            console.info(f"{counted(output.lines, 'line')} done; the same command continues after them")
        raise
    for warning in _warnings(differing, invalid, with_cr, before):
        console.warn(warning)
    if not is_typed:  # else most of the time was spent on typing
        console.info(f"translated {counted(output.lines - before, 'line')} in {time.monotonic() - started:.1f} s")


def _translate_batch(translator: Translator, options: TranslateOptions, as_json: bool, batch: LineBatch) -> Translated:
    translations = translator.translate_lines([decode_line(line) for line in batch.lines], options)
    numbered = list(enumerate(translations, start=batch.first))
    if as_json:
        rows = [one.as_json() for one in translations]
    elif options.search.n_best > 1:
        rows = [one.as_table(number) for number, one in numbered]
    else:
        rows = [one.as_text() for one in translations]
    return batch, "".join(f"{row}\n" for row in rows), [number for number, one in numbered if any(one.diff)]


def _warnings(differing: list[int], invalid: list[int], with_cr: list[int], before: int) -> Iterator[str]:
    """Yield warnings on the numbers of lines, of which those up to `before` were translated by another process."""
    for numbers, problem, advice in (
        (invalid, "not UTF-8: ", "the invalid bytes were read as U+FFFD"),
        (with_cr, "CR inside ", f"lines end at LF: if these end at CR, convert them: {CR_TO_LF}"),
    ):
        if numbers:
            lines = counted(len(numbers), "line")
            yield f"{problem}{lines} of the input, the first is line {numbers[0]:,}; {advice}"
    if differing:
        since = f"after line {before:,}, where this process continued, " if before else ""
        warning = differing_at("line", [f"{number:,}" for number in differing])
        yield f"{since}{warning}; --json lists them for each line as missing and surplus"


def _progress(stream: BinaryIO) -> tuple[int, int | None]:
    """Return how many bytes of an input file are read, and its size; 0 and None for other streams."""
    try:
        descriptor = stream.fileno()
        return os.lseek(descriptor, 0, os.SEEK_CUR), os.fstat(descriptor).st_size
    except OSError:
        return 0, None


def _batches(stream: BinaryIO, translator: Translator, output: StreamOutput, console: Console) -> Iterator[LineBatch]:
    """Yield the line batches that the output does not have yet; warn if the first one is in another language."""
    before, count, language = output.lines, 0, translator.languages.source
    for lines in read_batches(stream, translator.stream_scale):
        count += len(lines)
        if remaining := output.remaining(lines):
            batch = LineBatch(count - len(remaining) + 1, remaining)
            texts = list(map(decode_line, remaining)) if batch.first == before + 1 else []
            if warning := foreign_input(texts, language):
                console.warn(warning)
            yield batch


def _is_utf8(line: bytes) -> bool:
    return line.decode("utf-8", errors="ignore").encode() == line


def _results(
    translator: Translator, work: Callable[[LineBatch], Translated], batches: Iterator[LineBatch]
) -> Iterator[Translated]:
    """Yield the results of batches, in order; of several processes if there is more than one batch.

    The processes of a translator leave each search to this one. Their work may change nothing but what it returns.
    """
    if world_size() > 1 or translator.text_processes == 1:
        yield from scatter_map(batches, work)
        return
    first, engine = list(islice(batches, 1)), translator.engine
    assert isinstance(engine, TorchEngine), "a worker has no workers"
    if all(len(batch.lines) < translator.stream_scale * LINE_BATCH_SIZE for batch in first):
        yield from map(work, chain(first, batches))
        return

    def begin() -> None:
        torch.set_num_threads(1)
        translator.engine = RemoteEngine(engine, pool.ask)

    pool = WorkerPool(work, translator.text_processes, "use fewer --threads", begin, partial(answers, engine))
    try:
        yield from pool.map(_apply, chain(first, batches))
    finally:
        pool.close()


def _apply(work: Callable[[LineBatch], Translated], batch: LineBatch) -> Translated:
    return work(batch)


def foreign_input(texts: Sequence[str], language: str) -> str | None:
    """Return a warning if the first lines of the input are certainly in another language; None for a few lines."""
    found, lines = found_instead(texts, language), counted(len(texts), "line")
    return found and f"the first {lines} of the input are in {found}, but the model translates from {language}"


def differing_at(noun: str, places: Sequence[str]) -> str:
    """Return the part of a warning with the number of translations that differ in content, and where a few are."""
    problem = "whose translation differs from its source in terms, accelerators or numbers"
    return f"{counted(len(places), noun)} {problem}: {first_few(places)}"


def first_few(places: Sequence[str]) -> str:
    """Return the first places for a warning."""
    return ", ".join(places[:_PLACES_SHOWN]) + (", …" if len(places) > _PLACES_SHOWN else "")
