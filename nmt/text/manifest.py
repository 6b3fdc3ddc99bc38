"""The manifest of a prepared corpus, `manifest.json`: settings, input files and counts; whether it is still current.

A corpus is current as a file is for make: the settings are those of the recipe, and each input file has its recorded
size, time of change and first MiB. A file that is missing counts as unchanged. A corpus that is prepared again from the
same text has the same fingerprint, so that runs can be resumed with it.

The manifest has the digests of the files that decide a result, and its own, so that damage is found.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nmt.config import Data, MaxLength, Recipe
from nmt.config.section import differences
from nmt.errors import DataError
from nmt.system.files import Marker, digest_of, json_digest
from nmt.text.corpus import text_files
from nmt.text.tokenizer import initial_files

# The file that marks a folder as a prepared corpus.
PREPARED = Marker("manifest.json", "nmt prepared corpus", 7)


class UnusableCorpusError(DataError):
    """Raised for a prepared corpus that must be prepared again; `reason` is the message without this advice."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; prepare it again with nmt prepare --force")
        self.reason = reason


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
    """Pairs read, pairs kept, those of each text, and counts of both sides."""

    read: int
    kept: int
    corpora: tuple[int, ...]
    source: SideCounts
    target: SideCounts


@dataclass(frozen=True)
class Manifest:
    """The description of a prepared corpus."""

    settings: dict[str, Any]  # the part of the recipe that the result depends on, by sections and texts
    # Size, time of change in ns, and digest of the first MiB of each file, by its key in the recipe.
    inputs: dict[str, tuple[int, int, str]]
    # The SHA-256 of token ids, tokenizers and validation text, by the names of the files in the folder.
    files: dict[str, str]
    vocabulary: tuple[int, int]  # number of pieces of the source and the target side
    train: SplitCounts
    valid: SplitCounts | None
    max_length: MaxLength  # limit on the length of translations, from the lengths in the training text
    longest_source: int  # the longest source, in tokens, that translation does not split

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all files: equal for the same text, prepared in the same way."""
        return json_digest([[Path(name).name, digest] for name, digest in self.files.items()])

    def training_fingerprint(self, data: Data) -> str:
        """Return the SHA-256 of all that batches depend on: the prepared corpus, the weights and tags of its texts."""
        weights = [(text.oversample, text.tag) for text in (*data.train, *data.valid)]
        return json_digest([self.fingerprint, data.temperature, weights])

    def check_files(self, directory: Path) -> None:
        """Raise UnusableCorpusError unless all files in the folder have their recorded content."""
        for name, digest in self.files.items():
            path = directory / name
            try:
                is_whole = digest_of(path) == digest
            except OSError as error:
                raise UnusableCorpusError(f"{path}: missing or damaged: {error.strerror}") from None
            if not is_whole:
                raise UnusableCorpusError(f"{path}: damaged: its content is not what was prepared (SHA-256 differs)")

    def write(self, directory: Path) -> None:
        """Write `manifest.json`."""
        content = _MANIFEST.dump_python(self, mode="json")
        PREPARED.write(directory, {**content, "sha256": json_digest(content)})

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """Read `manifest.json`. Raises DataError: absent, damaged, or of another format version."""
        path, content = directory / PREPARED.name, PREPARED.read(directory)
        if not content and path.exists():
            raise DataError(
                f"{path}: damaged, or not written by nmt; if {directory} is a prepared corpus, remove it, so that it "
                "is prepared again, else set 'prepared' to another folder"
            )
        if not content:
            raise DataError(f"{directory}: no prepared corpus here; make it with nmt prepare")
        if (stored_version := content.get("format_version")) != PREPARED.version:
            raise UnusableCorpusError(f"{path}: found format version {stored_version}, expected {PREPARED.version}")
        values = {key: value for key, value in content.items() if key not in ("sha256", *PREPARED.header)}
        with suppress(ValidationError):
            if content.get("sha256") == json_digest(values):
                return _MANIFEST.validate_python(values)
        raise UnusableCorpusError(f"{path}: incomplete or damaged")


_MANIFEST = TypeAdapter(Manifest)


def why_stale(recipe: Recipe) -> str | None:
    """Return why the prepared corpus of a recipe must be prepared (again), or None if it is current.

    Only the first MiB of the files is read. Raises DataError for a damaged manifest: another program may have written
    it.
    """
    directory = recipe.prepared_directory
    if not (directory / PREPARED.name).exists():
        return "there is none yet"
    try:
        manifest = Manifest.read(directory)
    except UnusableCorpusError as error:
        return error.reason
    files, settings = input_files(recipe), recorded_settings(recipe)
    if not settings["tokenizer"]:  # the initial model is gone, which is possible when a run is resumed
        settings["tokenizer"] = manifest.settings["tokenizer"]
    changed = [*map(str, differences(manifest.settings, settings))]
    changed += [f"{files[key]} has changed" for key, now in stamps(files).items() if now != manifest.inputs.get(key)]
    return changed[0] if changed else None


def recorded_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings that the result depends on, as plain JSON values, by sections and texts.

    The folder of a text does not matter. Its weight and tag are settings of training; only the set of all tags matters,
    since each is a symbol of the tokenizer.
    """
    texts = {
        key: corpus.model_dump(mode="json", include={"columns", "target_language"})
        | {name: path.name for name, path in corpus.files.items()}
        for key, corpus in recipe.data.texts.items()
    }
    tokenizer: object = recipe.tokenizer.model_dump(mode="json")
    if recipe.train.init_from is not None:
        tokenizer = {path.name: digest_of(path) for path in initial_files(recipe.train.init_from)}
    languages, filters = recipe.languages.model_dump(mode="json"), recipe.data.filters.model_dump(mode="json")
    scored_by = filters.pop("scored_by")
    if scored_by is not None:
        model = Path(scored_by)
        filters["scored_by"] = "/".join(model.parts[-2:]) if model.name in ("best", "last") else model.name
    return {"languages": languages, **texts, "data.filters": filters, "tokenizer": tokenizer, "tags": recipe.data.tags}


def input_files(recipe: Recipe) -> dict[str, Path]:
    """Return the files of the texts by their keys."""
    texts = recipe.data.texts.items()
    return {f"{key}.{name}": path for key, text in texts for name, path in text_files(text).items()}


def stamps(files: dict[str, Path]) -> dict[str, tuple[int, int, str]]:
    """Return size, time of change and digest of the first MiB of the files that can be read."""
    stamps = {}
    for key, path in files.items():
        with suppress(OSError), path.open("rb") as stream:
            status, start = os.fstat(stream.fileno()), blake2b(stream.read(1 << 20), digest_size=16)
            stamps[key] = status.st_size, status.st_mtime_ns, start.hexdigest()
    return stamps
