"""The formats of documents, by their names and by the endings of file names."""

from pathlib import Path
from typing import Literal, get_args

from nmt.errors import ConfigError
from nmt.translation.documents.document import Content, Document
from nmt.translation.documents.subtitles import read_srt, read_vtt

Format = Literal["srt", "vtt"]
FORMATS: tuple[str, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {".srt": "srt", ".vtt": "vtt"}


def format_of(name: str | None, path: Path | None) -> Format | None:
    """Return the format that is given by `--format`, else by the name of the input; None for lines of text.

    Raises ConfigError for an unknown name.
    """
    if name is None:
        return None if path is None else _ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if name != "text" and name not in FORMATS:
        raise ConfigError(f"--format: found {name}, expected text, {', '.join(FORMATS)}")
    return next((known for known in get_args(Format) if known == name), None)


def read_document(data: bytes, name: str, format_: Format) -> Document:
    """Find the texts of a file of this format. Raises DataError, with file and line, if it is damaged."""
    content = Content.decode(data, name)
    if format_ == "srt":
        return read_srt(content)
    return read_vtt(content)
