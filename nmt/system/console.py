"""Talk to people on stderr: plain lines, warnings, and progress bars where there is a terminal."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console as RichConsole
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

Advance = Callable[[int], None]
AdvanceTo = Callable[[int, int], None]
"""It is called with the amount done and the place reached, both from the beginning."""

_PLAIN_SECONDS = 15.0
"""Where there is no terminal, long work says how far it is this often."""


class Console:
    """Where a stage says what it does. `quiet` keeps silent but for warnings and errors, `silent` altogether."""

    def __init__(self, quiet: bool = False, silent: bool = False) -> None:
        self.quiet = quiet or silent
        self._rich = RichConsole(stderr=True, highlight=False, soft_wrap=True, markup=False, quiet=silent)

    @property
    def live(self) -> bool:
        """Whether stderr is a terminal that can redraw itself."""
        return not self.quiet and self._rich.is_terminal and os.environ.get("TERM") != "dumb"

    def say(self, message: str) -> None:
        """Print one line of news."""
        if not self.quiet:
            self._rich.print(message)

    def warn(self, message: str) -> None:
        """Print a line that also a quiet user must see."""
        self._rich.print(f"warning: {message}", style="yellow")

    def error(self, message: str) -> None:
        """Print what went wrong."""
        self._rich.print(f"error: {message}", style="red")

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        """Print a small table; on a terminal with lines, elsewhere as aligned text."""
        if self.quiet:
            return
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*row)
        self._rich.print(table)

    @contextmanager
    def live_line(self) -> Iterator[Live]:
        """Keep a line at the bottom of the terminal that can be changed; news is printed above it."""
        with Live(console=self._rich, refresh_per_second=4, transient=True) as live:
            yield live

    @contextmanager
    def progress(self, label: str, total: int | None, unit: str = "") -> Iterator[Advance]:
        """Show how far long work is; yields a function to call with the amount just done."""
        if self.live:
            counts = (MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
            columns = (TextColumn("{task.description}"), BarColumn(), *counts)
            with Progress(*columns, console=self._rich, transient=True) as bars:
                task = bars.add_task(label, total=total)
                yield lambda amount: bars.advance(task, amount)
        else:
            yield _PlainProgress(self, label, total, unit).advance

    @contextmanager
    def progress_through(self, label: str, size: int | None, unit: str) -> Iterator[AdvanceTo]:
        """Show how far reading is of what has a size; yields a function to call with the amount done and the place.

        So a text whose lines nobody has counted has a share done and a time left all the same.
        """
        if self.live:
            amount_done = TextColumn("{task.fields[amount]:,} " + unit)
            columns = (TextColumn("{task.description}"), BarColumn(), amount_done, TaskProgressColumn())
            with Progress(*columns, TimeRemainingColumn(), console=self._rich, transient=True) as bars:
                task = bars.add_task(label, total=size, amount=0)
                yield lambda amount, place: bars.update(task, completed=place, amount=amount)
        else:
            yield _PlainProgress(self, label, None, unit, size).advance_to


def counted(count: int, noun: str) -> str:
    """Return `1 line`, `2,048 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class _PlainProgress:
    """Progress as a line now and then, for logs and pipes."""

    def __init__(self, console: Console, label: str, total: int | None, unit: str, size: int | None = None) -> None:
        self._console, self._label, self._total, self._unit, self._size = console, label, total, unit, size
        self._done = 0
        self._next = time.monotonic() + _PLAIN_SECONDS
        self._first: tuple[float, int] | None = None

    def advance(self, amount: int) -> None:
        self._done += amount
        if time.monotonic() >= self._next:
            self._say(f" of {self._total:,}" if self._total else "", "")

    def advance_to(self, amount: int, place: int) -> None:
        self._done = amount
        now = time.monotonic()
        if self._first is None:
            self._first = now, place
        if now >= self._next:
            since, start = self._first
            share = f", {place / self._size:.0%}" if self._size else ""
            if self._size and place > start:
                share += f", {(now - since) * (self._size - place) / (place - start) / 60:,.0f} min left"
            self._say("", share)

    def _say(self, of: str, share: str) -> None:
        self._next = time.monotonic() + _PLAIN_SECONDS
        self._console.say(f"{self._label}: {self._done:,}{of} {self._unit}".rstrip() + share)
