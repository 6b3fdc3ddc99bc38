"""What a prepared corpus is made from, and whether it is still current: settings, input files and their digests."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.config import CorpusFile, Recipe
from nmt.config.recorded import differences, with_old_keys
from nmt.errors import DataError
from nmt.system.ownership import PREPARED, is_directory_of
from nmt.text.corpus import text_files
from nmt.text.opening import open_file
from nmt.text.prepared import InputFile, Manifest
from nmt.text.tokenizer import tokenizer_files


def why_stale(recipe: Recipe) -> str | None:
    """Return why the prepared corpus of a recipe must be prepared (again), or None if it is current.

    Files whose size and time are as recorded are not read again. Where the recorded files are gone, the corpus is
    current. Raises ConfigError for a corpus of a newer nmt.
    """
    directory = recipe.prepared_directory
    if not is_directory_of(directory, PREPARED):
        return "there is none yet"
    try:
        manifest = Manifest.read(directory)
    except DataError as error:
        return str(error)
    changed_setting = next(differences(manifest.settings, recorded_settings(recipe)), None)
    if changed_setting is not None:
        return str(changed_setting)
    # equal settings have equally many files
    changes = map(why_changed, manifest.inputs, input_files(recipe).values())
    return next((change for change in changes if change is not None), None)


def recorded_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings that the result depends on, as plain JSON values."""
    data, initial = recipe.data, recipe.train.init_from
    settings = {
        "languages": recipe.languages.model_dump(),
        "data": {
            "train": {i: _corpus_settings(corpus) for i, corpus in enumerate(data.train)},
            "valid": None if data.valid is None else _corpus_settings(data.valid),
            "filters": data.filters.model_dump(),
        },
        "tokenizer": [path.name for path in tokenizer_files(initial)] if initial else recipe.tokenizer.model_dump(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _corpus_settings(corpus: CorpusFile) -> dict[str, Any]:
    """Return how a corpus is read; its content has a digest, so its path does not matter."""
    kept = corpus.model_dump(include={"columns", "oversample", "tag"})
    return {"kind": "tsv" if corpus.tsv is not None else "two files", **kept}


def input_files(recipe: Recipe) -> dict[str, Path]:
    """Return the files that preparation reads by their keys: the texts, and the tokenizers of the initial model."""
    texts = recipe.data.prepared_texts
    files = {f"{key}.{name}": path for key, corpus in texts.items() for name, path in text_files(corpus).items()}
    if recipe.train.init_from is not None:
        files |= {f"train.init_from {path.name}": path for path in tokenizer_files(recipe.train.init_from)}
    return files


def files_of_test_text(recipe: Recipe) -> dict[str, Path]:
    """Return the files of the test text by their keys."""
    test = recipe.data.test
    return {} if test is None else {f"data.test.{name}": path for name, path in text_files(test).items()}


def check_readable(files: dict[str, Path]) -> None:
    """Raise DataError, with the key, for a file that cannot be read."""
    for key, path in files.items():
        try:
            open_file(path).close()
        except DataError as error:
            raise DataError(f"{key}: {error}") from None


def record(files: dict[str, Path]) -> tuple[InputFile, ...]:
    """Return the size, time and digest of files. Raises DataError as `check_readable` does."""
    check_readable(files)
    return tuple(map(_record, files.values()))


def _record(path: Path) -> InputFile:
    with open_file(path) as file:
        status, sha256 = os.fstat(file.fileno()), hashlib.file_digest(file, "sha256").hexdigest()
    return InputFile(str(path), status.st_size, status.st_mtime_ns, sha256)


def why_changed(recorded: InputFile, path: Path) -> str | None:
    """Return how a file differs from the recorded one, or None; it is read if only its time differs."""
    if not path.exists():
        return None if str(path) == recorded.path else f"{path} is missing"
    status = path.stat()
    same_stamp = (status.st_size, status.st_mtime_ns) == (recorded.size, recorded.mtime_ns)
    if str(path) == recorded.path and same_stamp:
        return None
    if status.st_size == recorded.size and _record(path).sha256 == recorded.sha256:
        return None
    return f"{path} has changed" if str(path) == recorded.path else f"{path} replaces {recorded.path}"


def check_unchanged(inputs: Iterable[InputFile]) -> None:
    """Raise DataError if a file is not what it was when preparation began."""
    for file in inputs:
        status = Path(file.path).stat()
        if (file.size, file.mtime_ns) != (status.st_size, status.st_mtime_ns):
            raise DataError(f"{file.path}: changed while it was read; prepare again when it is complete")


def fingerprint(settings: dict[str, Any], inputs: Iterable[InputFile], vocabulary: tuple[int, int]) -> str:
    """Return the SHA-256 of settings and digests of inputs: equal if and only if the prepared corpora are.

    Where the settings leave the size of the vocabulary to nmt, those of both sides count, since another version may
    choose other ones.
    """
    tokenizer = settings["tokenizer"]
    if isinstance(tokenizer, dict) and tokenizer["vocab_size"] == "auto":
        settings = {**settings, "tokenizer": {**tokenizer, "vocab_size": list(vocabulary)}}
    content = json.dumps([with_old_keys(settings), [file.sha256 for file in inputs]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
