"""A file that outlives its process: whatever stops it, and wherever, what comes out in the end is the same."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from nmt.translation.sinks import Work, resumable_file

WORK: Work = {"beam": 4, "model": "abc"}
PIECES = [[b"one", b"", b"th\xffree"], [b"four"], [b"five", b"six"], [b"", b"eight"]]


def made(piece: list[bytes]) -> str:
    return "".join(f"<{line.decode(errors='replace')}>\n" for line in piece)


WHOLE = "".join(map(made, PIECES)).encode()


def write(file: Path, count: int = len(PIECES), work: Work = WORK, pieces: list[list[bytes]] = PIECES) -> None:
    """Write so many pieces of what is left, and if there are more, stop as if interrupted."""
    with resumable_file(file, work) as output:
        for number, piece in enumerate(output.rest(pieces)):
            if number == count:
                raise KeyboardInterrupt
            output.add(piece, made(piece))


def interrupted(file: Path, count: int) -> tuple[Path, Path]:
    with pytest.raises(KeyboardInterrupt):
        write(file, count)
    return file.with_name(f"{file.name}.partial"), file.with_name(f"{file.name}.partial.journal")


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_it_goes_on_and_leaves_nothing_behind(tmp_path: Path, count: int) -> None:
    file = tmp_path / "out.txt"
    file.write_text("what was there before")
    partial, _ = interrupted(file, count)
    assert partial.read_bytes() == "".join(map(made, PIECES[:count])).encode()
    assert file.read_text() == "what was there before"
    with resumable_file(file, WORK) as output:
        assert output.lines == sum(map(len, PIECES[:count]))
        rest = list(output.rest(PIECES))
        assert rest == PIECES[count:]
        for piece in rest:
            output.add(piece, made(piece))
    assert file.read_bytes() == WHOLE
    assert os.listdir(tmp_path) == ["out.txt"]


def test_pieces_may_be_other_ones(tmp_path: Path) -> None:
    """From a pipe, lines come as they come."""
    interrupted(tmp_path / "out.txt", 2)
    write(tmp_path / "out.txt", 99, pieces=[[line] for piece in PIECES for line in piece])
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


@given(st.data())
def test_a_power_cut_anywhere(data: st.DataObject) -> None:
    """Any end of either file may be lost, or be rubbish that never was finished."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out.txt"
        for _ in range(data.draw(st.integers(0, 3))):
            partial, journal = interrupted(file, data.draw(st.integers(0, 1)))
            head = journal.read_bytes().index(b"\n") + 1
            for path, least in ((partial, 0), (journal, head)):
                content = path.read_bytes()
                content = content[: data.draw(st.integers(least, len(content)))]
                path.write_bytes(content + data.draw(st.sampled_from([b"", b"\0\0", b"{}x", b'{"lines": 7, "by'])))
        write(file)
        assert file.read_bytes() == WHOLE


def test_rubbish_in_the_place_of_lines_is_made_again(tmp_path: Path) -> None:
    partial, _ = interrupted(tmp_path / "out.txt", 2)
    content = partial.read_bytes()
    partial.write_bytes(content[:4] + b"?" * (len(content) - 4))
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


