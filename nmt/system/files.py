"""Write a directory, or a file, so that its name appears only when it is complete.

A process holds a lock on the staging directory it writes; one that nobody holds is the leftover of a killed process.
Two processes may write the same directory at once: each has a staging directory of its own, and the last rename wins.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import DataError


@contextmanager
def staged_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty sibling to write into; on leaving it is synced and takes the name, and the place, of `directory`.

    After an exception `directory` is as it was and the sibling is gone. Raises DataError when the disk refuses.
    """
    directory = directory.resolve()  # behind a symbolic link, the sibling belongs on the disk where the link leads
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(directory)
        staging, lock = _create(directory)
        try:
            yield staging
            _sync_all(staging)
            _rename(staging, directory)
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


def replace_text(file: Path, text: str) -> None:
    """Write a file so that whoever is killed leaves it as it was or as it shall be.

    Raises DataError if the disk refuses.
    """
    partial = file.with_suffix(".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"{file}: cannot write it: {error.strerror}") from None


def _prefix(directory: Path) -> str:
    return f".{directory.name}.staging-"


def _new_sibling(directory: Path) -> Path:
    """Make an empty directory of a fresh name, with the permissions that the user's umask gives."""
    path = directory.with_name(_prefix(directory) + secrets.token_hex(8))
    path.mkdir()
    return path


def _create(directory: Path) -> tuple[Path, int]:
    """Make a staging directory and lock it; returns its path and the open descriptor that holds the lock."""
    while True:
        staging = _new_sibling(directory)
        # between these lines another process may take the directory for a leftover
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(staging, os.O_RDONLY)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)  # waits for who is just removing it
            if staging.exists():
                return staging, lock
            os.close(lock)


def _remove_leftovers(directory: Path) -> None:
    for path in directory.parent.iterdir():
        if path.name.startswith(_prefix(directory)):
            # gone by now, another user's, locked by who writes it, or on a file system without locks
            with contextlib.suppress(OSError):
                _remove_unless_locked(path)


def _remove_unless_locked(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _sync_all(directory: Path) -> None:
    for path in [directory, *directory.rglob("*")]:
        sync(path)


def _rename(staging: Path, directory: Path) -> None:
    """Put `staging` in the place of `directory`, which no single system call does for a directory with content."""
    while True:
        try:
            staging.rename(directory)
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        aside = _new_sibling(directory)
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    sync(directory.parent)


def sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk, not only on its way. Raises OSError when the disk refuses."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
