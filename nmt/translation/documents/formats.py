"""The formats of documents, by their names and by the endings of file names."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from nmt.errors import ConfigError
from nmt.text.readers.opening import COMPRESSED
from nmt.translation.documents.document import Content, Document
from nmt.translation.documents.json_strings import read_json
from nmt.translation.documents.po import read_po
from nmt.translation.documents.records import read_json_lines, read_table
from nmt.translation.documents.subtitles import read_subtitles
from nmt.translation.documents.xliff import read_xliff

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
_DECLARED = {
    "po": re.compile(rb"charset=(?!CHARSET)([\w.:-]+)"),  # a template has CHARSET
    "xliff": re.compile(rb"\A\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)"),
}
"""How formats declare their encoding."""
_STRUCTURED = re.compile(
    r"\.(x?html?|xml|tmx|docx|od[tsp]|xlsx|pptx|pdf|rtf|epub|idml|md|rst|tex|properties|strings(dict)?|resx|ts|ya?ml|toml"
    r"|ini|ftl|ass|ssa|sbv|ttml|txlf|json[c5]|ipynb|svg|php|js|tsx|markdown|sub|smi)"
)
"""Endings of formats that are not translated: as lines of text, their keys and markup would be."""


@dataclass(frozen=True)
class DocumentOptions:
    """The format of a document, and which of its texts are translated."""

    format: Format
    column: str | None = None
    """Name or number of a column, or a key."""
    into: str | None = None
    """Where the translation goes; None: in place of the text."""

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
