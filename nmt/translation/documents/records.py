"""Records: the rows of CSV and TSV, and JSON lines, in which a column or key is translated.

Values stay; the quotes and spaces around them are written anew in the rows that are.
"""

import csv
import io
import re
import sys
from functools import partial
from typing import Any

from nmt.errors import ConfigError, DataError
from nmt.translation.documents.document import TRANSLATED, Content, Document, Slot
from nmt.translation.documents.json_strings import quoted, value_of

_SEPARATORS = ",;\t|"
# A first line that tells Excel the separator.
_STATED = re.compile(r"sep=(.)(?:\r\n|\r|\n)")


def read_table(content: Content, format_: str, column: str | None, into: str | None = None) -> Document:
    """Find the texts of a column; their translations replace them or go to the column `into`, where that is empty.

    A name is looked up in the first row, which is then not translated; a number counts columns from 1. A column `into`
    that does not exist is added after the last one. The separator of CSV is the one that its first row has most of.
    Quotes have no meaning in TSV. Raises ConfigError for an unknown column, DataError for a row with another number of
    columns than the first.
    """
    stated = _STATED.match(content.text) if format_ == "csv" else None
    body = content.text[stated.end() :] if stated else content.text
    first = re.split(r"[\r\n]", re.sub('"[^"]*"', "", body.lstrip("\r\n")), maxsplit=1)[0]
    separator = stated[1] if stated else max(_SEPARATORS, key=first.count) if format_ == "csv" else "\t"
    form: dict[str, Any] = {"delimiter": separator, "strict": True, "lineterminator": content.line_end}
    if format_ == "tsv":
        form |= {"quoting": csv.QUOTE_NONE, "quotechar": None}
    limit = csv.field_size_limit(sys.maxsize)
    reader = csv.reader(io.StringIO(body, newline=""), **form)
    rows, numbers, skipped = list[list[str]](), list[int](), int(stated is not None)
    try:
        number = skipped + 1
        for row in reader:
            rows.append(row)
            numbers.append(number)
            number = skipped + reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{content.name}:{number}: not CSV: {error}, in the row that begins in this line") from None
    finally:  # readers of corpora keep the limit, which tells of a quote that is not closed
        csv.field_size_limit(limit)
    slots = _cells(
        content.name, [(number, row) for number, row in zip(numbers, rows, strict=True) if row], column, into
    )

    def encoded() -> bytes:
        buffer = io.StringIO()
        if format_ == "tsv":  # which has no way to write tabs and line ends
            rows[:] = [[re.sub(r"[\t\r\n]+", " ", cell) for cell in row] for row in rows]
        csv.writer(buffer, **form).writerows(rows)
        return content.encode(f"{stated[0] if stated else ''}{buffer.getvalue()}")

    return Document(content.name, slots, encoded, TRANSLATED.format(into) if into else "it has no text")


def _cells(name: str, rows: list[tuple[int, list[str]]], column: str | None, into: str | None) -> list[Slot]:
    """Return the slots of a column; a column `into` that does not exist is added to the rows."""
    if not rows:
        return []
    head, width = [cell.strip() for cell in rows[0][1]], len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            raise DataError(f"{name}:{number}: found {len(row)} columns, expected {width} as in line {rows[0][0]}")
    if column is None:
        raise ConfigError(f"--column: which column is translated? give its name or number; found {', '.join(head)}")
    has_header = not column.isdecimal() or (into is not None and not into.isdecimal())
    source = _index("--column", column, head)
    if source == width:
        raise ConfigError(f"--column {column}: no such column; found {', '.join(head)}")
    target = source if into is None else _index("--into", into, head)
    if target == width:
        for _, row in rows:
            row.append("")
        rows[0][1][-1] = into or "" if has_header else ""
    return [
        Slot(row[source], f"line {number:,}", partial(row.__setitem__, target))
        for number, row in rows[has_header:]
        if target == source or not row[target].strip()
    ]


def _index(option: str, column: str, names: list[str]) -> int:
    """Return the index of a column, that after the last one if it does not exist."""
    if column.isdecimal():
        if not 1 <= int(column) <= len(names) + 1:
            raise ConfigError(f"{option} {column}: no such column; there are {len(names)}")
        return int(column) - 1
    if names.count(column) > 1:
        places = " and ".join(str(number) for number, name in enumerate(names, start=1) if name == column)
        raise ConfigError(
            f"{option} {column}: the columns {places} have this name; rename one, or give a number, with which the "
            "first row is translated, too"
        )
    return names.index(column) if column in names else len(names)


def read_json_lines(content: Content, column: str | None, into: str | None = None) -> Document:
    """Find the string with the key `column` of each line; its translation replaces it or gets the key `into`.

    Lines whose value of `into` is a string that is not empty have a translation already. Raises ConfigError without
    `column`, DataError for a line that is no object or lacks the key.
    """
    if column is None:
        raise ConfigError("--column: which key of the lines is translated? give its name, such as --column text")
    slots, written = list[Slot](), [line.text for line in content.lines]
    for index, line in enumerate(content.lines):
        if not line.text.strip():
            continue
        value = value_of(content, line.text, line.start)
        if not isinstance(value, dict) or not isinstance(value.get(column), str):
            found = f"an object with the keys {', '.join(value)}" if isinstance(value, dict) else "no object"
            raise content.error(line.start, f"found {found[:200]}, expected an object with a string for {column!r}")
        target = value.get(into) if into else None
        target = "" if target is None else target
        if not isinstance(target, str):
            raise content.error(line.start, f"--into {into}: found {target!r:.60}, expected a string or no such key")

        def write(translation: str, index: int = index, value: dict[str, object] = value) -> None:
            written[index] = quoted(value | {into or column: translation})

        if into in (None, column) or not target.strip():
            slots.append(Slot(value[column], f"line {index + 1:,}", write))
    end = content.line_end
    without = TRANSLATED.format(into) if into else "it has no text"
    return Document(content.name, slots, lambda: content.encode("".join(f"{line}{end}" for line in written)), without)