def test_other_work_is_not_mixed_in(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    partial, _ = interrupted(file, 2)
    with pytest.raises(ConfigError) as caught:
        write(file, work={"beam": 5, "model": "abc", "output": "JSON"})
    assert str(caught.value).splitlines() == [
        f"{partial}: begun by another command; give that one, or remove it to start afresh",
        "  beam: was 4, now 5",
        "  output: was None, now JSON",
    ]
    partial.unlink()
    write(file, work={"beam": 5})
    assert file.read_bytes() == WHOLE


def test_another_input_is_noticed(tmp_path: Path) -> None:
    interrupted(tmp_path / "out.txt", 2)
    for pieces, message in (
        (
            [[b"one", b"", b"three"], *PIECES[1:]],
            r"first 4 lines came from another input; .* remove .*\.partial to",
        ),
        (PIECES[:1], "4 lines of it done, but this one has 3"),
        ([[b"one"]], "4 lines of it done, but this one has 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            write(tmp_path / "out.txt", pieces=pieces)
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == WHOLE


@pytest.mark.parametrize("journal", [None, b"", b"{", b"[]\n", b'{"format_version": 1}\n'])
def test_without_a_journal_nobody_knows_what_it_is(tmp_path: Path, journal: bytes | None) -> None:
    partial, file = interrupted(tmp_path / "out.txt", 2)
    file.unlink()
    if journal is not None:
        file.write_bytes(journal)
    with pytest.raises(ConfigError, match=r"journal, which says what it was made from, is missing or damaged; remove"):
        write(tmp_path / "out.txt")
    assert partial.stat().st_size > 0


def test_one_process_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    with resumable_file(file, WORK) as output:
        with pytest.raises(ConfigError, match="another process is writing it"):
            write(file)
        for piece in output.rest(PIECES):
            output.add(piece, made(piece))
    assert file.read_bytes() == WHOLE


def test_a_link_leads_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out.txt").symlink_to(tmp_path / "disk" / "real.txt")
    write(tmp_path / "out.txt")
    assert (tmp_path / "out.txt").is_symlink()
    assert (tmp_path / "disk" / "real.txt").read_bytes() == WHOLE


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no/out\.txt: cannot write it: No such file"):
        write(tmp_path / "no" / "out.txt")


DRIVER = """
import os, random, resource, signal, sys
from pathlib import Path
from nmt.errors import DataError
from nmt.translation.sinks import resumable_file
from tests.kill_points import kill_at_call

file, kind, choose = Path(sys.argv[1]), sys.argv[2], random.Random(7)
PIECES = [[b"line %d" % (n * 7 + i) for i in range(n % 5 + 1)] for n in range(300)]
journal = file.with_name(file.name + ".partial.journal")


def certain():
    return journal.stat().st_size if journal.exists() else 0


def write(limit=None):
    with resumable_file(file, {"a": 1}) as output:
        for piece in output.rest(PIECES):
            text = "".join(line.decode().upper() * 9 + "\\n" for line in piece)
            output.add(piece, text)


def limited(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def small(size):
    # the disk has room for this much more
    try:
        limited(size)
        write()
    except DataError as error:
        assert "cannot write the translations: File too large" in str(error), error
        os._exit(3)
    os._exit(0)


ends = []
for number in range(1000):
    before, delay = certain(), choose.randrange(600)
    child = os.fork()
    if not child:
        if kind == "killed" and number < 100:
            kill_at_call(delay, begun=lambda: certain() > before, every=5)
        small(200 + 150 * number) if kind == "full" else write()
        os._exit(0)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ends[-1] == 0:
        break
print(len(ends) - 1, ends.count(-signal.SIGKILL), ends.count(3))
"""


@pytest.mark.parametrize("kind", ["killed", "full"])
def test_the_real_thing(tmp_path: Path, repository: Path, kind: str) -> None:
    """Killed at random moments, or out of room again and again, each time a little later."""
    file = tmp_path / "out.txt"
    command = [sys.executable, "-c", DRIVER, str(file), kind]
    done = subprocess.run(command, env={"PYTHONPATH": str(repository)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ends, killed, full = map(int, done.stdout.split())
    assert ends == (killed if kind == "killed" else full)
    assert ends >= 10
    lines = [f"LINE {n * 7 + i}" * 9 for n in range(300) for i in range(n % 5 + 1)]
    assert file.read_text() == "".join(line + "\n" for line in lines)
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, if this process may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        made = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs mount, which is not there")
    if made.returncode:
        pytest.skip(f"may not mount a disk here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_was_full(small_disk: Path) -> None:
    file = small_disk / "out.txt"
    (small_disk / "ballast").write_bytes(bytes(40_000))
    pieces = [[b"x" * 5000] for _ in range(8)]
    with pytest.raises(DataError, match="cannot write the translations: No space left"):
        write(file, 99, pieces=pieces)
    (small_disk / "ballast").unlink()
    with resumable_file(file, WORK) as output:
        assert output.lines >= 2
        for piece in output.rest(pieces):
            output.add(piece, made(piece))
    assert file.read_text() == "".join(map(made, pieces))
