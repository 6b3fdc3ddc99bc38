"""Digests of the files in a directory: in its JSON file, so that damage is found when the directory is read.

A directory may come from an untrusted source: only regular files inside it are opened.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.errors import DamagedError, ModelError
from nmt.system.files import digest_of, write_output

_LARGEST = 2**20  # bytes of the JSON file


def write_with_digests(file: Path, version: int, content: dict[str, Any], others: Iterable[Path]) -> None:
    """Write a JSON file with content, and the SHA-256 digests of other files beside it."""
    content = {"format_version": version, **content, "files": {other.name: digest_of(other) for other in others}}
    write_output(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_with_digests(file: Path, version: int) -> dict[str, Any]:
    """Read a JSON file, and check the digests of the files beside it.

    Raises DamagedError where a file is missing or altered, ModelError for another format version.
    """
    if not file.is_file():
        raise DamagedError(f"{file.parent}: not a model directory: it has no {file.name}")
    try:
        if file.stat().st_size > _LARGEST or not _is_inside(file):
            raise ValueError(f"expected a file of at most {_LARGEST:,} bytes, and no link out of the directory")
        content = json.loads(file.read_text(encoding="utf-8"))
        found, files = int(content["format_version"]), dict(content.get("files", {}))
    except KeyError:
        raise DamagedError(f"{file}: damaged, or not written by nmt: it has no format_version") from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DamagedError(f"{file}: damaged, or not written by nmt: {error}; copy the directory again") from None
    if found != version:
        raise ModelError(f"{file}: format version {found}, expected {version}: another version of nmt wrote it")
    for name, digest in files.items():
        _check(file.parent / name, digest, file)
    return {**content, "files": files}


def _check(other: Path, digest: object, file: Path) -> None:
    """Raise DamagedError unless a file that `file` lists is a regular file beside it with this digest."""
    problem = ""
    if other.parent != file.parent or (os.path.lexists(other) and not (other.is_file() and _is_inside(other))):
        problem = "not a regular file in this directory; copy the file itself, not a link to it"
    elif not other.exists():
        problem = f"missing, though {file.name} lists it; copy the whole directory"
    elif digest_of(other) != digest:
        problem = (
            "damaged: its content is not what was saved (SHA-256 differs); copy the model again, or use another "
            "checkpoint of its run"
        )
    if problem:
        raise DamagedError(f"{other}: {problem}")


def _is_inside(file: Path) -> bool:
    """Return whether a file, behind any links, is in the directory in which its name is."""
    return file.resolve().parent == file.parent.resolve()
