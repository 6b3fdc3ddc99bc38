"""Lines from one stream or file, their translations to another, a window at a time."""

import io
import os
import select
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal

from nmt import __version__, processes
from nmt.console import AdvanceTo, Console
from nmt.errors import ConfigError, DataError
from nmt.output import Output, ResumableFile, StreamOutput, Work, resumable_file
from nmt.text.corpus import decode_line, read_lines
from nmt.translate import WINDOW_LINES, TranslateOptions, Translation, Translator, digest_of_model

WINDOW_BYTES = 1 << 20
"""A window also ends here: lines may be long."""
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class TranslateStats:
    """What a stream came to."""

    lines: int
    """Those translated now; what a killed process had done is not among them."""
    split_lines: int
    """Lines too long for the model, translated in pieces."""
    seconds: float


@dataclass(frozen=True)
class LineByLine:
    """A file that has a line for each line of the input."""

    option: str
    """The option that names it."""
    texts: list[str]

    @classmethod
    def read(cls, option: str, path: Path) -> "LineByLine":
        """Read a text file. Raises DataError as `read_lines` does."""
        return cls(option, list(read_lines(path)))

    @property
    def work(self) -> Work:
        """What of it decides about the output."""
        return {self.option.removeprefix("--"): sha256("\n".join(self.texts).encode()).hexdigest()}

    def beside(self, before: int, count: int) -> list[str]:
        """Return what stands beside so many lines, with others before them. Raises DataError if there is not enough."""
        if before + count > len(self.texts):
            raise self._misfit("more")
        return self.texts[before : before + count]

    def check_end(self, lines: int) -> None:
        """Raise DataError if the input ends before the file does."""
        if processes.rank() == 0 and lines < len(self.texts):
            raise self._misfit(f"{lines:,}")

    def _misfit(self, found: str) -> DataError:
        return DataError(
            f"{self.option}: {len(self.texts):,} lines, but the input has {found}; expected one for each line"
        )


@dataclass(frozen=True)
class Begun:
    """Lines, and what the translation of each begins with."""

    lines: BinaryIO
    prefixes: LineByLine


def translate_stream(
    translator: Translator,
    source: BinaryIO | Begun,
    output: Output,
    options: TranslateOptions,
    as_json: bool,
    console: Console,
) -> TranslateStats:
    """Translate what is left of the lines of a stream, a window at a time, in all processes of torchrun.

    Plain output is one line for each line. With n_best above 1 it is rows of line number, rank, log_prob and text;
    with `as_json` a JSON object a line. Raises BrokenPipeError when nobody reads on, DataError when a disk fails, or if
    there are not as many prefixes as lines.
    """
    if options.alignment and options.n_best > 1 and not as_json:
        raise ConfigError("--alignment: a table of the n best has no place for it; add --json, where the best has it")
    started = time.monotonic()
    source, prefixes = (source.lines, source.prefixes) if isinstance(source, Begun) else (source, None)
    before = output.lines
    split_lines = 0
    if source.isatty():
        console.say("type or paste text, one sentence a line; Ctrl-D ends")
    if before:
        console.say(f"{before:,} lines are done; going on from there")

    lossy: list[int] = []

    def translated(window: _Window) -> tuple[_Window, str, int, list[int]]:
        beginnings = None if prefixes is None else prefixes.beside(window.first - 1, len(window.lines))
        translations = translator.translate_window([decode_line(raw) for raw in window.lines], options, beginnings)
        rendered = [
            _render(translation, number, options, as_json)
            for number, translation in enumerate(translations, start=window.first)
        ]
        splits = sum(translation.pieces > 1 for translation in translations)
        lost = [number for number, one in enumerate(translations, start=window.first) if any(one.loss)]
        return window, "".join(line + "\n" for line in rendered), splits, lost

    windows = _numbered(output.rest(read_available(source)), before)
    try:
        with _progress(source, output, console) as advance:
            for window, text, splits, lost in processes.dealt_out(windows, translated):
                output.add(window.lines, text)
                split_lines += splits
                lossy += lost
                advance(len(window.lines), _place(source))
    except KeyboardInterrupt:
        if isinstance(output, ResumableFile):
            console.say(f"{output.lines:,} lines are done; the same command goes on from there")
        raise
    if lossy:
        console.warn(_lossy_lines(lossy))
    if prefixes is not None:
        prefixes.check_end(output.lines)
    return TranslateStats(output.lines - before, split_lines, time.monotonic() - started)


