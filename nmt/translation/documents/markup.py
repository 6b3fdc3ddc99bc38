"""HTML and Android's strings.xml: texts between elements that end a text, and attributes that people read.

Tags are found by a pattern and nothing is parsed into a tree, so that damaged markup stays as it is.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape, unescape
from typing import NamedTuple

from nmt.text.content import ICU_ARGUMENT
from nmt.text.items import SCRIPT, Item, Line, Role, joined, read
from nmt.text.languages import primary_code
from nmt.translation.documents.document import Content, Replacement, Texts, code_line, formed, read_coded
from nmt.translation.documents.xliff import parsed_xml

# Code of servers and templates, in which signs are no entities.
_TEMPLATE = rf"{SCRIPT}|\{{[{{%#!][^{{}}]*[}}%#!]\}}|\[%[^][]*%\]"
_QUOTED = "|".join(rf"{quote}(?:[^{quote}<{{\[]++|{_TEMPLATE}|[<{{\[])*+{quote}" for quote in "\"'")
# A comment, a tag, the start of a damaged one, the ends of CDATA, a space that stays since it is not between words.
_CODE = re.compile(
    r"<!--(?s:.*?)(?:-->|\Z)|<%(?s:.*?)(?:%>|\Z)|<\?(?s:.*?)(?:\?>|\Z)|<!\[CDATA\[|\]\]>|&shy;|&(?:nbsp|#160);(?!(?<=[^\s>;].{6})\w)"
    rf"|<(?P<closes>/?)(?P<name>[A-Za-z][^\s/<>]*)(?:{_TEMPLATE}|[^<>\"']|{_QUOTED})*+>|<[A-Za-z/!?%][^<>]*>?"
)
_ATTRIBUTE = re.compile(rf"(?<![^\s\"'/])([^\s=/\"'<>]++)\s*+=\s*({_QUOTED}|[^\s\"'<>=`]+)")
_ATTRIBUTES = {"alt", "title", "placeholder", "aria-label", "label"}
# Further attributes that are text, and the tags in which they are.
_TEXT_TAGS = {
    "content": re.compile(r"<meta\s[^>]*=[\"']?(?:og:|twitter:)?(?:description|title)\b", re.IGNORECASE),
    "value": re.compile(r"<input\s[^>]*type\s*=\s*[\"']?(?:submit|button|reset)\b", re.IGNORECASE),
}
# Elements inside a sentence; all others end one.
_INLINE = re.compile(
    "|abbr|bdi|bdo|big|br|cite|code|del|dfn|em|font|img|ins|kbd|mark|samp|small|span|strike|strong|sub|sup|time|tt|var|wbr"
    "|[abiqsu]|ruby|r[bpt]"
)
_VOID, _RAW = {"img", "wbr", "br"}, {"script", "style", "textarea"}
# Elements whose content stays.
_KEPT = {"pre", "svg", "math", "noscript", "template", "object", "code", "kbd", "samp", "var", "xliff:g"}
_KEPT |= {"rp", "rt", *_RAW}
_NOT_TRANSLATED = re.compile(r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*[\"'][^\"']*\bnotranslate\b", re.IGNORECASE)
_LANGUAGE = re.compile(r"<(?!html\b|body\b)[^>]*\slang\s*=\s*[\"']?([A-Za-z][\w-]*)", re.IGNORECASE)


class _Piece(NamedTuple):
    """A text; or with `item`, a tag, or an element that stays as it is, if the item has no name."""

    start: int
    end: int
    element: str = ""
    item: Item | None = None


def _pieces(text: str, languages: tuple[str, str] = ("", "")) -> Iterator[_Piece]:
    """Yield the pieces of a document; elements in other languages than those of the translation stay."""
    position, unclosed = 0, set[str]()
    while match := _CODE.search(text, position):
        if position < match.start():
            yield _Piece(position, match.start())
        name, position = (match["name"] or "").lower(), match.end()
        is_pair = name and name not in _VOID and not match[0].endswith("/>")
        role: Role = "single" if not is_pair else "closing" if match["closes"] else "opening"
        start, is_opening = match.start(), role == "opening" and name not in unclosed
        stays = is_opening and (_NOT_TRANSLATED.search(match[0]) is not None or _is_foreign(match[0], languages))
        if is_opening and (name in _KEPT or stays):
            if end := _element_end(text, name, position):
                if name == "textarea" and not stays:  # its attributes may have text
                    yield _Piece(start, position, name, Item(match[0], "single", name))
                    start = position
                position, role = end, "single"
            else:
                unclosed.add(name)
        item = Item(text[start:position], role, name if position == match.end() else "")
        yield _Piece(start, position, name, item)
    yield _Piece(position, len(text))


def _is_foreign(tag: str, languages: tuple[str, str]) -> bool:
    language = _LANGUAGE.match(tag) if all(languages) else None
    return language is not None and primary_code(language[1]) not in map(primary_code, languages)


def _element_end(text: str, name: str, start: int) -> int | None:
    """Return the position behind the element whose content begins at `start`; None if it has no closing tag."""
    depth = 1
    for tag in re.compile(rf"<(/?){re.escape(name)}(?![\w:-])[^>]*>", re.IGNORECASE).finditer(text, start):
        depth += -1 if tag[1] else name not in _RAW and not tag[0].endswith("/>")
        if not depth:
            return tag.end()
    return None


def read_html(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Replace the texts of elements that are not inside a sentence, and of attributes that people read."""
    run, tags, end = list[_Piece](), dict[str, str](), len(content.text)  # tags: with translated attributes
    for piece in (*_pieces(content.text, content.options.languages), _Piece(end, end, "end")):
        if piece.item and piece.item.name:
            tags[piece.item.text] = _with_attributes(content, texts, piece.start, piece.item.text)
        if _INLINE.fullmatch(piece.element):
            run.append(piece)
            continue
        raw = content.text[run[0].start : run[-1].end] if run else ""
        same = "".join(tags.get(part, part) for part in (content.text[segment.start : segment.end] for segment in run))
        if line := _line(content.text, run, lambda text: read(_outside_templates(unescape, text))):
            start = run[0].start + len(raw) - len(raw.lstrip())
            replacement = texts.replaced(same.strip(), line, content.place(start), partial(_formed, tags=tags))
            yield start, start + len(raw.strip()), replacement
        elif same != raw:
            yield run[0].start, run[-1].end, same
        if piece.item and piece.item.name:
            yield piece.start, piece.end, tags[piece.item.text]
        run = []


