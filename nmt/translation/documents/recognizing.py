"""Recognize the format of an input by its first bytes, then by its name."""

import re
from pathlib import Path
from typing import cast, get_args

from nmt.errors import ConfigError
from nmt.text.languages import is_language
from nmt.text.readers.opening import COMPRESSED, STANDARD_INPUT, input_name
from nmt.translation.documents.document import MARKS, Format

FORMATS: tuple[str, ...] = get_args(Format)
_TABLE_LINES, _LEAST_TABLE_LINES = 20, 3
ENDINGS: dict[str, Format] = {f".{name}": cast(Format, name) for name in FORMATS if name not in ("text", "android")} | {
    ".arb": "json", ".pot": "po", ".xlf": "xliff", ".sdlxliff": "xliff", ".mxliff": "xliff", ".mqxliff": "xliff",
    ".ndjson": "jsonl", ".htm": "html", ".xhtml": "html", ".md": "markdown", ".xml": "android",
}  # fmt: skip
# Endings that lines of text may have, beside codes of languages and numbers.
_PARTS = "train|valid|dev|devtest|test|source|target|src|tgt|ref|hyp"  # of a corpus
_TEXT = re.compile(rf"|\.(?:txt|text|zip|out|tok|{_PARTS}|\d+|.*\s.*)")
_STRING = r'"(?:[^"\\\r\n]|\\.)*+"'
_OFFICE = "PDF, RTF or Office"
_WORD = re.compile(rb"PK\x03\x04(?s:.*?)word/document\.xml")  # in the names of members
# Other binary formats are found by bytes that are not UTF-8.
_BINARY = re.compile(rb"%PDF-|\{\\rtf|PK\x03\x04")
# What may precede the first element of XML; possessive, since a comment has no other end than its first `-->`.
_PROLOG = r"(?:(?:<!--(?s:.*?)-->|<!DOCTYPE[^[>]*(?:\[[^]]*\])?\s*>|<[?!][^>]*>)\s*)*+"
# Formats by the beginning of their content, tried in this order.
_CONTENT: dict[str, re.Pattern[str]] = {
    "vtt": re.compile(r"WEBVTT\b"),
    "srt": re.compile(r"(?:\d+\s+)?\d+:\d{1,2}:\d{1,2}[,.\d]*[ \t]*-->[ \t]*\d+:"),
    "po": re.compile(r"(?:#[^\r\n]*+\s+)*+(?:msgctxt\s+\"(?s:.*?)\"\s+)?msgid\s+\""),
    "jsonl": re.compile(rf"\{{\s*{_STRING}[ \t]*:.*\}}[ \t]*\r?\n\{{[ \t]*{_STRING}[ \t]*:"),
    "json": re.compile(rf"\{{\s*{_STRING}\s*:|\[\s*(?:\{{\s*\"|{_STRING}\s*[,\]])"),
    "xliff": re.compile(rf"{_PROLOG}<(?:\w+:)?xliff\b"),
    "android": re.compile(rf"{_PROLOG}<resources\b"),
    "html": re.compile(r"(?:<\?xml[^>]*>\s*|<!--(?s:.*?)-->\s*)*+(?:<!doctype html\b|<html\b|<head\b|<body\b)", re.I),
    "XML": re.compile(r"<\?xml\b|<!doctype\b|<[A-Za-z][^<>]*>\s*\n\s*<", re.IGNORECASE),
}
_ADVICE = (
    "are not translated, and as lines of text, their keys and markup would be translated; convert it to one of "
    f"{', '.join(FORMATS[1:])}, or add --format text to translate its lines"
)
# Formats that are recognized by their content whatever the name is, since no other format looks like them.
_CERTAIN = ("vtt", "srt", "po", "jsonl", "xliff", "html", "docx")


def named_format(option: str | None, path: Path | None) -> Format | None:
    """Return the format given by `--format`, else by the ending of the name; None for an ending of text.

    Raises ConfigError for an unknown name, and for the ending of another format.
    """
    if option is not None:
        if option not in FORMATS:
            raise ConfigError(f"--format: found {option}, expected {', '.join(FORMATS)}")
        return cast(Format, option)
    name = Path("" if path is None else path.name.lower())
    ending = Path(name.stem).suffix if name.suffix in COMPRESSED else name.suffix
    if ending not in ENDINGS and not _TEXT.fullmatch(ending) and not is_language(ending[1:]):
        raise ConfigError(f"{path}: files in the format {ending} {_ADVICE}")
    return ENDINGS.get(ending)  # also for `.arb`, a code of Arabic


def recognized_format(option: str | None, path: Path | None, start: bytes) -> Format:
    """Return the format of an input by `--format`, else by its first bytes, and by its name if they do not decide.

    Raises ConfigError as `named_format` does, for XML of another kind and for other formats than text.
    """
    named = named_format(option, path)
    if option is not None and named is not None:
        return named
    by_content = _by_content(start)
    if (by_content == _OFFICE and named != "docx") or (by_content == "XML" and named in (None, "android")):
        raise ConfigError(f"{input_name(path or STANDARD_INPUT)}: files of {by_content} {_ADVICE}")
    return cast(Format, by_content or "text") if named is None or by_content in _CERTAIN else named


def _by_content(start: bytes) -> str | None:
    """Return the format that first bytes belong to; or that of a file which is not translated; None for text."""
    if _BINARY.match(start):
        return "docx" if _WORD.match(start) else _OFFICE
    encoding = next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), "utf-8")
    text = start.decode(encoding, errors="ignore").lstrip("\ufeff \t\r\n")
    if format_name := next((name for name, pattern in _CONTENT.items() if pattern.match(text)), None):
        return format_name
    lines = [re.sub('"[^"]*"', "", line) for line in text.split("\n")[:-1][:_TABLE_LINES] if line.strip()]
    if len(lines) < _LEAST_TABLE_LINES or not re.search(r"[^\W\d]", lines[0]):
        return None
    for separator in "\t,;|":
        counts = {line.count(separator) for line in lines}
        # in prose a space follows, in numbers three digits
        prose = re.compile(r"\A\Z" if separator == "\t" else rf"{re.escape(separator)}(?: |\d{{3}}(?!\d))")
        if len(counts) == 1 and counts != {0} and not any(map(prose.search, lines)):
            return "tsv" if separator == "\t" else "csv"
    return None
