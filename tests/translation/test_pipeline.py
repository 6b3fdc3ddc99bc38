"""Streams of lines: line batches, pipes, files, interruptions, several processes."""

import io
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.kernels.compiling import library
from nmt.system.console import AdvanceTo, Console
from nmt.text.languages import _identifier
from nmt.translation import pipeline
from nmt.translation.pipeline import LineInput, foreign_input, read_batches, translate_stream
from nmt.translation.sinks import StreamOutput, is_stream, open_output
from nmt.translation.translator import Translator
from tests.builders import (
    SENTENCES,
    SHORT_OUTPUT,
    run_command,
    save_model,
    tiny_loaded_model,
    translate_bytes,
    translated_stream,
    translated_texts,
)
from tests.time_limit import seconds_of_the_processor

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a model directory."""
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save_model(directory, tiny_loaded_model())
    return directory


class TestStream:
    @pytest.mark.parametrize("count", [100, 6000])
    def test_line_batches_of_a_file_are_full(self, tmp_path: Path, count: int) -> None:
        file = tmp_path / "lines.txt"
        file.write_bytes(b"".join(b"%d\n" % number for number in range(30_000)) + b"last")
        with file.open("rb") as source:
            batches = list(read_batches(source, count))
        assert [line for batch in batches for line in batch] == file.read_bytes().split(b"\n")
        assert len(batches) > 1
        assert {len(batch) for batch in batches[:-1]} == {count}

    @given(st.binary(max_size=60), st.integers(1, 7))
    def test_lines_equal_those_of_split(self, data: bytes, chunk: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "_CHUNK_BYTES", chunk)
            lines = [line for batch in read_batches(io.BytesIO(data), 3) for line in batch]
        expected = data.split(b"\n")
        assert lines == (expected if expected[-1] else expected[:-1])

    def test_a_long_line_is_read_in_linear_time(self) -> None:
        """20 MB took 3.4 s, 100 MB over 80 s, where the unfinished line was copied with each chunk."""
        line = b"a" * 100_000_000
        with seconds_of_the_processor():
            assert [found for batch in read_batches(io.BytesIO(line + b"\nb"), 3) for found in batch] == [line, b"b"]

    def test_each_line_of_a_pipe_is_answered_at_once(self, translator: Translator) -> None:
        to_us, from_us = os.pipe(), os.pipe()
        options = translator.options(beam=1)

        def serve() -> None:
            with open(to_us[0], "rb") as source, open(from_us[1], "wb") as output:
                translate_stream(translator, LineInput(source), StreamOutput(output), options, False, QUIET)

        server = threading.Thread(target=serve)
        server.start()
        with open(to_us[1], "wb", buffering=0) as ask, open(from_us[0], "rb") as answer:
            for line in SENTENCES:
                # the second half of a line may arrive later
                ask.write(line.encode()[:4])
                time.sleep(0.01)
                ask.write(line.encode()[4:] + b"\n")
                assert answer.readline().decode().rstrip("\n") == translated_texts(translator, [line], beam=1)[0]
            ask.close()
            assert answer.read() == b""
        server.join()

    def test_closed_pipe_ends_the_translation(self, translator: Translator) -> None:
        read_end, write_end = os.pipe()
        os.close(read_end)
        output = open(write_end, "wb", buffering=0)  # noqa: SIM115
        source = io.BytesIO(b"a dog\n")
        with output, pytest.raises(BrokenPipeError):
            translate_stream(translator, LineInput(source), StreamOutput(output), translator.options(), False, QUIET)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
    def test_full_disk_is_an_error(self, translator: Translator) -> None:
        source = io.BytesIO(b"a dog\n")
        # closing the file must not raise again
        with (
            open_output(Path("/dev/full"), {}) as output,
            pytest.raises(DataError, match=r"cannot write .* No space"),
        ):
            translate_stream(translator, LineInput(source), output, translator.options(), False, QUIET)

    def test_progress_is_shown_after_each_line_batch(
        self, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Translator, "batch_lines", 60)
        monkeypatch.setattr(pipeline, "_CHUNK_BYTES", 100)
        file = tmp_path / "in.txt"
        file.write_text("".join(f"the cat {n:03}\n" for n in range(150)))
        console = RecordingConsole()
        with file.open("rb") as source:
            options = translator.options(beam=1)
            translate_stream(translator, LineInput(source, 60), StreamOutput(io.BytesIO()), options, False, console)
        assert console.shown == sorted(console.shown)
        assert len(console.shown) == 3
        assert console.shown[-1] == (150, file.stat().st_size)

    def test_n_best_output_is_a_table(self, translator: Translator) -> None:
        rows = translate_bytes(translator, b"a dog\n\nthe cat sleeps\n", n_best=3).decode().splitlines()
        table = [row.split("\t") for row in rows]
        assert [(line, rank) for line, rank, _, _ in table if line != "2"] == [
            (line, rank) for line in "13" for rank in "123"
        ]
        assert [row for row in rows if row.startswith("2\t")] == ["2\t1\t0.0000\t"]
        best = translated_texts(translator, ["a dog", "the cat sleeps"], n_best=3)
        assert [table[0][3], table[-3][3]] == best


class RecordingConsole(Console):
    """A console that records the reported progress."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.shown: list[tuple[int, int]] = []

    @contextmanager
    def progress_through(self, label: str, size: int | None, unit: str) -> Iterator[AdvanceTo]:
        yield lambda amount, place: self.shown.append((amount, place))


