"""`nmt runs`: a table of runs."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console as RichConsole
from rich.measure import Measurement
from rich.table import Table

from nmt.errors import ModelError
from nmt.report.run_records import Row, columns_of, differing_settings, find_runs, in_order, run_row, setting_text
from nmt.system.console import printable

_LONGEST = 40  # characters of a cell
_UNLIMITED = 10_000
# Columns that a narrow terminal leaves out, after the columns of settings; the last column is left out first.
_OPTIONAL = ("minutes", "tokens", "steps", "pairs", "parameters")


def runs(folders: Sequence[Path], order: str) -> list[Row]:
    """Return a row for each run in the folders, in an order of `in_order`; equal names are paths. Raises ModelError."""
    places: dict[Path, tuple[str, Path]] = {}
    for folder in folders:
        for name, path in find_runs(folder).items():
            places.setdefault(path.resolve(), (name, path))
    if not places:
        raise ModelError(f"{', '.join(map(str, folders))}: no run in this folder; nmt train makes one, in runs/NAME")
    names = Counter(name for name, _ in places.values())
    return in_order([run_row(name if names[name] == 1 else str(path), path) for name, path in places.values()], order)


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table to stdout: on a terminal as many of the columns as it has room for, else all."""
    terminal = sys.stdout.isatty()
    console = RichConsole(highlight=False, markup=False, emoji=False, width=None if terminal else _UNLIMITED)
    settings = differing_settings(rows)
    columns = columns_of(rows)
    names = {"name": columns.pop("name")}
    columns = names | {key: list(map(setting_text, values)) for key, values in settings.items()} | columns
    optional = [key for key in (*_OPTIONAL, *settings, "device") if key in columns]
    table = _table(columns, terminal)
    unlimited = console.options.update(max_width=_UNLIMITED)
    while optional and Measurement.get(console, unlimited, table).maximum > console.width:
        del columns[optional.pop()]
        table = _table(columns, terminal)
    console.print(table)


def _table(columns: dict[str, list[str]], narrow: bool) -> Table:
    """Return a table of texts by column; `narrow` breaks the names of columns."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for key in columns:
        head = key.replace(".", ".\n").replace(" ", "\n") if narrow else key
        table.add_column(head, justify="left" if key in ("name", "device", "remark") else "right")
    for texts in zip(*columns.values(), strict=True):
        table.add_row(*(printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…") for text in texts))
    return table
