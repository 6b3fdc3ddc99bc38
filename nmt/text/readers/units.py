"""Pairs in files of translation units: TMX 1.4, XLIFF 1.2 and 2, unit by unit, and PO.

Text of XML is read without inline tags: elements for codes (`ph`, `bpt`, …) are left out, and elements around text
(`hi`, `g`) are replaced by their text. RAM does not grow with the size of a TMX file.

Programs write TMX that is not valid XML: entities of HTML, references to halves of a character or to control
characters, UTF-8 that is declared as UTF-16. These are read as they were meant.

A unit whose translation is missing or not final is a pair of empty sentences, as a blank line of a table is: the rule
`empty` counts it.
"""

import codecs
import re
from collections.abc import Iterator
from html import unescape
from itertools import islice
from pathlib import Path
from typing import IO, Any

import polib
from lxml import etree

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.languages import nearest_codes, primary_code
from nmt.text.readers import SentencePair, one_line
from nmt.text.readers.opening import open_content, read_lines

_JOINT = "\uffff"
# Elements for a code of another format, and what replaces them: U+FFFF, which XML cannot contain, between words.
_CODES = dict.fromkeys(("bpt", "ept", "bx", "ex", "sc", "ec", "sm", "em"), "")
_CODES |= dict.fromkeys(("it", "ph", "ut", "x", "cp"), _JOINT)
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Attributes of XLIFF with its languages, and the states of final translations; units without a state are final.
_SIDES = (("source-language", "srcLang"), ("target-language", "trgLang"))
_FINAL = ("translated", "reviewed", "signed-off", "final")
_UNITS_SEEN = 1_000  # units in which the languages of a file are looked up
_BLOCK_BYTES, _MOST = 1 << 16, 1 << 20  # bytes read at a time, most characters that are buffered until a unit ends
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be",
}  # fmt: skip
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
# CDATA, which has no references; adjacent references to characters; entities that XML does not define.
_REFERENCES = re.compile(
    r"<!\[CDATA\[.*?\]\]>|&#\w+;(?:&#\w+;)*|&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z_][\w.-]*;", re.DOTALL
)
_UNITS = re.compile(r".*(?:tu|unit|segment)>", re.DOTALL)
_INVALID = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# The line at which a unit begins, and its texts by their language codes, as written in the file.
Unit = tuple[int, dict[str, str]]


