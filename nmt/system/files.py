"""Write files and directories: which ones nmt may replace, atomic replacement, locks.

A directory that nmt writes carries a marker file. It is replaced only if the marker is there and every file in it is
one that nmt wrote; anything else belongs to the user and is never changed. A new directory or file is written beside
its destination, synced to the disk and renamed, so that a reader finds the old content or the new content, whole.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from nmt.errors import ConfigError, DataError

_LARGEST_MARKER = 2**26
"""Bytes. A larger file is not a marker that nmt wrote, and is not read."""

FORMAT_VERSION = 1
Report = Callable[[str], None]


@dataclass(frozen=True)
class DirectoryKind:
    """A kind of directory that nmt writes, and how its files are recognised."""

    name: str
    """With its article, for messages."""
    marker: str
    """A JSON file with an integer `format_version`, and the digest of its other content as `digest` if it has one."""
    version: int = FORMAT_VERSION
    """The newest format version that this nmt reads."""
    format: str | None = None
    """What the marker holds under `format`; None if it has no such key."""
    keys: tuple[str, ...] = ()
    """Other keys that the marker holds, which tell it from a foreign file of this name where `format` is None."""
    files: str | None = None
    """A regular expression for the paths below the directory (an empty folder ends in `/`, a symbolic link in `@`).
    None if the marker lists all files with their SHA-256 digests under `files`."""
    unmarked: str | None = None
    """A regular expression for files that may exist before the marker is written."""
    older: tuple[str, ...] = ()
    """Entries that together identify a directory written before this kind had a marker."""
    filled_in_place: bool = False
    """Whether files in it are written one by one, rather than the directory replaced as a whole."""


_TOKENIZERS = r"tokenizer(\.(source|target))?\.model"
_PREPARED = (
    rf"({_TOKENIZERS}|manifest\.json|valid\.json|(train|valid)/(weights|(source|target)\.(tokens|offsets))\.npy)"
)
_STAGING = r"staging-[0-9a-f]{16}"
_CHECKPOINT = rf"(\.?(config|progress)\.(json|json\.partial|partial)|\w+\.safetensors|{_TOKENIZERS})?"
_RUN = (
    r"run\.json|recipe\.yaml|recipe\.partial|metrics\.jsonl|test\.(txt|json)|lock|\.[\w.]+\.partial",
    r"(best|last|checkpoints|tensorboard|\.(best|last)\.\w+)@",
    rf"checkpoints/(((damaged-|\.gone-)?step-\d{{8}}|\.step-\d{{8}}\.{_STAGING})/{_CHECKPOINT})?",
    r"skipped(-\d+)?/(\.?step-\d{8}\.(json|partial|json\.partial))?",
    r"tensorboard/(events\.out\.tfevents\.[^/]*)?",
    rf"prepared@|(prepared|\.prepared\.{_STAGING})/((train|valid)/|{_PREPARED})?|\.prepared\.lock",
)

MODEL = DirectoryKind("a model", "config.json", version=2, keys=("languages", "model", "decode"))
EXPORT = DirectoryKind("an exported model", "nmt.json", version=2, keys=("languages", "quantization", "decode"))
PREPARED = DirectoryKind("a prepared corpus", "manifest.json", format="nmt prepared corpus", files=_PREPARED)
FIGURES = DirectoryKind("a folder of figures", "figures.json", format="nmt figures")
RUN = DirectoryKind(
    "a run",
    "run.json",
    format="nmt run",
    files="|".join(_RUN),
    unmarked=rf"{_RUN[-1]}|lock|\.run\.json\.partial",
    older=("recipe.yaml", "checkpoints", "lock"),
    filled_in_place=True,
)


def check_directory(
    directory: Path,
    kind: DirectoryKind,
    inputs: Iterable[Path] = (),
    *,
    inside_run: bool = False,
    through_link: bool = False,
) -> None:
    """Raise ConfigError unless `directory` is absent, empty, or of this kind with nothing but files that nmt wrote.

    It must also not be a symbolic link (unless `through_link`), hold an input or the current directory, or lie inside a
    run (unless `inside_run`).
    """

    def refuse(reason: str) -> NoReturn:
        raise ConfigError(f"{directory}: cannot write {kind.name} here: {reason}; name another folder")

    place = real_path(directory)
    if directory.is_symlink() and not through_link:
        refuse("it is a symbolic link")
    if place.exists() and not place.is_dir():
        refuse("expected a folder, found a file")
    if not kind.filled_in_place and place in (cwd := Path.cwd(), *cwd.parents):
        refuse("it is the current folder, or one that the current folder is in")
    for path in inputs:
        if place in (real := real_path(path), *real.parents):
            refuse(f"it holds {path}, which is read")
    run = None if inside_run else _run_above(place)
    if run is not None:
        refuse(f"{run} is a run, whose files nmt train keeps")
    reason = why_not_owned(place, kind)
    if reason is not None:
        refuse(reason)


def _run_above(place: Path) -> Path | None:
    """Return the run that a path lies in, or None."""
    for parent in place.parents:
        if is_directory_of(parent, RUN) or all((parent / name).exists() for name in ("recipe.yaml", "checkpoints")):
            return parent
    return None


def why_not_owned(directory: Path, kind: DirectoryKind) -> str | None:
    """Return why nmt may not replace a directory; None if it may, or if there is nothing in it.

    Raises ConfigError if a newer nmt wrote it.
    """
    entries = _entries(directory) if directory.exists() else []
    if all(re.fullmatch(kind.unmarked or "", entry) for entry in entries):
        return None
    if not is_directory_of(directory, kind):
        return f"it holds files, such as {entries[0]}, but is not {kind.name} that nmt wrote"
    digests = None if kind.files is not None else dict(_read_marker(directory, kind)["files"])
    for entry in entries:
        if digests is None:
            known = re.fullmatch(kind.files or "", entry) is not None
        else:
            known = entry == kind.marker or (
                entry[-1] not in "/@|" and digests.get(entry) == digest_of(directory / entry)
            )
        if not known:
            return f"it holds {entry}, which nmt did not write or which was changed since"
    return None


def is_directory_of(directory: Path, kind: DirectoryKind) -> bool:
    """Return whether a directory carries the marker of a kind. Raises ConfigError if a newer nmt wrote it."""
    marker = _read_marker(directory, kind)
    version, digests, own_digest = marker.get("format_version"), marker.get("files"), content_digest(marker)
    if (
        type(version) is not int
        or kind.format not in (None, marker.get("format"))
        or any(key not in marker for key in kind.keys)
        or marker.get("digest", own_digest) != own_digest
        or (kind.files is None and not (digests and isinstance(digests, dict)))
    ):
        return bool(kind.older) and all((directory / name).exists() for name in kind.older)
    if version > kind.version:
        raise ConfigError(
            f"{directory}: a newer nmt wrote it (format version {version}, this nmt reads up to {kind.version}); "
            "use that nmt, or name another folder"
        )
    return True


def mark_directory(directory: Path, kind: DirectoryKind, content: dict[str, Any] | None = None) -> None:
    """Write the marker of a kind that has a format name, with further content, unless it is there with this content."""
    marker = {"format": kind.format, "format_version": kind.version, **(content or {})}
    if _read_marker(directory, kind) != marker:
        replace_text(directory / kind.marker, json.dumps(marker, indent=2) + "\n")


def _read_marker(directory: Path, kind: DirectoryKind) -> dict[str, Any]:
    """Return the marker's content, {} if there is none: only a regular file of a bounded size is read."""
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
        found += [f"{path.name}/{entry}" for entry in below]
        if not below:
            kinds = ((stat.S_ISREG, ""), (stat.S_ISDIR, "/"), (stat.S_ISLNK, "@"))
            found.append(path.name + next((suffix for is_kind, suffix in kinds if is_kind(mode)), "|"))
    return found


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of the content of a JSON file without its key `digest`, whatever its layout."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def real_path(path: Path) -> Path:
    """Return an absolute path without symbolic links; it need not exist.

    Raises ConfigError for links that form a loop and for a name that no file can have.
    """
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.stat(path)
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{str(path)!r}: not a usable path: {reason}; name another one") from None


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


