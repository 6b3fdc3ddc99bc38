"""Sealed directories: the marker of each has the SHA-256 digests of all files beside it, and of its own content.

So damage is found when a directory is read, and changes by others before it is replaced (`nmt.system.ownership`). A
directory may come from an untrusted source: only regular files inside it are opened.
"""

import json
import os
from pathlib import Path
from typing import Any

from nmt.errors import DamagedError, ModelError
from nmt.system.files import content_digest, digest_of
from nmt.system.ownership import SealedKind

_MAX_SIZE = 2**20  # bytes of a marker that is read


def seal(directory: Path, kind: SealedKind, content: dict[str, Any]) -> None:
    """Write the marker of a complete directory: format, content, and the digests of all files beside it."""
    files = {file.name: digest_of(file) for file in sorted(directory.iterdir()) if file.name != kind.marker}
    content = {**kind.header, **content, "files": files}
    (directory / kind.marker).write_text(text_with_digest(content), encoding="utf-8")


def text_with_digest(content: dict[str, Any]) -> str:
    """Return a JSON text of some content with its digest."""
    return json.dumps({**content, "digest": content_digest(content)}, indent=2, ensure_ascii=False) + "\n"


def read_sealed(directory: Path, kind: SealedKind) -> dict[str, Any]:
    """Read the marker of a directory, and check its own digest and those of all files that it lists.

    Raises DamagedError where they do not agree, ModelError for a newer format.
    """
    file = directory / kind.marker
    if not file.is_file():
        raise DamagedError(f"{directory}: not a model directory: it has no {file.name}")
    try:
        content, version = _parse(file)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DamagedError(f"{file}: damaged: {error}; copy the model again") from None
    if version > kind.version:
        raise ModelError(f"{file}: format version {version}, but this nmt reads up to {kind.version}; update nmt")
    for key in ("files", "digest"):
        if key not in content and (key == "files" or version > 1):
            raise DamagedError(
                f"{file}: damaged: format version {version} has a '{key}', but none is here; copy it again"
            )
    own_digest = content_digest(content)
    if content.get("digest", own_digest) != own_digest:
        raise DamagedError(
            f"{file}: damaged: its content is not what was saved; copy it again (to change settings, use --set)"
        )
    for name, digest in content["files"].items():
        _check_file(file, name, digest)
    return content


def _parse(file: Path) -> tuple[dict[str, Any], int]:
    """Return the content of a marker and its format version. Raises ValueError and others if it is damaged."""
    if not _is_inside(file) or file.stat().st_size > _MAX_SIZE:
        raise ValueError(f"expected a file of at most {_MAX_SIZE:,} bytes, and no link out of the directory")
    content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "format_version" not in content:
        raise ValueError("it has no format_version")
    version = content["format_version"]
    if type(version) is not int or version < 1:
        raise ValueError(f"its format_version is {version!r}, expected a number from 1 on")
    if not isinstance(content.get("files", {}), dict):
        raise ValueError("its 'files' is not a table of names and digests")
    return content, version


def _check_file(marker: Path, name: str, digest: object) -> None:
    """Raise DamagedError unless a file that a marker lists is a regular file beside it with this digest."""
    file = marker.parent / name
    if Path(name).name != name:
        raise DamagedError(f"{marker}: damaged: {name!r} in 'files' is a path, expected a name")
    if not os.path.lexists(file):
        raise DamagedError(f"{file}: missing, though {marker.name} lists it; copy the whole directory")
    if not (file.is_file() and _is_inside(file)):
        raise DamagedError(f"{file}: not a regular file in this directory; copy the file itself, not a link to it")
    if digest_of(file) != digest:
        raise DamagedError(
            f"{file}: damaged: its content is not what was saved (SHA-256 differs); copy the model again, or use "
            "another checkpoint of its run"
        )


def _is_inside(file: Path) -> bool:
    """Whether a file, behind any links, is in the directory in which its name is."""
    return file.resolve().parent == file.parent.resolve()
