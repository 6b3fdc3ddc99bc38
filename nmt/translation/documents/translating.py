"""Translate documents: which of their texts, paragraph by paragraph, and warnings about the others."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, Unpack

from nmt.system.console import Console, counted
from nmt.system.distributed import on_rank_zero, scatter_map
from nmt.system.files import check_output, write_output
from nmt.text.content import ICU_ARGUMENT
from nmt.text.items import Line, joined
from nmt.text.readers.opening import limits_reported, read_lines
from nmt.translation.documents.document import Content, Document, Entry, Format, ReadOptions
from nmt.translation.documents.docx import read_docx
from nmt.translation.documents.json_strings import read_json, read_json_lines
from nmt.translation.documents.key_values import read_key_values
from nmt.translation.documents.markdown import read_markdown
from nmt.translation.documents.markup import read_android, read_html
from nmt.translation.documents.po import read_po
from nmt.translation.documents.recognizing import named_format, recognized_format
from nmt.translation.documents.records import read_table
from nmt.translation.documents.subtitles import read_subtitles
from nmt.translation.documents.wrapping import paragraphs, rewrapped, unwrapped
from nmt.translation.documents.xliff import read_xliff
from nmt.translation.options import Choices, TranslateOptions
from nmt.translation.pipeline import differing_at, first_few
from nmt.translation.result import Translation
from nmt.translation.translator import Translator

_XML = re.compile(rb"\A\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
# How formats declare their encoding.
_DECLARED = {
    "po": re.compile(rb"charset=(?!CHARSET)([\w.:-]+)"),  # a template has CHARSET
    "xliff": _XML, "android": _XML,
    "html": re.compile(rb"<meta\s[^>]*charset\s*=\s*[\"']?([\w.:-]+)|" + _XML.pattern, re.IGNORECASE),
}  # fmt: skip


_READERS: dict[Format, Callable[[Content, ReadOptions], Document]] = {
    "srt": read_subtitles, "vtt": read_subtitles, "json": read_json, "jsonl": read_json_lines, "csv": read_table,
    "tsv": read_table, "po": read_po, "xliff": read_xliff, "html": read_html, "markdown": read_markdown,
    "properties": read_key_values, "android": read_android, "strings": read_key_values,
}  # fmt: skip


class _Warnings(Console):
    """Collects warnings, and prints nothing."""

    def __init__(self) -> None:
        super().__init__(silent=True)
        self.found: list[str] = []

    def warn(self, message: str) -> None:
        """Add a warning."""
        self.found.append(message)


class LineTranslator(Protocol):
    """A `Translator`, or what translates lines in its place."""

    def line_batches(self, lines: Iterable[Line]) -> Iterator[list[Line]]:
        """Yield lines in batches."""

    def translate_lines(self, lines: Sequence[Line], options: TranslateOptions) -> list[Translation]:
        """Return a translation for each line."""


def read_document(data: bytes, name: str, options: ReadOptions) -> Document:
    """Find the texts of a file. Raises DataError for a damaged one."""
    with limits_reported(name):
        return read_docx(data, name) if options.format == "docx" else _read_text(data, name, options)


def _read_text(data: bytes, name: str, options: ReadOptions) -> Document:
    declared = _DECLARED[options.format].search(data[: 1 << 16]) if options.format in _DECLARED else None
    encoding = next((one.decode() for one in declared.groups() if one), None) if declared else None
    if options.format == "properties" and data.decode(errors="ignore").encode() != data:
        encoding = "latin-1"
    return _READERS[options.format](Content.decode(data, name, encoding), options)


def translate_document(
    translator: LineTranslator, document: Document | None, options: TranslateOptions, console: Console
) -> bytes:
    """Return the file with its texts translated; the processes of torchrun translate together.

    Processes other than the first have no document and return b"". Plural and select messages of ICU stay. Raises as
    `Document.encoded` does.
    """
    started = time.monotonic()
    entries = document.entries if document is not None else ()
    messages = [entry.place for entry in entries if ICU_ARGUMENT.search(str(entry.line))]
    entries = [entry for entry in entries if not ICU_ARGUMENT.search(str(entry.line))]
    with console.progress("translating", on_rank_zero(lambda: len(_lines_of(entries))), "lines") as advance:
        differing = translate_entries(translator, entries, options, advance)
    if document is None:
        return b""
    count = sum(any(map(str.isalpha, entry.line.text)) for entry in entries)
    if not document.entries or not (count or messages):
        reason = f"no text has a letter: {first_few([entry.place for entry in entries])}"
        console.warn(f"{document.name}: nothing to translate: {reason if entries else document.without_texts}")
    for what, left in (("plural or select message of ICU", messages), document.kept):
        if left:
            noun, _, rest = what.partition(" ")
            stay = "stays as it is" if len(left) == 1 else "stay as they are"
            console.warn(f"{counted(len(left), noun)} {rest} {stay}: {first_few(left)}")
    if differing:
        console.warn(differing_at("text", differing))
    data = document.encoded()
    others = f"; {len(entries) - count:,} without a letter" if count < len(entries) else ""
    console.info(f"translated {counted(count, 'text')} in {time.monotonic() - started:.1f} s{others}")
    return data


def translate_file(translator: Translator, source: Path, output: Path, **choices: Unpack[Choices]) -> list[str]:
    """Translate a file of any format that is read into another one; return warnings on what is not translated.

    Of a text, each line. Raises DataError for a damaged file, ConfigError for an output that cannot be written.
    """
    check_output(output, [source])
    data, options, console = source.read_bytes(), translator.options(**choices), _Warnings()
    format_ = recognized_format(named_format(None, source), str(source), data[: 1 << 16])
    if format_ == "text":
        lines = list(read_lines(source))
        found = [one for batch in translator.line_batches(lines) for one in translator.translate_lines(batch, options)]
        places = [f"line {number}" for number, one in enumerate(found, start=1) if any(one.diff)]
        console.found += [differing_at("line", places)] if places else []
        write_output(output, "".join(f"{one.text}\n" for one in found))
        return console.found
    document = read_document(
        data, str(source), ReadOptions(format_, languages=(translator.languages.source, options.to))
    )
    write_output(output, translate_document(translator, document, options, console))
    return console.found


def translate_html(translator: Translator, text: str, options: TranslateOptions | None = None) -> str:
    """Return HTML with its texts translated.

    >>> translate_html(translator, "<p>My father has a <b>rabbit</b>.</p>")
    '<p>Mio padre ha un <b>coniglio</b>.</p>'
    """
    content = Content("HTML", text)
    document = read_html(content, ReadOptions("html"))
    translate_entries(translator, document.entries, options or translator.options(), lambda _: None)
    return document.encoded().decode()


def translate_entries(
    translator: LineTranslator, entries: Sequence[Entry], options: TranslateOptions, advance: Callable[[int], object]
) -> list[str]:
    """Write the translations of entries, equal lines once; return the places of those that differ in content."""
    made: dict[Line, Translation] = {}
    batches = translator.line_batches(_lines_of(entries))
    for batch, translations in scatter_map(batches, lambda batch: (batch, translator.translate_lines(batch, options))):
        made |= zip(batch, translations, strict=True)
        advance(len(batch))
    differing = []
    for entry in entries:
        parts = [(part, made.get(unwrapped(part))) for part in paragraphs(entry.line)]
        entry.write(joined(rewrapped(found.line, part) if found else part for part, found in parts))
        if any(found and any(found.diff) for _, found in parts):
            differing.append(entry.place)
    return differing


def _lines_of(entries: Sequence[Entry]) -> list[Line]:
    """Return the different paragraphs with a letter outside of their items, each as one line."""
    lines = (unwrapped(part) for entry in entries for part in paragraphs(entry.line))
    return [line for line in dict.fromkeys(lines) if any(map(str.isalpha, line.text))]
