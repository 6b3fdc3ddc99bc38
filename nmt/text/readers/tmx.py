"""Pairs in TMX 1.4, unit by unit, in RAM that does not grow with the file.

Text is read without its inline tags: what stands for a code (`ph`, `bpt`, …) is left out, and `hi` leaves its text.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from lxml import etree

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.languages import nearest_codes, primary_code
from nmt.text.readers import SentencePair, one_line
from nmt.text.readers.opening import open_content

_JOINT = "\uffff"
# Elements that hold a code of another format, no text; U+FFFF, which XML cannot contain, if words may be around it.
_CODES = {"bpt": "", "ept": "", "it": _JOINT, "ph": _JOINT, "ut": _JOINT}
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_UNITS_SEEN = 1_000  # units that show the languages of a file


def read_tmx(path: Path, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a file in the given languages, whose regions may differ.

    Raises DataError: invalid XML, no given languages, or no unit with a text in both.
    """
    if languages is None:
        raise DataError(f"{path}: the languages of its pairs are not known; state them")
    paired, found = False, set[str]()
    for line, unit in _units(path):
        found |= unit.keys()
        if (codes := nearest_codes(languages, unit)) is not None:
            paired = True
            yield SentencePair(unit[codes[0]], unit[codes[1]], line)
    if found and not paired:
        names = ", ".join(sorted(code or "no language" for code in found)[:20])
        raise DataError(f"{path}: no unit has both {languages.source} and {languages.target}; found {names}")


def declared_languages(path: Path) -> list[str]:
    """Return the languages of the first units of a file, first the source language that its header states."""
    return list(dict.fromkeys(code for _, unit in islice(_units(path), _UNITS_SEEN) for code in unit if code))


def _units(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the texts of each unit by their languages as written there, with the line at which the unit begins.

    The first one is in the source language that the header states.
    """
    with open_content(path) as stream:
        try:
            source, tags = "", ("{*}header", "{*}tu")
            for _, unit in etree.iterparse(stream, tag=tags, resolve_entities=False, no_network=True):
                source, texts = unit.get("srclang", source), dict[str, str]()
                for segment in unit.iterfind("{*}tuv/{*}seg"):
                    variant = segment.getparent()
                    text = _text(segment)
                    if _JOINT in text:
                        text = re.sub(rf"(?<=\w){_JOINT}+(?=\w)", " ", text).replace(_JOINT, "")
                    code = variant.get(_LANGUAGE) or variant.get("lang", "")
                    texts.setdefault(code, one_line(text))
                if texts:
                    in_order = sorted(texts.items(), key=lambda text: primary_code(text[0]) != primary_code(source))
                    yield unit.sourceline, dict(in_order)
                unit.clear()
                while unit.getprevious() is not None:
                    del unit.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise DataError(f"{path}:{error.lineno or 1}: not valid XML: {error.msg}") from None


def _text(element: Any) -> str:
    parts = [element.text or ""]
    for child in element:
        name = etree.QName(child).localname if isinstance(child.tag, str) else "ph"  # or a comment
        parts += [_CODES[name] if name in _CODES else _text(child), child.tail or ""]
    return "".join(parts)
