"""The manifest of a prepared corpus, `manifest.json`: what it was made from, counts, and digests of its files."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nmt.config import Data, MaxLength
from nmt.errors import DataError
from nmt.system.files import Marker, digest_of

PREPARED = Marker("manifest.json", "nmt prepared corpus", 3)
"""The file by which a folder is a prepared corpus."""


class UnusableCorpusError(DataError):
    """Raised for a prepared corpus that must be prepared again; `reason` is the message without this advice."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; prepare it again with nmt prepare --force")
        self.reason = reason


@dataclass(frozen=True)
class FileDigest:
    """The content of a file: its bytes and their SHA-256."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileDigest":
        """Read a file."""
        return cls(path.stat().st_size, digest_of(path))

    def check(self, path: Path, read: bool) -> None:
        """Raise DataError for a file of another size or, if it is to be read, of another content."""
        size = path.stat().st_size if path.is_file() else None
        if size != self.size or (read and digest_of(path) != self.sha256):
            raise UnusableCorpusError(f"{path}: damaged: not the file that was written")


@dataclass(frozen=True)
class SideCounts:
    """Counts over one side of the pairs kept; `spelled` counts the characters without a piece."""

    tokens: int
    characters: int
    spelled: int

    @property
    def missing_share(self) -> float:
        """The share of the characters without a piece."""
        return self.spelled / max(1, self.characters)


@dataclass(frozen=True)
class SplitCounts:
    """Pairs read, pairs removed by each filter rule, pairs kept; pairs kept of each corpus, and counts of its sides."""

    read: int
    kept: int
    refused: dict[str, int]
    source: SideCounts
    target: SideCounts
    corpora: tuple[int, ...]
    sides: tuple[tuple[SideCounts, SideCounts], ...] = ()


@dataclass(frozen=True)
class Manifest:
    """The description of a prepared corpus: settings, inputs, counts, digests.

    It is the same, byte for byte, wherever the inputs are and whenever they are prepared.
    """

    settings: dict[str, Any]  # the part of the recipe that the result depends on, by sections and texts
    inputs: dict[str, FileDigest]  # the files that it was made from, by their keys in the recipe
    vocabulary: tuple[int, int]  # number of pieces of the source and the target side
    train: SplitCounts
    valid: SplitCounts | None
    max_length: MaxLength | None = None
    """Limit on the length of translations, from the lengths in the training text."""
    files: dict[str, FileDigest] = field(default_factory=dict)
    """Every other file of the prepared corpus except `inputs.json`."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the programs on which the result depends."""

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of token ids, tokenizers and validation text, whatever they were made from."""
        return _digest([(name, file.sha256) for name, file in self.files.items() if name not in _DESCRIPTIONS])

    def training_fingerprint(self, data: Data) -> str:
        """Return the SHA-256 of all that batches depend on: the prepared corpus, the weights and tags of its texts."""
        weights = [(text.oversample, text.tag) for text in (*data.train, *data.valid)]
        return _digest([self.fingerprint, data.temperature, weights])

    def write(self, directory: Path) -> None:
        """Write `manifest.json`."""
        PREPARED.write(directory, _MANIFEST.dump_python(self))

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """Read `manifest.json`. Raises DataError: absent, incomplete, or of another format version."""
        path, content = directory / PREPARED.name, PREPARED.read(directory)
        if not content:
            raise DataError(f"{directory}: no prepared corpus here; make it with nmt prepare")
        if content.get("format_version") != PREPARED.version:
            found = content.get("format_version")
            raise UnusableCorpusError(f"{path}: found format version {found}, expected {PREPARED.version}")
        try:
            return _MANIFEST.validate_python(content)
        except ValidationError:
            raise UnusableCorpusError(f"{path}: incomplete or damaged") from None


_MANIFEST = TypeAdapter(Manifest)
_DESCRIPTIONS = ("audit.json", "report.md")


def _digest(content: list[Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
