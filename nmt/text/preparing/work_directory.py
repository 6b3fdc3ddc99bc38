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
from nmt.system.files import disk_errors
from nmt.text.preparing import provenance
from nmt.text.preparing.chunk_files import CHUNK_FORMAT
from nmt.text.preparing.chunks import CHUNK_PAIRS

WORK, KEY_FILE = ".work", "key"
"""The folder inside that of the prepared corpus, and the file with a digest of the texts and settings of the work."""


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
    work, key = recipe.prepared_directory / WORK, _key(recipe)
    file = work / KEY_FILE
    with disk_errors(work):
        if work.exists() and not (file.is_file() and file.read_text(encoding="utf-8") == key):
            shutil.rmtree(work)
        work.mkdir(exist_ok=True)
        file.write_text(key, encoding="utf-8")
    return work


def _key(recipe: Recipe) -> str:
    """Return a digest of all that the content of the directory depends on."""
    files = provenance.record(provenance.input_files(recipe))
    digests = {key: [file.path, file.digest.sha256] for key, file in files.items()}
    content = [provenance.recorded_settings(recipe), digests, provenance.versions(), CHUNK_PAIRS, CHUNK_FORMAT]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
