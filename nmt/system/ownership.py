"""Which directories and files nmt may replace: only those that it wrote itself.

A directory that nmt writes carries a marker file. It is replaced only if the marker is there and every file in it is
one that nmt wrote; anything else belongs to the user and is never changed.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NoReturn

from nmt.errors import ConfigError
from nmt.system.files import (
    STAGING,
    atomic_file,
    content_digest,
    digest_of,
    disk_errors,
    real_path,
    replace_text,
    staged_directory,
)

_LARGEST_MARKER = 2**26  # bytes; a larger file is not a marker that nmt wrote, and is not read


@dataclass(frozen=True)
class DirectoryKind:
    """A kind of directory that nmt writes, and how its files are recognised."""

    name: str  # with its article, for messages
    marker: str  # a JSON file with an integer `format_version`, and perhaps the digest of its other content as `digest`
    version: int = 1  # the newest format version that this nmt reads
    format: str | None = None  # what the marker holds under `format`; None if it has no such key
    keys: tuple[str, ...] = ()  # which distinguish a marker from a foreign file of this name where `format` is None
    # A regular expression for the paths below the directory (an empty folder ends in `/`, a symbolic link in `@`). None
    # if the marker lists all files with their SHA-256 digests under `files`.
    files: str | None = None
    unmarked: str = ""  # a regular expression for files that may exist before the marker is written
    in_run: bool = False  # whether it may lie inside a run
    in_place: bool = False  # whether files are written one by one, rather than the directory replaced as a whole


_TOKENIZERS = r"tokenizer(\.(source|target))?\.model"
_PREPARED = (
    rf"({_TOKENIZERS}|(manifest|inputs|valid|audit)\.json|report\.md|"
    r"(train|valid)/(weights|(source|target)\.(tokens|offsets))\.npy)"
)
_CHUNK = r"\d{6}\.(kept|encoded)\.safetensors"
_WORK = (
    rf"work\.json|(tokenizers|\.tokenizers\.{STAGING})/({_TOKENIZERS})?|(train|valid)/(buckets-\w+/\d*)?|"
    rf"(train|valid)/(\d+\.chunks|{_CHUNK}|\.{_CHUNK}\.[0-9a-f]{{16}}\.partial)"
)
_CHECKPOINT = rf"(\.?(config|progress)\.(json|json\.partial|partial)|\w+\.safetensors|{_TOKENIZERS})?"
_RUN = (
    r"run\.json|recipe\.yaml|recipe\.partial|metrics\.jsonl|test\.(txt|json)|lock|\.[\w.]+\.partial",
    r"(best|last|checkpoints|tensorboard|\.(best|last)\.\w+)@",
    rf"checkpoints/(((damaged-|\.gone-)?step-\d{{8}}|\.step-\d{{8}}\.{STAGING})/{_CHECKPOINT})?",
    r"skipped(-\d+)?/(\.?step-\d{8}\.(json|partial|json\.partial))?",
    r"tensorboard/(events\.out\.tfevents\.[^/]*)?",
    rf"prepared@|(prepared|\.prepared\.{STAGING})/((train|valid)/|{_PREPARED})?|\.prepared\.lock",
    rf"\.prepared\.work/({_WORK})?",
)

# version 1 allowed config.json without its own digest, and had other names for position vectors
MODEL = DirectoryKind("a model", "config.json", version=2, keys=("languages", "model", "decode"))
EXPORT = DirectoryKind("an exported model", "nmt.json", version=2, keys=("languages", "quantization", "decode"))
FIGURES = DirectoryKind("a folder of figures", "figures.json", format="nmt figures")
SPLIT = DirectoryKind("a division of a text", "split.json", format="nmt split")
PREPARED = DirectoryKind(
    "a prepared corpus", "manifest.json", version=3, format="nmt prepared corpus", files=_PREPARED, in_run=True
)
PREPARATION = DirectoryKind(
    "an unfinished preparation", "work.json", format="nmt preparation", files=_WORK, in_run=True, unmarked=_WORK
)
RUN = DirectoryKind(
    "a run",
    "run.json",
    version=2,
    format="nmt run",
    files="|".join(_RUN),
    unmarked=rf"{_RUN[-2]}|{_RUN[-1]}|lock|\.run\.json\.partial",
    in_place=True,
)


def check_directory(directory: Path, kind: DirectoryKind, inputs: Iterable[Path] = ()) -> None:
    """Raise ConfigError unless `directory` is absent, empty, or of this kind with nothing but files that nmt wrote.

    It must also not hold an input or the current directory, nor lie inside a run. Only runs and prepared corpora may be
    symbolic links, to a larger disk.
    """

    def refuse(reason: str) -> NoReturn:
        raise ConfigError(f"{directory}: cannot write {kind.name} here: {reason}; name another folder")

    place = real_path(directory)
    if directory.is_symlink() and not (kind.in_place or kind.in_run):
        refuse("it is a symbolic link")
    if place.exists() and not place.is_dir():
        refuse("expected a folder, found a file")
    if not kind.in_place and Path.cwd().is_relative_to(place):
        refuse("it is the current folder, or one that the current folder is in")
    for path in inputs:
        if real_path(path).is_relative_to(place):
            refuse(f"it holds {path}, which is read")
    if not kind.in_run and (run := _run_above(place)) is not None:
        refuse(f"{run} is a run, whose files nmt train keeps")
    if (reason := _why_not_owned(place, kind)) is not None:
        refuse(reason)


@contextmanager
def replace_directory(directory: Path, kind: DirectoryKind, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `directory` at the end, if `check_directory` permits.

    It checks before and again after the writing, which may take hours. After an exception `directory` is as before.
    """
    inputs = tuple(inputs)
    check_directory(directory, kind, inputs)
    with staged_directory(directory) as staging:
        yield staging
        check_directory(directory, kind, inputs)


