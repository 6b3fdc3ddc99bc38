"""XLIFF 1.2 and 2.x: units without a translation get one, with their inline elements.

http://docs.oasis-open.org/xliff/xliff-core/xliff-core.html (1.2) and https://docs.oasis-open.org/xliff/xliff-core/v2.0/.
"""

import re
from copy import deepcopy
from functools import partial
from html import escape

from lxml import etree

from nmt.errors import DataError
from nmt.text.languages import primary_code
from nmt.translation.documents.document import Content, Document, Slot

_PAIRS = {"g", "mrk", "pc"}
"""Inline elements around text; what is inside others is code of the original format."""
_OPENING, _CLOSING = {"bpt", "bx", "sc", "sm"}, {"ept", "ex", "ec", "em"}
"""Codes that open and close a pair."""
_UNTRANSLATED = {"new", "needs-translation", "initial"}
_LANGUAGES = (("source-language", "target-language"), ("srcLang", "trgLang"))
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>\s*")
_PLAIN = etree.XMLParser(remove_comments=True, remove_pis=True)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def read_xliff(content: Content, *languages: str) -> Document:
    """Find the units without a target, with an empty one, or with one in the state new, needs-translation or initial.

    Sets the target language where it is missing; `languages` are those of the model. Raises DataError for what is no
    XLIFF or in other languages.
    """
    parser = etree.XMLParser(encoding="utf-8", resolve_entities="internal", no_network=True, strip_cdata=False)
    try:
        tree = etree.fromstring(content.text.encode(), parser).getroottree()
    except etree.XMLSyntaxError as error:
        raise DataError(f"{content.name}:{error.lineno}: not XML: {error.msg}") from None
    if _name(tree.getroot()) != "xliff":
        raise DataError(f"{content.name}:1: not XLIFF: the first element is <{_name(tree.getroot())}>")
    slots: list[Slot] = []
    for element in tree.iter(etree.Element):
        for names in _LANGUAGES:
            for name, language in zip(names, languages, strict=True) if names[0] in element.attrib else ():
                stated = element.get(name) or language
                if primary_code(stated) != primary_code(language):
                    message = f'{name}="{stated}", but the model translates {" to ".join(languages)}'
                    raise DataError(f"{content.name}:{element.sourceline}: {message}")
                element.set(name, stated)
        if _name(element) in ("trans-unit", "segment") and _inherited(element, "translate") != "no":
            slots += _slots(content.name, element)

    def encoded() -> bytes:
        text = f"{start}{etree.tostring(tree, encoding='unicode')}\n"
        return content.encode(text.replace("\n", content.line_end))

    start = "".join(_DECLARATION.findall(content.text)).replace(content.line_end, "\n")
    return Document(content.name, slots, encoded, "all units have a translation already, which is kept")


def _slots(name: str, unit: etree._Element) -> list[Slot]:
    """Return the slots of a unit, one for each segment in `<seg-source>`, if it has text and no translation."""
    source, target = unit.find("{*}source"), unit.find("{*}target")
    if source is None:
        raise DataError(f"{name}:{unit.sourceline}: <{_name(unit)}> has no source")
    states = [one.get("state") for one in (unit, target) if one is not None]
    segmented, slots = unit.find("{*}seg-source"), list[Slot]()
    source = source if segmented is None else segmented
    segments, translated = _segments(source), [] if target is None else _segments(target)
    filled = [_is_filled(one) for one in translated] if not _UNTRANSLATED.intersection(states) else []
    if unit.get("approved") == "yes" or (any(filled) and len(filled) != len(segments)):
        return []
    for index, one in enumerate(segments):
        if any(filled) and filled[index]:
            continue
        codes: dict[str, str] = {}
        text = _text(etree.fromstring(etree.tostring(one, with_tail=False), _PLAIN), codes)
        text = text if _inherited(one, _SPACE) == "preserve" else re.sub(r"\s+", " ", text)
        place = f"unit {_inherited(unit, 'id') or '?'} (line {unit.sourceline:,})"
        slots.append(Slot(text, place, partial(_write, unit, source, index, codes)))
    return slots if any(slot.text.strip() for slot in slots) else []


def _is_filled(target: etree._Element) -> bool:
    """Whether a target, or a segment of it, has text or an inline code."""
    return bool("".join(target.itertext()).strip()) or any(_name(one) != "mrk" for one in target.iterdescendants())


def _segments(element: etree._Element) -> list[etree._Element]:
    """Return the elements `<mrk mtype="seg">`, else the element itself."""
    return [one for one in element.iter("{*}mrk") if one.get("mtype") == "seg"] or [element]


def _text(element: etree._Element, codes: dict[str, str]) -> str:
    """Return the content of an element with a tag in place of each inline element; `codes` has the XML of the tags."""
    text, opened = element.text or "", dict[str, str]()
    for child in element.iterchildren(etree.Element):
        number, pair = f"code-{len(codes)}", child.get("startRef") or child.get("rid") or child.get("id", "")
        raw = etree.tostring(child, encoding="unicode", with_tail=False)
        kept = child.get("mtype") == "protected" or child.get("translate") == "no"
        if _name(child) in _PAIRS and not kept and (len(child) or child.text):
            codes |= {f"<{number}>": raw[: raw.index(">") + 1], f"</{number}>": raw[raw.rindex("<") :]}
            text += f"<{number}>{_text(child, codes)}</{number}>{child.tail or ''}"
            continue
        code = f"<{number}/>"
        if _name(child) in _OPENING:
            code, opened[pair] = f"<{number}>", number
        elif _name(child) in _CLOSING and pair in opened:
            code = f"</{opened.pop(pair)}>"
        codes[code] = raw
        text += f"{code}{child.tail or ''}"
    return text


def _write(unit: etree._Element, source: etree._Element, index: int, codes: dict[str, str], translation: str) -> None:
    """Put the translation of a segment into the target, which is made if there is none, and set its state."""
    target = unit.find("{*}target")
    if target is None:
        target = etree.Element(etree.QName(etree.QName(source).namespace, "target"), nsmap=source.nsmap)
        source.addnext(target)  # before the space behind the source
        source.tail = unit.text
    if len(_segments(target)) != len(_segments(source)):
        target[:], target.text = deepcopy(source)[:], source.text
    parts = (codes.get(part) or escape(part, quote=False) for part in re.split(r"(</?code-\d+/?>)", translation))
    # where codes and tags of the text are not inside each other, the parser closes elements
    made = etree.fromstring(f"<a>{''.join(parts)}</a>", etree.XMLParser(recover=True))
    place = _segments(target)[index]
    place[:], place.text = made[:], made.text
    etree.cleanup_namespaces(target)
    is_segment = _name(unit) == "segment"
    (unit if is_segment else target).set("state", "translated" if is_segment else "needs-review-translation")


def _inherited(element: etree._Element, attribute: str) -> str | None:
    """Return an attribute of the element, or of the nearest one around it that has it."""
    return next((one.get(attribute) for one in (element, *element.iterancestors()) if attribute in one.attrib), None)


def _name(element: etree._Element) -> str:
    return str(etree.QName(element).localname)
