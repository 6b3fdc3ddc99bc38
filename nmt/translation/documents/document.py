r"""A document: its texts, and the file with their translations.

A format is a function that finds the texts of a `Content` and gives each to `Texts`, which returns the translation; it
yields the spans of the file that are replaced, so that all else stays byte for byte. It is called twice: at first there
are no translations, and `Texts` collects what there is to translate.

>>> def read_notes(content, texts):
...     for line in content.lines:
...         replacement = texts.replaced(line.text, read_text(line.text), content.place(line.start))
...         yield line.start, line.start + len(line.text), replacement
>>> content = Content("notes", "Hello\n", ReadOptions("text"))
>>> Document("notes", lambda texts: content.replaced(read_notes, texts)).translated(lambda text: Line("Ciao"))
b'Ciao\n'
"""

import codecs
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from nmt.errors import ConfigError, DataError
from nmt.text.content import ICU_ARGUMENT
from nmt.text.items import ITEM, Item, Line, item_of, joined, read
from nmt.text.languages import UNSPACED, UNSPACED_TEXT

# `text` is lines of text, which are no document.
Format = Literal[
    "text", "srt", "vtt", "json", "jsonl", "csv", "tsv", "po", "xliff", "html", "markdown", "properties", "android",
    "strings", "docx",
]  # fmt: skip
# Formats of which a column or a key must be chosen.
COLUMN_FORMATS = ("csv", "tsv", "jsonl")
# Marks of UTF-32 begin with those of UTF-16.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be", codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip
# Codecs of Python that are no encodings of files, by the names of `codecs.lookup`.
_NO_CHARSETS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined")
# splitlines() would also split at U+2028 and other characters; CR CR LF is written by programs in text mode
_LINE = re.compile(r"(?=.|[\r\n])([^\r\n]*)(?:\r+\n|\r|\n|\Z)")
_LINE_END = re.compile(r"\r+\n|\r|\n")
# Line breaks with the spaces around them, and the spaces at the ends of a text;
# from the start of a run of spaces, and possessive: otherwise long runs take quadratic time
SPACES = re.compile(r"((?<!\s)(?=[^\S\r\n]*+[\r\n])\s++|\A\s++|(?<!\s)\s++\Z)")

_TABS = re.compile("([\t\f]+)")

# Places where a line may break; in Chinese not before punctuation, in Japanese not before small kana and ー.
_BREAKABLE = re.compile(rf" +|(?<=[{UNSPACED_TEXT}])(?=[{UNSPACED}])(?![ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮー々])")
# The end of a line of three words or more that ends no sentence.
_UNFINISHED = re.compile(r"[^\s]+ +[^\s]+ +(?:[^\r\n]* )?[^\s]*[^\s.!?:;…。！？：；](?<![.!?:][\"'”’»)\]])")

# The start and end of a span of a file, and the text that replaces it.
Replacement = tuple[int, int, str]
# Yields the replacements of a format.
Read = Callable[["Content", "Texts"], Iterable[Replacement]]


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
    # Source and target; "" is any.
    languages: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        for option, given, formats in (
            ("--column", self.columns, (*COLUMN_FORMATS, "json")),
            ("--into", self.into, COLUMN_FORMATS),
            ("--exclude", self.excluded, ("json",)),
        ):
            if given and self.format not in formats:
                advice = "leave it out, or give another format, such as --format tsv"
                raise ConfigError(f"{option}: the format {self.format} has no columns or keys for it; {advice}")

    @property
    def without_texts(self) -> str:
        """Why a file has no text to translate, and what to do."""
        if self.format in ("po", "xliff"):
            return "all its texts have a translation already, which is kept"
        if self.into:
            place = f"{self.into} already, which is kept; empty it to translate again, or name another one with --into"
            return f"all have a text in {place}"
        return "it has no text"


class FileLine(NamedTuple):
    """A line of a file without its line end, and its position."""

    text: str
    start: int


