"""The work directory of a preparation: what is finished when it is interrupted, so that the same command continues."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.config import Recipe
from nmt.errors import NMTError
from nmt.system.console import Console
from nmt.system.files import real_path
from nmt.system.ownership import PREPARATION, check_directory, mark_directory, read_marker
from nmt.text.preparing import provenance
from nmt.text.preparing.chunk_files import CHUNK_FORMAT
from nmt.text.preparing.chunks import CHUNK_PAIRS


def work_path(recipe: Recipe) -> Path:
    """Return the work directory of a recipe, beside its prepared corpus."""
    place = real_path(recipe.prepared_directory)
    return place.with_name(f".{place.name}.work")


@contextmanager
def work_directory(recipe: Recipe, console: Console) -> Iterator[Path]:
    """Yield the work directory; it is removed at the end, but kept if the work can continue.

    That is so after an interruption and after an error of the file system, such as a full disk.
    """
    work = open_work_directory(recipe)
    try:
        yield work
    except BaseException as error:
        by_user = isinstance(error, NMTError) and not isinstance(error.__cause__, OSError)
        chunks = len(list(work.glob("train/*.kept.safetensors")))
        if not by_user and chunks > 1:
            console.info(f"{work} keeps what is finished; the same command continues")
        else:
            shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work)


def open_work_directory(recipe: Recipe) -> Path:
    """Create the work directory, or open the one that an interrupted preparation of the same texts left."""
    work, key = work_path(recipe), _key(recipe)
    check_directory(work, PREPARATION)
    if read_marker(work, PREPARATION).get("key") not in (None, key):
        shutil.rmtree(work)
    work.mkdir(parents=True, exist_ok=True)
    mark_directory(work, PREPARATION, {"key": key})
    return work


def remove_work_directory(recipe: Recipe) -> None:
    """Remove what a killed preparation of a corpus left, if the corpus is complete and no process prepares it."""
    work = work_path(recipe)
    if work.is_dir() and read_marker(work, PREPARATION).get("key") == _key(recipe):
        shutil.rmtree(work)


def _key(recipe: Recipe) -> str:
    """Return a digest of all that the content of the directory depends on."""
    files = provenance.record(provenance.input_files(recipe))
    digests = {key: [file.path, file.digest.sha256] for key, file in files.items()}
    content = [provenance.recorded_settings(recipe), digests, provenance.versions(), CHUNK_PAIRS, CHUNK_FORMAT]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
