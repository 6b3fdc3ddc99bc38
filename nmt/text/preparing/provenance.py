"""What a prepared corpus is made from, and whether it is still current: settings, input files and their digests."""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
from pydantic import TypeAdapter, ValidationError

import nmt
from nmt.config import CorpusFile, Recipe
from nmt.config.recorded import differences
from nmt.errors import DataError
from nmt.text.corpus import text_files
from nmt.text.manifest import PREPARED, FileDigest, Manifest, UnusableCorpusError
from nmt.text.readers.opening import open_file
from nmt.text.tokenizer import tokenizer_files


def why_stale(recipe: Recipe, ignore_test: bool = False) -> str | None:
    """Return why the prepared corpus of a recipe must be prepared (again), or None if it is current.

    Files whose size and time are as recorded are not read again. Where the recorded files are gone, the corpus is
    current. `ignore_test` leaves changes to the test text aside.
    """
    directory = recipe.prepared_directory
    if PREPARED.read(directory).keys() <= PREPARED.header.keys():  # no folder, or a preparation that has begun
        return "there is none yet"
    try:
        manifest = Manifest.read(directory)
    except UnusableCorpusError as error:
        return error.reason

    def considered(entries: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entries.items() if not (ignore_test and key.startswith("data.test"))}

    before, now = considered(manifest.settings), considered(recorded_settings(recipe))
    for key, corpus in recipe.data.prepared_texts.items():
        if corpus.tag is not None and corpus.tag not in before["tags"] and recipe.train.init_from is None:
            return f'{key}.tag: the tokenizer was trained without the tag "{corpus.tag}"'
    # a recipe without the test text, or with another tag, can use the corpus
    unused = {key: value for key, value in before.items() if key.startswith("data.test") and key not in now}
    changed_setting = next(differences(before, {**unused, **now, "tags": before["tags"]}), None)
    if changed_setting is not None:
        return str(changed_setting)
    return why_changed(manifest.inputs, considered(input_files(recipe)), directory)


def recorded_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings that the result depends on, as plain JSON values, by sections and texts.

    The content of a text has a digest, so its path does not matter. Its weight and tag are settings of training; only
    the set of all tags matters, since each is a symbol of the tokenizer.
    """
    texts = {
        key: {**corpus.model_dump(mode="json", include={"columns", "target_language"})}
        for key, corpus in _texts(recipe).items()
    }
    tokenizer: object = recipe.tokenizer.model_dump(mode="json")
    if recipe.train.init_from is not None:
        tokenizer = [path.name for path in tokenizer_files(recipe.train.init_from)]
    languages, filters = recipe.languages.model_dump(mode="json"), recipe.data.filters.model_dump(mode="json")
    return {"languages": languages, **texts, "data.filters": filters, "tokenizer": tokenizer, "tags": recipe.data.tags}


def input_files(recipe: Recipe) -> dict[str, Path]:
    """Return the files that preparation reads by their keys: the texts, and the tokenizers of the initial model."""
    files = _files_of(_texts(recipe))
    if recipe.train.init_from is not None:
        files |= {f"train.init_from {path.name}": path for path in tokenizer_files(recipe.train.init_from)}
    return files


def _texts(recipe: Recipe) -> dict[str, CorpusFile]:
    """Return the texts that the corpus depends on: the rule `leak` removes the sentences of the test text."""
    without_test = "leak" in recipe.data.filters.keep
    return {**recipe.data.prepared_texts, **({} if without_test else recipe.data.test_texts)}


def _files_of(texts: dict[str, CorpusFile]) -> dict[str, Path]:
    return {f"{key}.{name}": path for key, corpus in texts.items() for name, path in text_files(corpus).items()}


def check_readable(files: dict[str, Path]) -> None:
    """Raise DataError, with the key, for a file that cannot be read."""
    for key, path in files.items():
        try:
            open_file(path).close()
        except DataError as error:
            raise DataError(f"{key}: {error}") from None


@dataclass(frozen=True)
class InputFile:
    """Where a file was, when it was changed, and its content. A file of the same size and time is not read again."""

    path: str
    mtime_ns: int
    digest: FileDigest


def record(files: dict[str, Path]) -> dict[str, InputFile]:
    """Return place, time and digest of files. Raises DataError as `check_readable` does."""
    check_readable(files)
    return {key: _record(path) for key, path in files.items()}


def _record(path: Path) -> InputFile:
    with open_file(path) as file:
        status = os.fstat(file.fileno())
    digest = FileDigest(status.st_size, _sha256(path, status.st_ino, status.st_mtime_ns, status.st_size))
    return InputFile(str(path), status.st_mtime_ns, digest)


@cache
def _sha256(path: Path, inode: int, mtime_ns: int, size: int) -> str:
    """Return the digest of a file, which is read again only if it has changed."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(inputs: dict[str, InputFile]) -> dict[str, FileDigest]:
    """Return the content of files without their places and times."""
    return {key: file.digest for key, file in inputs.items()}


_INPUTS = TypeAdapter(dict[str, InputFile])


def write_inputs(directory: Path, inputs: dict[str, InputFile]) -> None:
    """Write `inputs.json`, which saves reading inputs again that have not changed; the corpus is usable without it."""
    content = json.dumps(_INPUTS.dump_python(inputs), indent=2, ensure_ascii=False)
    (directory / "inputs.json").write_text(content + "\n", encoding="utf-8")


def _read_inputs(directory: Path) -> dict[str, InputFile]:
    """Return the content of `inputs.json`; {} if it is missing or damaged."""
    try:
        return _INPUTS.validate_json((directory / "inputs.json").read_bytes())
    except (OSError, ValidationError):
        return {}


def why_changed(before: dict[str, FileDigest], files: dict[str, Path], directory: Path) -> str | None:
    """Return how the first changed file differs from the recorded one, or None if all are as recorded.

    A file is read only if its place, size or time is not that of `inputs.json` in the prepared directory.
    """
    inputs = _read_inputs(directory)
    changes = (_why_one_changed(before.get(key), inputs.get(key), path) for key, path in files.items())
    return next((change for change in changes if change is not None), None)


def _why_one_changed(before: FileDigest | None, recorded: InputFile | None, path: Path) -> str | None:
    in_place = recorded is None or recorded.path == str(path)
    if not path.exists():
        return None if in_place else f"{path} is missing"
    status = path.stat()
    if before is not None and status.st_size == before.size:
        unread = recorded == InputFile(str(path), status.st_mtime_ns, before)
        if unread or _record(path).digest == before:
            return None
    return f"{path} has changed" if recorded is None or in_place else f"{path} replaces {recorded.path}"


def versions() -> dict[str, str]:
    """Return the versions of the programs on which a prepared corpus depends."""
    own = {"nmt": nmt.__version__, "sentencepiece": sentencepiece.__version__, "unicode": unicodedata.unidata_version}
    optional = ("opencc", "py3langid")
    return own | {name: importlib.metadata.version(name) for name in optional if importlib.util.find_spec(name)}


def check_unchanged(inputs: Iterable[InputFile]) -> None:
    """Raise DataError if a file is not what it was when preparation began."""
    for file in inputs:
        status = Path(file.path).stat()
        if (file.digest.size, file.mtime_ns) != (status.st_size, status.st_mtime_ns):
            raise DataError(f"{file.path}: changed while it was read; prepare again when it is complete")
