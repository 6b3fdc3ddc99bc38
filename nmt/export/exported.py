"""An exported model: a directory with the files of another program, and `nmt.json` with what nmt needs besides.

nmt.json     format version, format, quantization, languages, decode settings, digests of the files beside it
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config import DecodeSettings, Languages
from nmt.errors import ConfigError, ModelError
from nmt.export import check_installed
from nmt.model.checkpoint import LoadedModel
from nmt.system.digests import read_with_digests, write_with_digests
from nmt.text.tokenizer import Tokenizers

EXPORT_FILE = "nmt.json"
_FORMAT_VERSION = 2


@dataclass(frozen=True)
class Export:
    """The content of nmt.json, and the tokenizers."""

    languages: Languages
    decode: DecodeSettings
    tokenizers: Tokenizers
    longest: int | None  # largest number of tokens, with `</s>`, of a sentence or a translation; None for no limit
    longest_source: int | None  # as `LoadedModel.longest_source`; None in exports of earlier versions


def is_export(directory: Path) -> bool:
    """Return whether `nmt export` wrote a directory."""
    return (directory / EXPORT_FILE).is_file()


def write_export(directory: Path, loaded: LoadedModel, kind: str, quantization: str, longest: int | None) -> None:
    """Add nmt.json, with digests of all files, to a directory with the files of another program."""
    content = {
        "format": kind,
        "quantization": quantization,
        "languages": loaded.languages.model_dump(),
        "decode": loaded.decode.model_dump(),
        "longest": longest,
        "longest_source": loaded.longest_source,
    }
    write_with_digests(directory / EXPORT_FILE, _FORMAT_VERSION, content, sorted(directory.iterdir()))


def read_export(directory: Path) -> Export:
    """Read an export for CTranslate2. Raises ModelError if it is damaged, too new, or for another program."""
    file = directory / EXPORT_FILE
    content = read_with_digests(file, _FORMAT_VERSION)
    try:
        if content["format"] != "ctranslate2":
            raise ModelError(
                f"{directory}: exported for {content['format']}, which nmt does not translate with; "
                "export the model with --to ctranslate2, or translate with the model itself"
            )
        return Export(
            Languages.model_validate(content["languages"]),
            DecodeSettings.model_validate(content["decode"]),
            Tokenizers.load(directory),
            content["longest"],
            content.get("longest_source"),
        )
    except (KeyError, ValidationError) as error:
        raise ModelError(f"{file}: cannot read it: {error}; export the model again") from None


def library(name: str) -> Any:
    """Import another program's package. Raises ConfigError if it is not installed or cannot be imported."""
    check_installed(name)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{name} cannot be imported: {error}; repair its installation") from None
