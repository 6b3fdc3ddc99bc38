"""Which directories and files nmt may replace: only those that it wrote itself.

A directory that nmt writes carries a marker file. It is replaced only if the marker is there and every file in it is
one that nmt wrote; anything else belongs to the user and is never changed. Which files those are depends on the kind:

sealed    complete when it is written, as a model: the files whose digests the marker has (`nmt.system.sealing`)
growing   written file by file, as a run: those with names that nmt gives
"""

import hashlib
import json
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


_LINK, _SPECIAL = "//link", "//special"
"""Ends of entries. An entry is the path of a file below a directory; that of an empty folder ends in `/`, that of a
symbolic link or a special file in one of these, which no path does."""


@dataclass(frozen=True)
class DirectoryKind(ABC):
    """A kind of directory that nmt writes. Its marker is a JSON file, whose content distinguishes it from others."""

    name: str  # with its article, for messages
    marker: str
    version: int  # the newest format version that this nmt reads
    identity: Mapping[str, str]  # entries by which a marker differs from a foreign file of this name
    keys: tuple[str, ...] = ()  # of entries that every marker has; they distinguish it where `identity` is empty
    in_run: bool = False  # whether it may lie inside a run
    unmarked: str = ""  # a pattern for entries that exist before the marker is written, or after it is removed
    linked: tuple[str, ...] = ()  # folders that may be links to a larger disk: nmt writes and removes what is in them

    @property
    def header(self) -> dict[str, Any]:
        """The first entries of a marker."""
        return {**self.identity, "format_version": self.version}

    def is_marker(self, content: Mapping[str, Any]) -> bool:
        """Return whether nmt wrote a marker, perhaps in a newer version."""
        is_versioned = type(content.get("format_version")) is int
        return is_versioned and self.identity.items() <= content.items() and content.keys() >= set(self.keys)

    @abstractmethod
    def owns(self, directory: Path, entry: str, marker: Mapping[str, Any]) -> bool:
        """Return whether an entry of a directory is as nmt wrote it."""


class SealedKind(DirectoryKind):
    """A directory that is complete when it is written: the marker has the SHA-256 digests of all files, and its own."""

    def is_marker(self, content: Mapping[str, Any]) -> bool:
        """Return whether a marker is as nmt wrote it, perhaps in a newer version."""
        files, own_digest = content.get("files"), content_digest(content)
        is_sealed = isinstance(files, dict) and bool(files) and content.get("digest", own_digest) == own_digest
        return is_sealed and super().is_marker(content)

    def owns(self, directory: Path, entry: str, marker: Mapping[str, Any]) -> bool:
        """Return whether an entry is the marker, or a file with the digest that the marker has."""
        files = marker["files"]
        return entry == self.marker or (entry in files and digest_of(directory / entry) == files[entry])


@dataclass(frozen=True, kw_only=True)
class GrowingKind(DirectoryKind):
    """A directory in which files are written one after the other: nmt owns the entries that match a pattern."""

    names: str

    def owns(self, directory: Path, entry: str, marker: Mapping[str, Any]) -> bool:
        """Return whether an entry has a name that nmt writes, and a digest that the marker has for it, if any."""
        digests = _written(marker).get(entry)
        is_named = re.fullmatch(self.names, entry) is not None
        return is_named and (digests is None or digest_of(directory / entry) in digests)


_TOKENIZERS = r"tokenizer(\.(source|target))?\.model"
_PREPARED = (
    rf"({_TOKENIZERS}|(manifest|inputs|valid|audit)\.json|report\.md|"
    r"(train|valid)/(weights|(source|target)\.(tokens|offsets))\.npy)"
)
_CHUNK = r"\d{6}\.(kept|encoded)\.safetensors"
_WORK = (
    rf"work\.json|\.work\.json\.partial|(tokenizers|\.tokenizers\.{STAGING})/({_TOKENIZERS})?|"
    rf"(train|valid)/(buckets-\w+/\d*|\d+\.chunks|{_CHUNK}|\.{_CHUNK}\.[0-9a-f]{{16}}\.partial)?"
)
_CHECKPOINT = rf"((config|progress)\.json|\.config\.json\.partial|\w+\.safetensors|{_TOKENIZERS})?"
_PREPARATION_OF_RUN = (
    rf"(prepared|\.prepared\.{STAGING})/((train|valid)/|{_PREPARED})?|\.prepared\.lock|\.prepared\.work/({_WORK})?|"
    rf"prepared{_LINK}"
)
_RUN = (
    r"run\.json|recipe\.yaml|metrics\.jsonl|test\.(txt|json)|lock|\.[\w.]+\.partial|"
    rf"checkpoints/(((damaged-|\.gone-)?step-\d{{8}}|\.step-\d{{8}}\.{STAGING})/{_CHECKPOINT})?|"
    r"skipped(-\d+)?/(step-\d{8}\.json|\.step-\d{8}\.json\.partial)?|"
    rf"tensorboard/(events\.out\.tfevents\.[^/]*)?|{_PREPARATION_OF_RUN}|"
    rf"(best|last|checkpoints|tensorboard|\.(best|last)\.\w+){_LINK}"
)