@contextmanager
def staged_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty folder beside `directory`, which it replaces at the end, whatever that holds.

    For directories that are known to be nmt's; others go through `replace_directory`. All files get the permissions of
    the umask. After an exception `directory` is as before. Raises DataError for an error of the file system.
    """
    directory = real_path(directory)  # the staging folder must be on the disk to which a symbolic link leads
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(directory)
        staging, lock = _create_staging(directory)
        try:
            yield staging
            for path in (staging, *staging.rglob("*")):
                if path.is_file():  # safetensors creates files with mode 0600
                    path.chmod(staging.stat().st_mode & 0o666)
                sync(path)
            _take_place(staging, directory)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            os.close(lock)
    except OSError as error:
        reason = error.strerror or str(error)
        above = next((path for path in directory.parents if path.exists()), directory)
        if not above.is_dir():
            reason = f"{above} is a file, not a folder"
        advice = "free some space, or name" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "name"
        raise DataError(f"{directory}: cannot write it: {reason}; {advice} another folder") from error


def _new_sibling(directory: Path) -> Path:
    path = directory.with_name(f".{directory.name}.staging-{secrets.token_hex(8)}")
    path.mkdir()
    return path


def _create_staging(directory: Path) -> tuple[Path, int]:
    """Create and lock a staging folder; returns its path and the descriptor that holds the lock."""
    while True:
        staging = _new_sibling(directory)
        # until it is locked, another process may remove it as a leftover
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(staging, os.O_RDONLY)
            lock(descriptor, wait=True)
            if staging.exists():
                return staging, descriptor
            os.close(descriptor)


def _remove_leftovers(directory: Path) -> None:
    """Remove the staging folders of processes that were killed: those that no process has locked."""
    leftover = re.compile(re.escape(f".{directory.name}.") + _STAGING)
    for path in directory.parent.iterdir():
        if leftover.fullmatch(path.name):
            with contextlib.suppress(OSError):  # removed meanwhile, or another user's
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
                try:
                    if lock(descriptor) == "held":
                        shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(descriptor)


def _take_place(staging: Path, directory: Path) -> None:
    """Give `staging` the name `directory`; what was there gets the staging name or is removed."""
    while True:
        try:
            staging.rename(directory)  # it is absent or empty
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if _exchange(staging, directory):
            break
        aside = _new_sibling(directory)
        with contextlib.suppress(FileNotFoundError):  # another process replaces it at the same time
            directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    sync(directory.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders in one system call; return False where the system has none."""
    libc = ctypes.CDLL(None)
    first, second, swap = os.fsencode(one), os.fsencode(other), 2
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        here = -100  # AT_FDCWD
        return bool(libc.renameat2(here, first, here, second, swap) == 0)
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        return bool(libc.renamex_np(first, second, swap) == 0)
    return False


