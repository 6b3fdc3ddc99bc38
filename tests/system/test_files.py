"""Outputs are new folders or replaced files, whole or absent; locks name their holder."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.errors import ConfigError, DamagedError, DataError
from nmt.system.files import (
    Marker,
    check_output,
    lock_folder,
    lock_holder,
    new_directory,
    output_file,
    replace_link,
    write_output,
)
from tests.builders import snapshot

RUN = Marker("run.json", "nmt run", 2)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fail(message: str) -> None:
    raise ConfigError(message)


# new folders


def test_directory_appears_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    with new_directory(target) as staging:
        (staging / "part").mkdir()
        (staging / "part" / "file").write_text("x")
        assert not target.exists()
        assert staging.parent == target.parent
    assert (target / "part" / "file").read_text() == "x"
    assert names(target.parent) == ["model"]


def test_empty_folder_and_link_to_a_larger_disk_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "disk" / "empty").mkdir(parents=True)
    for place in ("empty", "absent"):
        (tmp_path / "link").symlink_to(tmp_path / "disk" / place)
        with new_directory(tmp_path / "link") as staging:
            (staging / "file").write_text("x")
        assert names(tmp_path / "disk" / place) == ["file"]
        assert (tmp_path / "link").is_symlink()
        (tmp_path / "link").unlink()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("mine", "mine: expected a new or an empty folder, but it holds notes.txt; name another one, or remove it"),
        ("mine/notes.txt", "notes.txt: expected a new or an empty folder, but found a file; name another one"),
        ("link", "link: expected a new or an empty folder, but it holds notes.txt"),
        ("here", "here: expected a new or an empty folder, but it is the current folder, which the new one would"),
    ],
)
def test_folder_that_is_not_new_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, message: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to("mine")
    before = snapshot(tmp_path)
    with pytest.raises(ConfigError, match=message), new_directory(tmp_path / place):
        pytest.fail("written")
    assert snapshot(tmp_path) == before


def test_folder_made_by_another_process_meanwhile_is_kept(tmp_path: Path) -> None:
    def write() -> None:
        with new_directory(tmp_path / "model") as staging:
            (staging / "file").write_text("second")
            (tmp_path / "model").mkdir()
            (tmp_path / "model" / "file").write_text("first")

    with pytest.raises(DataError, match="model: cannot write it: Directory not empty"):
        write()
    assert (names(tmp_path), (tmp_path / "model" / "file").read_text()) == (["model"], "first")


@pytest.mark.parametrize("error", [ValueError("bug"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_exception_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def write() -> None:
        with new_directory(tmp_path / "model") as staging:
            (staging / "file").write_text("x")
            raise error

    message = "model: cannot write it: full; free some space, or name another place"
    expected = (DataError, message) if isinstance(error, OSError) else (type(error), None)
    with pytest.raises(expected[0], match=expected[1]):
        write()
    assert names(tmp_path) == []


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with new_directory(tmp_path / "model") as staging:
            os.close(os.open(staging / "private", os.O_CREAT | os.O_WRONLY, 0o600))
        write_output(tmp_path / "file", "x")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("model", "model/private", "file")]
    assert modes == [0o750, 0o640, 0o640]


# files


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_file_is_replaced_behind_links_with_its_permissions(tmp_path: Path, mode: int) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(mode)
    (tmp_path / "link").symlink_to("file")
    write_output(tmp_path / "link", "new")
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode
    assert (names(tmp_path), os.readlink(tmp_path / "link")) == (["file", "link"], "file")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
@pytest.mark.parametrize("before", [{}, {"file": "old"}])
def test_file_is_as_before_after_an_exception(tmp_path: Path, error: BaseException, before: dict[str, str]) -> None:
    def write() -> None:
        with output_file(tmp_path / "file") as stream:
            stream.write(b"new")
            raise error

    for name, content in before.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError if isinstance(error, OSError) else KeyboardInterrupt):
        write()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("input", "input: cannot write it: it is an input of this command; name another file"),
        ("link", "link: cannot write it: it is an input of this command"),
        ("folder", "folder: cannot write it: it is a folder"),
        ("loop", "loop: cannot write it: it is not a regular file"),
        ("pipe", "pipe: cannot write it: it is not a regular file"),
        ("nowhere/file", "nowhere/file: cannot write it: .*nowhere is not a folder: make it first"),
        ("input/file", "input/file: cannot write it: .*input is not a folder: make it first"),
    ],
)
def test_unsuitable_output_files_are_refused(tmp_path: Path, file: str, message: str) -> None:
    (tmp_path / "input").write_text("mine")
    (tmp_path / "link").symlink_to("input")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    before = snapshot(tmp_path)
    with pytest.raises(ConfigError, match=message):
        check_output(tmp_path / file, [tmp_path / "input"])
    check_output(tmp_path / "folder" / "new", [tmp_path / "input"])
    assert snapshot(tmp_path) == before


def test_replace_link_sets_the_new_target(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        replace_link(tmp_path / "last", tmp_path / name)
        assert os.readlink(tmp_path / "last") == name
    assert names(tmp_path) == ["last", "one", "two"]


# folders with a marker


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"lock": "process 5 on host", "prepared": "", ".DS_Store": "", ".run.json.0123abcd.partial": ""},
        {"run.json": '{"format": "nmt run", "format_version": 1}', ".DS_Store": "x", "notes.txt": "mine"},
    ],
)
def test_new_and_own_folders_are_accepted(tmp_path: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    RUN.check(tmp_path, beside=["prepared"])
    RUN.check(tmp_path / "absent")


@pytest.mark.parametrize(
    "content",
    [
        {"notes.txt": "mine"},
        {"recipe.yaml": "name: x", "checkpoints": "x"},
        {"run.json": '{"format": "training plan", "format_version": 1}'},
    ],
)
def test_folders_of_the_user_are_refused(tmp_path: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    expected = f"or one with the run.json of nmt, but it holds {min(content)}; name another folder"
    with pytest.raises(ConfigError, match=expected):
        RUN.check(tmp_path, beside=["prepared"])


@pytest.mark.parametrize(
    "content", ["", "{", "[" * 100_000, '{"a": 1e999}', '{"a": NaN}', "1" * 5000, "\udcff", " " * 2**21], ids=range(8)
)
def test_damaged_marker_is_an_error_with_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    for read in (RUN.read, RUN.check):
        with pytest.raises(DamagedError, match=r"run\.json: damaged, or not written by nmt: .*copy it again, or write"):
            read(tmp_path)


def test_folder_with_an_input_and_file_in_place_of_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(ConfigError, match=r"it holds .*/text, which is read; name another folder"):
        RUN.check(tmp_path, inputs=[tmp_path / "text"])
    with pytest.raises(ConfigError, match="text: not a folder to write in"):
        RUN.check(tmp_path / "text")


# locks


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("mine"), os.mkdir])
def test_lock_is_a_regular_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "mine").write_text("mine")
    make(tmp_path / "lock")
    assert lock_holder(tmp_path) == ""
    with pytest.raises(DataError, match="cannot write it"), lock_folder(tmp_path, fail, fail):
        pytest.fail("locked")
    assert (tmp_path / "mine").read_text() == "mine"


def test_second_writer_learns_who_holds_the_lock(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert lock_holder(folder) == ""
    with lock_folder(folder, fail, fail):
        assert lock_holder(folder) == (folder / "lock").read_text()
        with pytest.raises(ConfigError, match=rf"^process {os.getpid()} on \S+$"), lock_folder(folder, fail, fail):
            pass
    assert lock_holder(folder) == ""
    with lock_folder(folder, fail, fail):
        pass
