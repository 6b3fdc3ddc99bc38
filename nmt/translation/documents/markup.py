"""HTML and Android's strings.xml: texts between elements that end one, and attributes that people read.

Tags are found by a pattern and nothing is parsed into a tree, so that damaged markup stays as it is.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape, unescape
from typing import NamedTuple

from nmt.text.items import Item, Line, Role, joined, read
from nmt.translation.documents.document import (
    Content,
    Document,
    Edits,
    Entry,
    ReadOptions,
    code_line,
    formed,
    read_coded,
)

# A comment, a tag, the start of a damaged one, the ends of CDATA, a space that stays.
_CODE = re.compile(
    r"<!--(?s:.*?)(?:-->|\Z)|<%(?s:.*?)(?:%>|\Z)|<\?(?s:.*?)(?:\?>|\Z)|<!\[CDATA\[|\]\]>|&(?:nbsp|#160|shy);"
    r"|<(?P<closes>/?)(?P<name>[A-Za-z][^\s/<>]*)(?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+>|<[A-Za-z/!?%][^<>]*>?"
)
_ATTRIBUTE = re.compile(r"([^\s=/\"'<>]+)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'<>=`]+)")
_ATTRIBUTES = {"alt", "title", "placeholder", "aria-label", "label"}
# Tags of which another attribute is text, and this attribute.
_TEXT_TAGS = {
    "content": re.compile(r"<meta\s[^>]*=[\"']?(?:og:|twitter:)?(?:description|title)\b", re.IGNORECASE),
    "value": re.compile(r"<input\s[^>]*type\s*=\s*[\"']?(?:submit|button|reset)\b", re.IGNORECASE),
}
# Elements inside a sentence; all others end one.
_INLINE = re.compile(
    "|abbr|bdi|bdo|big|br|cite|code|del|dfn|em|font|img|ins|kbd|mark|samp|small|span|strike|strong|sub|sup|time|tt|var|wbr"
    "|[abiqsu]"
)
_VOID, _RAW = {"img", "wbr", "br"}, {"script", "style", "textarea"}
# Elements whose content stays.
_KEPT = {"pre", "svg", "math", "noscript", "template", "object", "code", "kbd", "samp", "var", "xliff:g", *_RAW}
_NOT_TRANSLATED = re.compile(r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*[\"'][^\"']*\bnotranslate\b", re.IGNORECASE)


class _Piece(NamedTuple):
    """A text, or with `item` a tag, or an element that stays, whose item has no name."""

    start: int
    end: int
    element: str = ""
    item: Item | None = None


def _pieces(text: str) -> Iterator[_Piece]:
    """Yield the pieces of a document."""
    position, unclosed = 0, set[str]()
    while match := _CODE.search(text, position):
        if position < match.start():
            yield _Piece(position, match.start())
        name, position = (match["name"] or "").lower(), match.end()
        is_pair = name and name not in _VOID and not match[0].endswith("/>")
        role: Role = "single" if not is_pair else "closing" if match["closes"] else "opening"
        if role == "opening" and (name in _KEPT or _NOT_TRANSLATED.search(match[0])) and name not in unclosed:
            if end := _element_end(text, name, position):
                position, role = end, "single"
            else:
                unclosed.add(name)
        item = Item(text[match.start() : position], role, name if position == match.end() else "")
        yield _Piece(match.start(), position, name, item)
    yield _Piece(position, len(text))


def _element_end(text: str, name: str, start: int) -> int | None:
    """Return the position behind the element whose content begins at `start`; None if it has no closing tag."""
    depth = 1
    for tag in re.compile(rf"<(/?){re.escape(name)}(?![\w:-])[^>]*>", re.IGNORECASE).finditer(text, start):
        depth += -1 if tag[1] else name not in _RAW and not tag[0].endswith("/>")
        if not depth:
            return tag.end()
    return None


def read_html(content: Content, _: ReadOptions) -> Document:
    """Find the texts of elements that are no part of a sentence, and of the attributes that people read."""
    edits, entries, run, changed = Edits(content), list[Entry](), list[_Piece](), dict[str, str]()
    for piece in (*_pieces(content.text), _Piece(len(content.text), len(content.text), "end")):
        entries += _attributes(edits, piece, changed)
        if _INLINE.fullmatch(piece.element):
            run.append(piece)
            continue
        if line := _line(content.text, run, lambda text: read(unescape(text))):
            raw = content.text[run[0].start : run[-1].end]
            start = run[0].start + len(raw) - len(raw.lstrip())
            entries.append(edits.entry(line, start, start + len(raw.strip()), partial(_formed, changed=changed)))
        run = []
    return Document(content.name, entries, partial(edits.encoded, "xmlcharrefreplace"))


def _line(text: str, run: Sequence[_Piece], read_part: Callable[[str], Line]) -> Line | None:
    """Return the text of pieces; None if it has no letter."""
    parts = (piece.item or re.sub(r"\s+", " ", text[piece.start : piece.end]) for piece in run)
    line = joined(read_part(part) if isinstance(part, str) else code_line(part) for part in parts)
    return line._replace(text=line.text.strip()) if any(map(str.isalpha, line.text)) else None


def _formed(line: Line, changed: dict[str, str]) -> str:
    """Return a translation as HTML, in which tags may have changed."""
    items = tuple(item._replace(text=changed.get(item.text, item.text)) for item in line.items)
    return formed(line._replace(items=items), partial(escape, quote=False))


def _attributes(edits: Edits, piece: _Piece, changed: dict[str, str]) -> Iterator[Entry]:
    """Yield the entries of the attributes of a tag; `changed` gets the tag with the translations."""
    tag = piece.item.text if piece.item and piece.item.name else ""
    names = _ATTRIBUTES.union(name for name, tags in _TEXT_TAGS.items() if tags.match(tag))
    for match in _ATTRIBUTE.finditer(tag):
        quote = match[2][0] if match[2][0] in "\"'" else ""

        def form(line: Line, attribute: re.Match[str] = match, quote: str = quote or '"') -> str:
            value = f"{quote}{escape(str(line))}{quote}"
            changed[tag] = changed.get(tag, tag).replace(attribute[0], attribute[0][: -len(attribute[2])] + value, 1)
            return value

        if match[1].lower() in names:
            start = piece.start + match.start(2)
            yield edits.entry(read(unescape(match[2].strip(quote or None))), start, start + len(match[2]), form)


_RESOURCES = {"resources", "string", "string-array", "plurals", "item", "style", "array", "integer-array"}
# Escapes, and quotes around a text, which keep its spaces.
_UNTRANSLATABLE = re.compile(r"\stranslatable\s*=\s*[\"']false")
_STRING_ITEM = re.compile(r"\stype\s*=\s*[\"']string[\"']")
_ANDROID_CODE = re.compile(r"(\\[^\"'\\]|\\\\|(?<!\\)\")")


def read_android(content: Content, _: ReadOptions) -> Document:
    """Find the strings of Android's resources, also of arrays and plurals, but those with `translatable="false"`."""
    edits, entries, run, parent, is_text = Edits(content), list[Entry](), list[_Piece](), "", False
    for piece in _pieces(content.text):
        if piece.item is None or piece.element not in _RESOURCES:
            run.append(piece)
            continue
        is_xml = not any(one.item and one.item.text == "<![CDATA[" for one in run)
        if is_text and (line := _line(content.text, run, partial(_android_text, is_xml=is_xml))):
            form = partial(formed, escape=partial(_android_escaped, is_xml=is_xml))
            entries.append(edits.entry(line, run[0].start, run[-1].end, form))
        tag, is_opening, run = piece.item.text, piece.item.role == "opening", []
        if is_opening and piece.element != "item":
            parent = "" if _UNTRANSLATABLE.search(tag) else piece.element
        is_string = piece.element == "item" and (parent in ("string-array", "plurals") or _STRING_ITEM.search(tag))
        is_text = is_opening and not _UNTRANSLATABLE.search(tag) and (piece.element == "string" or bool(is_string))
    return Document(content.name, entries, partial(edits.encoded, "xmlcharrefreplace"))


def _android_text(text: str, is_xml: bool) -> Line:
    return read_coded(unescape(text) if is_xml else text, _ANDROID_CODE, lambda part: re.sub(r"\\([\"'])", r"\1", part))


def _android_escaped(text: str, is_xml: bool) -> str:
    return re.sub(r"([\"'])", r"\\\1", escape(text, quote=False) if is_xml else text)
