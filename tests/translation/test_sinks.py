"""Resumable output: the complete file does not depend on interruptions."""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from unittest.mock import Mock

import pytest

from nmt.errors import ConfigError, DataError
from nmt.translation.sinks import Fingerprint, StreamOutput, resumable_file
from tests.kill_points import kill_at_call

FINGERPRINT: Fingerprint = {"beam": 4, "model": "abc"}
BATCHES = [[b"one", b"", b"th\xffree"], [b"four"], [b"five", b"six"], [b"", b"eight"]]


def made(batch: list[bytes]) -> bytes:
    return b"".join(b"<%s>\n" % line for line in batch)


WHOLE = b"".join(map(made, BATCHES))


def write(
    file: Path, count: int = len(BATCHES), fingerprint: Fingerprint = FINGERPRINT, batches: list[list[bytes]] = BATCHES
) -> None:
    """Write the next `count` batches; if more remain, stop as an interruption does."""
    with resumable_file(file, fingerprint) as output:
        for batch in batches:
            if remaining := output.remaining(batch):
                if not count:
                    raise KeyboardInterrupt
                count -= 1
                output.write(remaining, made(remaining))


def interrupted(file: Path, count: int) -> tuple[Path, Path]:
    with pytest.raises(KeyboardInterrupt):
        write(file, count)
    return file.with_name(f"{file.name}.partial"), file.with_name(f"{file.name}.partial.json")


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("other", [BATCHES, [[line] for batch in BATCHES for line in batch]], ids=["same", "single"])
def test_resumed_file_equals_an_uninterrupted_one(tmp_path: Path, count: int, other: list[list[bytes]]) -> None:
    """Also with other batches: those read from a pipe depend on timing."""
    file = tmp_path / "out.txt"
    file.write_text("what was there before")
    partial, _ = interrupted(file, count)
    assert partial.read_bytes() == b"".join(map(made, BATCHES[:count]))
    assert file.read_text() == "what was there before"
    with partial.open("ab") as stream:
        stream.write(b"written, but not recorded")
    with resumable_file(file, FINGERPRINT) as output:
        assert output.lines == sum(map(len, BATCHES[:count]))
        rest = [remaining for batch in other if (remaining := output.remaining(batch))]
        assert list(chain(*rest)) == list(chain(*BATCHES[count:]))
        for batch in rest:
            output.write(batch, made(batch))
    assert file.read_bytes() == WHOLE
    assert os.listdir(tmp_path) == ["out.txt"]


def test_partial_file_of_another_command_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    partial, _ = interrupted(file, 2)
    with pytest.raises(ConfigError) as caught:
        write(file, fingerprint={"beam": 5, "model": "abc", "output": "JSON"})
    assert str(caught.value).splitlines() == [
        f"{partial}: begun by another command; repeat that, or remove it to start again",
        "  beam: was 4, now 5",
        '  output: was null, now "JSON"',
    ]
    partial.unlink()
    write(file, fingerprint={"beam": 5})
    assert file.read_bytes() == WHOLE


def test_shorter_input_is_refused(tmp_path: Path) -> None:
    interrupted(tmp_path / "out.txt", 2)
    for batches, found in ((BATCHES[:1], 3), ([[b"one"]], 1)):
        with pytest.raises(
            ConfigError, match=rf"it had at least 4 lines, but this one has {found}; .* remove .*\.partial to"
        ):
            write(tmp_path / "out.txt", batches=batches)
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


@pytest.mark.parametrize("changed", range(4))
def test_input_with_another_processed_line_is_refused(tmp_path: Path, changed: int) -> None:
    """Also of a pipe, which has neither a size nor a time."""
    partial, _ = interrupted(tmp_path / "out.txt", 2)
    lines = list(chain(*BATCHES))
    for other in ([b"other"], lines[changed].split(b"r"), []):
        if [*lines[:changed], *other, *lines[changed + 1 :]] != lines:
            with pytest.raises(ConfigError, match="made from another input: the first 4 lines differ; give the same"):
                write(tmp_path / "out.txt", batches=[[*lines[:changed], *other, *lines[changed + 1 :]]])
    assert partial.read_bytes() == b"".join(map(made, BATCHES[:2]))
    write(tmp_path / "out.txt", batches=[[*lines[:4], b"not processed before"]])
    assert (tmp_path / "out.txt").read_bytes() == made([*lines[:4], b"not processed before"])


