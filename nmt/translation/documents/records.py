"""Tables: the rows of CSV and TSV, in which columns are translated.

Rows without a translation stay byte for byte; in the others, quotes and spaces around the values are written anew.
"""

import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nmt.errors import ConfigError
from nmt.text.items import Line
from nmt.text.readers.tables import delimiter_of
from nmt.translation.documents.document import TRANSLATED, Content, Document, Edits, Entry, ReadOptions, read_text

# A first line that tells Excel the separator.
_STATED = re.compile(r"sep=(.)(?:\r\n|\r|\n)")
_RAW_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@dataclass
class _Row:
    """The cells of a row, the span of its lines, and whether a cell has changed."""

    cells: list[str]
    start: int
    end: int
    is_changed: bool = False


def read_table(content: Content, options: ReadOptions) -> Document:
    """Find the texts of a column; their translations replace them or go to another column, where that is empty.

    A name is looked up in the first row, which is then not translated; a number counts columns from 1. A column for the
    translations that does not exist is added after the last one. Quotes have no meaning in TSV. Raises ConfigError for
    an unknown column, DataError for a row with another number of columns than the first.
    """
    is_csv = options.format == "csv"
    stated = _STATED.match(content.text) if is_csv else None
    lines = list(_RAW_LINE.finditer(content.text, stated.end() if stated else 0))
    separator = stated[1] if stated else delimiter_of([line[0] for line in lines]) if is_csv else "\t"
    form: dict[str, Any] = {"delimiter": separator, "strict": True}
    if not is_csv:
        form |= {"quoting": csv.QUOTE_NONE, "quotechar": None}
    rows = _rows(content, lines, form)
    entries = _entries(content, rows, options) if rows else []

    def encoded() -> bytes:
        edits = Edits(content)
        for row in (row for row in rows if row.is_changed):
            raw, buffer = content.text[row.start : row.end], io.StringIO()
            if not is_csv:  # which has no way to write tabs and line ends
                row.cells = [re.sub(r"[\t\r\n]+", " ", cell) for cell in row.cells]
            csv.writer(buffer, **form, lineterminator=raw[len(raw.rstrip("\r\n")) :]).writerow(row.cells)
            edits.replace(row.start, row.end, buffer.getvalue())
        return edits.encoded()

    without = TRANSLATED.format(options.into) if options.into else "it has no text"
    return Document(content.name, entries, encoded, without)


def _rows(content: Content, lines: Sequence[re.Match[str]], form: dict[str, Any]) -> list[_Row]:
    """Return the rows that are not empty."""
    limit = csv.field_size_limit(sys.maxsize)
    reader, rows, read = csv.reader((line[0] for line in lines), **form), list[_Row](), 0
    try:
        for cells in reader:
            if cells:
                rows.append(_Row(cells, lines[read].start(), lines[reader.line_num - 1].end()))
            read = reader.line_num
    except csv.Error as error:
        problem = f"not CSV: {error}, in the row that begins in this line"
        raise content.error(lines[read].start(), problem) from None
    finally:  # readers of corpora keep the limit, which tells of a quote that is not closed
        csv.field_size_limit(limit)
    return rows


def _entries(content: Content, rows: list[_Row], options: ReadOptions) -> list[Entry]:
    """Return the entries of a column; a column for the translations that does not exist is added to the rows."""
    head, into = [cell.strip() for cell in rows[0].cells], options.into
    width, found = len(head), f"found {', '.join(head)}"
    if row := next((row for row in rows if len(row.cells) != width), None):
        expected = f"expected {width} as in line {content.line_number(rows[0].start)}"
        raise content.error(row.start, f"found {len(row.cells)} columns, {expected}")
    if len(options.columns) != 1:
        advice = "for lines of text give --format text"
        raise ConfigError(f"--column: which column is translated? give its name or number; {found}; {advice}")
    column = options.columns[0]
    if (source := _index("--column", column, head)) == width:
        raise ConfigError(f"--column {column}: no such column; {found}")
    target = source if into is None else _index("--into", into, head)
    has_header = not column.isdecimal() or (into is not None and not into.isdecimal())
    if target == width:
        for row in rows:
            row.cells.append("")
            row.is_changed = True
        rows[0].cells[-1] = into or "" if has_header else ""

    def write(line: Line, row: _Row, text: Line) -> None:
        if target != source or line != text:
            row.is_changed, row.cells[target] = True, str(line)

    entries = list[Entry]()
    for row in rows[has_header:]:
        if target == source or not row.cells[target].strip():
            text, place = read_text(row.cells[source]), f"line {content.line_number(row.start):,}"
            entries.append(Entry(text, place, partial(write, row=row, text=text)))
    return entries


def _index(option: str, column: str, names: Sequence[str]) -> int:
    """Return the index of a column, that after the last one if it does not exist."""
    if column.isdecimal():
        if not 1 <= int(column) <= len(names) + 1:
            raise ConfigError(f"{option} {column}: no such column; there are {len(names)}")
        return int(column) - 1
    if names.count(column) > 1:
        places = " and ".join(str(number) for number, name in enumerate(names, start=1) if name == column)
        advice = "rename one, or give a number, with which the first row is translated, too"
        raise ConfigError(f"{option} {column}: the columns {places} have this name; {advice}")
    return names.index(column) if column in names else len(names)
