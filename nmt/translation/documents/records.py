"""Tables: the rows of CSV and TSV, in which columns are translated.

Rows without a translation stay byte for byte; in the others, quotes and spaces around the values are written anew.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from nmt.errors import ConfigError
from nmt.text.readers.tables import STATED_DELIMITER, delimiter_of
from nmt.translation.documents.document import Content, Replacement, Texts, read_text

_RAW_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class _Row(NamedTuple):
    """The cells of a row, and the span of its lines."""

    cells: list[str]
    start: int
    end: int


def read_table(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Translate the texts of a column, in place or into the empty cells of another column.

    A name is looked up in the first row, which is then not translated; a number counts columns from 1. A column for the
    translations that does not exist is added after the last one. Quotes have no meaning in TSV. Raises ConfigError for
    an unknown column, DataError for a row with another number of columns than the first.
    """
    is_csv = content.options.format == "csv"
    stated = STATED_DELIMITER.match(content.text) if is_csv else None
    lines = list(_RAW_LINE.finditer(content.text, stated.end() if stated else 0))
    form: dict[str, Any] = {"delimiter": "\t", "strict": True, "quoting": csv.QUOTE_NONE, "quotechar": None}
    if is_csv:
        form = {"delimiter": (stated and stated[1]) or delimiter_of([line[0] for line in lines]), "strict": True}
    if not (rows := _rows(content, lines, form)):
        return
    source, target, has_header = _columns(content, rows)
    for row in rows:
        cells, is_header = [*row.cells], has_header and row is rows[0]
        if target == len(cells):
            cells.append(content.options.into or "" if is_header else "")
        if not is_header and (target == source or not cells[target].strip()):
            text = read_text(cells[source])
            translation = texts.translation(text, content.place(row.start))
            if translation is not None and (target != source or translation != text):
                # TSV has no way to write tabs and line ends
                cells[target] = str(translation) if is_csv else re.sub(r"[\t\r\n]+", " ", str(translation))
        if cells != row.cells:
            raw, buffer = content.text[row.start : row.end], io.StringIO()
            csv.writer(buffer, **form, lineterminator=raw[len(raw.rstrip("\r\n")) :]).writerow(cells)
            yield row.start, row.end, buffer.getvalue()


def _rows(content: Content, lines: Sequence[re.Match[str]], form: dict[str, Any]) -> list[_Row]:
    """Return the rows that are not empty."""
    reader, rows, lines_read = csv.reader((line[0] for line in lines), **form), list[_Row](), 0
    try:
        for cells in reader:
            if cells:
                rows.append(_Row(cells, lines[lines_read].start(), lines[reader.line_num - 1].end()))
            lines_read = reader.line_num
    except csv.Error as error:
        problem = f"not CSV: {error}, in the row that begins in this line"
        raise content.error(lines[lines_read].start(), problem) from None
    return rows


def _columns(content: Content, rows: Sequence[_Row]) -> tuple[int, int, bool]:
    """Return the indices of the texts and of the translations, and whether the first row has the names of columns."""
    head, into = [cell.strip() for cell in rows[0].cells], content.options.into
    width, columns = len(head), f"found {', '.join(head)}"
    if row := next((row for row in rows if len(row.cells) != width), None):
        expected = f"expected {width} as in {content.place(rows[0].start)}"
        raise content.error(row.start, f"found {len(row.cells)} columns, {expected}")
    if len(content.options.columns) != 1:
        advice = "for lines of text give --format text"
        raise ConfigError(f"--column: which column is translated? give its name or number; {columns}; {advice}")
    column = content.options.columns[0]
    if (source := _index("--column", column, head)) == width:
        raise ConfigError(f"--column {column}: no such column; {columns}")
    target = source if into is None else _index("--into", into, head)
    return source, target, not column.isdecimal() or (into is not None and not into.isdecimal())


def _index(option: str, column: str, names: Sequence[str]) -> int:
    """Return the index of a column; the one after the last if no column has this name."""
    if column.isdecimal():
        if not 1 <= int(column) <= len(names) + 1:
            raise ConfigError(f"{option} {column}: no such column; there are {len(names)}")
        return int(column) - 1
    if names.count(column) > 1:
        places = " and ".join(str(number) for number, name in enumerate(names, start=1) if name == column)
        advice = "rename one, or give a number, with which the first row is translated, too"
        raise ConfigError(f"{option} {column}: the columns {places} have this name; {advice}")
    return names.index(column) if column in names else len(names)
