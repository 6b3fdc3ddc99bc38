"""Atomic replacement of files and directories, and locks.

A new directory or file is written beside its destination, synced to the disk and renamed, so that a reader finds the
old content or the new content, whole. `nmt.system.ownership` decides which ones may be replaced.

`atomic_file` and `atomic_directory` raise OSError; the functions that call them raise DataError, which names the file.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

from nmt.errors import ConfigError, DataError

Report = Callable[[str], None]

STAGING = r"staging-[0-9a-f]{16}"  # after the name of a directory, that of the folder in which it is written


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_digest(content: Mapping[str, Any]) -> str:
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
def staged_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty folder beside `directory`, which it replaces at the end, whatever that holds.

    For directories that are known to be nmt's; others go through `replace_directory`. All files get the permissions of
    the umask. After an exception `directory` is as before. Raises DataError for an error of the file system.
    """
    directory = real_path(directory)  # the staging folder must be on the disk to which a symbolic link leads
    try:
        with atomic_directory(directory) as staging:
            yield staging
    except OSError as error:
        reason = error.strerror or str(error)
        above = next((path for path in directory.parents if path.exists()), directory)
        if not above.is_dir():
            reason = f"{above} is a file, not a folder"
        advice = "free some space, or name" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "name"
        raise DataError(f"{directory}: cannot write it: {reason}; {advice} another folder") from error


@contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty folder as `staged_directory` does, for a path without links. Raises OSError."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    staging, lock = _create_staging(directory)
    try:
        yield staging
        _rename_into_place(staging, directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        os.close(lock)


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


def remove_leftovers(directory: Path) -> None:
    """Remove the staging folders of processes that were killed: those that no process has locked."""
    leftover = re.compile(re.escape(f".{directory.name}.") + STAGING)
    for path in [path for path in directory.parent.iterdir() if leftover.fullmatch(path.name)]:
        with contextlib.suppress(OSError), contextlib.ExitStack() as at_end:  # removed meanwhile, or another user's
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            at_end.callback(os.close, descriptor)
            if lock(descriptor) == "held":
                shutil.rmtree(path, ignore_errors=True)


def _rename_into_place(staging: Path, directory: Path) -> None:
    """Sync `staging` and give it the name `directory`; what was there gets the staging name or is removed."""
    for path in (staging, *staging.rglob("*")):
        if path.is_file():  # safetensors creates files with mode 0600
            path.chmod(staging.stat().st_mode & 0o666)
        sync(path)
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
    with disk_errors(file), atomic_file(file, partial) as stream:
        stream.write(text.encode())


@contextmanager
def disk_errors(file: Path) -> Iterator[None]:
    """Raise DataError, which names a file, for an error of the file system."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{file}: cannot write it: {error.strerror}") from None


@contextmanager
def atomic_file(file: Path, partial: Path | None = None) -> Iterator[BinaryIO]:
    """Yield a stream for the content of a file, which is synced and gets its name, as by `replace_file`, at the end.

    It is written as `partial`, by default under a name that no other file has: several processes may write the same
    file, and the last one replaces it. After an exception `file` is as before. Raises OSError.
    """
    partial = partial or file.with_name(f".{file.name}.{secrets.token_hex(8)}.partial")
    with partial.open("xb") as stream:
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            replace_file(partial, file)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


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
    partial = link.with_name(f".{link.name}.partial")
    if partial.is_symlink():
        partial.unlink()  # of a process that was killed
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
    wait. On a file system without locks `on_unsupported` is called with a message. Raises DataError if the folder is
    not writable.
    """
    while True:
        try:
            opened = file.open("a+", encoding="utf-8", errors="replace")
        except OSError as error:
            reason = f"cannot write {file.name} here: {error.strerror}"
            raise DataError(f"{file.parent}: {reason}; name another folder, or get the right to write here") from None
        with opened as stream:
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
