"""JSON: the strings of a localization file, or one key of each line of JSON lines."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from nmt.errors import ConfigError
from nmt.translation.documents.document import TRANSLATED, Content, Document, Slot

_TOKEN = re.compile(r"[{}\[\],:\"]|[^\s{}\[\],:\"]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_METADATA = ("@", "$")
"""Keys that begin so hold no text: those of Application Resource Bundles (`@title`), and `$schema`."""
_IDENTIFYING = {"id", "class", "className", "type", "href", "url", "src", "key"}
"""Keys of strings that a program reads. In a file of texts they may have labels, which begin with a capital."""


class _String(NamedTuple):
    """A string value: its text, its span with quotes, and the keys and indices that lead to it."""

    text: str
    start: int
    end: int
    path: tuple[str | int, ...]

    @property
    def keys(self) -> list[str]:
        """The keys of the path."""
        return [step for step in self.path if isinstance(step, str)]

    @property
    def place(self) -> str:
        """The path, as in `menu.items[0]`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return "".join(steps).removeprefix(".") if self.path else "the only string"


def read_json(content: Content, column: str | None = None) -> Document:
    """Find the strings of a JSON file, or only those with the key `column`.

    Raises DataError for invalid JSON; ConfigError without `column` if there are strings that are no text by their key.
    """
    _check(content, content.text, 0)
    strings = [one for one in _strings(content.text) if not any(key.startswith(_METADATA) for key in one.keys)]
    if column is not None:
        strings = [one for one in strings if one.keys[-1:] == [column]]
        if not strings:
            raise ConfigError(f"--column {column}: {content.name} has no string with this key")
    elif identifier := next((one for one in strings if _is_identifier(one)), None):
        raise ConfigError(
            f"--column: which key of {content.name} is translated? give its name, since others hold no text: "
            f"{identifier.place} is {identifier.text[:60]!r}"
        )
    quote = _quoting(content.text)
    return Document(content, [Slot(one.text, one.place, one.start, one.end, quote) for one in strings])


def _is_identifier(string: _String) -> bool:
    key, text = string.path[-1:], string.text
    return bool(_IDENTIFYING.intersection(key) and text) and text.isascii() and not text[0].isupper()


def read_json_lines(content: Content, column: str | None, into: str | None = None) -> Document:
    """Find the string with the key `column` of each line; its translation replaces it or gets the key `into`.

    Lines whose value of `into` is a string that is not empty have a translation already. Raises ConfigError without
    `column`, DataError for a line that is no object or lacks the key.
    """
    if column is None:
        raise ConfigError("--column: which key of the lines is translated? give its name, such as --column text")
    slots = []
    quote = _quoting(content.text)
    for number, line in enumerate(content.lines, 1):
        if not line.text.strip():
            continue
        value = _check(content, line.text, line.start)
        if not isinstance(value, dict) or not isinstance(value.get(column), str):
            found = f"an object with the keys {', '.join(value)}" if isinstance(value, dict) else "no object"
            raise content.error(line.start, f"found {found[:200]}, expected an object with a string for {column!r}")
        place, strings = f"line {number:,}", {one.path: one for one in _strings(line.text)}
        source = strings[column,]
        start, end = line.start + source.start, line.start + source.end
        if into is None or into == column:
            slots.append(Slot(source.text, place, start, end, quote))
        elif into not in value:
            space = " " if ", " in line.text or ": " in line.text else ""
            before = f",{space}{quote(into)}:{space}"
            slots.append(Slot(source.text, place, end, end, quote, in_place=False, before=before))
        elif not value[into] and (into,) in strings:
            target = strings[into,]
            start, end = line.start + target.start, line.start + target.end
            slots.append(Slot(source.text, place, start, end, quote, in_place=False))
        elif not isinstance(value[into], str):
            raise content.error(
                line.start, f"--into {into}: found {value[into]!r:.60}, expected a string or no such key"
            )
    return Document(content, slots, without_texts=None if into is None else TRANSLATED.format(into))


def _check(content: Content, text: str, start: int) -> object:
    """Return the value of a JSON text that begins at a position of the file. Raises DataError if it is invalid."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise content.error(start + error.pos, f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise content.error(start, "not JSON that can be read: nested too deeply") from None


def _strings(text: str) -> Iterator[_String]:
    """Yield the string values of valid JSON."""
    path: list[str | int] = []  # the key or index in each open object or array
    expects_key, position, decoder = False, 0, json.JSONDecoder()
    while token := _TOKEN.search(text, position):
        position = token.end()
        if token[0] == '"':
            value, position = decoder.raw_decode(text, token.start())
            if expects_key:
                path[-1] = value
            else:
                yield _String(value, token.start(), position, tuple(path))
        elif token[0] in "{[":
            path.append("" if token[0] == "{" else 0)
        elif token[0] in "}]":
            path.pop()
        elif token[0] == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
        if token[0] in "{[,:":
            expects_key = token[0] in "{," and bool(path) and isinstance(path[-1], str)


def _quoting(text: str) -> Callable[[str], str]:
    """Return a function that quotes a string as the strings of this JSON text are written.

    If all of it is ASCII and some characters are escaped, others are too; the same holds for slashes.
    """
    ascii_only = text.isascii() and re.search(r"\\u(?!00[01])", text) is not None
    return partial(_quoted, ascii_only, r"\/" in text)


def _quoted(ascii_only: bool, escaped_slash: bool, text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=ascii_only)
    quoted = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)  # impossible in UTF-8
    return quoted.replace("/", r"\/") if escaped_slash else quoted