def test_file_killed_anywhere_between_data_and_record_is_resumed(tmp_path: Path) -> None:
    file, points, code = tmp_path / "out.txt", 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        child = os.fork()
        if not child:
            kill_at_call(points, after=(StreamOutput, "write"), times=2)
            write(file, batches=BATCHES[:2])
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        write(file, batches=BATCHES[:2])
        assert file.read_bytes() == b"".join(map(made, BATCHES[:2])), points
        points += 3
    assert (code, points > 30) == (0, True)


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"fingerprint": {}, "bytes": 0, "lines": 4}'])
def test_partial_file_without_a_record_is_refused(tmp_path: Path, content: str | None) -> None:
    partial, record = interrupted(tmp_path / "out.txt", 2)
    record.unlink()
    if content is not None:
        record.write_text(content)
    with pytest.raises(ConfigError, match=r"json, the record of its work, is missing or damaged; remove"):
        write(tmp_path / "out.txt")
    assert partial.stat().st_size > 0


@pytest.mark.parametrize("name", ["out.txt.partial", "out.txt.partial.json.new"])
def test_link_in_place_of_the_partial_file_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / name).symlink_to("mine")
    with pytest.raises(
        DataError, match=rf"cannot write it: .*{name} is a symbolic link, not a regular file; name another"
    ):
        write(tmp_path / "out.txt")
    assert (tmp_path / "mine").read_text() == "mine"


def test_truncated_partial_file_is_refused(tmp_path: Path) -> None:
    partial, _ = interrupted(tmp_path / "out.txt", 2)
    os.truncate(partial, 5)
    with pytest.raises(ConfigError, match="is missing or damaged; remove both to start again"):
        write(tmp_path / "out.txt")


def test_second_process_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    with resumable_file(file, FINGERPRINT) as output:
        with pytest.raises(ConfigError, match="another process is writing it"):
            write(file)
        for batch in BATCHES:
            output.write(batch, made(batch))
    assert file.read_bytes() == WHOLE


def test_symbolic_link_is_kept(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out.txt").symlink_to(tmp_path / "disk" / "real.txt")
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").is_symlink()
    assert (tmp_path / "disk" / "real.txt").read_bytes() == WHOLE


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no/out\.txt: cannot write it: No such file"):
        write(tmp_path / "no" / "out.txt")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_mode_of_the_file_is_kept(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "out.txt"
    file.touch()
    file.chmod(mode)
    partial, _ = interrupted(file, 2)
    assert stat.S_IMODE(partial.stat().st_mode) == mode
    write(file)
    assert file.read_bytes() == WHOLE
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_new_file_follows_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "out.txt")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("count", [0, 1])
def test_interrupted_file_without_output_leaves_nothing_behind(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out.txt"
    file.write_text("before")
    interrupted(file, count)
    assert len(os.listdir(tmp_path)) == (3 if count else 1)
    with pytest.raises(KeyboardInterrupt), resumable_file(file, FINGERPRINT):
        raise KeyboardInterrupt
    with pytest.raises(TypeError), resumable_file(file, FINGERPRINT) as output:
        output.write([b"a line"], None)  # type: ignore[arg-type]  # fails as on a full disk, after the first record
    monkeypatch.setattr("nmt.translation.sinks.json.dumps", Mock(side_effect=OSError("a full disk")))  # in the record
    with pytest.raises(DataError), resumable_file(file, FINGERPRINT) as output:
        output.write([b"a line"], b"")
    assert len(os.listdir(tmp_path)) == (3 if count else 1)
    assert file.read_text() == "before"


def test_file_of_a_user_with_this_name_is_not_changed(tmp_path: Path) -> None:
    partial = tmp_path / "out.txt.partial"
    partial.write_bytes(b"notes of a user\n")
    with pytest.raises(ConfigError, match=r"out\.txt\.partial: cannot continue"):
        write(tmp_path / "out.txt")
    assert os.listdir(tmp_path) == [partial.name]
    assert partial.read_bytes() == b"notes of a user\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, if this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        made = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs mount, which does not exist")
    if made.returncode:
        pytest.skip(f"may not mount a disk here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_translation_resumes_after_a_full_disk(small_disk: Path) -> None:
    file = small_disk / "out.txt"
    (small_disk / "ballast").write_bytes(bytes(40_000))
    batches = [[b"x" * 5000] for _ in range(8)]
    with pytest.raises(DataError, match=r"cannot write.* No space left"):
        write(file, 99, batches=batches)
    (small_disk / "ballast").unlink()
    with resumable_file(file, FINGERPRINT) as output:
        assert output.lines >= 2
        for batch in filter(None, map(output.remaining, batches)):
            output.write(batch, made(batch))
    assert file.read_bytes() == b"".join(map(made, batches))