@dataclass(frozen=True)
class Content:
    """The text of a file, how it is encoded, and how it is read."""

    # The file in error messages.
    name: str
    text: str
    options: ReadOptions
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes, name: str, options: ReadOptions, declared: str | None = None) -> "Content":
        """Decode a file by its byte order mark, else in the encoding that it declares, else in UTF-8.

        Raises DataError, with the line, for bytes that are invalid in that encoding.
        """
        mark, encoding = next((item for item in MARKS.items() if data.startswith(item[0])), (b"", declared))
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
        return cls(name, text, options, encoding, mark)

    def replaced(self, read: Read, texts: "Texts") -> bytes:
        """Return the file with the replacements of a format; of those that overlap, the first.

        Raises as `encode` does.
        """
        parts, position = list[str](), 0
        for start, end, text in sorted(read(self, texts), key=lambda place: place[:2]):
            if start >= position:
                parts += [self.text[position:start], text]
                position = end
        return self.encode("".join([*parts, self.text[position:]]))

    def encode(self, text: str) -> bytes:
        """Encode text like the file. Raises DataError for a character that encoding and format cannot represent."""
        errors = "xmlcharrefreplace" if self.options.format in ("html", "android", "xliff") else "strict"
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

    def place(self, position: int) -> str:
        """Return the line of a position for messages."""
        return f"line {self.line_number(position):,}"

    def line_number(self, position: int) -> int:
        """Return the number of the line, from 1, that a position is in."""
        return bisect_right(self._line_ends, position) + 1

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.end() for match in _LINE_END.finditer(self.text)]


class Texts:
    """Returns translations of the texts of a format, and records the texts in order.

    ICU messages with a plural or select are not translated.
    """

    def __init__(self, translate: Callable[[Line], Line | None] = lambda _: None) -> None:
        self._translate = translate
        self.entries = list[tuple[Line, str]]()  # each text, perhaps of several lines, and its place in messages
        self.kept: dict[str, list[str]] = {}  # the places of content that stays, but may have text, by its kind

    def translation(self, line: Line, place: str) -> Line | None:
        """Return the translation of a text; None: the text stays as it is."""
        pieces = (piece if isinstance(piece, str) else "" if piece.is_markup else piece.text for piece in line.pieces())
        if ICU_ARGUMENT.search("".join(pieces)):
            self.keep("message of ICU with a plural or select", place)
            return None
        self.entries.append((line, place))
        return self._translate(line)

    def replaced(self, raw: str, line: Line, place: str, form: Callable[[Line], str] = str) -> str:
        """Return the part of a file that replaces `raw`, with the translation of its text; `raw` if nothing changes."""
        translation = self.translation(line, place)
        return raw if translation is None or translation == line else form(translation)

    def keep(self, what: str, place: str) -> None:
        """Record content that stays as it is; `what` begins with a singular noun."""
        self.kept.setdefault(what, []).append(place)


class Document:
    """The texts of a file, and the file with translations."""

    def __init__(self, name: str, write: Callable[[Texts], bytes], without_texts: str = "it has no text") -> None:
        """Find the texts; `write` returns the file with the translations that the `Texts` return."""
        self.name, self._write, self.without_texts = name, write, without_texts
        self.texts = Texts()
        write(self.texts)

    @cached_property
    def lines(self) -> list[Line]:
        """The different lines to translate."""
        return list(dict.fromkeys(line for text, _ in self.texts.entries for line in lines_in(text)))

    def translated(self, translate: Callable[[Line], Line | None]) -> bytes:
        """Return the file with the translation that a function returns for each text; None: it stays as it is.

        Raises DataError for a character that the file's encoding does not have.
        """
        return self._write(Texts(translate))


def read_text(text: str) -> Line:
    """Find the items of a text that may have several lines; line breaks, tabs and the spaces around it stay."""
    parts = list[Line]()
    for index, part in enumerate(SPACES.split(text)):
        if index % 2:
            parts.append(Line(part))
        else:
            pieces = _TABS.split(part)
            parts += [Line(ITEM, (Item(piece),)) if number % 2 else read(piece) for number, piece in enumerate(pieces)]
    return joined(parts)


def read_coded(text: str, codes: re.Pattern[str], decode: Callable[[str], str] = str) -> Line:
    """Find the items of a text in which matches of `codes`, a pattern with one group, are markup."""
    parts = codes.split(text)
    lines = (code_line(item_of(part)) if index % 2 else read_text(decode(part)) for index, part in enumerate(parts))
    return joined(lines)