DRIVER = """
import os, random, signal, sys
import nmt.cli, nmt.commands.translate, nmt.translation.pipeline
from nmt.translation.sinks import ResumableFile
from nmt.translation.translator import Translator
from tests.kill_points import kill_at_call

choose, kills = random.Random(3), 5
Translator.batch_lines, nmt.translation.pipeline._CHUNK_BYTES = 8, 40
sys.argv[1:] = ["translate", "--output", *sys.argv[1:]]
for number in range(kills + 1):
    calls = choose.randrange(6_000)
    child = os.fork()
    if not child:
        if number < kills:
            # after the first line batch of each process, so that the translation gets further
            kill = signal.SIGKILL if number % 5 else signal.SIGINT
            kill_at_call(calls, kill, after=(ResumableFile, "write"))
        nmt.cli.main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def interrupt_at_the_end(file: Path) -> Callable[[Path, Path], Path]:
    """Return a `Path.replace` that interrupts the process in place of giving a file its name."""
    replace = Path.replace

    def interrupting(path: Path, target: Path) -> Path:
        if target == file:
            raise KeyboardInterrupt
        return replace(path, target)

    return interrupting


class TestInterrupted:
    def test_killed_command_resumes_to_the_same_output(
        self, translator: Translator, model: Path, tmp_path: Path, warm_python: str
    ) -> None:
        odd = [b"", b" ", b"\xff\xfe", b"a dog \r", "\u2028".encode()]
        lines = [b" ".join(b"the cat sleeps on the mat".split()[: n % 7]) + b" moon" * (n % 5) for n in range(100)]
        lines += odd * 5
        (tmp_path / "in.txt").write_bytes(b"\n".join(lines))
        command = [warm_python, "-c", DRIVER, str(tmp_path / "out.txt")]
        command += ["-i", str(tmp_path / "in.txt"), "--n-best", "2"]
        command += ["-m", str(model), "--threads", "1", "--device", "cpu", "--set", "decode.batch_tokens=60", "-q"]
        command += ["--set", *SHORT_OUTPUT]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        codes = list(map(int, done.stdout.split()))
        assert codes.pop() == 0, done.stderr
        assert codes.count(-signal.SIGKILL) == 4
        assert set(codes) <= {-signal.SIGKILL, 130, -signal.SIGINT}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Translator, "batch_lines", 8)
            patch.setattr(pipeline, "_CHUNK_BYTES", 40)
            options = translator.options(n_best=2, overrides=["decode.batch_tokens=60", *SHORT_OUTPUT])
            whole = translated_stream(translator, (tmp_path / "in.txt").read_bytes(), options)
        assert (tmp_path / "out.txt").read_bytes() == whole
        assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]

    def test_empty_file_has_an_empty_translation(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "in").write_text("")
        done = run_command("translate", "-m", model, "-i", tmp_path / "in", "-o", tmp_path / "out", "--device", "cpu")
        assert done.exit_code == 0, done.stderr
        assert sorted(os.listdir(tmp_path)) == ["in", "out"]

    def test_pipes_and_devices_are_written_directly(self, translator: Translator, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("a dog\n")
        os.mkfifo(tmp_path / "pipe")
        assert is_stream(tmp_path / "pipe")
        assert is_stream(Path("/dev/stdout"))
        assert not is_stream(tmp_path / "new")
        with open_output(Path("/dev/null"), {}) as output:
            assert isinstance(output, StreamOutput)

    @pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="files below /dev are a property of Linux")
    def test_files_below_dev_are_files(self) -> None:
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            assert not is_stream(Path(file.name))
            refused = run_command("translate", "-i", file.name, "-o", file.name)
            assert (refused.exit_code, "it is an input of this command" in refused.stderr) == (2, True)

    def test_stream_that_leads_to_a_file_keeps_its_content(self, tmp_path: Path) -> None:
        """As the shell's `>>` does."""
        (tmp_path / "log").write_bytes(b"old\n")
        with (tmp_path / "log").open("ab") as log, open_output(Path(f"/dev/fd/{log.fileno()}"), {}) as output:
            output.write([b"a"], b"new\n")
        assert (tmp_path / "log").read_bytes() == b"old\nnew\n"
        with (tmp_path / "shared").open("wb", buffering=0) as shared:
            with open_output(Path(f"/dev/fd/{shared.fileno()}"), {}) as output:
                output.write([b"a"], b"new\n")
            shared.write(b"after\n")
        assert (tmp_path / "shared").read_bytes() == b"new\nafter\n"

    def test_other_options_and_inputs_do_not_resume(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "in").write_text("a dog\n")
        command = ["translate", "-m", model, "-i", tmp_path / "in", "-o", tmp_path / "out", "--device", "cpu"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "replace", interrupt_at_the_end(tmp_path / "out"))
            assert run_command(*command, "--json", "--beam", "2").exit_code == 130
        (tmp_path / "prefixes").write_text("il\n")
        refused = run_command(*command, "--beam", "3", "--prefixes", tmp_path / "prefixes")
        assert refused.exit_code == 2
        assert "out.partial: begun by another command; repeat that, or remove it to start again" in refused.stderr
        for change in ('output: was "JSON", now "text"', "beam: was 2, now 3", "--prefixes: was null"):
            assert f"\n  {change}" in refused.stderr


