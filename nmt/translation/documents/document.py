"""A document as its original text with slots for translations.

>>> content = Content.decode(b"a: Hello\\n", "notes")
>>> document = Document(content, [Slot("Hello", "line 1", 3, 8)])
>>> document.with_translations(["Ciao"])
b'a: Ciao\\n'
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
TRANSLATED = (
    "all have a text in {} already, which is kept; empty it to translate again, or name another one with --into"
)
"""Why there is no text to translate in a table whose translations go to a column."""
# splitlines() would also split at U+2028 and other characters
_LINE = re.compile(r"(?=.|[\r\n])([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_LINE_END = re.compile(r"\r\n|\r|\n")


class Line(NamedTuple):
    """A line of a document without its line end, and its position."""

    text: str
    start: int


@dataclass(frozen=True)
class Content:
    """The text of a file, and how it is encoded."""

    name: str
    """The file in error messages."""
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
            text = data.decode(encoding)
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
        if text.encode(encoding) != data:
            raise DataError(f"{name}: text in {encoding} cannot be written back unchanged; convert the file to UTF-8")
        return cls(name, text, encoding, mark)

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


@dataclass(frozen=True)
class Slot:
    """A text to translate, and the span of the document that its translation replaces."""

    text: str
    place: str  # what identifies it in messages: a line number or an id
    start: int
    end: int
    write: Callable[[str], str] = str
    """Convert a translation to the form of the format: quoted, escaped, wrapped."""
    in_place: bool = True
    """Whether the span holds the text itself, so that a translation equal to the text changes nothing."""
    before: str = ""
    """What is written before the translation, and `after` behind it."""
    after: str = ""


class Edit(NamedTuple):
    """A replacement of a span of a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Document:
    """The content of a file and its slots, in order and without overlap."""

    content: Content
    slots: Sequence[Slot]
    edits: Sequence[Edit] = ()  # those that do not depend on a translation, such as that of an attribute
    without_texts: str | None = None
    """Why there may be no text to translate, and what to do; None: there is none in the file."""

    @property
    def texts(self) -> list[str]:
        """The texts to translate; they may have several lines."""
        return [slot.text for slot in self.slots]

    def with_translations(self, translations: Sequence[str]) -> bytes:
        """Return the file with these translations in its slots.

        Raises DataError for a character that the file's encoding does not have.
        """
        edits = list(self.edits)
        for slot, translation in zip(self.slots, translations, strict=True):
            if not (slot.in_place and translation == slot.text):
                edits.append(Edit(slot.start, slot.end, f"{slot.before}{slot.write(translation)}{slot.after}"))
        return self.content.encode(edited(self.content.text, edits))


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with some spans replaced, which do not overlap."""
    parts, position = [], 0
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[position:start], replacement]
        position = end
    return "".join([*parts, text[position:]])
