"""JSON and JSON lines: strings are translated at their positions."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from nmt.errors import ConfigError
from nmt.text.items import Line
from nmt.translation.documents.document import Content, FileLine, ReadOptions, Replacement, Texts, read_text
from nmt.translation.result import plain_json

_MOST_NESTED = 100  # since each string has a path of this length
_TOKEN = re.compile(r"\{\s*\}|\[\s*\]|[{}\[\],:\"]|[^\s{}\[\],:\"]+")
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
    """A string, number, true, false, null, or what is empty, its span, and the keys and indices that lead to it."""

    value: object
    start: int
    end: int
    path: tuple[str | int, ...]

    @property
    def keys(self) -> list[str]:
        """The keys that lead to the value."""
        return [step for step in self.path if isinstance(step, str)]

    @property
    def place(self) -> str:
        """The path as text, such as `menu[0].open`."""
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return path.removeprefix(".")

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

    Strings at or below an excluded key are left out. Each JSON line must have the keys; null is not a text, and a
    translation may have another key. Raises DataError for invalid JSON and unknown keys, ConfigError without keys.
    """
    options, is_lines = content.options, content.options.format == "jsonl"
    if is_lines and not options.columns:
        raise ConfigError("--column: which key of the lines is translated? give its name, such as --column text")
    for text, start in content.lines if is_lines else [FileLine(content.text, 0)]:
        if is_lines and not text.strip():
            continue
        check_json(content, text, start)
        values = [value._replace(start=start + value.start, end=start + value.end) for value in _values(text)]
        if any(len(value.path) > _MOST_NESTED for value in values):
            raise content.error(start, f"found more than {_MOST_NESTED} objects and arrays inside each other")
        strings = [value for value in values if isinstance(value.value, str | None)]
        chosen = (*options.columns, *options.excluded)
        known = set[str]().union(*(string.names for string in strings if chosen))
        if unknown := [name for name in chosen if name not in known]:
            keys = ", ".join(value.place for value in values)[:200]
            raise content.error(start, f"found the keys {keys}, expected a string for {unknown[0]!r}")
        strings = [string for string in strings if string.value is not None and _is_chosen(string, options)]
        if options.into and len(strings) > 1:
            places = ", ".join(string.place for string in strings)[:200]
            problem = f"found the texts {places}, expected one in a line; name it with --column"
            raise content.error(start, f"--into {options.into}: {problem}")
        for string in strings:
            place = content.place(start) if is_lines else string.place or "the only string"
            if string.is_for_programs and not options.columns:
                texts.keep("string that programs read, by its key or form (--column KEY),", place)
            elif options.into in (None, string.place):
                raw = content.text[string.start : string.end]
                yield string.start, string.end, texts.replaced(raw, read_text(str(string.value)), place, _quoted)
            else:
                yield from _with_key(content, texts, values, string)


def _is_chosen(string: _Value, options: ReadOptions) -> bool:
    """Return whether a string is at or below a chosen key, and at or below none that is excluded."""
    if options.columns:
        is_chosen = not string.names.isdisjoint(options.columns)
    else:  # not by a key of Application Resource Bundles (`@title`), or one such as `$schema`
        is_chosen = not any(key.startswith(("@", "$")) for key in string.keys)
    return is_chosen and string.names.isdisjoint(options.excluded)


def _with_key(content: Content, texts: Texts, values: Sequence[_Value], source: _Value) -> Iterator[Replacement]:
    """Yield the translation of a string under the key of `--into` beside it, unless that has one already."""
    into = content.options.into or ""
    key = into.rpartition(".")[2]
    path = (*source.path[:-1], key)
    beside = source._replace(path=path).place
    if isinstance(source.path[-1], int):
        problem = f"{source.place} is in a list, so that no key can be beside it; leave --into out to replace it"
        raise content.error(source.start, f"--into {into}: {problem}")
    if beside != into:
        problem = f"the translation must be beside {source.place}, such as --into {beside}"
        raise content.error(source.start, f"--into {into}: {problem}")
    new = source._replace(value=None, start=source.end)
    target = next((value for value in values if value.path[: len(path)] == path), new)
    if len(target.path) > len(path) or not isinstance(target.value, str | None):
        raise content.error(source.start, f"--into {into}: found another value, expected a string or no such key")
    if not str(target.value or "").strip():
        translation = texts.translation(read_text(str(source.value)), content.place(source.start))
        if translation is not None:
            yield target.start, target.end, f", {_quoted(key)}: " * (target is new) + _quoted(translation)


def check_json(content: Content, text: str, start: int) -> None:
    """Raise DataError unless a text that begins at a position of the file is JSON."""
    try:
        json.loads(text, parse_int=float)  # Python refuses integers of more than 4,300 digits
    except json.JSONDecodeError as error:
        advice = "; for an object in each line, give --format jsonl" * error.msg.startswith("Extra data")
        raise content.error(start + error.pos, f"not JSON: {error.msg} at column {error.colno}{advice}") from None
    except RecursionError:
        raise content.error(start, "not JSON that can be read: nested too deeply") from None


def _values(text: str) -> Iterator[_Value]:
    """Yield the strings, numbers, true, false, null, and empty objects and arrays of valid JSON."""
    path: list[str | int] = []  # the key or index in each open object or array
    expects_key, position, decoder = False, 0, json.JSONDecoder(parse_int=float)
    while token := _TOKEN.search(text, position):
        position = token.end()
        if token[0][0] not in "{}[],:" or len(token[0]) > 1:
            value, position = decoder.raw_decode(text, token.start())
            if expects_key:
                path[-1] = value
            else:
                yield _Value(value, token.start(), position, tuple(path))
        elif token[0] in "{[":
            path.append("" if token[0] == "{" else 0)
        elif token[0] in "}]":
            path.pop()
        elif token[0] == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
        expects_key = token[0] in "{," and bool(path) and isinstance(path[-1], str)


def _quoted(text: Line | str) -> str:
    """Return a string as JSON."""
    return plain_json(str(text))