def read_units(path: Path, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a TMX or XLIFF file in the given languages, whose regions may differ.

    Raises DataError: invalid XML, no given languages, or no unit with a text in both.
    """
    if languages is None:
        raise DataError(f"{path}: the languages of its pairs are not known; state them")
    paired, languages_of_units = False, set[str]()
    for line, unit in _units(path):
        languages_of_units |= unit.keys()
        if (codes := nearest_codes(languages, unit)) is not None:
            paired = True
            yield SentencePair(unit[codes[0]], unit[codes[1]], line)
    if languages_of_units and not paired:
        names = ", ".join(sorted(code or "no language" for code in languages_of_units)[:20])
        raise DataError(f"{path}: no unit has both {languages.source} and {languages.target}; found {names}")


def read_po(path: Path, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a PO file; the sides are exchanged if its header states the source language of `languages`.

    Raises DataError for a file that is not PO, and for a header with a language that is neither of them.
    """
    try:
        # polib also ends lines at U+2028 and the like, which are white space here
        file = polib.pofile("".join(" ".join(line.splitlines()) + "\n" for line in read_lines(path)))
    except OSError as error:
        raise DataError(f"{path}: not a PO file: {error}") from None
    stated, is_reversed = primary_code(file.metadata.get("Language", "").partition("@")[0]), False
    if stated and languages is not None:
        source, target = map(primary_code, languages)
        if stated not in (source, target):
            raise DataError(f"{path}:1: found the header Language: {stated}, expected {target}, or {source}")
        is_reversed = stated != target
    for entry in file:
        forms = [text for _, text in sorted(entry.msgstr_plural.items())] or [entry.msgstr]
        for number, form in enumerate(forms if not entry.obsolete else ()):
            is_plural = entry.msgid_plural and (number > 0 or len(forms) == 1)  # of several, the first is the singular
            pair = one_line(entry.msgid_plural if is_plural else entry.msgid), one_line(form)
            if not form or not entry.translated():
                pair = "", ""
            yield SentencePair(*(pair[::-1] if is_reversed else pair), entry.linenum or 1)


def declared_languages(path: Path) -> list[str]:
    """Return the languages of the first units of a TMX or XLIFF file; the stated source language is first."""
    return list(dict.fromkeys(code for _, unit in islice(_units(path), _UNITS_SEEN) for code in unit if code))


def _units(path: Path) -> Iterator[Unit]:
    tags = ("{*}header", "{*}tu", "{*}trans-unit", "{*}segment")
    parser = etree.XMLPullParser(tag=tags, resolve_entities=False, no_network=True, encoding="utf-8")
    with open_content(path) as stream:
        try:
            source = ""
            for _, unit in _parsed(parser, _valid_xml(path, stream)):
                source = unit.get("srclang", source)
                is_xliff = etree.QName(unit).localname in ("trans-unit", "segment")
                for texts in filter(None, _xliff_texts(unit) if is_xliff else [_tmx_texts(unit, source)]):
                    yield unit.sourceline, texts
                unit.clear()
                while unit.getprevious() is not None:
                    del unit.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise DataError(f"{path}:{error.lineno or 1}: not valid XML: {error.msg}") from None


def _tmx_texts(unit: Any, source: str) -> dict[str, str]:
    """Return the texts of a TMX unit by language; the text in the source language of the header is first."""
    texts = dict[str, str]()
    for segment in unit.iterfind("{*}tuv/{*}seg"):
        variant = segment.getparent()
        texts.setdefault(variant.get(_LANGUAGE) or variant.get("lang", ""), _text(segment))
    return dict(sorted(texts.items(), key=lambda text: primary_code(text[0]) != primary_code(source)))


def _xliff_texts(unit: Any) -> Iterator[dict[str, str]]:
    """Yield the texts of an XLIFF unit, or of its segments if both sides have as many; empty ones if not final."""
    source, target = unit.find("{*}seg-source"), unit.find("{*}target")
    source = unit.find("{*}source") if source is None else source
    codes = [
        next((value for element in unit.iterancestors() for name in names if (value := element.get(name))), "")
        for names in _SIDES
    ]
    state = None if target is None else target.get("state", unit.get("state"))
    is_final = state in _FINAL if state else unit.get("approved") != "no"
    if source is None or target is None or not is_final:
        yield dict.fromkeys(codes, "")
        return
    sides = [[marked for marked in side.iter("{*}mrk") if marked.get("mtype") == "seg"] for side in (source, target)]
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        sides = [[source], [target]]
    for pair in zip(*sides, strict=True):
        texts = list(map(_text, pair))
        yield dict(zip(codes, texts if texts[1] else ("", ""), strict=True))


def _parsed(parser: Any, blocks: Iterator[str]) -> Iterator[Any]:
    for block in blocks:
        parser.feed(block.encode())
        yield from parser.read_events()
    parser.close()


def _valid_xml(path: Path, stream: IO[bytes]) -> Iterator[str]:
    """Yield XML in blocks that end between units, with valid references and characters; line numbers stay.

    Raises DataError for an encoding that is unknown or not that of the file.
    """
    data = stream.read(_BLOCK_BYTES)
    declared = _DECLARED.match(data)
    name = "utf-8" if declared is None else declared[1].decode()
    if re.match(r"utf-?(16|32)|ucs", name, re.I):  # no such declaration would be readable as ASCII
        name = "utf-8"
    name = next((encoding for mark, encoding in _MARKS.items() if data.startswith(mark)), name)
    line, text, is_last = 1, "", False
    try:
        b"  ".decode(name, "ignore")  # raises LookupError unless it encodes text
        decoder = codecs.getincrementaldecoder(name)()
        while not is_last:
            is_last = not data
            text += decoder.decode(data, final=is_last)
            units = None if is_last else _UNITS.match(text)
            end = units.end() if units else len(text) if is_last or len(text) > _MOST else 0
            yield _INVALID.sub(_spaces, _REFERENCES.sub(_valid_references, text[:end]))
            line, text, data = line + text.count("\n", 0, end), text[end:], stream.read(_BLOCK_BYTES)
    except UnicodeDecodeError as error:
        line += text.count("\n") + error.object[: error.start].count(b"\n")
        problem = f"found the byte 0x{error.object[error.start]:02X}, which is not {name}"
        raise DataError(f"{path}:{line}: {problem}; declare the encoding of the file in its first line") from None
    except (LookupError, UnicodeError):
        raise DataError(f"{path}:1: unknown encoding {name!r}; convert the file to UTF-8 and declare that") from None


def _valid_references(match: re.Match[str]) -> str:
    """Return valid references to the intended characters; an unknown entity becomes text, an invalid number is kept."""
    if match[0].startswith("<"):
        return match[0]
    text = unescape(match[0])
    if match[0].startswith("&#"):
        codes = re.findall(r"&#(\w+);", match[0])
        try:
            numbers = [int(f"0{code}", 16) if code[0] in "xX" else int(code) for code in codes]
            text = "".join(map(chr, numbers)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        except (ValueError, OverflowError):
            return match[0]
    return "".join(f"&#{ord(character)};" for character in _INVALID.sub(_spaces, text))


def _spaces(match: re.Match[str]) -> str:
    """Return the normalized form of a control character, which XML cannot contain: a space or nothing."""
    return " " if match[0].isspace() else ""


def _text(element: Any) -> str:
    """Return the text of an element on one line; a code between two letters becomes a space."""
    text = _with_joints(element)
    return one_line(re.sub(rf"(?<=\w){_JOINT}+(?=\w)", " ", text).replace(_JOINT, "") if _JOINT in text else text)


def _with_joints(element: Any) -> str:
    parts = [element.text or ""]
    for child in element:
        name = etree.QName(child).localname if isinstance(child.tag, str) else "ph"  # or a comment
        parts += [_CODES[name] if name in _CODES else _with_joints(child), child.tail or ""]
    return "".join(parts)