def _lossy_lines(numbers: Sequence[int]) -> str:
    """Say which lines lost something that should have survived, or have it too often."""
    first = ", ".join(f"{number:,}" for number in numbers[:10]) + (" …" if len(numbers) > 10 else "")
    lines = "1 line differs from its" if len(numbers) == 1 else f"{len(numbers):,} lines differ from their"
    return f"{lines} source in URLs, placeholders, tags, terms or numbers ({first}); --json says in what"


@dataclass(frozen=True)
class _Window:
    """Lines that are translated together."""

    first: int
    """The number of the first of them, from 1."""
    lines: list[bytes]


def _numbered(windows: Iterator[list[bytes]], before: int) -> Iterator[_Window]:
    for lines in windows:
        yield _Window(before + 1, lines)
        before += len(lines)


def work_of(
    model: Path, translator: Translator, options: TranslateOptions, as_json: bool, others: Sequence[Path] = ()
) -> Work:
    """Return what decides about the translations of a line, and how it is written, under the names that users know."""
    found: dict[str, Any] = {
        "nmt": __version__,
        "model": " ".join(digest_of_model(each) for each in (model, *others)),
        "computed by": translator.computed_by,
        "output": "JSON" if as_json else "a table" if options.n_best > 1 else "text",
        "window lines": WINDOW_LINES,
    }
    for key, value in asdict(options).items():
        inner = value if isinstance(value, dict) else {key: value}
        found |= {
            name: part if isinstance(part, (str, int, float, bool)) else repr(part) for name, part in inner.items()
        }
    return found


@contextmanager
def opened(source: Path | None, output: Path | None, work: Work) -> Iterator[tuple[BinaryIO, Output]]:
    """Open what to read and where to write, where nothing is named stdin and stdout.

    A file is written so that the same work goes on after a kill, unless the input is typed. Of several processes, only
    the first has them. Raises DataError if one cannot be opened, ConfigError if both are one, which writing would
    empty, or if the output is other work's.
    """
    if processes.rank() > 0:
        yield io.BytesIO(), StreamOutput(io.BytesIO())
        return
    if (source is None and sys.stdin is None) or (output is None and sys.stdout is None):
        raise DataError("standard input or output is closed; name files with --input and --output")
    if source is not None and output is not None and output.is_file() and source.exists() and source.samefile(output):
        raise ConfigError(f"{output}: the input and the output are the same file; name another output")
    with ExitStack() as files:
        lines = files.enter_context(_open(source, "rb")) if source is not None else sys.stdin.buffer
        if output is None:
            yield lines, StreamOutput(sys.stdout.buffer)
        elif _is_device(output) or lines.isatty():
            yield lines, StreamOutput(files.enter_context(_open(output, "wb")))
        else:
            yield lines, files.enter_context(resumable_file(output, work))


def _is_device(output: Path) -> bool:
    """Whether a name stands for a pipe, a device or a stream that is open already, and not for a file."""
    return output.absolute().parts[1] in ("dev", "proc") or (output.exists() and not output.is_file())


def _open(path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    try:
        return path.open(mode)
    except OSError as error:
        verb = "read" if mode == "rb" else "write"
        raise DataError(f"{path}: cannot {verb} it: {error.strerror or error}") from None


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
        full = len(window) >= WINDOW_LINES or size >= WINDOW_BYTES
        if window and (full or not _more_waits(stream)):
            yield window
            window, size = [], 0
    if unfinished:
        window.append(b"".join(unfinished))
    if window:
        yield window


def _render(translation: Translation, line: int, options: TranslateOptions, as_json: bool) -> str:
    if as_json:
        return translation.as_json()
    return translation.as_table(line) if options.n_best > 1 else translation.as_text()


def _more_waits(stream: BinaryIO) -> bool:
    """Whether reading would return at once: always for files, and for what cannot be asked."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _progress(source: BinaryIO, output: Output, console: Console) -> AbstractContextManager[AdvanceTo]:
    """Show progress where no person sees the translations themselves."""
    if source.isatty() or output.watched:
        return nullcontext(lambda amount, place: None)
    return console.progress_through("translating", _size(source), "lines")


def _size(source: BinaryIO) -> int | None:
    """Return how many bytes a stream has, if it is a file."""
    try:
        status = os.fstat(source.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _place(source: BinaryIO) -> int:
    """Return how many bytes of a file are read."""
    return source.tell() if source.seekable() else 0
