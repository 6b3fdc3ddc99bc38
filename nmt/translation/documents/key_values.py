"""Files of a key and a text in each line: Java's .properties and Apple's .strings."""

import json
import re
from collections.abc import Iterator

from nmt.text.items import Line
from nmt.translation.documents.document import Content, Replacement, Texts, formed, read_coded, read_text

# https://docs.oracle.com/javase/8/docs/api/java/util/Properties.html#load-java.io.Reader-
_PROPERTY = re.compile(
    r"(?:^|(?<=\r))[ \t\f]*(?:[#!][^\r\n]*|(?![:=#!])(?:[^\s:=\\]|\\[^\r\n])+(?:[ \t\f]*[:=][ \t\f]*|[ \t\f]+)"
    r"(?P<value>(?:[^\r\n\\]|\\(?:\r\n|[\s\S]))*))",
    re.MULTILINE,
)
_STRING = re.compile(
    r'/\*[\s\S]*?\*/|//[^\r\n]*|(?:"(?:[^"\\]|\\[\s\S])*"|(?<![\w.-])[\w.-]++)\s*+=\s*"(?P<value>(?:[^"\\]|\\[\s\S])*)"\s*;'
)
_ESCAPE = re.compile(r"\\(?:[uU]([\dA-Fa-f]{4})|(\r\n|[\s\S])[ \t\f]*)")
# Literals of messages in quotes (java.text.MessageFormat): the braces inside are text.
_QUOTED = re.compile(r"(?<!')('[^'\s]*[{}][^'\s]*'(?!'))")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_key_values(content: Content, texts: Texts) -> Iterator[Replacement]:
    """Replace the values of a file in the format `properties` or `strings`.

    In .properties files in ASCII or Latin-1, all but ASCII is written as `\\u00e8`. In messages of Java with
    `{0}`, apostrophes are doubled. Raises DataError for what is no entry of .strings.
    """
    is_java = content.options.format == "properties"
    is_ascii = content.text.isascii() or content.encoding == "latin-1"
    entries = list((_PROPERTY if is_java else _STRING).finditer(content.text))
    if not is_java:
        starts, ends = [match.start() for match in entries], [match.end() for match in entries]
        for start, end in zip([0, *ends], [*starts, len(content.text)], strict=True):
            between = content.text[start:end].strip()
            if between not in ("", "{", "}"):  # braces around the whole file
                start = content.text.index(between, start)
                raise content.error(start, f'not .strings: found {between[:40]!r}, expected "KEY" = "TEXT";')
    for match in entries:
        if (value := match["value"]) is None:
            continue
        text = _ESCAPE.sub(lambda match: _unescaped(match, is_java), value)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        is_message = is_java and bool(re.search(r"\{\d", text)) and "'" not in _QUOTED.sub("", text.replace("''", ""))

        def form(line: Line, is_message: bool = is_message) -> str:
            unescaped = formed(line, lambda part: part.replace("'", "''")) if is_message else str(line)
            return _escaped(unescaped, is_java, is_ascii)

        line = read_coded(text, _QUOTED, lambda part: part.replace("''", "'")) if is_message else read_text(text)
        yield *match.span("value"), texts.replaced(value, line, content.place(match.start("value")), form)


def _unescaped(escape: re.Match[str], is_java: bool) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    if is_java and escape[2] in ("\n", "\r", "\r\n"):  # the value continues in the next line
        return ""
    return _CONTROLS.get(escape[2], escape[2]) + escape[0][1 + len(escape[2]) :]


def _escaped(text: str, is_java: bool, only_ascii: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if not is_java:
        return text.replace('"', '\\"')
    if only_ascii:
        text = re.sub(r"[^\0-\x7f]", lambda match: json.dumps(match[0])[1:-1], text)
    return re.sub(r"\A ", r"\\ ", text)
