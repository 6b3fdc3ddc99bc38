"""Tables: CSV as in RFC 4180, with any of the usual separators, and TSV, whose fields are plain text."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from nmt.errors import ConfigError
from nmt.translation.documents.document import TRANSLATED, Content, Document, Edit, Slot

_SEPARATORS = ",;\t|"
_STATED = re.compile(r"sep=(.)(?:\r\n|\r|\n)")
"""A first line that tells Excel the separator."""
_QUOTED = re.compile(r'"(?:[^"]++|"")*+"')


class _Field(NamedTuple):
    """A field: its text and its span with quotes."""

    text: str
    start: int
    end: int
    quoted: bool = False


def read_table(
    content: Content, format_: Literal["csv", "tsv"], column: str | None, into: str | None = None
) -> Document:
    """Find the texts of a column; their translations replace them or go to the column `into`, where that is empty.

    A name is looked up in the first row, which is then not translated; a number counts columns from 1. A column `into`
    that does not exist is added after the last one. Raises ConfigError for an unknown column, DataError for a row with
    another number of columns than the first.
    """
    stated = _STATED.match(content.text) if format_ == "csv" else None
    start = stated.end() if stated else 0
    separator = stated[1] if stated else _separator(content.text) if format_ == "csv" else "\t"
    rows = list(_rows(content, separator, start, has_quotes=format_ == "csv"))
    if not rows:
        return Document(content, [])
    first = [field.text.strip() for field in rows[0]]
    width = len(first)
    for row in rows:
        if len(row) != width:
            head = content.line_number(rows[0][0].start)
            raise content.error(row[0].start, f"found {len(row)} columns, expected {width} as in line {head}")
    if column is None:
        raise ConfigError(f"--column: which column is translated? give its name or number; found {', '.join(first)}")
    has_header = not column.isdecimal() or (into is not None and not into.isdecimal())
    source = _index("--column", column, first)
    if source == width:
        raise ConfigError(f"--column {column}: no such column; found {', '.join(first)}")
    target = source if into is None else _index("--into", into, first)
    quote = partial(_quoted, separator) if format_ == "csv" else _plain
    slots, edits = [], []
    if target == width and into is not None and has_header:
        end = rows[0][-1].end
        edits.append(Edit(end, end, separator + quote(rows[0][0].quoted, into)))
    for row in rows[has_header:]:
        field, place = row[source], f"line {content.line_number(row[0].start):,}"
        if target == width:
            end = row[-1].end
            write = partial(quote, field.quoted)
            slots.append(Slot(field.text, place, end, end, write, in_place=False, before=separator))
        elif target == source or not row[target].text.strip():
            span = row[target]
            write = partial(quote, field.quoted or span.quoted)
            slots.append(Slot(field.text, place, span.start, span.end, write, in_place=target == source))
    return Document(content, slots, edits, None if into is None else TRANSLATED.format(into))


def _index(option: str, column: str, names: Sequence[str]) -> int:
    """Return the index of a column, that after the last one if it does not exist."""
    if not column.isdecimal():
        if names.count(column) > 1:
            places = " and ".join(str(number) for number, name in enumerate(names, start=1) if name == column)
            raise ConfigError(
                f"{option} {column}: the columns {places} have this name; rename one, or give a number, with which the "
                "first row is translated, too"
            )
        return names.index(column) if column in names else len(names)
    if not 1 <= int(column) <= len(names) + 1:
        raise ConfigError(f"{option} {column}: no such column; there are {len(names)}")
    return int(column) - 1


def _rows(content: Content, separator: str, start: int, has_quotes: bool) -> Iterator[list[_Field]]:
    """Yield the rows from a position on, without empty lines. Raises DataError for quotes that are not closed."""
    end = re.escape(separator)
    quoted = r'"(?P<quoted>(?:[^"]++|"")*+)"|(?!")' if has_quotes else ""
    pattern = re.compile(rf"(?:{quoted}(?P<bare>[^{end}\r\n]*))(?P<end>{end}|\r\n|\r|\n|\Z)")
    text, position, row = content.text, start, list[_Field]()
    while position < len(text) or row:
        found = pattern.match(text, position)
        if found is None:
            complete = _QUOTED.match(text, position)
            if complete is None:
                raise content.error(position, 'a field begins with " and has no closing one')
            after = complete.end()
            raise content.error(after, f"found {text[after : after + 20]!r} after a closing quote")
        is_quoted = found["bare"] is None
        value = found["quoted"].replace('""', '"') if is_quoted else found["bare"]
        row.append(_Field(value, position, found.start("end"), is_quoted))
        position = found.end()
        if found["end"] == separator:
            continue
        if len(row) > 1 or row[0].end > row[0].start:
            yield row
        row = []


def _separator(text: str) -> str:
    """Return the character that separates the fields of the first row: the most frequent one outside of quotes."""
    first = re.match(r'(?:"(?:[^"]++|"")*+"|[^"\r\n])*+', text.lstrip("\r\n"))
    bare = _QUOTED.sub("", first[0] if first else "")
    return max(_SEPARATORS, key=bare.count)


def _quoted(separator: str, quoted: bool, text: str) -> str:
    if quoted or re.search(rf'["\r\n{re.escape(separator)}]', text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _plain(_: bool, text: str) -> str:
    return " ".join(re.split(r"[\t\r\n]+", text))
