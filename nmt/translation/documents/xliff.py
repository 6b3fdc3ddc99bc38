"""XLIFF: units without a target get one, existing ones stay.

http://docs.oasis-open.org/xliff/xliff-core/xliff-core.html (1.2) and
https://docs.oasis-open.org/xliff/xliff-core/v2.0/.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from html import escape

from lxml import etree

from nmt.errors import DataError
from nmt.text.items import Item, Line, joined
from nmt.text.languages import primary_code
from nmt.translation.documents.document import Content, Replacement, Texts, code_line, formed, read_text

# Inline elements around text; what is inside others is code of the original format.
_PAIRS = {"g", "mrk", "pc"}
# Codes that open and close a pair; Angular writes <x id="START_LINK"/> and <x id="CLOSE_LINK"/>.
_OPENING, _CLOSING = {"bpt", "bx", "sc", "sm"}, {"ept", "ex", "ec", "em"}
_ANGULAR = re.compile(r"(START|CLOSE)_(\w+)")
_UNTRANSLATED = {"new", "needs-translation", "initial"}
_LANGUAGES = (("source-language", "target-language"), ("srcLang", "trgLang"))
_SOURCE = re.compile(rf"\s(?:{'|'.join(source for source, _ in _LANGUAGES)})\s*=\s*[\"']([\w-]+)".encode())
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>\s*")
_PLAIN = etree.XMLParser(remove_comments=True, remove_pis=True)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def stated_source(data: bytes) -> str | None:
    """Return the source language that a file in ASCII or UTF-8 states first."""
    stated = _SOURCE.search(data)
    return stated[1].decode() if stated else None


def read_xliff(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Translate the units without a target, with an empty one, or one in the state new, needs-translation or initial.

    Sets the target language where it is missing. Raises DataError for what is no XLIFF or in other languages.
    """
    tree = parsed_xml(content)
    if _name(tree.getroot()) != "xliff":
        raise DataError(f"{content.name}:1: not XLIFF: the first element is <{_name(tree.getroot())}>")
    languages = content.options.languages
    for element in tree.iter(etree.Element):
        names = next((names for names in _LANGUAGES if names[0] in element.attrib), ())
        for name, language in zip(names, languages, strict=False):
            stated = element.get(name) or language
            if language and primary_code(stated) != primary_code(language):
                message = f'{name}="{stated}", but the model translates {" to ".join(languages).lstrip()}'
                raise DataError(f"{content.name}:{element.sourceline}: {message}")
            element.set(name, stated)
    for unit in list(tree.iter("{*}trans-unit", "{*}segment")):
        if _inherited(unit, "translate") != "no":
            _translate_unit(unit, texts)
    start = "".join(_DECLARATION.findall(content.text)).replace(content.line_end, "\n")
    text = f"{start}{etree.tostring(tree, encoding='unicode')}\n"
    yield 0, len(content.text), text.replace("\n", content.line_end)


def parsed_xml(content: Content) -> etree._ElementTree:
    """Return a file as a tree. Raises DataError if it is not XML."""
    parser = etree.XMLParser(encoding="utf-8", resolve_entities="internal", no_network=True, strip_cdata=False)
    try:
        return etree.fromstring(content.text.encode(), parser).getroottree()
    except etree.XMLSyntaxError as error:
        raise DataError(f"{content.name}:{error.lineno}: not XML: {error.msg}") from None


