"""Atomic writes: complete contents, no temporary files left, and locks."""

import errno
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from nmt.errors import ConfigError, DataError
from nmt.system import files
from nmt.system.files import atomic_file, lock_file, replace_file, replace_link, replace_text, staged_directory


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_and_raise(directory: Path, error: BaseException) -> None:
    with staged_directory(directory) as staging:
        (staging / "new").write_text("new")
        raise error


def test_directory_appears_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "corpus"
    with staged_directory(target) as staging:
        (staging / "part").mkdir()
        (staging / "part" / "file").write_text("x")
        assert not target.exists()
        assert staging.parent == target.parent
    assert (target / "part" / "file").read_text() == "x"
    assert names(target.parent) == ["corpus"]


def test_permissions_are_those_of_a_plain_mkdir(tmp_path: Path) -> None:
    with staged_directory(tmp_path / "corpus"):
        pass
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "corpus").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_write_directory_replaces_the_old_one(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with staged_directory(tmp_path / "corpus") as staging:
            (staging / content).write_text(content)
    assert names(tmp_path / "corpus") == ["new"]
    assert names(tmp_path) == ["corpus"]


@pytest.mark.parametrize("error", [ValueError("bug"), KeyboardInterrupt()])
def test_exception_leaves_the_old_directory(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "old").write_text("old")
    with pytest.raises(type(error)):
        write_and_raise(tmp_path / "corpus", error)
    assert names(tmp_path) == ["corpus"]
    assert names(tmp_path / "corpus") == ["old"]


def test_full_disk_is_a_data_error(tmp_path: Path) -> None:
    expected = r"corpus: cannot write it: No space left on device; free some space, or name another folder"
    with pytest.raises(DataError, match=expected):
        write_and_raise(tmp_path / "corpus", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert names(tmp_path) == []


def test_parent_that_is_a_file_is_a_data_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"corpus: cannot write it: .*/file is a file, not a folder; name another folder"
    ):
        write_and_raise(tmp_path / "file" / "corpus", ValueError("not reached"))


def test_symbolic_link_is_kept(tmp_path: Path) -> None:
    (tmp_path / "big_disk").mkdir()
    (tmp_path / "corpus").symlink_to(tmp_path / "big_disk" / "corpus")
    for content in ("old", "new"):
        with staged_directory(tmp_path / "corpus") as staging:
            (staging / content).write_text(content)
    assert (tmp_path / "corpus").is_symlink()
    assert names(tmp_path / "big_disk" / "corpus") == ["new"]
    assert names(tmp_path / "big_disk") == ["corpus"]


def test_files_get_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with staged_directory(tmp_path / "model") as staging:
            os.close(os.open(staging / "private", os.O_CREAT | os.O_WRONLY, 0o600))
            (staging / "plain").write_text("x")
        modes = {(tmp_path / "model" / name).stat().st_mode & 0o777 for name in ("private", "plain")}
    finally:
        os.umask(before)
    assert modes == {0o640}
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750


def test_directory_exists_at_any_time_during_its_replacement(tmp_path: Path) -> None:
    """Only on systems that can exchange two names; elsewhere readers hold a lock."""
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    if not files._exchange(tmp_path / "new", tmp_path / "old"):
        pytest.skip("needs a system call that exchanges two names")
    assert (names(tmp_path / "new"), names(tmp_path / "old")) == (["old"], ["new"])


def test_without_exchange_two_renames_replace_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_exchange", lambda _one, _other: False)
    test_write_directory_replaces_the_old_one(tmp_path)


def test_folders_named_like_a_staging_folder_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".corpus.staging-mine").mkdir()
    with staged_directory(tmp_path / "corpus"):
        pass
    assert names(tmp_path) == [".corpus.staging-mine", "corpus"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path, warm_python: str) -> None:
    script = (
        "import os, sys; from pathlib import Path; from nmt.system.files import staged_directory\n"
        "with staged_directory(Path(sys.argv[1])) as staging:\n"
        "    (staging / 'half').write_text('x'); print(os.getpid(), flush=True); sys.stdin.read()\n"
    )
    command = [warm_python, "-c", script, str(tmp_path / "corpus")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        writer = int(process.stdout.readline())
        # the other process is alive: its files are kept
        with staged_directory(tmp_path / "corpus"):
            pass
        assert len(names(tmp_path)) == 2
        os.kill(writer, signal.SIGKILL)
        process.wait()
    assert len(names(tmp_path)) == 2
    with staged_directory(tmp_path / "corpus") as staging:
        (staging / "whole").write_text("x")
    assert names(tmp_path) == ["corpus"]
    assert names(tmp_path / "corpus") == ["whole"]


def test_concurrent_writers_leave_one_complete_directory(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(content: str) -> None:
        try:
            for _ in range(10):
                with staged_directory(tmp_path / "corpus") as staging:
                    for name in "abc":
                        (staging / name).write_text(content)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert names(tmp_path) == ["corpus"]
    assert len({(tmp_path / "corpus" / name).read_text() for name in "abc"}) == 1


# files and links


def test_replace_text_is_atomic_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / ".x.json.partial").write_text("of a killed process")
    (tmp_path / "x.partial").write_text("mine")
    for content in ("old", "new"):
        replace_text(tmp_path / "x.json", content)
        assert (tmp_path / "x.json").read_text() == content
    assert names(tmp_path) == ["x.json", "x.partial"]
    with pytest.raises(DataError, match="cannot write it: No such file"):
        replace_text(tmp_path / "nowhere" / "x", "")


def _write_file_and_raise(file: Path, error: BaseException) -> None:
    with atomic_file(file) as stream:
        stream.write(b"new")
        raise error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_atomic_file_is_as_before_after_an_exception(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "x"
    for before in (None, "old"):
        if before is not None:
            file.write_text(before)
        with pytest.raises(type(error)):
            _write_file_and_raise(file, error)
        assert [path.read_text() for path in tmp_path.iterdir()] == ([] if before is None else [before])


def test_atomic_file_of_two_writers_at_once_has_the_content_of_the_last(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with atomic_file(file) as first, atomic_file(file) as second:
        first.write(b"first")
        second.write(b"second")
        assert not file.exists()
    assert file.read_bytes() == b"first"
    assert names(tmp_path) == ["x"]


def test_atomic_file_keeps_a_file_with_the_name_of_its_partial(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileExistsError), atomic_file(tmp_path / "x", tmp_path / "mine"):
        pass
    assert (names(tmp_path), (tmp_path / "mine").read_text()) == (["mine"], "mine")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_replace_file_keeps_permissions(tmp_path: Path, mode: int) -> None:
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(mode)
    (tmp_path / "partial").write_text("new")
    replace_file(tmp_path / "partial", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "new"
    assert (tmp_path / "out").stat().st_mode & 0o777 == mode
    assert names(tmp_path) == ["out"]


def test_replace_file_copies_where_the_owner_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refused)
    (tmp_path / "out").write_text("a longer text")
    number = (tmp_path / "out").stat().st_ino
    (tmp_path / "partial").write_text("new")
    replace_file(tmp_path / "partial", tmp_path / "out")
    assert ((tmp_path / "out").read_text(), (tmp_path / "out").stat().st_ino) == ("new", number)
    assert names(tmp_path) == ["out"]


def test_replace_link_sets_the_new_target(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        replace_link(tmp_path / "last", tmp_path / name)
        assert os.readlink(tmp_path / "last") == name
    assert names(tmp_path) == ["last", "one", "two"]


def test_replace_link_removes_the_leftover_of_a_killed_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_partial: Path, _link: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            replace_link(tmp_path / "last", tmp_path / "one")
    assert names(tmp_path) == [".last.partial"]
    replace_link(tmp_path / "last", tmp_path / "two")
    assert names(tmp_path) == ["last"]
    assert os.readlink(tmp_path / "last") == "two"


# locks


def fail(message: str) -> None:
    raise ConfigError(message)


def test_a_held_lock_is_reported(tmp_path: Path) -> None:
    with lock_file(tmp_path / "lock", fail, fail):
        with pytest.raises(ConfigError, match=rf"process {os.getpid()} on "), lock_file(tmp_path / "lock", fail, fail):
            pass
        assert names(tmp_path) == ["lock"]
    with lock_file(tmp_path / "lock", fail, fail):
        pass
    assert names(tmp_path) == []


def test_lock_waits_for_its_release(tmp_path: Path) -> None:
    inside, waited, failures = 0, 0, 0

    def count(_message: str) -> None:
        nonlocal waited
        waited += 1

    def work() -> None:
        nonlocal inside, failures
        for _ in range(30):
            with lock_file(tmp_path / "lock", count, fail):
                inside += 1
                failures += inside != 1
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == 0
    assert names(tmp_path) == []


def test_a_file_system_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    messages: list[str] = []
    with lock_file(tmp_path / "lock", fail, messages.append):
        assert len(messages) == 1
        assert "no locks on this file system" in messages[0]
    with staged_directory(tmp_path / "corpus"):
        pass
    assert names(tmp_path) == ["corpus"]


def test_a_foreign_lock_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("mine")
    with (
        pytest.raises(ConfigError, match="expected a lock file that nmt wrote"),
        lock_file(tmp_path / "lock", fail, fail),
    ):
        pass
    assert (tmp_path / "lock").read_text() == "mine"


def test_lock_in_a_folder_of_another_account_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may write everywhere
    message = f"{tmp_path}: cannot write lock here: Permission denied; name another folder"
    with pytest.raises(DataError, match=re.escape(message)), lock_file(tmp_path / "lock", print, print):
        pass