def check_file(file: Path, inputs: Iterable[Path] = ()) -> Path:
    """Return the file that a path leads to. Raises ConfigError if it must not be replaced.

    That is so for a folder or another special file, a read-only file, a file that is an input, and a file in a
    directory that nmt writes: a run, a model, an export or a prepared corpus.
    """

    def refuse(reason: str) -> NoReturn:
        raise ConfigError(f"{file}: cannot write it: {reason}; name another file")

    place = real_path(file)
    if place in map(real_path, inputs):
        refuse("it is also read")
    if (run := _run_above(place)) is not None:
        refuse(f"{run} is a run, whose files nmt train keeps")
    for kind in (MODEL, EXPORT, PREPARED, FIGURES, SPLIT):
        if is_directory_of(place.parent, kind):
            refuse(f"{place.parent} is {kind.name}, which it would damage")
    if place.exists():
        mode = place.stat().st_mode
        if not stat.S_ISREG(mode):
            refuse("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")
        # root may write any file; a file without write permission is refused all the same
        if not (mode & 0o222 and os.access(place, os.W_OK)):
            refuse("it is read-only")
    return place


def check_output(file: Path, inputs: Iterable[Path] = ()) -> Path:
    """Return the file that a path leads to. Raises ConfigError if it cannot be written, before work is done for it.

    That is so where `check_file` refuses it, and where no file can be created.
    """
    place = check_file(file, inputs)
    if not place.parent.is_dir():
        raise ConfigError(f"{file}: cannot write it: {place.parent} is not a folder; make it first")
    try:
        with TemporaryFile(dir=place.parent):
            return place
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot write it: no file can be created in {place.parent} ({error.strerror}); name another file"
        ) from None


@contextmanager
def output_file(file: Path) -> Iterator[BinaryIO]:
    """Yield a stream for a file that the user named, which is written atomically.

    Raises ConfigError if it must not be replaced (see `check_file`), DataError for an error of the file system.
    """
    place = check_file(file)
    with disk_errors(file), atomic_file(place) as stream:
        yield stream


def write_output(file: Path, content: str | bytes) -> None:
    """Write the content of a file that the user named. Raises what `output_file` does."""
    with output_file(file) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def is_directory_of(directory: Path, kind: DirectoryKind) -> bool:
    """Return whether a directory carries the marker of a kind. Raises ConfigError if a newer nmt wrote it."""
    marker = read_marker(directory, kind)
    version, digests, own_digest = marker.get("format_version"), marker.get("files"), content_digest(marker)
    if (
        type(version) is not int
        or kind.format not in (None, marker.get("format"))
        or any(key not in marker for key in kind.keys)
        or marker.get("digest", own_digest) != own_digest
        or (kind.files is None and not (digests and isinstance(digests, dict)))
    ):
        return False
    if version > kind.version:
        raise ConfigError(
            f"{directory}: a newer nmt wrote it (format version {version}, this nmt reads up to {kind.version}); "
            "use that nmt, or name another folder"
        )
    return True


