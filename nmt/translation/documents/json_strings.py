"""JSON and JSON lines: strings are translated at their positions."""

import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from nmt.errors import ConfigError
from nmt.text.items import Line
from nmt.translation.documents.document import TRANSLATED, Content, Document, Edits, Entry, ReadOptions, read_text

_TOKEN = re.compile(r"[{}\[\],:\"]|[^\s{}\[\],:\"]+")
# Numbers are read as floats, since Python refuses integers of more than 4,300 digits; they stay as they are written.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Keys that begin so hold no text: those of Application Resource Bundles (`@title`), and `$schema`.
_METADATA = ("@", "$")
# The last words of keys whose strings a program reads; a label under such a key begins with a capital or has a space.
_RESERVED = re.compile(
    r"(?:.*[_.-])?(?:id|uuid|class|class_?name|type|href|url|uri|src|key|slug|icon|colou?r|locale|lang|language|dir|format)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Plural forms of gettext, codes of locales, and formats of times, with a doubled letter.
_READ_BY_PROGRAMS = re.compile(
    r"nplurals=.*|[a-z]{2,3}[-_](?:[A-Z][a-z]{3}[-_])?[A-Z]{2}|ltr|rtl"
    r"|(?=.*([A-Za-z])\1)(?:([DMYHhmsSyEaAdZ])\2*)(?:[\W_]+(?:([DMYHhmsSyEaAdZ])\3*))+"
)


class _Value(NamedTuple):
    """A string, number, true, false or null, its span, the keys that lead to it, and these and the indices as text."""

    value: object
    start: int
    end: int
    keys: tuple[str, ...]
    place: str

    @property
    def names(self) -> set[str]:
        """Each key, and each with those before it, as in `menu.open`."""
        return {*self.keys, *accumulate(self.keys, "{}.{}".format)}

    @property
    def is_for_programs(self) -> bool:
        """Whether a program reads the string, by its key or its form."""
        text, key = str(self.value), _CAMEL.sub("_", self.keys[-1]) if self.keys else ""
        is_label = not text.isascii() or text[:1].isupper() or " " in text
        return bool((text and not is_label and _RESERVED.fullmatch(key)) or _READ_BY_PROGRAMS.fullmatch(text))


def read_json(content: Content, options: ReadOptions) -> Document:
    """Find the strings of a JSON file but those that a program reads, or only those at or below keys.

    Strings at or below an excluded key are left out. Raises DataError for invalid JSON, ConfigError for an unknown key.
    """
    check_json(content, content.text, 0)
    strings = [one for one in _values(content.text) if isinstance(one.value, str)]
    known = set[str]().union(*(one.names for one in strings))
    if unknown := [name for name in (*options.columns, *options.excluded) if name not in known]:
        raise ConfigError(f"--column or --exclude {unknown[0]}: {content.name} has no string with this key")
    strings = [one for one in strings if not one.names.intersection(options.excluded)]
    kept = list[str]()
    if options.columns:
        strings = [one for one in strings if one.names.intersection(options.columns)]
    else:
        strings = [one for one in strings if not any(key.startswith(_METADATA) for key in one.keys)]
        kept = [one.place for one in strings if one.is_for_programs]
        strings = [one for one in strings if not one.is_for_programs]
    edits = Edits(content)
    entries = [_entry(edits, one, one.start, one.place or "the only string") for one in strings]
    return Document(content.name, entries, edits.encoded, kept=("string by its key or form (--column KEY)", kept))


def _entry(edits: Edits, string: _Value, start: int, place: str) -> Entry:
    end = start + string.end - string.start
    return edits.entry(read_text(str(string.value)), start, end, lambda line: _quoted(str(line)), place)


def check_json(content: Content, text: str, start: int) -> None:
    """Raise DataError unless a text that begins at a position of the file is JSON."""
    try:
        json.loads(text, parse_int=float)
    except json.JSONDecodeError as error:
        advice = "; for an object in each line, give --format jsonl" * error.msg.startswith("Extra data")
        raise content.error(start + error.pos, f"not JSON: {error.msg} at column {error.colno}{advice}") from None
    except RecursionError:
        raise content.error(start, "not JSON that can be read: nested too deeply") from None


def _values(text: str) -> Iterator[_Value]:
    """Yield the strings, numbers, true, false and null of valid JSON."""
    path: list[str | int] = []  # the key or index in each open object or array
    expects_key, position, decoder = False, 0, json.JSONDecoder(parse_int=float)
    while token := _TOKEN.search(text, position):
        position = token.end()
        if token[0][0] not in "{}[],:":
            value, position = decoder.raw_decode(text, token.start())
            if expects_key:
                path[-1] = value
            else:
                place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
                keys = tuple(step for step in path if isinstance(step, str))
                yield _Value(value, token.start(), position, keys, place.removeprefix("."))
        elif token[0] in "{[":
            path.append("" if token[0] == "{" else 0)
        elif token[0] in "}]":
            path.pop()
        elif token[0] == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
        if token[0] in "{[,:":
            expects_key = token[0] in "{," and bool(path) and isinstance(path[-1], str)


def _quoted(text: str) -> str:
    """Return a string as JSON in UTF-8, which has no unpaired surrogates."""
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def read_json_lines(content: Content, options: ReadOptions) -> Document:
    """Find the strings with certain keys of each line; a translation replaces it or gets another key.

    Keys may be nested, as in `translation.en`. Null is no text; lines whose value of the other key is a string that is
    not empty have a translation already. Raises ConfigError without keys, DataError for a line that lacks one.
    """
    if not options.columns:
        raise ConfigError("--column: which key of the lines is translated? give its name, such as --column text")
    edits, entries = Edits(content), list[Entry]()
    for number, line in enumerate(content.lines, 1):
        if not line.text.strip():
            continue
        check_json(content, line.text, line.start)
        values = {one.place: one for one in _values(line.text)}
        for column in options.columns:
            source, found = values.get(column), ", ".join(values)[:200]
            if source is None or not isinstance(source.value, str | None):
                raise content.error(line.start, f"found the keys {found}, expected a string for {column!r}")
            if source.value is not None:
                entry = _entry(edits, source, line.start + source.start, f"line {number:,}")
                into = options.into if options.into != column else None
                entries += [entry] if into is None else _into(edits, line.start, entry, values, (column, into))
    without = TRANSLATED.format(options.into) if options.into else "it has no text"
    return Document(content.name, entries, edits.encoded, without)


def _into(edits: Edits, start: int, entry: Entry, values: dict[str, _Value], keys: tuple[str, str]) -> list[Entry]:
    """Return the entry of one key with its translation under another one, if that has none yet."""
    column, into = keys

    def write(line: Line, first: int, last: int, key: str = "") -> None:
        edits.replace(start + first, start + last, key + _quoted(str(line)))

    if (target := values.get(into)) is not None and isinstance(target.value, str | None):
        is_empty = not (target.value or "").strip()
        return [entry._replace(write=partial(write, first=target.start, last=target.end))] * is_empty
    (parent, _, key), end = into.rpartition("."), values[column].end
    is_other = any(one.startswith((f"{into}.", f"{into}[")) for one in values) or target is not None
    if is_other or parent != column.rpartition(".")[0]:
        raise edits.content.error(start, f"--into {into}: found another value, expected a string or no such key")
    return [entry._replace(write=partial(write, first=end, last=end, key=f", {_quoted(key)}: "))]
