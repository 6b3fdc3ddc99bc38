"""JSON and JSON lines: strings are translated at their positions."""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from nmt.errors import ConfigError
from nmt.text.items import Line
from nmt.translation.documents.document import Content, Replacement, Texts, read_text

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


def read_json(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Replace the strings of a JSON file but those that a program reads, or only those at or below keys.

    Strings at or below an excluded key are left out. Raises DataError for invalid JSON, ConfigError for an unknown key.
    """
    check_json(content, content.text, 0)
    columns, excluded = content.options.columns, content.options.excluded
    strings = [one for one in _values(content.text) if isinstance(one.value, str)]
    known = set[str]().union(*(one.names for one in strings))
    if unknown := [name for name in (*columns, *excluded) if name not in known]:
        raise ConfigError(f"--column or --exclude {unknown[0]}: {content.name} has no string with this key")
    for one in strings:
        is_chosen = one.names.intersection(columns) if columns else not any(key[:1] in _METADATA for key in one.keys)
        if not is_chosen or one.names.intersection(excluded):
            continue
        if one.is_for_programs and not columns:
            texts.keep("string by its key or form (--column KEY)", one.place)
            continue
        raw, place = content.text[one.start : one.end], one.place or "the only string"
        yield one.start, one.end, texts.replaced(raw, read_text(str(one.value)), place, _quoted)


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


def _quoted(text: Line | str) -> str:
    """Return a string as JSON in UTF-8, which has no unpaired surrogates."""
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(str(text), ensure_ascii=False))


def read_json_lines(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Replace the strings with certain keys of each line; a translation replaces it or gets another key.

    Keys may be nested, as in `translation.en`. Null is no text; lines whose value of the other key is a string that is
    not empty have a translation already. Raises ConfigError without keys, DataError for a line that lacks one.
    """
    if not content.options.columns:
        raise ConfigError("--column: which key of the lines is translated? give its name, such as --column text")
    for line in content.lines:
        if not line.text.strip():
            continue
        check_json(content, line.text, line.start)
        values = {one.place: one for one in _values(line.text)}
        for column in dict.fromkeys(content.options.columns):
            source, into = values.get(column), content.options.into or column
            if source is None or not isinstance(source.value, str | None):
                found = ", ".join(values)[:200]
                raise content.error(line.start, f"found the keys {found}, expected a string for {column!r}")
            if source.value is None:
                continue
            if (target := _target(values, column, into)) is None:
                raise content.error(line.start, f"--into {into}: found another value, expected a string or no such key")
            if into != column and str(target.value or "").strip():
                continue
            text = read_text(source.value)
            translation = texts.translation(text, content.place(line.start))
            if translation is not None and (into != column or translation != text):
                key = "" if into in values else f", {_quoted(into.rpartition('.')[2])}: "
                yield line.start + target.start, line.start + target.end, key + _quoted(translation)


def _target(values: dict[str, _Value], column: str, into: str) -> _Value | None:
    """Return the value that a translation replaces, of no length behind the source if its key does not exist.

    None if there is another value in its place, or none that could contain it.
    """
    if into in values:
        return values[into] if isinstance(values[into].value, str | None) else None
    is_other = any(one.startswith((f"{into}.", f"{into}[")) for one in values)
    if is_other or into.rpartition(".")[0] != column.rpartition(".")[0]:
        return None
    return values[column]._replace(value=None, start=values[column].end)
