"""Output files and folders, and locks.

    a folder named as output      must be absent or empty, as for `git clone`
    a file named as output        is replaced, unless it is an input or a folder
    a run, a prepared corpus      a folder with a marker file; other files in it are ignored and kept

Everything is written beside its place, synced and renamed, so that a reader finds the old content or the new one.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from nmt.errors import ConfigError, DataError

LOCK_FILE = "lock"


def real_path(path: Path) -> Path:
    """Return an absolute path without symbolic links; it need not exist."""
    return Path(os.path.realpath(path))


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise DataError, which names a path, for an error of the file system."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space, or name another place" if full else "name another place"
        raise DataError(f"{path}: cannot write it: {error.strerror or error}; {advice}") from error


def check_new_directory(directory: Path) -> None:
    """Raise ConfigError unless a folder that is named as output is absent or empty."""
    if directory.is_dir():
        found = next((f"it holds {path.name}" for path in directory.iterdir()), None)
    else:
        found = "found a file" if directory.exists() else None
    if found is not None:
        raise ConfigError(
            f"{directory}: expected a new or an empty folder, but {found}; name another one, or remove it"
        )


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty folder, which gets the name `directory` when its content is complete and on the disk.

    All files get the permissions of the umask. Nothing is left after an exception. Raises ConfigError as
    `check_new_directory` does, DataError for an error of the file system.
    """
    check_new_directory(directory)
    place = real_path(directory)  # the folder to rename must be on the disk to which a symbolic link leads
    with disk_errors(directory):
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = _partial(place)
        staging.mkdir()
        try:
            yield staging
            settle(path for path in staging.rglob("*") if path.is_file())
            staging.rename(place)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def check_output(file: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise ConfigError, before work is done for it, if a file that is named as output cannot be written.

    That is so for an input, a folder, a device, and a place where no file can be created.
    """
    place, reason = real_path(file), ""
    if file == Path("-"):
        reason = "expected the name of a file"
    elif place in map(real_path, inputs):
        reason = "it is also read, and the output is a new file"
    elif os.path.lexists(place) and not place.is_file():
        reason = "it is a folder" if place.is_dir() else "it is not a regular file"
    elif not place.parent.is_dir():
        reason = f"{place.parent} is not a folder: make it first"
    elif not os.access(place.parent, os.W_OK):
        reason = f"no file can be created in {place.parent}"
    if reason:
        raise ConfigError(f"{file}: cannot write it: {reason}; name another file")


@contextmanager
def output_file(file: Path) -> Iterator[BinaryIO]:
    """Yield a stream for the content of a file, which it replaces at the end; its permissions stay.

    After an exception the file is as before. Raises DataError for an error of the file system.
    """
    place = real_path(file)
    with disk_errors(file):
        partial = _partial(place)
        try:
            with partial.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            with suppress(FileNotFoundError):
                partial.chmod(stat.S_IMODE(place.stat().st_mode))
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)


def write_output(file: Path, content: str | bytes) -> None:
    """Replace the content of a file as `output_file` does."""
    with output_file(file) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def replace_link(link: Path, directory: Path) -> None:
    """Create or replace a symbolic link to a directory atomically; the link is relative where possible."""
    partial = _partial(link)
    partial.symlink_to(os.path.relpath(directory, link.parent), target_is_directory=True)
    partial.replace(link)


def _partial(place: Path) -> Path:
    """Return the name under which `place` is written, which no other process uses."""
    return place.with_name(f".{place.name}.{secrets.token_hex(4)}.partial")


def settle(files: Iterable[Path]) -> None:
    """Give files the permissions of their folder, and wait until they are on the disk. Raises OSError."""
    for file in files:
        file.chmod(file.parent.stat().st_mode & 0o666)  # safetensors creates files with mode 0600
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


class Marker(NamedTuple):
    """The file by which nmt recognizes a folder of its own that it changes, such as a run."""

    name: str
    format: str  # such as "nmt run"
    version: int

    @property
    def header(self) -> dict[str, Any]:
        """The first entries of the file."""
        return {"format": self.format, "format_version": self.version}

    def read(self, directory: Path) -> dict[str, Any]:
        """Return the content of the file, {} if there is none or another program wrote it."""
        try:
            content = json.loads((directory / self.name).read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) and content.get("format") == self.format else {}

    def write(self, directory: Path, content: dict[str, Any] | None = None) -> None:
        """Replace the file by one with this content."""
        write_output(directory / self.name, json.dumps({**self.header, **(content or {})}, indent=2) + "\n")

    def check(self, directory: Path, beside: Iterable[str] = (), inputs: Iterable[Path] = ()) -> None:
        """Raise ConfigError unless a folder is absent, empty, or has this marker, and holds none of the inputs.

        A folder with only hidden files, the lock of nmt and entries named `beside` counts as empty.
        """
        place = real_path(directory)
        for path in inputs:
            if real_path(path).is_relative_to(place):
                raise ConfigError(
                    f"{directory}: cannot write here: it holds {path}, which is read; name another folder"
                )
        if not directory.is_dir():
            if directory.exists():
                raise ConfigError(f"{directory}: not a folder to write in; name another one")
            return
        names = {path.name for path in directory.iterdir() if not path.name.startswith(".")}
        others = sorted(names - {LOCK_FILE, *beside})
        if others and not self.read(directory):
            raise ConfigError(
                f"{directory}: expected a new or an empty folder, or one with the {self.name} of nmt, but it holds "
                f"{others[0]}; name another folder"
            )


@contextmanager
def lock_folder(directory: Path, on_busy: Callable[[str], None], warn: Callable[[str], None]) -> Iterator[None]:
    """Create a folder, if needed, and hold the lock in it: a file that names the last process that held it.

    If another process holds it, `on_busy` is called with the name of that process: it raises an error, or returns to
    wait. Warns on a file system without locks. Raises DataError if the folder is not writable.
    """
    with disk_errors(directory):
        real_path(directory).mkdir(parents=True, exist_ok=True)
        stream = (directory / LOCK_FILE).open("a+", encoding="utf-8", errors="replace")
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_busy(_holder(stream))
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError:
            warn(f"{directory}: no locks on this file system; make sure that no other process writes here")
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}")
        stream.flush()
        yield


def lock_holder(directory: Path) -> str:
    """Return the process that holds the lock of a folder, empty if none does."""
    with suppress(OSError), (directory / LOCK_FILE).open(encoding="utf-8", errors="replace") as stream:
        try:
            # a shared lock needs no right to write, also on NFS
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(stream)
    return ""


def _holder(stream: TextIO) -> str:
    stream.seek(0)
    return stream.read(200) or "another process"
