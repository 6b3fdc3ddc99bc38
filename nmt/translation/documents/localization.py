"""Files of localization, PO and XLIFF: messages and units without a translation get one, existing ones stay.

PO: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
XLIFF: http://docs.oasis-open.org/xliff/xliff-core/xliff-core.html (1.2) and
https://docs.oasis-open.org/xliff/xliff-core/v2.0/.
"""

import re
from copy import deepcopy
from functools import partial
from html import escape

import polib
from lxml import etree

from nmt.errors import DataError
from nmt.text.languages import primary_code
from nmt.translation.documents.document import Content, Document, Slot

_PO_LINE = re.compile(r'\s*(#.*|(msg\w+(\[\d+\])?\s*)?"([^"\\]|\\.)*"\s*)?')
_POLIB_PLACE = re.compile(r"\(line (\d+)\)(?:: (.*))?")


def read_po(content: Content) -> Document:
    """Find the messages without a translation, which get one marked as fuzzy. Raises DataError for what is no PO file.

    The number of plural forms is that of the header's `Plural-Forms`. The first form is the translation of the singular
    if there are several, the others are that of the plural.
    """
    file = _parsed_po(content)
    stated = re.search(r"nplurals\s*=\s*(\d+)", file.metadata.get("Plural-Forms", ""))
    slots: list[Slot] = []
    for entry in file:
        if entry.obsolete or entry.msgstr or any(entry.msgstr_plural.values()):
            continue
        count = max(1, int(stated[1])) if stated else len(entry.msgstr_plural)
        if entry.msgid_plural:
            entry.msgstr_plural = dict.fromkeys(range(count), "")
        for form in range(count if entry.msgid_plural else 1):
            plural = entry.msgid_plural and (form > 0 or count == 1)

            def write(translation: str, entry: polib.POEntry = entry, form: int = form) -> None:
                if entry.msgid_plural:
                    entry.msgstr_plural[form] = translation
                else:
                    entry.msgstr = translation
                entry.flags = list(dict.fromkeys([*entry.flags, "fuzzy"]))

            slots.append(Slot(entry.msgid_plural if plural else entry.msgid, f"line {entry.linenum:,}", write))

    def encoded() -> bytes:
        text = str(file).removeprefix("" if file.header else "#\n")  # polib writes a header also where there is none
        text = text.removeprefix("" if file.metadata else 'msgid ""\nmsgstr ""\n\n')
        return content.encode(f"{text.rstrip()}\n".replace("\n", content.line_end))

    return Document(content.name, slots, encoded, "all messages have a translation already, which is kept")


def _parsed_po(content: Content) -> polib.POFile:
    for line in content.lines:  # polib accepts strings that are not closed
        if not _PO_LINE.fullmatch(line.text):
            raise content.error(
                line.start, f'found {line.text[:60]!r}, expected msgid, msgstr, a string in " or a comment'
            )
    try:
        return polib.pofile(content.text)
    except OSError as error:
        found = _POLIB_PLACE.search(str(error))
        place, problem = (found[1], found[2] or "invalid syntax") if found else ("1", str(error))
        raise DataError(f"{content.name}:{place}: not a PO file: {problem}") from None


# Inline elements around text; what is inside others is code of the original format.
_PAIRS = {"g", "mrk", "pc"}
# Codes that open and close a pair.
_OPENING, _CLOSING = {"bpt", "bx", "sc", "sm"}, {"ept", "ex", "ec", "em"}
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
