"""A document: its entries, which are texts with a function that writes a translation, and the file with these.

>>> content = Content.decode(b"a: Hello\n", "notes")
>>> edits = Edits(content)
>>> edits.entry(read_text("Hello"), 3, 8).write(read_text("Ciao"))
>>> edits.encoded()
b'a: Ciao\n'
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from nmt.errors import ConfigError, DataError
from nmt.text.items import ITEM, Item, Line, item_of, joined, read

# `text` is lines of text, which are no document.
Format = Literal[
    "text", "srt", "vtt", "json", "jsonl", "csv", "tsv", "po", "xliff", "html", "markdown", "properties", "android",
    "strings", "docx",
]  # fmt: skip
# Marks of UTF-32 begin with those of UTF-16.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be", codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip
# Codecs of Python that are no encodings of files, by the names of `codecs.lookup`.
_NO_CHARSETS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined")
# Why there is no text to translate in a table whose translations go to a column.
TRANSLATED = (
    "all have a text in {} already, which is kept; empty it to translate again, or name another one with --into"
)
# splitlines() would also split at U+2028 and other characters; CR CR LF is written by programs in text mode
_LINE = re.compile(r"(?=.|[\r\n])([^\r\n]*)(?:\r+\n|\r|\n|\Z)")
_LINE_END = re.compile(r"\r+\n|\r|\n")
# Line breaks with the spaces around them, and the spaces at the ends of a text;
# from the start of a run of spaces, and possessive: otherwise long runs take quadratic time
SPACES = re.compile(r"((?<!\s)(?=[^\S\r\n]*+[\r\n])\s++|\A\s++|(?<!\s)\s++\Z)")


class Entry(NamedTuple):
    """A text to translate, perhaps of several lines."""

    line: Line
    place: str  # what identifies it in messages: a line number or an id
    # Puts a translation in its place.
    write: Callable[[Line], object]


@dataclass(frozen=True)
class Document:
    """The entries of a file, in order."""

    name: str
    entries: Sequence[Entry]
    # Returns the file with the translations that were written. Raises DataError for a character that the file's
    # encoding does not have.
    encoded: Callable[[], bytes]
    # Why there may be no text to translate, and what to do.
    without_texts: str = "it has no text"
    # What is left as it is though it may have text, and where.
    kept: tuple[str, Sequence[str]] = ("", ())


@dataclass(frozen=True)
class ReadOptions:
    """The format of a document, and which of its texts are translated."""

    format: Format
    # Names or numbers of columns, or keys.
    columns: Sequence[str] = ()
    # Where the translation goes; None: in place of the text.
    into: str | None = None
    # Keys whose strings are left as they are.
    excluded: Sequence[str] = ()
    # Source and target.
    languages: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        for option, given, formats in (
            ("--column", self.columns, ("csv", "tsv", "json", "jsonl")),
            ("--into", self.into, ("csv", "tsv", "jsonl")),
            ("--exclude", self.excluded, ("json",)),
        ):
            if given and self.format not in formats:
                raise ConfigError(f"{option}: the format {self.format} has no columns or keys for it; leave it out")


class FileLine(NamedTuple):
    """A line of a file without its line end, and its position."""

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
        mark, encoding = next(((mark, one) for mark, one in MARKS.items() if data.startswith(mark)), (b"", declared))
        size = len(mark)
        while mark and data.startswith(mark, size):  # files with marks were joined
            size += len(mark)
        data, mark, encoding = data[size:], data[:size], encoding or "utf-8"
        try:
            if codecs.lookup(encoding).name in _NO_CHARSETS:
                raise LookupError("no encoding of files")
            text = data.decode(encoding)
            if "\0" in text or text.encode(encoding) != data:
                raise UnicodeError("binary data, or UTF-16 without a mark")
        except (LookupError, UnicodeError) as error:
            line = data.count(b"\n", 0, getattr(error, "start", 0)) + 1
            advice = "convert the file: iconv -f ENCODING -t UTF-8 FILE > NEWFILE"
            raise DataError(f"{name}:{line}: not {encoding.upper()}: {error}; {advice}") from None
        return cls(name, text, encoding, mark)

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """Encode text as the file was. Raises DataError for a character that this encoding does not have."""
        try:
            return self.mark + text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            raise DataError(
                f"{self.name}: its encoding, {self.encoding}, has no {text[error.start]!r}, which a translation "
                "contains; convert the file to UTF-8 first"
            ) from None

    @cached_property
    def lines(self) -> list[FileLine]:
        """The lines, which end at `\\n`, `\\r\\n`, `\\r\\r\\n` or `\\r`."""
        return [FileLine(match[1], match.start()) for match in _LINE.finditer(self.text)]

    @cached_property
    def line_end(self) -> str:
        """The first line end, `\\n` if there is none."""
        match = _LINE_END.search(self.text)
        return match[0] if match else "\n"

    def error(self, position: int, message: str) -> DataError:
        """Return an error with file and line."""
        return DataError(f"{self.name}:{self.line_number(position)}: {message}")

    def line_number(self, position: int) -> int:
        """Return the number of the line, from 1, that a position is in."""
        return bisect_right(self._line_ends, position) + 1

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.end() for match in _LINE_END.finditer(self.text)]


class Edits:
    """Replacements of spans of a text, in which all else stays byte for byte."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self._replacements: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace a span, with what was replaced in it; texts for one position are inserted in the order of calls."""
        self._replacements.append((start, end, text))

    def entry(self, line: Line, start: int, end: int, form: Callable[[Line], str] = str, place: str = "") -> Entry:
        """Return the entry of a span, by default named by its line; `form` makes a translation a part of the format.

        Where the translation equals the text, the span stays as it is.
        """

        def write(translation: Line) -> None:
            if translation != line:
                self.replace(start, end, form(translation))

        return Entry(line, place or f"line {self.content.line_number(start):,}", write)

    def encoded(self, errors: str = "strict") -> bytes:
        """Return the file with the replacements."""
        parts, position = list[str](), 0
        for start, end, replacement in sorted(self._replacements, key=lambda one: one[:2]):
            if start >= position:
                parts += [self.content.text[position:start], replacement]
                position = end
        return self.content.encode("".join([*parts, self.content.text[position:]]), errors)


def read_text(text: str) -> Line:
    """Find the items of a text that may have several lines; line breaks and the spaces around it stay."""
    return joined(Line(part) if index % 2 else read(part) for index, part in enumerate(SPACES.split(text)))


def read_coded(text: str, codes: re.Pattern[str], decode: Callable[[str], str] = str) -> Line:
    """Find the items of a text in which matches of `codes`, a pattern with one group, are markup."""
    parts = codes.split(text)
    lines = (code_line(item_of(part)) if index % 2 else read_text(decode(part)) for index, part in enumerate(parts))
    return joined(lines)


def code_line(item: Item) -> Line:
    """Return an item as markup; a class after the name of a tag, as in `<c.loud>`, is no part of the name."""
    return Line(ITEM, (item._replace(is_markup=True, name=item.name.partition(".")[0].lower()),))


def formed(line: Line, escape: Callable[[str], str]) -> str:
    """Return a line in its format: its markup as it is, all else escaped."""
    return "".join(
        escape(piece) if isinstance(piece, str) else piece.text if piece.is_markup else escape(piece.text)
        for piece in line.pieces()
    )