class TestCommand:
    """The command `nmt translate`."""

    @pytest.mark.parametrize("needs_torch", [False, True])
    def test_unused_packages_are_not_imported(self, needs_torch: bool, tmp_path: Path, repository: Path) -> None:
        """Imports take most of the time of a short translation; on a CPU with kernels, it needs no torch."""
        changes = {"positions": "relative"} if needs_torch else {}
        save_model(tmp_path / "model", tiny_loaded_model(dim=64, feed_forward=64, **changes))
        program = """
import sys, nmt
nmt.Translator
assert "torch" not in sys.modules
import nmt.cli
sys.argv = ["nmt", "translate", "-q", "--device", "cpu", "-m", *sys.argv[1:]]
try:
    nmt.cli.main()
finally:
    heavy = ("torch", "torch._dynamo", "torch._inductor", "sympy", "ctranslate2", "transformers", "sacrebleu")
    print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""
        command = [sys.executable, "-c", program, str(tmp_path / "model"), "--alignment"]
        done = subprocess.run(command, cwd=repository, input="a dog\n", capture_output=True, text=True, check=False)
        has_torch = needs_torch or library() is None
        found = done.stderr.splitlines()[-1]  # behind a warning about the text of a random model
        assert (done.returncode, found) == (0, "['torch']" if has_torch else "[]")
        assert done.stdout.count("\n") == 1

    def test_some_lines_of_random_bytes_are_tolerated(self, model: Path, tmp_path: Path) -> None:
        choose = random.Random(1)
        noise = (choose.randbytes(choose.randrange(12)).replace(b"\n", b"") for _ in range(100))
        lines = [line for random_bytes in noise for line in (b"the cat sleeps", random_bytes, b"", b"a dog")]
        (tmp_path / "in.txt").write_bytes(b"\n".join([*lines, b""]))
        files = ["-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt"]
        done = run_command("translate", "-m", model, *files, "--beam", 1, "--device", "cpu")
        assert done.exit_code == 0, done.stderr
        assert (tmp_path / "out.txt").read_bytes().count(b"\n") == 400
        assert "translated 400 lines" in done.stderr

        def is_utf8(line: bytes) -> bool:
            return line.decode("utf-8", "ignore").encode() == line

        invalid = [number for number, line in enumerate(lines, 1) if not is_utf8(line)]
        assert len(invalid) > 50
        warning = f"warning: not UTF-8: {len(invalid)} lines of the input, the first is line {invalid[0]}; the invalid"
        assert warning in done.stderr

    @pytest.mark.parametrize(
        ("text", "count", "first"), [(b"a\rcat\r", 1, 1), (b"a\r\na\r\r\n\ra dog\na \r b\r\n", 2, 3), (b"a\r\n", 0, 0)]
    )
    def test_cr_inside_lines_gives_a_warning(
        self, model: Path, tmp_path: Path, text: bytes, count: int, first: int
    ) -> None:
        (tmp_path / "in.txt").write_bytes(text)
        done = run_command("translate", "-m", model, "-i", tmp_path / "in.txt", "--beam", 1, "--device", "cpu")
        assert done.stdout.count("\n") == max(1, text.count(b"\n"))
        places = re.findall(r"CR inside (\d+) lines? of the input, the first is line (\d+); ", done.stderr)
        assert places == ([(str(count), str(first))] if count else [])


SMALL_BATCHES = """
import nmt.cli
from nmt.translation import pipeline
from nmt.translation.translator import Translator