def _line(text: str, run: Sequence[_Piece], read_part: Callable[[str], Line]) -> Line | None:
    """Return the text of pieces; None if it has no letter, and is no message of ICU."""
    parts = (piece.item or re.sub(r"\s+", " ", text[piece.start : piece.end]) for piece in run)
    line = joined(read_part(part) if isinstance(part, str) else code_line(part) for part in parts)
    is_text = any(map(str.isalpha, line.text)) or ICU_ARGUMENT.search(str(line))
    return line._replace(text=line.text.strip()) if is_text else None


def _formed(line: Line, tags: dict[str, str]) -> str:
    """Return a translation as HTML, in which tags may have changed."""
    items = tuple(item._replace(text=tags.get(item.text, item.text)) for item in line.items)
    return formed(line._replace(items=items), partial(_outside_templates, partial(escape, quote=False)))


def _outside_templates(change: Callable[[str], str], text: str) -> str:
    return "".join(part if index % 2 else change(part) for index, part in enumerate(re.split(f"({_TEMPLATE})", text)))


def _with_attributes(content: Content, texts: Texts, start: int, tag: str) -> str:
    """Return a tag with the translations of its attributes."""
    names = _ATTRIBUTES.union(name for name, tags in _TEXT_TAGS.items() if tags.match(tag))

    def replaced(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name.lower() not in names:
            return match[0]
        quote = value[0] if value[0] in "\"'" else ""
        line, around = read(_outside_templates(unescape, value.strip(quote or None))), quote or '"'
        place = content.place(start + match.start(2))
        form = partial(_outside_templates, escape)
        replacement = texts.replaced(value, line, place, lambda line: f"{around}{form(str(line))}{around}")
        return match[0].removesuffix(value) + replacement

    return _ATTRIBUTE.sub(replaced, tag)


_RESOURCES = {"resources", "string", "string-array", "plurals", "item", "style", "array", "integer-array"}
_UNTRANSLATABLE = re.compile(r"\stranslatable\s*=\s*[\"']false")
_STRING_ITEM = re.compile(r"\stype\s*=\s*[\"']string[\"']")
# A reference to another resource is no text.
_REFERENCE = re.compile(r"[@?][\w.:]+/[\w.]+")
# Escapes, quotes around a text, which keep its spaces, and entities that the file declares.
_ANDROID_CODE = re.compile(
    r"(\\u[\dA-Fa-f]{4}|\\[^\"'&\\]|\\\\|(?<!\\)(?:\"|&quot;)|&(?!(?:amp|lt|gt|quot|apos);)[A-Za-z_][\w.-]*;)"
)


def read_android(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Replace the strings of Android's resources, also of arrays and plurals, but those with `translatable="false"`.

    Raises DataError for what is not XML.
    """
    parsed_xml(content)
    run, parent, is_text = list[_Piece](), "", False
    for piece in _pieces(content.text):
        if piece.item is None or piece.element not in _RESOURCES:
            run.append(piece)
            continue
        is_xml = not any(part.item and part.item.text == "<![CDATA[" for part in run)
        raw, start = content.text[run[0].start : run[-1].end] if run else "", run[0].start if run else 0
        start, raw = start + len(raw) - len(raw.lstrip()), raw.strip()
        is_text = is_text and not _REFERENCE.fullmatch(raw)
        if is_text and (line := _line(content.text, run, partial(_android_text, is_xml=is_xml))):
            form = partial(formed, escape=partial(_android_escaped, is_xml=is_xml))
            yield start, start + len(raw), texts.replaced(raw, line, content.place(start), form)
        tag, is_opening, run = piece.item.text, piece.item.role == "opening", []
        if piece.element != "item":
            parent = piece.element if is_opening and not _UNTRANSLATABLE.search(tag) else ""
        is_string = piece.element == "item" and (parent in ("string-array", "plurals") or _STRING_ITEM.search(tag))
        is_text = is_opening and not _UNTRANSLATABLE.search(tag) and (piece.element == "string" or bool(is_string))


def _android_text(text: str, is_xml: bool) -> Line:
    def decoded(part: str) -> str:
        return re.sub(r"\\([\"'])", r"\1", unescape(part) if is_xml else part)

    return read_coded(text, _ANDROID_CODE, decoded)


def _android_escaped(text: str, is_xml: bool) -> str:
    return re.sub(r"([\"'\\])", r"\\\1", escape(text, quote=False) if is_xml else text)