def _translate_unit(unit: etree._Element, texts: Texts) -> None:
    """Translate the text of a unit, or each segment in `<seg-source>`, if it has text and no translation."""
    source, target = unit.find("{*}source"), unit.find("{*}target")
    place = f"unit {_inherited(unit, 'id') or '?'} (line {unit.sourceline:,})"
    if source is None:
        texts.keep("unit without a source", place)
        return
    states = [element.get("state") for element in (unit, target) if element is not None]
    segmented = unit.find("{*}seg-source")
    source = source if segmented is None else segmented
    segments, translated = _segments(source), [] if target is None else _segments(target)
    filled = [_is_filled(segment) for segment in translated] if not _UNTRANSLATED.intersection(states) else []
    if not any(filled):
        filled = [False] * len(segments)
    if unit.get("approved") == "yes" or len(filled) != len(segments):
        return
    indices = [index for index, is_filled in enumerate(filled) if not is_filled]
    lines = [
        _line(etree.fromstring(etree.tostring(part, with_tail=False), _PLAIN), _inherited(part, _SPACE) == "preserve")
        for part in segments
    ]
    if not any(str(lines[index]).strip() for index in indices):
        return
    for index in indices:
        if (translation := texts.translation(lines[index], place)) is not None:
            _write(unit, source, index, translation)


def _is_filled(target: etree._Element) -> bool:
    """Whether a target, or a segment of it, has text or an inline code."""
    return bool("".join(target.itertext()).strip()) or any(_name(child) != "mrk" for child in target.iterdescendants())


def _segments(element: etree._Element) -> list[etree._Element]:
    """Return the elements `<mrk mtype="seg">`, else the element itself."""
    return [mark for mark in element.iter("{*}mrk") if mark.get("mtype") == "seg"] or [element]


def _line(element: etree._Element, keeps_space: bool) -> Line:
    """Return the content of an element; its inline elements are items."""

    def text_line(text: str | None) -> Line:
        return read_text(text or "" if keeps_space else re.sub(r"\s+", " ", text or ""))

    parts = [text_line(element.text)]
    for child in element.iterchildren(etree.Element):
        raw = etree.tostring(child, encoding="unicode", with_tail=False)
        is_protected = child.get("mtype") == "protected" or child.get("translate") == "no"
        if _name(child) in _PAIRS and not is_protected and (len(child) or child.text):
            name = child.get("id") or raw
            parts += [
                code_line(Item(raw[: raw.index(">") + 1], "opening", name)), _line(child, keeps_space),
                code_line(Item(raw[raw.rindex("<") :], "closing", name)),
            ]  # fmt: skip
        else:
            parts.append(code_line(_code(child, raw)))
        parts.append(text_line(child.tail))
    return joined(parts)


def _code(element: etree._Element, raw: str) -> Item:
    """Return the item of an inline element without text."""
    pair, name = element.get("startRef") or element.get("rid") or element.get("id", ""), _name(element)
    angular = _ANGULAR.fullmatch(pair) if name == "x" else None
    pair = angular[2] if angular else pair
    if name in _OPENING or (angular and angular[1] == "START"):
        return Item(raw, "opening", pair)
    return Item(raw, "closing", pair) if name in _CLOSING or angular else Item(raw)


def _write(unit: etree._Element, source: etree._Element, index: int, translation: Line) -> None:
    """Put the translation of a segment into the target, which is made if there is none, and set its state."""
    target = unit.find("{*}target")
    if target is None:
        target = etree.Element(etree.QName(etree.QName(source).namespace, "target"), nsmap=source.nsmap)
        source.addnext(target)  # before the space behind the source
        source.tail = unit.text
    if len(_segments(target)) != len(_segments(source)):
        target[:], target.text = deepcopy(source)[:], source.text
    # where codes and tags of the text are not inside each other, the parser closes elements
    raw = formed(translation, partial(escape, quote=False))
    content = etree.fromstring(f"<a>{raw}</a>", etree.XMLParser(recover=True))
    place = _segments(target)[index]
    place[:], place.text = content[:], content.text
    etree.cleanup_namespaces(target)
    is_segment = _name(unit) == "segment"
    (unit if is_segment else target).set("state", "translated" if is_segment else "needs-review-translation")


def _inherited(element: etree._Element, attribute: str) -> str | None:
    """Return an attribute of the element, or of the nearest one around it that has it."""
    holders = (node for node in (element, *element.iterancestors()) if attribute in node.attrib)
    return next((node.get(attribute) for node in holders), None)


def _name(element: etree._Element) -> str:
    return str(etree.QName(element).localname)