Translator.batch_lines, pipeline._CHUNK_BYTES = 16, 200
nmt.cli.main()
"""


class TestSeveralProcesses:
    @pytest.mark.slow
    def test_two_processes_write_the_output_of_one(
        self, translator: Translator, model: Path, tmp_path: Path, warm_programs: Path
    ) -> None:
        lines = [b"the cat" + b" moon" * (n % 7) if n % 9 else [b"", b"\xff", b"\t"][n % 3] for n in range(401)]
        (tmp_path / "in.txt").write_bytes(b"\n".join(lines))
        (tmp_path / "run.py").write_text(SMALL_BATCHES)
        (tmp_path / "none.txt").write_text("\n" * len(lines))  # prefixes, which only the first process needs
        command = [warm_programs / "torchrun", "--standalone", "--nproc-per-node=2", tmp_path / "run.py", "translate"]
        command += ["-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt", "-m", model, "--device", "cpu"]
        command += ["--prefixes", tmp_path / "none.txt"]
        environment = {**os.environ, "PYTHON_EXEC": str(warm_programs / "python")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("translated 401 lines") == 1
        assert (tmp_path / "out.txt").read_bytes() == translate_bytes(translator, (tmp_path / "in.txt").read_bytes())


class TestPrefixes:
    def test_each_line_has_its_own_prefix_across_line_batches(
        self, translator: Translator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Translator, "batch_lines", 2)
        monkeypatch.setattr(pipeline, "_CHUNK_BYTES", 4)
        prefixes = ["il", "", "la luna", "今天", ""]
        lines = ["a dog", "a dog", "", "the cat", "the moon"]
        assert translate_with_prefixes(translator, lines, prefixes) == [
            one.text for one in translator.translate_lines(lines, translator.options(beam=1), prefixes)
        ]

    def test_prefixes_of_another_length_are_refused(self, translator: Translator) -> None:
        with pytest.raises(DataError, match="--prefixes: 1 line, but the input has more; expected one for each line"):
            translate_with_prefixes(translator, ["a", "b"], ["x"])
        with pytest.raises(DataError, match="--prefixes: 3 lines, but the input has 2; expected one for each line"):
            translate_with_prefixes(translator, ["a", "b"], ["x", "", ""])

    def test_prefixes_of_the_command_are_those_of_its_lines(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "in").write_text("a dog\nthe cat\n")
        (tmp_path / "few").write_text("il\n")
        (tmp_path / "many").write_text("il cane\nil gatto\n")
        command = ["translate", "-m", model, "-i", tmp_path / "in", "-o", tmp_path / "out", "--beam", 1]
        assert run_command(*command, "--prefixes", tmp_path / "few").exit_code == 2
        done = run_command(*command, "--prefixes", tmp_path / "many")
        assert done.exit_code == 0, done.stderr
        first, second = (tmp_path / "out").read_text().splitlines()
        assert first.startswith("il cane")
        assert second.startswith("il gatto")


ITALIAN = ["Non so che cosa sia il tempo, ma non mi piace.", "", "È la casa di un amico che ho visto con te."] * 60


@pytest.mark.parametrize(
    ("texts", "language", "found"),
    [
        (ITALIAN, "en", "it"),
        (ITALIAN, "zh", "it"),
        (["我不知道今天的天气怎么样。"] * 100, "en", "zh"),
        (ITALIAN, "it", None),
        (["iPhone", "Roma 2000"] * 50, "en", None),
        (["Non so che cosa sia."] * 99, "en", None),
        ([""] * 50, "en", None),
    ],
)
def test_input_in_another_language_gives_a_warning(texts: list[str], language: str, found: str | None) -> None:
    warning = foreign_input(texts, language)
    if found is None:
        assert warning is None
    else:
        assert f"lines of the input are in {found}, but the model translates from {language}" in str(warning)


def test_translation_needs_no_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a file system that is read-only."""
    _identifier.cache_clear()
    monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    assert foreign_input(ITALIAN, "en") == (
        "the language of the input is not checked: No such file or directory; set TMPDIR to a folder with free space"
    )


def test_warning_of_another_language_comes_before_the_translations(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator.load(model)
    source = LineInput(io.BytesIO("我不知道今天的天气怎么样。\n".encode() * 120))
    translate_stream(translator, source, StreamOutput(io.BytesIO()), translator.options(beam=1), False, Console())
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("warning: the first 120 lines of the input are in zh, but the model translates from ")


def translate_with_prefixes(translator: Translator, lines: list[str], prefixes: list[str]) -> list[str]:
    data, output = "".join(f"{line}\n" for line in lines).encode(), io.BytesIO()
    source = LineInput(io.BytesIO(data), translator.batch_lines, parallel=prefixes, option="--prefixes")
    translate_stream(translator, source, StreamOutput(output), translator.options(beam=1), False, Console(quiet=True))
    return output.getvalue().decode().splitlines()