# version 1 allowed config.json without its own digest, and had other names for position vectors
MODEL = SealedKind("a model", "config.json", 2, {}, keys=("languages", "model", "decode"))
EXPORT = SealedKind("an exported model", "nmt.json", 2, {}, keys=("languages", "quantization", "decode"))
FIGURES = SealedKind("a folder of figures", "figures.json", 1, {"format": "nmt figures"})
SPLIT = SealedKind("a division of a text", "split.json", 1, {"format": "nmt split"})
PREPARED = GrowingKind(
    "a prepared corpus", "manifest.json", 3, {"format": "nmt prepared corpus"}, in_run=True, names=_PREPARED
)
PREPARATION = GrowingKind(
    "an unfinished preparation",
    "work.json",
    1,
    {"format": "nmt preparation"},
    in_run=True,
    names=_WORK,
    unmarked=_WORK,
)
RUN = GrowingKind(
    "a run",
    "run.json",
    2,
    {"format": "nmt run"},
    names=_RUN,
    unmarked=rf"{_PREPARATION_OF_RUN}|lock|\.run\.json\.partial",
    linked=("checkpoints", "tensorboard"),
)


def check_directory(directory: Path, kind: DirectoryKind, inputs: Iterable[Path] = ()) -> None:
    """Raise ConfigError unless `directory` is absent, empty, or of this kind with nothing but files that nmt wrote.

    It must also not hold an input, nor lie inside a run, nor, unless it is a run, hold the current directory. Only runs
    and prepared corpora may be symbolic links, to a larger disk.
    """

    def refuse(reason: str) -> NoReturn:
        raise ConfigError(f"{directory}: cannot write {kind.name} here: {reason}; name another folder")

    place = real_path(directory)
    if directory.is_symlink() and isinstance(kind, SealedKind):
        refuse("it is a symbolic link")
    if place.exists() and not place.is_dir():
        refuse("expected a folder, found a file")
    if kind is not RUN and Path.cwd().is_relative_to(place):
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

    That is so for a folder or another special file, a read-only file, a file that is an input, a file in a directory
    that nmt writes (such as a run or a model), and for `-`, which is standard output elsewhere.
    """

    def refuse(reason: str) -> NoReturn:
        raise ConfigError(f"{file}: cannot write it: {reason}; name another file")

    if file == Path("-"):
        refuse("expected the name of a file")
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
    if not kind.is_marker(marker):
        return False
    if marker["format_version"] > kind.version:
        raise ConfigError(
            f"{directory}: a newer nmt wrote it (format version {marker['format_version']}, this nmt reads up to "
            f"{kind.version}); use that nmt, or name another folder"
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


def mark_directory(directory: Path, kind: GrowingKind, content: dict[str, Any] | None = None) -> None:
    """Write the marker of a growing directory, with content beside what it has, unless it has this content."""
    before = read_marker(directory, kind)
    marker = {**before, **kind.header, **(content or {})}
    if before != marker:
        replace_text(directory / kind.marker, json.dumps(marker, indent=2) + "\n")


def write_recorded(directory: Path, kind: GrowingKind, name: str, text: str) -> None:
    """Write a text file into a marked directory; the marker records its digest, so that a later change is noticed.

    The digest of the file before is recorded too: a process may be killed before it is replaced.
    """
    file, marker = directory / name, read_marker(directory, kind)
    digests = {digest_of(file)} if file.is_file() else set()
    digests.add(hashlib.sha256(text.encode()).hexdigest())
    mark_directory(directory, kind, {"written": {**_written(marker), name: sorted(digests)}})
    replace_text(file, text)


def is_as_recorded(directory: Path, kind: GrowingKind, name: str) -> bool:
    """Return whether a file is as `write_recorded` wrote it."""
    return digest_of(directory / name) in _written(read_marker(directory, kind)).get(name, ())


def _written(marker: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digests of the files that `write_recorded` wrote, by their names."""
    written = marker.get("written")
    if not isinstance(written, dict):
        return {}
    return {name: digests if isinstance(digests, list) else [] for name, digests in written.items()}


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
    entries = list(_entries(directory, kind.linked)) if directory.exists() else []
    if all(re.fullmatch(kind.unmarked, entry) for entry in entries):
        return None
    if not is_directory_of(directory, kind):
        if kind is RUN and _is_run_without_marker(directory):
            return f"it holds checkpoints but no {RUN.marker}: only the nmt that began such a run can finish it"
        return f"it holds files, such as {_shown(entries[0])}, but is not {kind.name} that nmt wrote"
    marker = read_marker(directory, kind)
    foreign = (_shown(entry) for entry in entries if not kind.owns(directory, entry, marker))
    return next((f"it holds {one}, which nmt did not write or which was changed since" for one in foreign), None)


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


def _entries(directory: Path, linked: Sequence[str] = ()) -> Iterator[str]:
    """Yield what is in a directory and below it, sorted. Raises OSError for a folder that cannot be listed.

    Of symbolic links in it, only those whose names are `linked` are followed.
    """
    for path in sorted(directory.iterdir()):
        if path.is_symlink():
            yield path.name + _LINK
            if path.name in linked and path.is_dir():
                yield from (f"{path.name}/{entry}" for entry in _entries(path))
        elif path.is_dir():
            yield from [f"{path.name}/{entry}" for entry in _entries(path)] or [f"{path.name}/"]
        else:
            yield path.name if path.is_file() else path.name + _SPECIAL


def _shown(entry: str) -> str:
    return entry.replace(_LINK, "@").replace(_SPECIAL, "|")
