"""Output files and folders, locks, and digests.

    a folder named as output      must be absent or empty, as for `git clone`
    a file named as output        is replaced, unless it is an input or a folder
    a run, a prepared corpus      a folder with a marker file; other files in it are ignored and kept

Everything is written beside its place, synced and renamed, so that a reader finds the old content or the new one. A
directory with digests has them in its JSON file, so that damage is found when it is read. Folders may come from an
untrusted source: in them, only regular files are opened or written, never a symbolic link or a pipe.
"""

import errno
import fcntl
import hashlib
import json
import math
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from nmt.errors import ConfigError, DamagedError, DataError, ModelError

LOCK_FILE = "lock"
_LARGEST_JSON = 2**20  # bytes of a file
_COPY = "copy the directory again, or use another checkpoint of its run"
_DAMAGE = (errno.ENOENT, errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENOTDIR)  # missing, or no regular file


def real_path(path: Path) -> Path:
    """Return an absolute path without symbolic links; it need not exist."""
    return Path(os.path.realpath(path))


def digest_of(file: Path) -> str:
    """Return the SHA-256 of the content of a regular file. Raises OSError."""
    with open(file, "rb", opener=regular_file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def json_digest(value: object) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def regular_file(path: str, flags: int) -> int:
    """Open a file for `open(…, opener=regular_file)`: no symbolic link, no pipe, no device. Raises OSError."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)  # the second: do not wait for a pipe
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{path} is a symbolic link, not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{path} is not a regular file")
    return descriptor


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise DataError, which names a path, for an error of the file system."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space, or name another place" if full else "name another place"
        raise DataError(f"{path}: cannot write it: {error.strerror or error}; {advice}") from error


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Yield an empty folder, which gets the name `directory` when its content is complete and on the disk.

    All files get the permissions of the umask. Nothing is left after an exception. Raises ConfigError unless the folder
    is absent or empty, DataError for an error of the file system.
    """
    reason = ""
    if real_path(directory) == real_path(Path()):
        reason = "it is the current folder, which the new one would replace"
    elif directory.is_dir():
        reason = next((f"it holds {path.name}" for path in directory.iterdir()), "")
    elif directory.exists():
        reason = "found a file"
    if reason:
        raise ConfigError(
            f"{directory}: expected a new or an empty folder, but {reason}; name another one, or remove it"
        )
    place = real_path(directory)  # the folder to rename must be on the disk to which a symbolic link leads
    with disk_errors(directory):
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = _partial(place)
        staging.mkdir()
        try:
            yield staging
            sync_files(path for path in staging.rglob("*") if path.is_file())
            staging.rename(place)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def check_output(file: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise ConfigError if a file that is named as output cannot be written; to be called before the work.

    Such are an input, a folder, a device, and a place where no file can be created.
    """
    place, reason = real_path(file), ""
    if file == Path("-"):
        reason = "expected the name of a file"
    elif place in map(real_path, inputs):
        reason = "it is an input of this command"
    elif os.path.lexists(place) and not place.is_file():
        reason = "it is a folder" if place.is_dir() else "it is not a regular file"
    elif not place.parent.is_dir():
        reason = f"{place.parent} is not a folder: make it first"
    elif not os.access(place.parent, os.W_OK):
        reason = f"no file can be created in {place.parent}"
    if reason:
        raise ConfigError(f"{file}: cannot write it: {reason}; name another file")


@contextmanager
def output_file(file: Path, follow: bool = True) -> Iterator[BinaryIO]:
    """Yield a stream for the content of a file, which it replaces at the end; its permissions stay.

    A symbolic link is replaced itself unless `follow` is set. After an exception the file is as before. Raises
    DataError for an error of the file system.
    """
    place = real_path(file) if follow else real_path(file.parent) / file.name
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


def write_output(file: Path, content: str | bytes, follow: bool = True) -> None:
    """Replace the content of a file as `output_file` does; without `follow` in folders that may come from others."""
    with output_file(file, follow) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def replace_link(link: Path, directory: Path) -> None:
    """Create or replace a symbolic link to a directory atomically; the link is relative where possible."""
    partial = _partial(link)
    partial.symlink_to(os.path.relpath(directory, link.parent))
    partial.replace(link)


def _partial(place: Path) -> Path:
    """Return the name under which `place` is written, which no other process uses."""
    return place.with_name(f".{place.name}.{secrets.token_hex(4)}.partial")


def sync_files(files: Iterable[Path]) -> None:
    """Give files the permissions of their folder, and wait until they are on the disk. Raises OSError."""
    for file in files:
        file.chmod(file.parent.stat().st_mode & 0o666)  # safetensors creates files with mode 0600
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


class Marker(NamedTuple):
    """The file by which nmt recognizes a folder that it has created and may change, such as a run."""

    name: str
    format: str  # such as "nmt run"
    version: int

    @property
    def header(self) -> dict[str, Any]:
        """The first entries of the file."""
        return {"format": self.format, "format_version": self.version}

    def read(self, directory: Path) -> dict[str, Any]:
        """Return the content of the file, {} if there is none or another program wrote it. Raises DamagedError."""
        if not os.path.lexists(directory / self.name):
            return {}
        content = read_json(
            directory / self.name, f"copy it again, or write {json.dumps(self.header)} into it if nmt made this folder"
        )
        return content if isinstance(content, dict) and content.get("format") == self.format else {}

    def write(self, directory: Path, content: dict[str, Any] | None = None) -> None:
        """Replace the file by one with this content."""
        write_output(directory / self.name, json.dumps({**self.header, **(content or {})}, indent=2) + "\n", False)

    def check(self, directory: Path, beside: Iterable[str] = (), inputs: Iterable[Path] = ()) -> None:
        """Raise ConfigError unless a folder is absent, empty, or has this marker, and holds none of the inputs.

        Raises DamagedError for a marker that cannot be read.
        A folder with only hidden files, the lock of nmt and the entries `beside` counts as empty.
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
        stream = open(directory / LOCK_FILE, "a+", errors="replace", opener=regular_file)  # noqa: SIM115
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
    file = directory / LOCK_FILE
    with suppress(OSError), open(file, encoding="utf-8", errors="replace", opener=regular_file) as stream:
        try:
            # a shared lock needs no right to write, also on NFS
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(stream)
    return ""


def _holder(stream: TextIO) -> str:
    stream.seek(0)
    return stream.read(200) or "another process"


def parse_json(text: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for deep nesting and numbers that are not finite."""
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return number


def read_json(file: Path, remedy: str) -> Any:
    """Return the content of a JSON file that nmt wrote. Raises DamagedError, with what to do."""
    try:
        with open(file, "rb", opener=regular_file) as stream:
            text = stream.read(_LARGEST_JSON + 1)
        if len(text) > _LARGEST_JSON:
            raise ValueError(f"expected a file of at most {_LARGEST_JSON:,} bytes")
        return parse_json(text)
    except (OSError, ValueError) as error:
        _raise_unless_damage(file, error)
        reason = error.strerror if isinstance(error, OSError) else error
        raise DamagedError(f"{file}: damaged, or not written by nmt: {reason}; {remedy}") from None


def _raise_unless_damage(file: Path, error: OSError | ValueError) -> None:
    """Raise DataError for an error of the disk or of permissions, which may be temporary and is no damage."""
    if isinstance(error, OSError) and error.errno not in _DAMAGE:
        raise DataError(f"{file}: cannot read it: {error.strerror or error}; check the disk and permissions") from error


def write_digested(file: Path, version: int, content: dict[str, Any], others: Iterable[Path] = ()) -> None:
    """Write a JSON file with content, its SHA-256, and the sizes and digests of other files beside it."""
    files = {other.name: [other.stat().st_size, digest_of(other)] for other in others}
    content = {"format_version": version, **content, "files": files}
    content["sha256"] = _digest_without_itself(content)
    write_output(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n", follow=False)


def _digest_without_itself(content: dict[str, Any]) -> str:
    return json_digest({key: value for key, value in content.items() if key != "sha256"})


def read_digested(
    file: Path, version: int, required: Callable[[Container[str]], Sequence[str]] = lambda listed: ()
) -> dict[str, Any]:
    """Read a JSON file and check the files that it lists; `required` returns the names that the list must contain.

    Raises DamagedError where a file is missing or altered, ModelError for another format version.
    """
    if not os.path.lexists(file):
        raise DamagedError(f"{file.parent}: not a model directory: it has no {file.name}")
    parsed, problem = read_json(file, _COPY), ""
    content: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    stored_version, files, digest = (content.get(key) for key in ("format_version", "files", "sha256"))
    if not isinstance(stored_version, int):
        problem = "it has no format_version"
    elif digest not in (None, _digest_without_itself(content)):
        problem = "its content is not what was saved (SHA-256 differs)"
    elif stored_version != version:
        raise ModelError(
            f"{file}: format version {stored_version}, expected {version}: another version of nmt wrote it"
        )
    elif digest is None or not isinstance(files, dict):
        problem = "it has no digests"
    elif lacking := [name for name in required(files) if name not in files]:
        problem = f"its list of files lacks {lacking[0]}"
    if problem:
        raise DamagedError(
            f"{file}: damaged, or not written by nmt: {problem}; {_COPY}; nmt import reads models of others"
        )
    for name, recorded in content["files"].items():
        _check_listed(file.parent / name, recorded, file)
    return content


def _check_listed(other: Path, recorded: object, file: Path) -> None:
    """Raise DamagedError unless a file that `file` lists is a regular file beside it with this size and digest."""
    try:
        if other.parent != file.parent:
            raise ValueError("a path")
        with open(other, "rb", opener=regular_file) as stream:
            size = os.fstat(stream.fileno()).st_size
            is_whole = isinstance(recorded, list) and recorded[:1] == [size]  # else do not read it
            if is_whole and recorded == [size, hashlib.file_digest(stream, "sha256").hexdigest()]:
                return
            problem = f"damaged: its content is not what was saved (size or SHA-256 differs); {_COPY}"
    except FileNotFoundError:
        problem = f"missing, though {file.name} lists it; copy the whole directory"
    except (OSError, ValueError) as error:
        _raise_unless_damage(other, error)
        problem = "not a regular file in this directory; copy the file itself, not a link to it"
    raise DamagedError(f"{other}: {problem}")
