"""Resumable output: the complete file does not depend on interruptions."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from nmt.translation.sinks import Fingerprint, resumable_file

FINGERPRINT: Fingerprint = {"beam": 4, "model": "abc"}
BATCHES = [[b"one", b"", b"th\xffree"], [b"four"], [b"five", b"six"], [b"", b"eight"]]


def made(batch: list[bytes]) -> str:
    return "".join(f"<{line.decode(errors='replace')}>\n" for line in batch)


WHOLE = "".join(map(made, BATCHES)).encode()


def write(
    file: Path, count: int = len(BATCHES), fingerprint: Fingerprint = FINGERPRINT, batches: list[list[bytes]] = BATCHES
) -> None:
    """Write the next `count` batches; if more remain, stop as an interruption does."""
    with resumable_file(file, fingerprint) as output:
        for number, batch in enumerate(output.remaining(batches)):
            if number == count:
                raise KeyboardInterrupt
            output.write(batch, made(batch))


def interrupted(file: Path, count: int) -> tuple[Path, Path]:
    with pytest.raises(KeyboardInterrupt):
        write(file, count)
    return file.with_name(f"{file.name}.partial"), file.with_name(f"{file.name}.partial.journal")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_resumed_file_equals_an_uninterrupted_one(tmp_path: Path, count: int) -> None:
    file = tmp_path / "out.txt"
    file.write_text("what was there before")
    partial, _ = interrupted(file, count)
    assert partial.read_bytes() == "".join(map(made, BATCHES[:count])).encode()
    assert file.read_text() == "what was there before"
    with resumable_file(file, FINGERPRINT) as output:
        assert output.lines == sum(map(len, BATCHES[:count]))
        rest = list(output.remaining(BATCHES))
        assert rest == BATCHES[count:]
        for batch in rest:
            output.write(batch, made(batch))
    assert file.read_bytes() == WHOLE
    assert os.listdir(tmp_path) == ["out.txt"]


def test_resuming_with_other_batches_gives_the_same_file(tmp_path: Path) -> None:
    """Batches read from a pipe depend on timing."""
    interrupted(tmp_path / "out.txt", 2)
    write(tmp_path / "out.txt", 99, batches=[[line] for batch in BATCHES for line in batch])
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


@given(st.data())
def test_power_cut_anywhere_is_recovered(data: st.DataObject) -> None:
    """Any end of either file may be lost or be garbage."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.txt"
        for _ in range(data.draw(st.integers(0, 3))):
            partial, journal = interrupted(file, 1)
            head = journal.read_bytes().index(b"\n") + 1
            for path, least in ((partial, 0), (journal, head)):
                content = path.read_bytes()
                content = content[: data.draw(st.integers(least, len(content)))]
                path.write_bytes(content + data.draw(st.sampled_from([b"", b"\0\0", b"{}x", b'{"lines": 7, "by'])))
        write(file)
        assert file.read_bytes() == WHOLE


def test_garbage_in_the_partial_file_is_written_again(tmp_path: Path) -> None:
    partial, _ = interrupted(tmp_path / "out.txt", 2)
    content = partial.read_bytes()
    partial.write_bytes(content[:4] + b"?" * (len(content) - 4))
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


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


