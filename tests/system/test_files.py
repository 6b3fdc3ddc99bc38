"""staged_directory: the name appears only with all its content, and nothing is left behind."""

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.system.files import staged_directory


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_and_raise(directory: Path, error: BaseException) -> None:
    with staged_directory(directory) as staging:
        (staging / "new").write_text("new")
        raise error


def test_content_appears_at_the_end(tmp_path: Path) -> None:
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


def test_replaces_what_was_there(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with staged_directory(tmp_path / "corpus") as staging:
            (staging / content).write_text(content)
    assert names(tmp_path / "corpus") == ["new"]
    assert names(tmp_path) == ["corpus"]


@pytest.mark.parametrize("error", [ValueError("bug"), KeyboardInterrupt()])
def test_an_exception_leaves_all_as_it_was(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "old").write_text("old")
    with pytest.raises(type(error)):
        write_and_raise(tmp_path / "corpus", error)
    assert names(tmp_path) == ["corpus"]
    assert names(tmp_path / "corpus") == ["old"]


def test_full_disk(tmp_path: Path) -> None:
    expected = r"corpus: cannot write it: No space left on device; free some space, or name another folder"
    with pytest.raises(DataError, match=expected):
        write_and_raise(tmp_path / "corpus", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert names(tmp_path) == []


def test_parent_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"corpus: cannot write it: .*/file is a file, not a folder; name another folder"
    ):
        write_and_raise(tmp_path / "file" / "corpus", ValueError("not reached"))


def test_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "big_disk").mkdir()
    (tmp_path / "corpus").symlink_to(tmp_path / "big_disk" / "corpus")
    for content in ("old", "new"):
        with staged_directory(tmp_path / "corpus") as staging:
            (staging / content).write_text(content)
    assert (tmp_path / "corpus").is_symlink()
    assert names(tmp_path / "big_disk" / "corpus") == ["new"]
    assert names(tmp_path / "big_disk") == ["corpus"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from nmt.system.files import staged_directory\n"
        "with staged_directory(Path(sys.argv[1])) as staging:\n"
        "    (staging / 'half').write_text('x'); print('ready', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "corpus")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        # the other process lives: what it writes is not touched
        with staged_directory(tmp_path / "corpus"):
            pass
        assert len(names(tmp_path)) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(names(tmp_path)) == 2
    with staged_directory(tmp_path / "corpus") as staging:
        (staging / "whole").write_text("x")
    assert names(tmp_path) == ["corpus"]
    assert names(tmp_path / "corpus") == ["whole"]


def test_many_writers_at_once_leave_one_whole_directory(tmp_path: Path) -> None:
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
