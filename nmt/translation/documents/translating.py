"""Translate documents: their formats, by name and by the endings of file names, and the lines of their texts."""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from nmt.errors import ConfigError
from nmt.system.console import Console, counted
from nmt.system.distributed import on_rank_zero, scatter_map
from nmt.text.content import ICU_ARGUMENT
from nmt.text.readers.opening import COMPRESSED
from nmt.translation.documents.document import Content, Document
from nmt.translation.documents.json_strings import read_json
from nmt.translation.documents.localization import read_po, read_xliff
from nmt.translation.documents.records import read_json_lines, read_table
from nmt.translation.documents.subtitles import read_subtitles
from nmt.translation.options import TranslateOptions
from nmt.translation.pipeline import differing_at, first_few
from nmt.translation.translator import Translation, Translator

Format = Literal["srt", "vtt", "json", "jsonl", "csv", "tsv", "po", "xliff"]
FORMATS: tuple[str, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {f".{name}": name for name in get_args(Format)} | {
    ".arb": "json",
    ".pot": "po",
    ".xlf": "xliff",
    ".sdlxliff": "xliff",
    ".mxliff": "xliff",
    ".mqxliff": "xliff",
    ".ndjson": "jsonl",
}
# How formats declare their encoding.
_DECLARED = {
    "po": re.compile(rb"charset=(?!CHARSET)([\w.:-]+)"),  # a template has CHARSET
    "xliff": re.compile(rb"\A\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)"),
}
# Endings of formats that are not translated: as lines of text, their keys and markup would be.
_STRUCTURED = re.compile(
    r"\.(x?html?|xml|tmx|docx|od[tsp]|xlsx|pptx|pdf|rtf|epub|idml|md|rst|tex|properties|strings(dict)?|resx|ts|ya?ml|toml"
    r"|ini|ftl|ass|ssa|sbv|ttml|txlf|json[c5]|ipynb|svg|php|js|tsx|markdown|sub|smi)"
)


@dataclass(frozen=True)
class DocumentOptions:
    """The format of a document, and which of its texts are translated."""

    format: Format
    # Name or number of a column, or a key.
    column: str | None = None
    # Where the translation goes; None: in place of the text.
    into: str | None = None

    def __post_init__(self) -> None:
        for option, given, formats in (
            ("--column", self.column, ("csv", "tsv", "json", "jsonl")),
            ("--into", self.into, ("csv", "tsv", "jsonl")),
        ):
            if given is not None and self.format not in formats:
                raise ConfigError(f"{option}: a file in the format {self.format} has no columns; leave it out")

    def read(self, data: bytes, name: str, languages: tuple[str, str]) -> Document:
        """Find the texts of a file; `languages` are source and target language. Raises DataError for a damaged file."""
        declared = _DECLARED[self.format].search(data[: 1 << 16]) if self.format in _DECLARED else None
        content = Content.decode(data, name, declared[1].decode() if declared else None)
        match self.format:
            case "json":
                return read_json(content, self.column)
            case "jsonl":
                return read_json_lines(content, self.column, self.into)
            case "csv" | "tsv":
                return read_table(content, self.format, self.column, self.into)
            case "xliff":
                return read_xliff(content, *languages)
            case "po":
                return read_po(content)
            case "srt" | "vtt":
                return read_subtitles(content, self.format)


def format_of(name: str | None, path: Path | None) -> Format | None:
    """Return the format that is given by `--format`, else by the name of the input; None for lines of text.

    Raises ConfigError for an unknown name, and for an input whose name belongs to a format that is not translated.
    """
    if name is None and path is not None:
        unpacked = Path(path.name.lower())
        ending = Path(unpacked.stem).suffix if unpacked.suffix in COMPRESSED else unpacked.suffix
        if _STRUCTURED.fullmatch(ending):
            raise ConfigError(
                f"--input {path}: files in the format {ending} are not translated, and as lines of text their keys and "
                f"markup would be; convert it to one of {', '.join(FORMATS)}, or add --format text for its lines"
            )
        return _ENDINGS.get(ending)
    if name is None:
        return None
    if name != "text" and name not in FORMATS:
        raise ConfigError(f"--format: found {name}, expected text, {', '.join(FORMATS)}")
    return None if name == "text" else cast(Format, name)


# from the start of a run of spaces, and possessive: otherwise long runs take quadratic time
# What is between the lines of a text, and around it; it stays.
_LINE = re.compile(r"((?<!\s)(?=[^\S\r\n]*+[\r\n])\s++|\A\s++|(?<!\s)\s++\Z)")


def translate_document(
    translator: Translator, document: Document | None, options: TranslateOptions, console: Console
) -> bytes:
    """Return the file with its texts translated, sentence by sentence; the processes of torchrun translate together.

    Processes other than the first have no document and return b"". Plural and select messages of ICU stay. Raises as
    `Document.encoded` does.
    """
    started = time.monotonic()
    slots = document.slots if document is not None else ()
    messages = [slot.place for slot in slots if ICU_ARGUMENT.search(slot.text)]
    slots = [slot for slot in slots if not ICU_ARGUMENT.search(slot.text)]
    parts_of = [_LINE.split(slot.text) for slot in slots]
    lines = dict.fromkeys(part for parts in parts_of for part in parts if part.strip())
    batches = translator.line_batches(list(lines))
    made: dict[str, Translation] = {}
    with console.progress("translating", on_rank_zero(lambda: len(lines)), "lines") as advance:
        for batch, found in scatter_map(batches, lambda batch: (batch, translator.translate_lines(batch, options))):
            made |= zip(batch, found, strict=True)
            advance(len(batch))
    if document is None:
        return b""
    differing = []
    for slot, parts in zip(slots, parts_of, strict=True):
        slot.write("".join(made[part].text if part in made else part for part in parts))
        if any(any(made[part].diff) for part in parts if part in made):
            differing.append(slot.place)
    if not document.slots:
        console.warn(f"{document.name}: nothing to translate: {document.without_texts}")
    if messages:
        stay = "stays as it is" if len(messages) == 1 else "stay as they are"
        console.warn(f"{counted(len(messages), 'plural or select message')} of ICU {stay}: {first_few(messages)}")
    if differing:
        console.warn(differing_at("text", differing))
    data = document.encoded()
    console.info(f"translated {counted(len(slots), 'text')} in {time.monotonic() - started:.1f} s")
    return data
