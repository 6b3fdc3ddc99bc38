"""Plural and select messages of ICU, as in `{count, plural, one {# file} other {# files}} in {folder}`.

https://unicode-org.github.io/icu/userguide/format_parse/messages/. Each branch is translated as a sentence of its own,
with the text around the argument, as ICU recommends: a part of a sentence has no translation that fits all.

>>> message_parts("In {n, plural, one {# file} other {# files}}.")
['{n, plural,', ' one {', Branch(text='In # file.'), '}', ' other {', Branch(text='In # files.'), '}', '}']
"""

import re
from typing import NamedTuple

_ARGUMENT = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|selectordinal|select)\s*,(?:\s*offset:\d+)?")
_SELECTOR = re.compile(r"\s*=?[\w.-]+\s*\{")
_END = re.compile(r"\s*\}")
_QUOTE = re.compile(r"'[{}#|]")
_MOST_ARGUMENTS, _MOST_BRANCHES = 8, 64


class Branch(NamedTuple):
    """A complete message without plural and select arguments."""

    text: str


def is_complex_message(text: str) -> bool:
    """Whether a text has a plural or select argument."""
    return _ARGUMENT.search(text) is not None


def message_parts(text: str) -> list[str | Branch]:
    """Return the branches of a message, and what is between them.

    A message with braces that are quoted or not balanced, with more than 8 plural or select arguments or more than 64
    branches is returned as it is.
    """
    plain = _QUOTE.search(text) is None and len(_ARGUMENT.findall(text)) <= _MOST_ARGUMENTS
    return (_expanded(text) if plain else []) or [text]


def escaped(translation: str) -> str:
    """Double the apostrophes of a translated branch that would begin a quotation: before a brace, `#` or the end."""
    return re.sub(r"'(?=[{}#|]|\Z)", "''", translation)


def _expanded(text: str) -> list[str | Branch]:
    """Return the parts of a message whose first plural or select argument is around all of it.

    [] if it is damaged or has too many branches.
    """
    argument = _ARGUMENT.search(text)
    if argument is None:
        return [Branch(text)]
    found: list[tuple[str, str]] = []  # the text before a branch, and the branch
    position = argument.end()
    while selector := _SELECTOR.match(text, position):
        end = _closing(text, selector.end())
        if end is None:
            return []
        found.append((text[position : selector.end()], text[selector.end() : end]))
        position = end + 1
    end_of_argument = _END.match(text, position)
    if not found or end_of_argument is None:
        return []
    before, after = text[: argument.start()], text[end_of_argument.end() :]
    parts: list[str | Branch] = [argument[0]]
    for start, content in found:
        inner = _expanded(f"{before}{content}{after}")
        parts += [start, *inner, "}"]
        if not inner or sum(isinstance(part, Branch) for part in parts) > _MOST_BRANCHES:
            return []
    return [*parts, end_of_argument[0]]


def _closing(text: str, position: int) -> int | None:
    """Return the position of the brace that closes the one before a position."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    return None
