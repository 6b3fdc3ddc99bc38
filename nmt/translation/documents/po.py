"""PO files: messages without a translation get one, all else stays.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from nmt.text.items import Line
from nmt.text.languages import primary_code
from nmt.translation.documents.document import Content, Replacement, Texts, formed, read_coded

_STRING = r'"((?:[^"\\\r\n]|\\.)*)"'
# White space, a comment, or a keyword with its strings.
_TOKEN = re.compile(
    rf"\s+|#[^\r\n]*|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*(?P<strings>{_STRING}(?:\s*{_STRING})*+)"
)
# Escapes that stay as they are: `\033[1m` with the code of a terminal that it begins.
_CODES = re.compile(r"(?<!\\)((?:\\\\)*\\(?:[0-7]{1,3}|x[\dA-Fa-f]{1,2}|u[\dA-Fa-f]{4}|[^nr\"\\0-7xu])(?:\[[\d;]*m)?)")
_ESCAPE, _ESCAPED = re.compile(r"\\([nr\"\\])"), {"n": "\n", "r": "\r"}
_UNESCAPED = {"\r": "\\r", '"': '\\"', "\\": "\\\\"}
_MOST_FORMS = 20  # Arabic has 6


class _Field(NamedTuple):
    """The string of a keyword, still with its escapes, and the span of both."""

    string: str
    start: int
    end: int


# Fields by keyword; the key `#,` has the line of flags before the message.
_Message = dict[str, _Field]


def read_po(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Fill in the translations that messages lack, and mark these messages as fuzzy.

    The number of plural forms is that of the header's `Plural-Forms`. If there are several forms, the first is the
    translation of the singular, the others that of the plural. Raises DataError for what is no PO file, or for a header
    with another target language.
    """
    count, target = 0, content.options.languages[1]
    for message in _messages(content):
        msgid, plural, start = message["msgid"].string, message.get("msgid_plural"), _start(message)
        forms = [keyword for keyword in message if keyword.startswith("msgstr")]
        if not msgid and "msgctxt" not in message:  # the header
            header = message[forms[0]].string
            language = re.search(r"(?:^|\\n)Language: *([\w-]+)", header)  # not X-Source-Language
            stated = re.search(r"nplurals\s*=\s*(\d+)", header)
            if language and primary_code(language[1].replace("_", "-")) != primary_code(target):
                raise content.error(start, f"Language: {language[1]}, but the model translates to {target}")
            count = int(stated[1][:10]) if stated else 0  # Python refuses more than 4,300 digits
            if count > _MOST_FORMS:
                raise content.error(start, f"nplurals={count}, expected at most {_MOST_FORMS}")
        else:
            number = 1 if plural is None else count or len(forms)
            keywords = ["msgstr"] if plural is None else [f"msgstr[{form}]" for form in range(number)]
            empty = [keyword for keyword in keywords if keyword not in message or not message[keyword].string]
            if len(empty) == number:
                for before, keyword in list(pairwise(forms))[number - 1 :]:  # further forms of the template
                    yield message[before].end, message[keyword].end, ""
            replacements = list[Replacement]()
            for keyword in empty:
                text = msgid if plural is None or (keyword == "msgstr[0]" and number > 1) else plural.string
                translation = texts.translation(read_coded(text, _CODES, _unescaped), content.place(start))
                replacements += [] if translation is None else [_written(content, message, keyword, translation)]
            yield from replacements
            if replacements:
                yield from _fuzzy(content, message)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def _start(message: _Message) -> int:
    return min(field.start for keyword, field in message.items() if keyword != "#,")


def _messages(content: Content) -> list[_Message]:
    """Return the messages of a file, except those in comments. Raises DataError for what is no PO file."""
    messages, flags, position = list[_Message](), _Message(), 0
    while position < len(content.text):
        if (token := _TOKEN.match(content.text, position)) is None:
            rest = content.text[position : position + 60].splitlines()[0]
            raise content.error(position, f'found {rest!r}, expected msgid, msgstr, a string in " or a comment')
        position, keyword = token.end(), token["keyword"]
        if keyword is None:
            if token[0].startswith("#,"):
                flags = {"#,": _Field(token[0], token.start(), token.start() + len(token[0].rstrip()))}
            elif token[0].startswith("#~"):
                flags = {}  # they are those of an obsolete message
            continue
        is_begin = keyword in ("msgctxt", "msgid")
        if not messages or (is_begin and any(known.startswith("msgstr") for known in messages[-1])):
            messages.append({})
        if keyword in messages[-1]:
            raise content.error(token.start(), f"not a PO file: a second {keyword} of a message")
        messages[-1] |= {keyword: _Field("".join(re.findall(_STRING, token["strings"])), *token.span())} | flags
        flags = {}
    for message in messages:
        if "msgid" not in message or not any(keyword.startswith("msgstr") for keyword in message):
            raise content.error(_start(message), "not a PO file: a message without msgid or msgstr")
    return messages


def _written(content: Content, message: _Message, keyword: str, translation: Line) -> Replacement:
    """Return the string of a message with a translation."""
    text = formed(translation, lambda part: re.sub(r"[\r\"\\]", lambda match: _UNESCAPED[match[0]], part))
    *lines, last = text.split("\n")
    strings = [f'"{line}\\n"' for line in lines] + [f'"{last}"'] * (last != "" or not lines)
    if len(strings) > 1:
        strings.insert(0, '""')
    written = f"{keyword} {content.line_end.join(strings)}"
    if keyword in message:
        return *message[keyword][1:], written
    end = max(field.end for field in message.values())  # of a form that the file does not have yet
    return end, end, f"{content.line_end}{written}"


def _fuzzy(content: Content, message: _Message) -> Iterator[Replacement]:
    """Yield the flag `fuzzy` of a message, whose translation nobody has reviewed."""
    if (flags := message.get("#,")) is None:
        yield _start(message), _start(message), f"#, fuzzy{content.line_end}"
    elif "fuzzy" not in flags.string:
        yield flags.end, flags.end, ", fuzzy"
