"""A document: its texts, each with a function that writes its translation, and the bytes of the file with these.

>>> content = Content.decode(b"a: Hello\n", "notes")
>>> edits = Edits(content)
>>> edits.slot("Hello", 3, 8).write("Ciao")
>>> Document(content.name, [], edits.encoded).encoded()
b'a: Ciao\n'
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from nmt.errors import DataError

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Why there is no text to translate in a table whose translations go to a column.
TRANSLATED = (
    "all have a text in {} already, which is kept; empty it to translate again, or name another one with --into"
)
# splitlines() would also split at U+2028 and other characters
_LINE = re.compile(r"(?=.|[\r\n])([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_LINE_END = re.compile(r"\r\n|\r|\n")


class Slot(NamedTuple):
    """A text to translate, perhaps of several lines."""

    text: str
    place: str  # what identifies it in messages: a line number or an id
    # Puts a translation in its place.
    write: Callable[[str], object]


@dataclass(frozen=True)
class Document:
    """The texts of a file, in order."""

    name: str
    slots: Sequence[Slot]
    # Returns the file with the translations that were written. Raises DataError for a character that the file's
    # encoding does not have.
    encoded: Callable[[], bytes]
    # Why there may be no text to translate, and what to do.
    without_texts: str = "it has no text"


class Line(NamedTuple):
    """A line of a document without its line end, and its position."""

    text: str
    start: int


@dataclass(frozen=True)
class Content:
    """The text of a file, and how it is encoded."""

    # The file in error messages.
    name: str
    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes, name: str, declared: str | None = None) -> "Content":
        """Decode a file by its byte order mark, else in the encoding that it declares, else in UTF-8.

        Raises DataError, with the line, for bytes that are invalid in that encoding.
        """
        mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
        encoding = _MARKS.get(mark) or declared or "utf-8"
        data = data.removeprefix(mark)
        try:
            return cls(name, data.decode(encoding), encoding, mark)
        except LookupError:
            raise DataError(
                f"{name}: declares the encoding {encoding!r}, which is unknown; convert it to UTF-8"
            ) from None
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{name}:{line}: not {encoding.upper()}: found the byte 0x{data[error.start]:02X}; convert the file: "
                "iconv -f ENCODING -t UTF-8 FILE > NEWFILE"
            ) from None

    def encode(self, text: str) -> bytes:
        """Encode text as the file was. Raises DataError for a character that this encoding does not have."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise DataError(
                f"{self.name}: its encoding, {self.encoding}, has no {text[error.start]!r}, which a translation "
                "contains; convert the file to UTF-8 first"
            ) from None

    @cached_property
    def lines(self) -> list[Line]:
        """The lines, which end at `\\n`, `\\r\\n` or `\\r`."""
        return [Line(found[1], found.start()) for found in _LINE.finditer(self.text)]

    @cached_property
    def line_end(self) -> str:
        """The first line end, `\\n` if there is none."""
        found = _LINE_END.search(self.text)
        return found[0] if found else "\n"

    def error(self, position: int, message: str) -> DataError:
        """Return an error with file and line."""
        return DataError(f"{self.name}:{self.line_number(position)}: {message}")

    def line_number(self, position: int) -> int:
        """Return the number of the line, from 1, that a position is in."""
        return bisect_right(self._line_ends, position) + 1

    @cached_property
    def _line_ends(self) -> list[int]:
        return [found.end() for found in _LINE_END.finditer(self.text)]


class Edits:
    """Replacements of spans of a text, for formats in which all else stays byte for byte."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._found: list[tuple[int, int, str]] = []

    def slot(self, text: str, start: int, end: int, form: Callable[[str], str] = str, place: str = "") -> Slot:
        """Return a slot of a span, by default named by its line; `form` makes a translation a part of the format."""
        place = place or f"line {self._content.line_number(start):,}"
        return Slot(text, place, lambda translation: self._found.append((start, end, form(translation))))

    def encoded(self) -> bytes:
        """Return the file with the replacements."""
        parts, position = [], 0
        for start, end, replacement in sorted(self._found):
            parts += [self._content.text[position:start], replacement]
            position = end
        return self._content.encode("".join([*parts, self._content.text[position:]]))
