"""Pairs in TMX 1.4, unit by unit, in RAM that does not grow with the file.

Text is read without its inline tags: what stands for a code (`ph`, `bpt`, …) is left out, and `hi` leaves its text.

Programs write TMX that is not valid XML: entities of HTML, references to halves of a character or to control
characters, UTF-8 that is declared as UTF-16. These are read as they were meant.
"""

import codecs
import re
from collections.abc import Iterator
from html import unescape
from itertools import islice
from pathlib import Path
from typing import IO, Any

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
_BLOCK_BYTES, _MOST = 1 << 16, 1 << 20  # characters of a unit whose end is waited for
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be",
}  # fmt: skip
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
# Text without references, references to characters in a row, other entities than those of XML.
_REFERENCES = re.compile(
    r"<!\[CDATA\[.*?\]\]>|&#\w+;(?:&#\w+;)*|&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z_][\w.-]*;", re.DOTALL
)
_INVALID = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    parser = etree.XMLPullParser(tag=("{*}header", "{*}tu"), resolve_entities=False, no_network=True, encoding="utf-8")
    with open_content(path) as stream:
        try:
            source = ""
            for _, unit in _parsed(parser, _valid_xml(path, stream)):
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


def _parsed(parser: Any, blocks: Iterator[str]) -> Iterator[Any]:
    for block in blocks:
        parser.feed(block.encode())
        yield from parser.read_events()
    parser.close()


def _valid_xml(path: Path, stream: IO[bytes]) -> Iterator[str]:
    """Yield XML in blocks that end between units, with valid references and characters; lines stay.

    Raises DataError for an encoding that is unknown or not that of the file.
    """
    start = stream.read(_BLOCK_BYTES)
    declared = _DECLARED.match(start)
    name = "utf-8" if declared is None else declared[1].decode()
    if re.match(r"utf-?(16|32)|ucs", name, re.I):  # its declaration would not be readable
        name = "utf-8"
    name = next((encoding for mark, encoding in _MARKS.items() if start.startswith(mark)), name)
    line, data, text = 1, start, ""
    try:
        b"  ".decode(name, "ignore")  # an encoding of text
        decoder = codecs.getincrementaldecoder(name)()
        while data:
            text += decoder.decode(data)
            end = text.rfind("tu>") + 3 if "tu>" in text else (len(text) if len(text) > _MOST else 0)
            yield _INVALID.sub(_spaces, _REFERENCES.sub(_valid_references, text[:end]))
            line, text, data = line + text.count("\n", 0, end), text[end:], stream.read(_BLOCK_BYTES)
        yield _INVALID.sub(_spaces, _REFERENCES.sub(_valid_references, text + decoder.decode(b"", final=True)))
    except UnicodeDecodeError as error:
        line += text.count("\n") + error.object[: error.start].count(b"\n")
        found = f"found the byte 0x{error.object[error.start]:02X}, which is not {name}"
        raise DataError(f"{path}:{line}: {found}; declare the encoding of the file in its first line") from None
    except (LookupError, UnicodeError):
        raise DataError(f"{path}:1: unknown encoding {name!r}; convert the file to UTF-8 and declare that") from None


def _valid_references(found: re.Match[str]) -> str:
    """Return references to the characters that are meant; an unknown entity is text, a wrong number stays an error."""
    if found[0].startswith("<"):
        return found[0]
    text = unescape(found[0])
    if found[0].startswith("&#"):
        codes = re.findall(r"&#(\w+);", found[0])
        try:
            numbers = [int(f"0{code}", 16) if code[0] in "xX" else int(code) for code in codes]
            text = "".join(map(chr, numbers)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        except (ValueError, OverflowError):
            return found[0]
    return "".join(f"&#{ord(character)};" for character in _INVALID.sub(_spaces, text))


def _spaces(found: re.Match[str]) -> str:
    """Return what normalization makes of a control character, which XML cannot contain."""
    return " " if found[0].isspace() else ""


def _text(element: Any) -> str:
    parts = [element.text or ""]
    for child in element:
        name = etree.QName(child).localname if isinstance(child.tag, str) else "ph"  # or a comment
        parts += [_CODES[name] if name in _CODES else _text(child), child.tail or ""]
    return "".join(parts)
