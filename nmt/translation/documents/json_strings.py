"""JSON: the strings of a localization file, in which all else stays byte for byte."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from nmt.errors import ConfigError
from nmt.translation.documents.document import Content, Document, Edits

_TOKEN = re.compile(r"[{}\[\],:\"]|[^\s{}\[\],:\"]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Keys that begin so hold no text: those of Application Resource Bundles (`@title`), and `$schema`.
_METADATA = ("@", "$")
# Keys of strings that a program reads. In a file of texts they may have labels, which begin with a capital.
_IDENTIFYING = {"id", "class", "className", "type", "href", "url", "src", "key"}


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
    value_of(content, content.text, 0)
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
    edits = Edits(content)
    slots = [edits.slot(one.text, one.start, one.end, quoted, one.place) for one in strings]
    return Document(content.name, slots, edits.encoded)


def _is_identifier(string: _String) -> bool:
    key, text = string.path[-1:], string.text
    return bool(_IDENTIFYING.intersection(key) and text) and text.isascii() and not text[0].isupper()


def value_of(content: Content, text: str, start: int) -> object:
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


def quoted(value: object) -> str:
    """Return a value as JSON in UTF-8, which has no unpaired surrogates."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