def replace_text(file: Path, text: str) -> None:
    """Write a file in one of nmt's directories atomically. Raises DataError for an error of the file system."""
    partial = file.with_name(f".{file.name}.partial")
    with contextlib.suppress(OSError):
        partial.unlink()  # of a process that was killed
    _write_through(partial, file, text)


def write_output(file: Path, text: str) -> None:
    """Write a file that the user named, atomically.

    Raises ConfigError if it must not be replaced (see `check_file`), DataError for an error of the file system.
    """
    place = check_file(file)
    # in a folder of the user, a fixed name could be the name of another file
    _write_through(place.with_name(f".{place.name}.{secrets.token_hex(8)}.partial"), place, text)


def _write_through(partial: Path, file: Path, text: str) -> None:
    try:
        with partial.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        replace_file(partial, file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"{file}: cannot write it: {error.strerror}") from None


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
    run = _run_above(place)
    if run is not None:
        refuse(f"{run} is a run, whose files nmt train keeps")
    for kind in (MODEL, EXPORT, PREPARED, FIGURES):
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


def replace_file(partial: Path, file: Path) -> None:
    """Give a complete file the name `file`, with the owner and the permissions of the file that had it.

    Where the owner cannot be kept (a file of another account that this one may write), the content is copied into it.
    """
    with contextlib.suppress(FileNotFoundError):
        before, now = file.stat(), partial.stat()
        owned = (before.st_uid, before.st_gid) == (now.st_uid, now.st_gid)
        try:
            if not owned:
                os.chown(partial, before.st_uid, before.st_gid)
            partial.chmod(stat.S_IMODE(before.st_mode))
        except PermissionError:
            shutil.copyfile(partial, file)
            sync(file)
            partial.unlink()
            return
    partial.replace(file)
    sync(file.parent)


def replace_link(link: Path, directory: Path) -> None:
    """Create or replace a symbolic link to a directory atomically; the link is relative where possible."""
    partial = link.with_name(f".{link.name}.{secrets.token_hex(8)}")
    partial.symlink_to(os.path.relpath(directory, link.parent), target_is_directory=True)
    partial.replace(link)


def sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk. Raises OSError if the disk fails."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, wait: bool = False) -> Literal["held", "busy", "unsupported"]:
    """Lock an open file or folder for this process; the system releases the lock when the descriptor is closed.

    Returns "busy" if another process holds it (with `wait`, blocks until it does not), "unsupported" on a file system
    without locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return "busy"
    except OSError:
        return "unsupported"
    return "held"


@contextmanager
def lock_file(file: Path, on_busy: Report, on_unsupported: Report) -> Iterator[None]:
    """Hold a lock file, which exists within the block only and names the process that holds it.

    If another process holds it, `on_busy` is called with the name of that process: it raises an error, or returns to
    wait. On a file system without locks `on_unsupported` is called with a message.
    """
    while True:
        with file.open("a+", encoding="utf-8", errors="replace") as stream:
            stream.seek(0)
            holder = stream.read(1000)
            state = lock(stream.fileno())
            if state == "busy":
                on_busy(holder or "another process")
                lock(stream.fileno(), wait=True)
            if state == "unsupported":
                on_unsupported(f"{file}: no locks on this file system; make sure that no other process writes here")
            if not has_name(stream.fileno(), file):
                continue  # the process that held it has removed it
            if not re.fullmatch(r"(process \d+ on \S+)?", holder):
                raise ConfigError(f"{file}: expected a lock file that nmt wrote, found another file; remove it")
            try:
                stream.truncate(0)
                stream.write(f"process {os.getpid()} on {socket.gethostname()}")
                stream.flush()
                yield
            finally:
                file.unlink(missing_ok=True)
            return


def has_name(descriptor: int, file: Path) -> bool:
    """Return whether an open file is still the one of this name, rather than replaced or removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
