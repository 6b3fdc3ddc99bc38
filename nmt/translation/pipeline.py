"""Lines from one stream or file, what becomes of them to another, a window at a time."""

import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

from nmt.decoding.batch_runner import OnProgress
from nmt.errors import ConfigError, DataError
from nmt.system import distributed
from nmt.system.console import Console, counted
from nmt.text.corpus import decode_line
from nmt.translation.lines import LineBatch, LineReader, ParallelLines
from nmt.translation.sinks import Output, ResumableFile, StreamOutput, Work, resumable_file
from nmt.translation.translator import TranslateOptions, Translator


def translate_stream(
    translator: Translator,
    lines: LineReader,
    output: Output,
    options: TranslateOptions,
    as_json: bool,
    console: Console,
) -> None:
    """Translate what is left of the lines of a stream; what stands beside them is what the translations begin with.

    Plain output is one line for each line. With n_best above 1 it is rows of line number, rank, log_prob and text;
    with `as_json` a JSON object a line. Raises as `through` does.
    """
    if options.alignment and options.n_best > 1 and not as_json:
        raise ConfigError("--alignment: a table of the n best has no place for it; add --json, where the best has it")
    started, before = time.monotonic(), output.lines

    def translated(window: LineBatch, on_progress: OnProgress) -> tuple[str, list[int]]:
        texts = [decode_line(raw) for raw in window.lines]
        translations = translator.translate_window(texts, options, window.beside, on_progress)
        numbered = list(enumerate(translations, start=window.first))
        if as_json:
            rendered = [one.as_json() for _, one in numbered]
        else:
            rendered = [one.as_table(number) if options.n_best > 1 else one.as_text() for number, one in numbered]
        return "".join(f"{row}\n" for row in rendered), [number for number, one in numbered if any(one.loss)]

    if lossy := through("translating", lines, output, translated, console):
        console.warn(_lossy_lines(lossy, before))
    console.say(f"translated {counted(output.lines - before, 'line')} in {time.monotonic() - started:.1f} s")


def _lossy_lines(numbers: Sequence[int], before: int) -> str:
    """Say which lines lost something that should have survived, or have it too often."""
    first = ", ".join(f"{number:,}" for number in numbers[:10]) + (" …" if len(numbers) > 10 else "")
    lines = "1 line differs from its" if len(numbers) == 1 else f"{len(numbers):,} lines differ from their"
    since = f"after line {before:,}, where this went on, " if before else ""
    return f"{since}{lines} source in URLs, placeholders, tags, terms or numbers ({first}); --json says in what"


def through(
    label: str,
    lines: LineReader,
    output: Output,
    work: Callable[[LineBatch, OnProgress], tuple[str, list[int]]],
    console: Console,
) -> list[int]:
    """Write what some work makes of the lines that are left, window by window, in all processes of torchrun.

    The work returns text, and the numbers of lines that something is wrong with, which are returned together. Raises
    BrokenPipeError when nobody reads on, DataError when a disk fails or texts beside are not as many as lines.
    """
    noted: list[int] = []
    if lines.typed:
        console.say("type or paste text, one sentence a line; Ctrl-D ends")
    if output.lines:
        console.say(f"{counted(output.lines, 'line')} done before; going on from there")
    try:
        with _progress(label, lines, output, console) as show:

            def watched_work(window: LineBatch) -> tuple[LineBatch, str, list[int]]:
                return window, *work(window, partial(show, window))

            for window, text, numbers in distributed.scatter_map(lines.windows(output), watched_work):
                output.add(window.lines, text)
                noted += numbers
                show(window, 1.0)
    except KeyboardInterrupt:
        if isinstance(output, ResumableFile):
            console.say(f"{counted(output.lines, 'line')} done; the same command goes on from there")
        raise
    return noted


@contextmanager
def _progress(
    label: str, lines: LineReader, output: Output, console: Console
) -> Iterator[Callable[[LineBatch, float], None]]:
    """Show progress where no person sees the output itself; yields what to call with the share done of a window."""
    if lines.typed or output.watched:
        yield lambda window, share: None
        return
    furthest = 0, 0
    with console.progress_through(label, lines.size, "lines") as show:

        def shown(window: LineBatch, share: float) -> None:
            nonlocal furthest
            size = sum(map(len, window.lines)) + len(window.lines)
            reached = window.first - 1 + int(share * len(window.lines)), max(0, lines.place - int((1 - share) * size))
            furthest = max(furthest, reached)  # some lines are searched again
            show(*furthest)

        yield shown


@contextmanager
def opened(
    source: Path | None, output: Path | None, work: Work, beside: ParallelLines | None = None
) -> Iterator[tuple[LineReader, Output]]:
    """Open what to read and where to write, where nothing is named stdin and stdout.

    A file is written so that the same work goes on after a kill, unless the input is typed. Of several processes, only
    the first has them. Raises DataError if one cannot be opened, ConfigError if both are one, which writing would
    empty, or if the output is other work's.
    """
    if distributed.rank() > 0:
        yield LineReader(io.BytesIO()), StreamOutput(io.BytesIO())
        return
    if (source is None and sys.stdin is None) or (output is None and sys.stdout is None):
        raise DataError("standard input or output is closed; name files with --input and --output")
    if source is not None and output is not None and output.is_file() and source.exists() and source.samefile(output):
        raise ConfigError(f"{output}: the input and the output are the same file; name another output")
    with ExitStack() as files:
        lines = LineReader(files.enter_context(_open(source, "rb")) if source is not None else sys.stdin.buffer, beside)
        if output is None:
            yield lines, StreamOutput(sys.stdout.buffer)
        elif _is_device(output) or lines.typed:
            yield lines, StreamOutput(files.enter_context(_open(output, "wb")))
        else:
            yield lines, files.enter_context(resumable_file(output, {**work, **(beside.work if beside else {})}))


def _is_device(output: Path) -> bool:
    """Whether a name stands for a pipe, a device or a stream that is open already, and not for a file."""
    return output.absolute().parts[1] in ("dev", "proc") or (output.exists() and not output.is_file())


def _open(path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    try:
        return path.open(mode)
    except OSError as error:
        verb = "read" if mode == "rb" else "write"
        raise DataError(f"{path}: cannot {verb} it: {error.strerror or error}") from None
