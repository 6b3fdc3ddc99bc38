"""HTML and Android's strings.xml: texts between elements that end one, and attributes that people read.

Tags are found by a pattern and nothing is parsed into a tree, so that damaged markup stays as it is.
"""

import re
from collections.abc import Iterator, Sequence
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

# A comment, CDATA, a tag, or the start of a damaged one.
_CODE = re.compile(
    r"<!--(?s:.*?)-->|<!\[CDATA\[(?s:.*?)\]\]>|<%(?s:.*?)%>|<\?(?s:.*?)\?>"
    r"|<(?P<closes>/?)(?P<name>[A-Za-z][^\s/<>]*)(?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+>|<[A-Za-z/!?%][^<>]*>?"
)
_ATTRIBUTE = re.compile(r"([^\s=/\"'<>]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_ATTRIBUTES = {"alt", "title", "placeholder", "aria-label"}
_DESCRIPTION = re.compile(r"<meta\s[^>]*=[\"']?(?:og:|twitter:)?(?:description|title)\b", re.IGNORECASE)
# Elements inside a sentence; all others end one.
_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "del", "dfn", "em", "font", "i", "img", "ins", "mark", "q", "s",
    "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr",
}  # fmt: skip
_VOID = {"img", "wbr", "br"}
_RAW = {"script", "style", "textarea"}
# Elements whose content stays; those of the second line are inside a sentence.
_KEPT_BLOCKS = {"pre", "svg", "math", "noscript", "template", "object", *_RAW}
_KEPT_INLINE = {"code", "kbd", "samp", "var", "xliff:g"}
_NOT_TRANSLATED = re.compile(r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*[\"'][^\"']*\bnotranslate\b", re.IGNORECASE)


class _Piece(NamedTuple):
    """A text, or with `item` a tag, or an element that stays; `ends_text` if it is no part of a sentence."""

    start: int
    end: int
    item: Item | None = None
    ends_text: bool = False


def _pieces(text: str, inline: set[str] | None) -> Iterator[_Piece]:
    """Yield the pieces of a document; `inline` are the elements inside a sentence, None for all."""
    position, unclosed = 0, set[str]()
    while match := _CODE.search(text, position):
        if position < match.start():
            yield _Piece(position, match.start())
        name, position = (match["name"] or "").lower(), match.end()
        kept = name in _KEPT_BLOCKS | _KEPT_INLINE or _NOT_TRANSLATED.search(match[0])
        if kept and not match["closes"] and not match[0].endswith("/>") and name not in _VOID | unclosed:
            position = _element_end(text, name, position) or position
            unclosed |= {name} if position == match.end() else set()
        role: Role = "break" if name == "br" else "single"
        if name and position == match.end() and name not in _VOID and not match[0].endswith("/>"):
            role = "closing" if match["closes"] else "opening"
        inside = inline is None or name in inline | _KEPT_INLINE | {"", "br"}
        yield _Piece(match.start(), position, Item(text[match.start() : position], role, name), not inside)
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
    edits, entries, run = Edits(content), list[Entry](), list[_Piece]()
    for piece in _pieces(content.text, _INLINE):
        if not piece.ends_text:
            run.append(piece)
            continue
        entries += _texts(edits, run)
        entries += _attributes(edits, piece, None)
        run = []
    return Document(content.name, [*entries, *_texts(edits, run)], edits.encoded)


def _texts(edits: Edits, run: Sequence[_Piece]) -> list[Entry]:
    """Return the entries of a text and of the attributes in it."""
    text = edits.content.text
    ends = [index for index, piece in enumerate(run) if piece.item or not text[piece.start : piece.end].isspace()]
    run = run[ends[0] : ends[-1] + 1] if ends else []
    if not run:
        return []
    raw = [text[piece.start : piece.end] for piece in run]
    start = run[0].start + len(raw[0]) - len(raw[0].lstrip())
    end = run[-1].end - len(raw[-1]) + len(raw[-1].rstrip())
    raw[0], raw[-1] = raw[0].lstrip(), raw[-1].rstrip() if len(raw) > 1 else raw[0].strip()
    line = joined(
        code_line(piece.item) if piece.item else read(re.sub(r"\s+", " ", unescape(part)))
        for piece, part in zip(run, raw, strict=True)
    )
    if not any(map(str.isalpha, line.text)):
        return [entry for piece in run for entry in _attributes(edits, piece, None)]
    changed = dict[str, str]()  # tags, by what they were

    def write(translation: Line) -> None:
        items = tuple(item._replace(text=changed.get(item.text, item.text)) for item in translation.items)
        if translation != line or items != translation.items:
            edits.replace(start, end, formed(Line(translation.text, items), partial(escape, quote=False)))

    place = f"line {edits.content.line_number(start):,}"
    return [*(entry for piece in run for entry in _attributes(edits, piece, changed)), Entry(line, place, write)]


def _attributes(edits: Edits, piece: _Piece, changed: dict[str, str] | None) -> Iterator[Entry]:
    """Yield the entries of the attributes of a tag; `changed` gets the tag if it is inside a text."""
    tag = piece.item.text if piece.item else ""
    is_tag = piece.item is not None and piece.item.name and piece.item.role != "closing"
    for match in _ATTRIBUTE.finditer(tag, 0, tag.find(">") if piece.item and piece.item.name in _RAW else len(tag)):
        name, value = match[1].lower(), match[2][1:-1]
        if not is_tag or name not in (_ATTRIBUTES | {"content"} if _DESCRIPTION.match(tag) else _ATTRIBUTES):
            continue
        line = read(re.sub(r"\s+", " ", unescape(value)))
        entry = edits.entry(line, piece.start + match.start(2) + 1, piece.start + match.end(2) - 1, _attribute)
        if changed is not None:

            def write(translation: Line, line: Line = line, value: str = match[2]) -> None:
                if translation == line:
                    return
                before = changed.get(tag, tag)
                changed[tag] = before.replace(value, f"{value[0]}{_attribute(translation)}{value[0]}", 1)

            entry = entry._replace(write=write)
        yield entry


def _attribute(line: Line) -> str:
    return escape(str(line))


_RESOURCES = {"resources", "string", "string-array", "plurals", "item", "style", "array", "integer-array"}
_ANDROID_CODE = re.compile(r"(\\[^\"'\\]|\\\\)")


def read_android(content: Content, _: ReadOptions) -> Document:
    """Find the strings of Android's resources, also of arrays and plurals, but those with `translatable="false"`."""
    edits, entries, run, parent, is_text = Edits(content), list[Entry](), list[_Piece](), "", False
    kept = list[str]()
    for piece in _pieces(content.text, None):
        item = piece.item
        if item is None or item.name not in _RESOURCES:
            run.append(piece)
            continue
        if is_text and run and item.role == "closing":
            start, end = run[0].start, run[-1].end
            line = joined(
                code_line(one.item) if one.item else _android_text(content.text[one.start : one.end]) for one in run
            )
            if any(one.item and one.item.text.startswith("<![CDATA[") for one in run):
                kept.append(f"line {content.line_number(start):,}")
            entries.append(edits.entry(line, start, end, lambda line: formed(line, _android_escaped)))
        parent = item.name if item.role == "opening" and item.name != "item" else parent
        is_text = item.role == "opening" and 'translatable="false"' not in item.text
        is_text = is_text and (item.name == "string" or (item.name == "item" and parent in ("string-array", "plurals")))
        run = []
    return Document(content.name, entries, edits.encoded, kept=("string with CDATA", kept))


def _android_text(text: str) -> Line:
    spaced = re.sub(r"\s+", " ", unescape(text))
    return read_coded(spaced, _ANDROID_CODE, lambda part: re.sub(r"\\([\"'])", r"\1", part))


def _android_escaped(text: str) -> str:
    return re.sub(r"([\"'])", r"\\\1", escape(text, quote=False))