def check_run_format(run: Path) -> None:
    """Raise ConfigError for a run whose format version this nmt neither continues nor describes."""
    version = read_marker(run, RUN).get("format_version")
    if version != RUN.version:
        raise ConfigError(
            f"{run}: the run has format version {version}, this nmt reads version {RUN.version}: finish it with the "
            "nmt that began it, or train again, with --restart or in another folder; its checkpoints are still models"
        )


def mark_directory(directory: Path, kind: DirectoryKind, content: dict[str, Any] | None = None) -> None:
    """Write the marker of a kind that has a format name, with further content, unless it is there with this content."""
    before = read_marker(directory, kind)
    kept = {"written": _written(before)} if "written" in before else {}
    marker = {"format": kind.format, "format_version": kind.version, **kept, **(content or {})}
    if before != marker:
        replace_text(directory / kind.marker, json.dumps(marker, indent=2) + "\n")


def write_recorded(directory: Path, kind: DirectoryKind, name: str, text: str) -> None:
    """Write a text file into a marked directory; the marker records its digest, so that a later change is noticed.

    The digest of the file before is recorded too: a process may be killed before it is replaced.
    """
    file, marker = directory / name, read_marker(directory, kind)
    digests = {digest_of(file)} if file.is_file() else set()
    digests.add(hashlib.sha256(text.encode()).hexdigest())
    mark_directory(directory, kind, {**marker, "written": {**_written(marker), name: sorted(digests)}})
    replace_text(file, text)


def is_as_recorded(directory: Path, kind: DirectoryKind, name: str) -> bool:
    """Return whether a file is as `write_recorded` wrote it."""
    return digest_of(directory / name) in _written(read_marker(directory, kind)).get(name, ())


def _written(marker: dict[str, Any]) -> dict[str, Any]:
    """Return the digests of the files that `write_recorded` wrote, by their names."""
    written = marker.get("written")
    return written if isinstance(written, dict) else {}


def _run_above(place: Path) -> Path | None:
    """Return the run that a path lies in, or None."""
    for parent in place.parents:
        if is_directory_of(parent, RUN) or _is_run_without_marker(parent):
            return parent
    return None


def _is_run_without_marker(directory: Path) -> bool:
    """Return whether a directory has the main entries of a run; the first runs had no marker."""
    return all((directory / name).exists() for name in ("recipe.yaml", "checkpoints"))


def _why_not_owned(directory: Path, kind: DirectoryKind) -> str | None:
    """Return why nmt may not replace a directory; None if it may, or if there is nothing in it."""
    entries = _entries(directory) if directory.exists() else []
    if all(re.fullmatch(kind.unmarked, entry) for entry in entries):
        return None
    if not is_directory_of(directory, kind):
        if kind is RUN and _is_run_without_marker(directory):
            return f"it holds checkpoints but no {RUN.marker}: only the nmt that began such a run can finish it"
        return f"it holds files, such as {entries[0]}, but is not {kind.name} that nmt wrote"
    marker = read_marker(directory, kind)
    digests, written = marker.get("files", {}), _written(marker)
    for entry in entries:
        if kind.files is not None:
            known = re.fullmatch(kind.files, entry) is not None
            if known and entry in written:
                known = digest_of(directory / entry) in str(written[entry])
        else:
            is_file = entry[-1] not in "/@|"
            known = entry == kind.marker or (is_file and digests.get(entry) == digest_of(directory / entry))
        if not known:
            return f"it holds {entry}, which nmt did not write or which was changed since"
    return None


def read_marker(directory: Path, kind: DirectoryKind) -> dict[str, Any]:
    """Return the content of a directory's marker, {} if there is none: only a regular file of bounded size is read."""
    try:
        descriptor = os.open(directory / kind.marker, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            small = stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST_MARKER
            content = json.loads(file.read()) if small else None
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _entries(directory: Path) -> list[str]:
    """Return all paths below a directory: empty folders end in `/`, symbolic links in `@`, other special files in `|`.

    Raises OSError for a folder that cannot be listed.
    """
    found = []
    for path in sorted(directory.iterdir()):
        mode = path.lstat().st_mode
        below = _entries(path) if stat.S_ISDIR(mode) else []
        suffix = {stat.S_IFREG: "", stat.S_IFDIR: "/", stat.S_IFLNK: "@"}.get(stat.S_IFMT(mode), "|")
        found += [f"{path.name}/{entry}" for entry in below] or [path.name + suffix]
    return found
