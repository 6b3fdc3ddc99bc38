"""Messages for people, on stderr: lines, warnings and progress."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta

from rich.console import Console as RichConsole
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

Advance = Callable[[int], None]  # takes the amount of work just done
AdvanceTo = Callable[[int, int], None]  # takes the amount done and the position reached, both from the beginning

_PLAIN_SECONDS = 15.0  # between two progress lines where stderr is not a terminal
# Columns; a longer bar leaves no room in 80 columns for the ^C that the terminal shows, which then breaks the line.
_BAR_WIDTH = 30
# C0 and C1 control characters but tab and newline, and the ones that override the direction of text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return text with control characters escaped, as `\x1b`: a name in it must not control the terminal."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


class _Stderr(RichConsole):
    def on_broken_pipe(self) -> None:
        raise  # BrokenPipeError, in place of ending the process


@contextmanager
def _discarding_messages() -> Iterator[None]:
    """Discard this and all further messages if they have no reader: work continues when a terminal is closed."""
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class Console:
    """Prints messages, wrapped between words on a terminal, with paths relative to the current directory.

    With `quiet` prints only warnings and errors, with `silent` nothing.
    """

    def __init__(self, quiet: bool = False, silent: bool = False) -> None:
        self.quiet = quiet or silent
        self._folder = os.getcwd()
        self._rich = _Stderr(stderr=True, highlight=False, markup=False, emoji=False, quiet=silent)
        self.log: Callable[[str], None] | None = None  # receives all messages with their times, also with `quiet`

    @property
    def live(self) -> bool:
        """Whether stderr is a terminal that can redraw lines."""
        return not self.quiet and self._rich.is_terminal and os.environ.get("TERM") != "dumb"

    def info(self, message: str) -> None:
        """Print a message."""
        self._print(message, quiet=self.quiet)

    def result(self, message: str) -> None:
        """Print a result on stdout, even if `quiet`."""
        self._record(message)
        if not self._rich.quiet:
            print(printable(message))

    def warn(self, message: str) -> None:
        """Print a warning, even if `quiet`."""
        self._print(f"warning: {message}", "yellow")

    def error(self, message: str) -> None:
        """Print an error, even if `quiet`."""
        self._print(f"error: {message}", "red")

    def _print(self, message: str, style: str = "", quiet: bool = False) -> None:
        text = printable(message)
        if self._folder != "/":  # every path is below it
            text = re.sub(rf"(?<![\w.~/-]){re.escape(self._folder)}/", "", text)
        self._record(text)
        if not quiet:
            with _discarding_messages():
                self._rich.print(text, style=style, soft_wrap=not self._rich.is_terminal)

    def _record(self, message: str) -> None:
        if self.log is not None:
            self.log(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {printable(message)}\n")

    def info_at_once(self, message: str) -> None:
        """Print a message in a signal handler, without Python's buffer, whose use the signal may have interrupted."""
        self._record(message)
        if not self.quiet:
            erase_line = "\r\x1b[2K" if self.live else ""  # a live line, and the ^C that the terminal shows
            with _discarding_messages():
                os.write(2, f"{erase_line}{message}\n".encode())

    def shortened(self, text: str, indent: int) -> str:
        """Return a text on one line, cut with … to fit the terminal after `indent` columns, never in a character."""
        line = Text(printable(" ".join(text.split())))
        line.truncate(max(1, self._rich.width - indent), overflow="ellipsis")
        return line.plain

    @contextmanager
    def status(self, label: str) -> Iterator[None]:
        """Show a label on a terminal while the block runs."""
        with self._rich.status(printable(label)) if self.live else nullcontext():
            yield

    @contextmanager
    def live_line(self, text: str) -> Iterator[Live]:
        """Keep a line at the bottom of the terminal that can be changed; messages are printed above it."""
        with Live(text, console=self._rich, refresh_per_second=4, transient=True) as live:
            yield live

    @contextmanager
    def progress(self, label: str, total: int | None, unit: str = "") -> Iterator[Advance]:
        """Show the progress of long work; yields a function that takes the amount just done."""
        done = 0

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            show(done, done)

        with self.progress_through(label, total, unit) as show:
            yield advance

    @contextmanager
    def progress_through(self, label: str, size: int | None, unit: str) -> Iterator[AdvanceTo]:
        """Show the progress of reading something of a known size; yields a function of the amount and the position.

        The position gives the share done and the remaining time of a text whose number of lines is unknown. Without a
        terminal, a line is printed every 15 seconds.
        """
        if not self.live:
            yield self._plain_progress(label, size, unit)
            return
        amount_done = TextColumn("{task.fields[amount]:,} " + unit)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(_BAR_WIDTH), amount_done)
        share = (TaskProgressColumn(), TimeRemainingColumn()) if size else ()
        with Progress(*columns, *share, console=self._rich, transient=True) as bars:
            task = bars.add_task(printable(label), total=size, amount=0)
            yield lambda amount, position: bars.update(task, completed=position, amount=amount)

    def _plain_progress(self, label: str, size: int | None, unit: str) -> AdvanceTo:
        """Return a function that prints the progress as a line every 15 seconds, for logs and pipes."""
        due, first = time.monotonic() + _PLAIN_SECONDS, None

        def advance_to(amount: int, position: int) -> None:
            nonlocal due, first
            now = time.monotonic()
            first = first or (now, position)
            since, start = first
            if now < due:
                return
            due = now + _PLAIN_SECONDS
            share = f", {position / size:.0%}" if size else ""
            if size and position > start:
                left = (now - since) * (size - position) / (position - start)
                share += f", {timedelta(seconds=round(left))} left"
            self.info(f"{label}: {amount:,} {unit}".rstrip() + share)

        return advance_to


def counted(count: int, noun: str) -> str:
    """Return `1 line`, `2,048 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