def test_another_input_is_refused(tmp_path: Path) -> None:
    interrupted(tmp_path / "out.txt", 2)
    for batches, message in (
        (
            [[b"one", b"", b"three"], *BATCHES[1:]],
            r"first 4 lines came from another input; .* remove .*\.partial to",
        ),
        (BATCHES[:1], "4 lines of it done, but this one has 3"),
        ([[b"one"]], "4 lines of it done, but this one has 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            write(tmp_path / "out.txt", batches=batches)
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


@pytest.mark.parametrize("journal", [None, b"", b"{", b"[]\n", b'{"format_version": 2}\n', b'{"version": 1}\n'])
def test_partial_file_without_a_journal_is_refused(tmp_path: Path, journal: bytes | None) -> None:
    partial, file = interrupted(tmp_path / "out.txt", 2)
    file.unlink()
    if journal is not None:
        file.write_bytes(journal)
    with pytest.raises(ConfigError, match=r"journal, the record of its work, is missing or damaged; remove"):
        write(tmp_path / "out.txt")
    assert partial.stat().st_size > 0


def test_second_process_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    with resumable_file(file, FINGERPRINT) as output:
        with pytest.raises(ConfigError, match="another process is writing it"):
            write(file)
        for batch in output.remaining(BATCHES):
            output.write(batch, made(batch))
    assert file.read_bytes() == WHOLE


def test_symbolic_link_is_kept(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out.txt").symlink_to(tmp_path / "disk" / "real.txt")
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").is_symlink()
    assert (tmp_path / "disk" / "real.txt").read_bytes() == WHOLE


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no/out\.txt: cannot write it: out\.txt\.partial: No such file"):
        write(tmp_path / "no" / "out.txt")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_mode_and_owner_of_the_file_are_kept(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "out.txt"
    file.touch()
    file.chmod(mode)
    if os.geteuid() == 0:
        os.chown(file, 12345, 54321)
    before = file.stat()
    partial, journal = interrupted(file, 2)
    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (partial, journal)] == [0, 0], (
        "readable by the owner only"
    )
    write(file)
    after = file.stat()
    assert file.read_bytes() == WHOLE
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_new_file_follows_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "out.txt")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o666 & ~umask


def test_read_only_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text("precious")
    file.chmod(0o444)  # also for root, for whom os.access permits everything
    with pytest.raises(ConfigError, match=r"out\.txt: cannot write it: it is read-only"):
        write(file)
    assert file.read_text() == "precious"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("count", [0, 1])
def test_interrupted_file_without_output_leaves_nothing_behind(tmp_path: Path, count: int) -> None:
    file = tmp_path / "out.txt"
    file.write_text("before")
    interrupted(file, count)
    assert len(os.listdir(tmp_path)) == (3 if count else 1)
    with pytest.raises(KeyboardInterrupt), resumable_file(file, FINGERPRINT):
        raise KeyboardInterrupt
    assert len(os.listdir(tmp_path)) == (3 if count else 1)
    assert file.read_text() == "before"


@pytest.mark.parametrize("content", [b"", b"notes of a user\n", b"{}"])
@pytest.mark.parametrize("name", ["out.txt.partial", "out.txt.partial.journal"])
def test_files_of_users_with_these_names_are_not_changed(tmp_path: Path, name: str, content: bytes) -> None:
    if not content:
        (tmp_path / "notes").write_text("notes")
        (tmp_path / name).symlink_to("notes")
    else:
        (tmp_path / name).write_bytes(content)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises((ConfigError, DataError), match=r"out\.txt.*(cannot continue|cannot write it)"):
        write(tmp_path / "out.txt")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_partial_file_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    partial, journal = interrupted(tmp_path / "out.txt", 2)
    journal.write_text('{"format_version": 1, "work": {"beam": 4}}\n')
    message = r"written by another version of nmt \(format 1, expected 2\); finish it with that version, or remove .*"
    with pytest.raises(ConfigError, match=message):
        write(tmp_path / "out.txt")
    partial.unlink()
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


DRIVER = """
import os, random, resource, signal, sys
from pathlib import Path
from nmt.errors import DataError
from nmt.translation.sinks import ResumableFile, resumable_file
from tests.kill_points import kill_at_call

file, kind, choose = Path(sys.argv[1]), sys.argv[2], random.Random(7)
BATCHES = [[b"line %d" % (n * 7 + i) for i in range(n % 5 + 1)] for n in range(300)]


def write(limit=None):
    with resumable_file(file, {"a": 1}) as output:
        for batch in output.remaining(BATCHES):
            text = "".join(line.decode().upper() * 9 + "\\n" for line in batch)
            output.write(batch, text)


def limited(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def small(size):
    # the disk has space for this much more
    try:
        limited(size)
        write()
    except DataError as error:
        assert "cannot write the translations: File too large" in str(error), error
        os._exit(3)
    os._exit(0)


ends = []
for number in range(1000):
    calls, times = choose.randrange(600), choose.randint(1, 12)
    child = os.fork()
    if not child:
        if kind == "killed":
            kill_at_call(calls, after=(ResumableFile, "write"), times=times)
        small(200 + 1200 * number) if kind == "full" else write()
        os._exit(0)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ends[-1] == 0:
        break
print(len(ends) - 1, ends.count(-signal.SIGKILL), ends.count(3))
"""


@pytest.mark.parametrize("kind", ["killed", "full"])
def test_killed_processes_and_full_disks_resume(tmp_path: Path, warm_python: str, kind: str) -> None:
    """The process is killed at random times, or fails with a full disk later each time."""
    file = tmp_path / "out.txt"
    command = [warm_python, "-c", DRIVER, str(file), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ends, killed, full = map(int, done.stdout.split())
    assert ends == (killed if kind == "killed" else full)
    assert ends >= 10
    lines = [f"LINE {n * 7 + i}" * 9 for n in range(300) for i in range(n % 5 + 1)]
    assert file.read_text() == "".join(line + "\n" for line in lines)
    assert os.listdir(tmp_path) == ["out.txt"]


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
    with pytest.raises(DataError, match="cannot write the translations: No space left"):
        write(file, 99, batches=batches)
    (small_disk / "ballast").unlink()
    with resumable_file(file, FINGERPRINT) as output:
        assert output.lines >= 2
        for batch in output.remaining(batches):
            output.write(batch, made(batch))
    assert file.read_text() == "".join(map(made, batches))
