"""XLIFF 1.2 and 2.x: units without a translation are translated, with their inline elements.

http://docs.oasis-open.org/xliff/xliff-core/xliff-core.html (1.2) and https://docs.oasis-open.org/xliff/xliff-core/v2.0/.
The file is checked by expat, and then read by its tags, whose positions are needed.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from nmt.errors import DataError
from nmt.text.languages import primary_code
from nmt.translation.documents.document import Content, Document, Edit, Slot

_MARKUP = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE[^>]*>|"
    r"<(?P<closing>/?)(?P<name>[^\s/>!?]+)(?P<attributes>(?:[^>\"']|\"[^\"]*\"|'[^']*')*?)(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"([^\s=]+)\s*=\s*([\"'])(.*?)\2", re.DOTALL)
_PAIRS = {"g", "mrk", "pc"}
"""Inline elements around text; what is inside others is code of the original format."""
_OPENING, _CLOSING = {"bpt", "bx", "sc", "sm"}, {"ept", "ex", "ec", "em"}
"""Codes that open and close a pair."""
_STATE = re.compile(r"\sstate\s*=\s*[\"']([^\"']*)")
_INDENT = re.compile(r"(?:\r\n|[\r\n])[ \t]*\Z")
_UNTRANSLATED = {"new", "needs-translation", "initial"}
_DEEPEST, _WIDEST_INDENT = 200, 200
_DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")


@dataclass
class _Element:
    """An element: the spans of its start tag and its content."""

    name: str  # without prefix
    prefix: str
    attributes: dict[str, str]
    start: int
    inner_start: int
    parent: "_Element | None"
    inner_end: int = 0
    end: int = 0
    children: list["_Element"] = field(default_factory=list)

    def child(self, name: str) -> "_Element | None":
        """Return the first child of a name."""
        return next((child for child in self.children if child.name == name), None)

    def inherited(self, attribute: str) -> str | None:
        """Return an attribute of the element, or of the nearest one around it that has it."""
        element: _Element | None = self
        while element is not None and attribute not in element.attributes:
            element = element.parent
        return None if element is None else element.attributes[attribute]


def declared_encoding(data: bytes) -> str | None:
    """Return the encoding in the declaration of an XML file."""
    found = _DECLARED.match(data)
    return found[1].decode() if found else None


def read_xliff(content: Content, source_language: str, target_language: str) -> Document:
    """Find the units without a target, with an empty one, or with one in the state new, needs-translation or initial.

    Sets the target language where it is missing. Raises DataError for what is no XLIFF, or is in other languages.
    """
    _check(content)
    elements = _elements(content)
    if not elements or elements[0].name != "xliff":
        raise content.error(0, f"not XLIFF: the first element is {elements[0].name if elements else 'missing'}")
    edits: list[Edit] = []
    slots: list[Slot] = []
    for element in elements:
        edits += _language_edits(content, element, (source_language, target_language))
        if element.name in ("trans-unit", "segment") and element.inherited("translate") != "no":
            slots += _slots(content, element, edits)
    return Document(content, slots, edits, "all units have a translation already, which is kept")


def _language_edits(content: Content, element: _Element, languages: tuple[str, str]) -> Iterator[Edit]:
    """Yield the edit that states the target language where it is missing. Raises DataError for other languages."""
    names = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}.get(element.name)
    if names is None or names[0] not in element.attributes:
        return
    for name, language in zip(names, languages, strict=True):
        stated = element.attributes.get(name, language)
        if primary_code(stated) != primary_code(language):
            message = f'{name}="{stated}", but the model translates {languages[0]} to {languages[1]}'
            raise content.error(element.start, message)
    if names[1] not in element.attributes:
        found = re.compile(rf"\s{names[0]}\s*=\s*(?:\"[^\"]*\"|'[^']*')").search(content.text, element.start)
        assert found is not None
        yield Edit(found.end(), found.end(), f' {names[1]}="{languages[1]}"')


def _check(content: Content) -> None:
    """Raise DataError for text that is no XML, or that declares entities."""
    parser = expat.ParserCreate(encoding="utf-8")

    def refuse(name: str, *_: object) -> None:
        raise DataError(f"{content.name}:{parser.CurrentLineNumber}: declares the entity {name}; expand it first")

    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content.text.encode(), True)
    except expat.ExpatError as error:
        raise DataError(f"{content.name}:{error.lineno}: not XML: {expat.ErrorString(error.code)}") from None


def _elements(content: Content) -> list[_Element]:
    """Return the elements of well-formed XML in the order of their start tags. Raises DataError for deep nesting."""
    found: list[_Element] = []
    opened: list[_Element] = []
    for tag in _MARKUP.finditer(content.text):
        if tag["name"] is None:
            continue
        if tag["closing"]:
            opened[-1].inner_end, opened.pop().end = tag.start(), tag.end()
            continue
        prefix, _, name = tag["name"].rpartition(":")
        attributes = {one[1]: html.unescape(one[3]) for one in _ATTRIBUTE.finditer(tag["attributes"])}
        parent = opened[-1] if opened else None
        element = _Element(name, prefix and f"{prefix}:", attributes, tag.start(), tag.end(), parent)
        found.append(element)
        if parent is not None:
            parent.children.append(element)
        if tag["empty"]:
            element.inner_end = element.end = tag.end()
        else:
            opened.append(element)
        if len(opened) > _DEEPEST:
            raise content.error(tag.start(), f"more than {_DEEPEST} elements are inside each other")
    return found


def _slots(content: Content, unit: _Element, edits: list[Edit]) -> Iterator[Slot]:
    """Yield the slots of a unit, one for each segment in `<seg-source>`, if it has text and no translation."""
    source, target = unit.child("source"), unit.child("target")
    if source is None:
        raise content.error(unit.start, f"<{unit.name}> has no source")
    holder = unit if unit.name == "segment" else target  # what has the state
    state = None if holder is None else holder.attributes.get("state")
    translated = target is not None and content.text[target.inner_start : target.inner_end].strip()
    if (translated and state not in _UNTRANSLATED) or unit.attributes.get("approved") == "yes":
        return
    source = unit.child("seg-source") or source
    segments = list(_segments(source)) if source.name == "seg-source" else []
    codes = [InlineCodes(content.text, one) for one in segments or [source]]
    if not any(one.text.strip() for one in codes):
        return
    identified = unit if "id" in unit.attributes or unit.parent is None else unit.parent
    place = f"unit {identified.attributes.get('id', '?')} (line {content.line_number(unit.start):,})"
    start, end, before = source.end, source.end, ""
    after = f"</{(target or source).prefix}target>"
    if target is None:
        indent = _INDENT.search(content.text, max(0, source.start - _WIDEST_INDENT), source.start)
        before = f"{indent[0] if indent else ''}<{source.prefix}target>"
    elif target.inner_end == target.end:  # <target/>
        tag = content.text[target.start : target.end].removesuffix("/>").rstrip()
        start, end, before = target.start + len(tag), target.end, ">"
    else:
        start, end, after = target.inner_start, target.inner_end, ""
    # what is around the segments, which are translated one by one
    starts = [source.inner_start, *(one.inner_end for one in segments)]
    ends = [*(one.inner_start for one in segments), source.inner_end]
    around = [content.text[one:other] for one, other in zip(starts, ends, strict=True)] if segments else ["", ""]
    around[0], around[-1] = f"{before}{around[0]}", f"{around[-1]}{after}"
    for number, one in enumerate(codes, 1):
        after = around[-1] if number == len(codes) else ""
        yield Slot(one.text, place, start, end, one.write, in_place=False, before=around[number - 1], after=after)
        start = end
    if holder is not None and state is not None:
        found = _STATE.search(content.text, holder.start)
        assert found is not None
        edits.append(Edit(*found.span(1), "translated"))


class InlineCodes:
    """The text of a `<source>` or a segment with a tag in place of each inline element; `write` puts them back."""

    def __init__(self, text: str, source: _Element) -> None:
        self._name = "code"
        while f"{self._name}-" in text[source.inner_start : source.inner_end]:
            self._name += "x"
        self._raw: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._preserved = source.inherited("xml:space") == "preserve"
        self.text = self._plain(text, source)

    def write(self, translation: str) -> str:
        """Return the translation as XML."""
        parts = re.split(rf"(</?{self._name}-\d+/?>)", translation)
        return "".join(self._raw[part] if part in self._raw else html.escape(part, quote=False) for part in parts)

    def _plain(self, text: str, element: _Element) -> str:
        """Return the content of an element as text with codes; spaces are single where they are not preserved."""
        parts, position = list[str](), element.inner_start
        for start, end, code in self._codes(element):
            self._raw[code] = text[start:end]
            parts += [_unescaped(text[position:start]), code]
            position = end
        parts.append(_unescaped(text[position : element.inner_end]))
        joined = "".join(parts)
        if self._preserved:
            return joined
        bare = joined.strip()
        start = joined.find(bare)
        return joined[:start] + re.sub(r"\s+", " ", bare) + joined[start + len(bare) :]

    def _codes(self, element: _Element) -> Iterator[tuple[int, int, str]]:
        """Yield the spans of the tags around text in an element, and of elements without text to translate, with codes.

        Elements without text that open or close the same pair are a pair.
        """
        for child in element.children:
            name, number = self._name, len(self._raw)
            pair = child.attributes.get("startRef") or child.attributes.get("rid") or child.attributes.get("id", "")
            kept = child.attributes.get("mtype") == "protected" or child.attributes.get("translate") == "no"
            if child.name in _PAIRS and child.inner_end < child.end and not kept:
                yield child.start, child.inner_start, f"<{name}-{number}>"
                yield from self._codes(child)
                yield child.inner_end, child.end, f"</{name}-{number}>"
            elif child.name in _OPENING:
                self._numbers[pair] = number
                yield child.start, child.end, f"<{name}-{number}>"
            elif child.name in _CLOSING and pair in self._numbers:
                yield child.start, child.end, f"</{name}-{self._numbers.pop(pair)}>"
            else:
                yield child.start, child.end, f"<{name}-{number}/>"


def _segments(element: _Element) -> Iterator[_Element]:
    """Yield the elements `<mrk mtype="seg">`, which are not inside each other."""
    for child in element.children:
        if child.attributes.get("mtype") == "seg":
            yield child
        else:
            yield from _segments(child)


def _unescaped(raw: str) -> str:
    """Return the text of XML without elements."""
    text = re.sub(r"<!--.*?-->|<\?.*?\?>", "", raw, flags=re.DOTALL)
    parts = re.split(r"<!\[CDATA\[(.*?)\]\]>", text, flags=re.DOTALL)
    return "".join(part if index % 2 else html.unescape(part) for index, part in enumerate(parts))