def code_line(item: Item) -> Line:
    """Return an item as markup; a class after the name of a tag, as in `<c.loud>`, is no part of the name."""
    return Line(ITEM, (item._replace(is_markup=True, name=item.name.partition(".")[0].lower()),))


def formed(line: Line, escape: Callable[[str], str]) -> str:
    """Return a line in the form of its format: markup unchanged, all else escaped."""
    return "".join(
        escape(piece) if isinstance(piece, str) else piece.text if piece.is_markup else escape(piece.text)
        for piece in line.pieces()
    )


def paragraphs(text: Line) -> list[Line]:
    """Return the paragraphs of a text at even indices, between them the line breaks and the spaces around it.

    Line breaks inside a sentence are parts of a paragraph.

    >>> text = read_text("My father has\\na rabbit.\\nGood!")
    >>> list(map(str, lines_in(text)))
    ['My father has a rabbit.', 'Good!']
    >>> str(with_lines(text, {lines_in(text)[0]: Line("Mio padre ha un coniglio.")}))
    'Mio padre ha\\nun coniglio.\\nGood!'
    """
    breaks = [match for match in SPACES.finditer(text.text) if not _is_inside_sentence(match)]
    return text.cut([position for match in breaks for position in match.span()])


def _is_inside_sentence(space: re.Match[str]) -> bool:
    before = re.split(r"[\r\n]", space.string[max(0, space.start() - 200) : space.start()])[-1].lstrip()
    is_wrap = space[0].count("\n") == 1 and space.string[space.end() : space.end() + 1].islower()
    return is_wrap and bool(_UNFINISHED.fullmatch(before))


def lines_in(text: Line) -> list[Line]:
    """Return the paragraphs of a text with a letter outside of their items, each as one line."""
    lines = (_unwrapped(paragraph) for paragraph in paragraphs(text)[::2])
    return [line for line in lines if any(map(str.isalpha, line.text))]


def with_lines(text: Line, translations: Mapping[Line, Line]) -> Line:
    """Return a text with translations of its paragraphs, each in as many lines as the paragraph."""
    parts = list[Line]()
    for part in paragraphs(text):
        if translation := translations.get(_unwrapped(part)):
            breaks = SPACES.findall(part.text)
            first, *others = wrap(translation, len(breaks) + 1)
            parts += [first, *(each for line in others for each in (Line(breaks[0]), line))]
        else:
            parts.append(part)
    return joined(parts)


def _unwrapped(paragraph: Line) -> Line:
    return Line(SPACES.sub(" ", paragraph.text), paragraph.items)


def wrap(line: Line, count: int, widest: int = 0) -> list[Line]:
    """Break a line into at most `count` lines of similar width; fewer if none is then wider than `widest`.

    >>> [str(line) for line in wrap(Line("Non so che cosa fare adesso"), 2, widest=20)]
    ['Non so che cosa', 'fare adesso']
    """
    if count == 1:
        return [Line(line.text.rstrip(), line.items)]
    parts = line.cut([match.end() for match in _BREAKABLE.finditer(line.text)])
    widest_lines = _filled(parts, widest)
    if max(map(width, widest_lines)) <= widest:
        count = min(count, len(widest_lines))
    room = width(line) // count
    while len(lines := _filled(parts, room)) > count:
        room += 1
    return lines


def _filled(parts: Sequence[Line], room: int) -> list[Line]:
    """Return lines, each filled as far as the room allows."""
    lines, used = [list[Line]()], 0
    for part in parts:
        columns = width(part)
        if lines[-1] and used + columns > room:
            lines.append([])
            used = 0
        lines[-1].append(part)
        used += columns + len(part.text) - len(part.text.rstrip())  # with the spaces behind it
    return [Line(line.text.rstrip(), line.items) for line in map(joined, lines)]


def width(line: Line) -> int:
    """Return the columns of a line without its markup; Chinese and similar characters take two."""
    text = line.text.rstrip().replace(ITEM, "")
    columns = sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)
    return columns + sum(len(item.text) for item in line.items if not item.is_markup)
