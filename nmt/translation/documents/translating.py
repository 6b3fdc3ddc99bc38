"""Translate documents: their texts, paragraph by paragraph, and warnings about those that stay as they are."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Unpack

from nmt.errors import ConfigError
from nmt.system.console import counted
from nmt.system.files import check_output, write_output
from nmt.text.items import Line
from nmt.text.readers.opening import first_bytes, limits_reported, open_content, read_lines, split_member
from nmt.translation.documents.document import Content, Document, Format, Read, ReadOptions, lines_in, with_lines
from nmt.translation.documents.docx import write_docx
from nmt.translation.documents.json_strings import read_json
from nmt.translation.documents.key_values import read_key_values
from nmt.translation.documents.markdown import read_markdown
from nmt.translation.documents.markup import read_android, read_html
from nmt.translation.documents.po import read_po
from nmt.translation.documents.recognizing import recognized_format
from nmt.translation.documents.records import read_table
from nmt.translation.documents.subtitles import read_subtitles
from nmt.translation.documents.xliff import read_xliff
from nmt.translation.options import Choices, TranslateOptions, checked_options
from nmt.translation.pipeline import differing_at, first_few
from nmt.translation.result import Translation
from nmt.translation.translator import Text, Translator

_XML = re.compile(rb"\A\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)")
# How formats declare their encoding.
_DECLARED = {
    "po": re.compile(rb"charset=(?!CHARSET)([\w.:-]+)"),  # a template has CHARSET
    "xliff": _XML, "android": _XML,
    "html": re.compile(rb"<meta\s[^>]*charset\s*=\s*[\"']?([\w.:-]+)|" + _XML.pattern, re.IGNORECASE),
}  # fmt: skip
# What browsers read for an encoding that a page declares (https://encoding.spec.whatwg.org/#names-and-labels).
_WEB_ENCODINGS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
_READERS: dict[Format, Read] = {
    "srt": read_subtitles, "vtt": read_subtitles, "json": read_json, "jsonl": read_json, "csv": read_table,
    "tsv": read_table, "po": read_po, "xliff": read_xliff, "html": read_html, "markdown": read_markdown,
    "properties": read_key_values, "android": read_android, "strings": read_key_values,
}  # fmt: skip


# Yields lines in batches with their translations, as `Translator.translate_batches`.
TranslateBatches = Callable[[Iterable[Text], TranslateOptions], Iterator[tuple[list[Text], list[Translation]]]]


def read_document(data: bytes, name: str, options: ReadOptions) -> Document:
    """Find the texts of a file. Raises DataError for a damaged one."""
    with limits_reported(name):
        if options.format == "docx":
            return Document(name, partial(write_docx, data, name))
        declared = _DECLARED[options.format].search(data[: 1 << 16]) if options.format in _DECLARED else None
        encoding = declared[declared.lastindex or 0].decode() if declared else None
        if options.format == "properties" and data.decode(errors="ignore").encode() != data:
            encoding = "latin-1"
        if options.format == "html" and encoding:
            with suppress(LookupError):  # of an unknown name, which `decode` reports
                encoding = _WEB_ENCODINGS.get(codecs.lookup(encoding).name, encoding)
        return _document_of(Content.decode(data, name, options, encoding))


def _document_of(content: Content) -> Document:
    read = _READERS[content.options.format]
    return Document(content.name, partial(content.replaced, read), content.options.without_texts)


def translate_document(
    translate_batches: TranslateBatches[Line],
    document: Document,
    options: TranslateOptions,
    advance: Callable[[int], object] = lambda count: None,
) -> tuple[bytes, list[str]]:
    """Return the file with its texts translated, equal lines once, and warnings about untranslated content.

    The processes of torchrun translate together; only the first one has the texts. `advance` is called with the number
    of lines that are translated. Raises as `Document.translated` does.
    """
    by_line: dict[Line, Translation] = {}
    for batch, translations in translate_batches(document.lines, options):
        by_line |= zip(batch, translations, strict=True)
        advance(len(batch))
    lines = {line: translation.line for line, translation in by_line.items()}
    data = document.translated(lambda text: with_lines(text, lines))
    entries, kept, warnings = document.texts.entries, document.texts.kept, list[str]()
    if not any(map(str.isalpha, "".join(text.text for text, _ in entries))) and not kept:
        reason = f"no text has a letter: {first_few([place for _, place in entries])}"
        warnings.append(f"{document.name}: nothing to translate: {reason if entries else document.without_texts}")
    for what, places in kept.items():
        noun, _, rest = what.partition(" ")
        stay = "stays as it is" if len(places) == 1 else "stay as they are"
        warnings.append(f"{counted(len(places), noun)} {rest} {stay}: {first_few(places)}")
    lost = {line for line, translation in by_line.items() if any(translation.diff)}
    differing = [place for text, place in entries if lost and not lost.isdisjoint(lines_in(text))]
    return data, warnings + ([differing_at("text", differing)] if differing else [])


def translate_file(
    translator: Translator,
    source: Path,
    output: Path,
    columns: Sequence[str | int],
    into: str | int | None,
    excluded: Sequence[str],
    **choices: Unpack[Choices],
) -> list[str]:
    """Translate a file of any supported format into another file, see `Translator.translate_file`."""
    if isinstance(columns, str | int) or isinstance(excluded, str) or not isinstance(into, str | int | None):
        found = f"{columns!r:.60}, {excluded!r:.60}; into: expected one of them, found {into!r:.60}"
        raise TypeError(f"column, exclude: expected lists of names or numbers, found {found}")
    check_output(output, [split_member(source)[0]])
    options = translator.options(**choices)
    for name, is_chosen in (("n_best", options.search.n_best > 1), ("alignment", options.alignment)):
        if is_chosen:
            raise ConfigError(f"{name}: a translated file has no place for it; leave it out, or translate its lines")
    with open_content(source) as stream:
        format_ = recognized_format(None, source, first_bytes(stream))
        data = b"" if format_ == "text" else stream.read()
    names, target = tuple(map(str, columns)), None if into is None else str(into)
    read_options = ReadOptions(format_, names, target, excluded, (translator.languages.source, options.to))
    if format_ == "text":
        translations = list(translator.translate(read_lines(source), options))
        places = [f"line {number}" for number, translation in enumerate(translations, start=1) if any(translation.diff)]
        write_output(output, "".join(f"{translation.text}\n" for translation in translations))
        return [differing_at("line", places)] if places else []
    document = read_document(data, str(source), read_options)
    translated, warnings = translate_document(translator.translate_batches, document, options)
    write_output(output, translated)
    return warnings


def translate_html(translator: Translator, text: str, options: TranslateOptions | None = None) -> str:
    """Return HTML with its texts translated.

    >>> translate_html(translator, "<p>My father has a <b>rabbit</b>.</p>")
    '<p>Mio padre ha un <b>coniglio</b>.</p>'
    """
    if not isinstance(text, str):
        raise TypeError(f"translate_html: expected a string, found {text!r:.60}")
    options = translator.options() if options is None else checked_options(options)
    return translate_document(translator.translate_batches, html_document(text), options)[0].decode()


def html_document(text: str) -> Document:
    """Find the texts of HTML."""
    return _document_of(Content("HTML", text, ReadOptions("html")))
