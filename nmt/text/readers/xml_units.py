"""Pairs in XML: TMX 1.4, and XLIFF 1.2 and 2.

The file is parsed while it is read, in RAM that does not grow with it. Entities are neither declared nor fetched. Text
is read without its inline tags: what stands for a code (`ph`, `bpt`, `x`, …) is left out, and what encloses text (`g`,
`pc`, `mrk`, `hi`) leaves its text.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from xml.parsers import expat

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.han_variants import is_traditional
from nmt.text.languages import primary_code
from nmt.text.readers import Row, one_line
from nmt.text.readers.opening import read_chunks

_UNITS = ("tu", "trans-unit", "segment")
_TEXTS = {("tuv", "seg")} | {(unit, side) for unit in ("trans-unit", "segment") for side in ("source", "target")}
"""Elements that hold a text, each below its parent."""
_CODES = ("bpt", "ept", "it", "ph", "ut", "cp")
"""Elements whose content is a code of another format, no text."""
_STANDALONE = ("it", "ph", "ut", "x", "cp")
"""Elements that stand between words, so that these are not joined without them."""
_JOINT = "\uffff"  # XML text cannot contain it
_LANGUAGE_ATTRIBUTES = {"source": ("srclang", "srcLang", "source-language"), "target": ("trgLang", "target-language")}
_NOT_TRANSLATED = ("new", "needs-translation", "initial")
_LONGEST = 1 << 24  # characters of a text, and bytes of a tag
_UNITS_SEEN = 1_000  # units that show the languages of a file

Unit = dict[str, str]
"""The texts of a unit by their languages, as these are written in the file."""


def read_units(path: Path, languages: LanguagePair | None) -> Iterator[Row]:
    """Yield the pairs of a TMX or XLIFF file in the given languages, whose regions may differ.

    Without `languages`, the first is the source language that the file states. Raises DataError: invalid XML, or no
    unit with a text in both languages.
    """
    if languages is None:
        found = declared_languages(path)
        if len(found) != 2:
            raise DataError(f"{path}: expected two languages, found {', '.join(found) or 'none'}; state the languages")
        languages = LanguagePair(source=found[0], target=found[1])
    seen: dict[tuple[str, ...], tuple[str, str] | None] = {}
    paired = False
    for line, unit in _UnitReader(path).units():
        written = tuple(unit)
        if written not in seen:
            seen[written] = _sides(written, languages)
        sides = seen[written]
        if sides is not None:
            paired = True
            yield line, unit[sides[0]], unit[sides[1]]
    if seen and not paired:
        codes = sorted({code or "no language" for written in seen for code in written})
        raise DataError(
            f"{path}: no unit has both {languages.source} and {languages.target}; found {', '.join(codes[:20])}"
        )


def declared_languages(path: Path) -> list[str]:
    """Return the languages of the first units of a file, first the source language that it states."""
    reader = _UnitReader(path)
    codes = dict.fromkeys(code for _, unit in islice(reader.units(), _UNITS_SEEN) for code in unit if code)
    source = _nearest(reader.stated["source"] or "?", list(codes))
    return sorted(codes, key=lambda code: code != source)


def _sides(written: tuple[str, ...], languages: LanguagePair) -> tuple[str, str] | None:
    """Return the codes of a unit that are nearest to the source and the target language."""
    source = _nearest(languages.source, written)
    target = _nearest(languages.target, [code for code in written if code != source])
    return None if source is None or target is None else (source, target)


def _nearest(requested: str, written: tuple[str, ...] | list[str]) -> str | None:
    """Return the same code, else one of the same language, if possible in the same script.

    A text without a language, which XLIFF allows, is in any.
    """
    same = [code for code in written if not code or primary_code(code) == primary_code(requested)]

    def distance(code: str) -> tuple[bool, bool]:
        is_other = code.lower().replace("_", "-") != requested.lower().replace("_", "-")
        return is_other, is_traditional(code) != is_traditional(requested)

    return min(same, key=distance, default=None)


class _UnitReader:
    """Parses a file and collects its complete units."""

    def __init__(self, path: Path) -> None:
        self.stated = {"source": "", "target": "", "seg": ""}
        """The languages that the file states, for the whole file and for the text that is read."""
        self._path, self._parser = path, expat.ParserCreate()
        self._complete: list[tuple[int, Unit]] = []
        self._count = 0  # units so far, for messages
        self._above = [""]  # the elements around the present place
        self._codes = 0  # elements among them whose content is no text
        self._text: list[str] | None = None  # parts of the text that the place is in
        self._length = 0
        self._line = 0
        self._unit: Unit = {}
        self._translated = True
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._refuse_entity

    def units(self) -> Iterator[tuple[int, Unit]]:
        """Yield the units with the line at which each begins."""
        size = 0
        for chunk in read_chunks(self._path):
            self._parse(chunk)
            size += len(chunk)
            if size - self._parser.CurrentByteIndex > _LONGEST:
                raise self._error("a tag of more than 16 MiB")
            yield from self._complete
            self._complete.clear()
        self._parse(b"", last=True)
        yield from self._complete

    def _parse(self, chunk: bytes, last: bool = False) -> None:
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            problem = f"{expat.ErrorString(error.code)} at column {error.offset + 1}"
            raise self._error(f"not valid XML: {problem}") from None
        except (LookupError, ValueError) as error:
            raise self._error(f"its encoding cannot be read: {error}; convert it to UTF-8") from None

    def _error(self, problem: str) -> DataError:
        return DataError(f"{self._path}:{self._parser.CurrentLineNumber}: {problem} (after {self._count:,} units)")

    def _start(self, qualified: str, attributes: dict[str, str]) -> None:
        name = qualified.rpartition(":")[2]
        if self._text is not None:
            self._codes += name in _CODES
            if name in _STANDALONE:
                self._text.append(_JOINT)
        elif (self._above[-1], name) in _TEXTS:
            self._text, self._length = [], 0
            self._translated &= attributes.get("state") not in _NOT_TRANSLATED
        elif name in _UNITS:
            self._line = self._parser.CurrentLineNumber
            self._translated = attributes.get("translate") != "no" and attributes.get("state") not in _NOT_TRANSLATED
            self._unit = {}
        elif name == "tuv":
            self.stated["seg"] = attributes.get("xml:lang") or attributes.get("lang", "")
        else:
            for side, names in _LANGUAGE_ATTRIBUTES.items():
                self.stated.update((side, attributes[name]) for name in names if name in attributes)
        self._above.append(name)

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)
            self._length += len(text)
            if self._length > _LONGEST:
                raise self._error("a text of more than 16 million characters")

    def _end(self, qualified: str) -> None:
        name = self._above.pop()
        if self._text is None:
            if name in _UNITS:
                self._count += 1
                if self._translated and len(self._unit) > 1:
                    self._complete.append((self._line, self._unit))
        elif (self._above[-1], name) in _TEXTS:
            self._unit.setdefault(self.stated[name], _plain("".join(self._text)))  # the first of each language
            self._text = None
        else:
            self._codes -= name in _CODES

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._error(f"the entity &{name}; is declared or used; replace it with its text")


def _plain(text: str) -> str:
    """Return a text on one line, with a space for a code between two words."""
    if _JOINT in text:
        text = re.sub(rf"(?<=\w){_JOINT}+(?=\w)", " ", text).replace(_JOINT, "")
    return re.sub("[ \t]+", " ", one_line(text))
