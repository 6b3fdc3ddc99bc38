"""PO files of gettext: messages without a translation are translated, existing translations stay.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from nmt.translation.documents.document import Content, Document, Edit, Line, Slot

_KEYWORD = re.compile(r"\s*(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*(?=\")")
_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*\Z')
_ESCAPE = re.compile(r"\\(x[\dA-Fa-f]+|[0-7]{1,3}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", '"': '"', "\\": "\\"}
_CHARSET = re.compile(rb"charset=([\w.:-]+)")
_PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d+)")


@dataclass
class _Field:
    """A keyword with its string, and the span of the string with its quotes, over one or more lines."""

    keyword: str
    text: str
    start: int
    end: int = 0


_Entry = list[_Field]
"""The fields of a message."""


def declared_charset(data: bytes) -> str | None:
    """Return the encoding in the header of a PO file, None for a template, which has CHARSET."""
    found = _CHARSET.search(data[: 1 << 16])
    return found[1].decode() if found and found[1] != b"CHARSET" else None


def read_po(content: Content) -> Document:
    """Find the messages without a translation. Raises DataError for what is no PO file.

    The number of plural forms is that of the header's `Plural-Forms`: missing ones are added, surplus ones removed. The
    first form is the translation of the singular if there are several, the others are that of the plural.
    """
    entries = list(_entries(content))
    header = next((_translations(one)[0].text for one in entries if _is_header(one)), "")
    stated = _PLURAL_FORMS.search(header)
    slots: list[Slot] = []
    edits: list[Edit] = []
    write = partial(_quoted, content.line_end)
    for entry in entries:
        translations = _translations(entry)
        if _is_header(entry) or any(one.text for one in translations):
            continue
        text_of = {one.keyword: one.text for one in entry}
        singular = text_of["msgid"]
        plural = text_of.get("msgid_plural", singular)
        forms = len(translations)
        if "msgid_plural" in text_of and stated is not None:
            forms = max(1, int(stated[1]))
        place = f"line {content.line_number(entry[0].start):,}"
        for index in range(forms):
            text = singular if index == 0 and forms > 1 else plural
            if index < len(translations):
                start, end, before = translations[index].start, translations[index].end, ""
            else:
                start = end = translations[-1].end
                before = f"{content.line_end}msgstr[{index}] "
            slots.append(Slot(text, place, start, end, write, in_place=False, before=before))
        for last, surplus in zip(translations[forms - 1 :], translations[forms:], strict=False):
            edits.append(Edit(last.end, surplus.end, ""))
    return Document(content, slots, edits, "all messages have a translation already, which is kept")


def _translations(entry: _Entry) -> list[_Field]:
    """Return the fields `msgstr`, or `msgstr[0]` and those that follow."""
    return [one for one in entry if one.keyword.startswith("msgstr")]


def _is_header(entry: _Entry) -> bool:
    """Whether a message describes the file: it has the empty text and no context."""
    text_of = {one.keyword: one.text for one in entry}
    return not text_of["msgid"] and "msgctxt" not in text_of


def _entries(content: Content) -> Iterator[_Entry]:
    """Yield the messages. Raises DataError for lines that belong to none, and for incomplete ones."""
    entry: _Entry = []
    for line in content.lines:
        text, keyword = line.text.strip(), _KEYWORD.match(line.text)
        is_blank = not text or text.startswith("#")
        if _translations(entry[-1:]) and (is_blank or (keyword and not keyword[1].startswith("msgstr"))):
            yield _complete(content, entry)
            entry = []
        if is_blank:
            continue
        start = keyword.end() if keyword else 0
        string = _STRING.match(line.text, start)
        if string is None or (keyword is None and not entry):
            raise content.error(line.start, f'found {text[:60]!r}, expected msgid, msgstr, a string in " or a comment')
        if keyword is not None:
            entry.append(_Field(keyword[1], "", line.start + start))
        entry[-1].text += _unescaped(content, line, string[1])
        entry[-1].end = line.start + len(line.text.rstrip())
    if entry:
        yield _complete(content, entry)


def _complete(content: Content, entry: _Entry) -> _Entry:
    """Return an entry that has a text, and a translation of each of its forms. Raises DataError for another one."""
    keywords = [one.keyword for one in entry if one.keyword != "msgctxt"]
    plural = ["msgid", "msgid_plural", *(f"msgstr[{index}]" for index in range(max(1, len(keywords) - 2)))]
    if keywords not in (["msgid", "msgstr"], plural):
        raise content.error(
            entry[0].start,
            f"found a message of {', '.join(keywords)}; expected msgid and msgstr, or msgid, msgid_plural, msgstr[0] …",
        )
    return entry


def _unescaped(content: Content, line: Line, text: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1]
        if code in _ESCAPES:
            return _ESCAPES[code]
        try:
            return chr(int(code[1:], 16) if code[0] == "x" else int(code, 8))
        except (ValueError, OverflowError):
            raise content.error(line.start, f"found the unknown escape \\{code[:60]}") from None

    return _ESCAPE.sub(character, text)


def _quoted(line_end: str, text: str) -> str:
    """Return the string with quotes; a text of several lines begins with `""`, and each of its lines is one."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r")
    lines: Sequence[str] = [line.replace("\n", "\\n") for line in re.findall(r"[^\n]*\n|[^\n]+", escaped)]
    if len(lines) > 1:
        lines = ["", *lines]
    return line_end.join(f'"{line}"' for line in lines or [""])
