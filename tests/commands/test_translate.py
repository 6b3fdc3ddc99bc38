"""The command `nmt translate`: models, inputs, outputs and options that exclude each other."""

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from nmt.commands.translate import default_model
from nmt.errors import ModelError
from nmt.system.console import Console
from nmt.text.words import words
from nmt.translation import pipeline
from nmt.translation.pipeline import LineInput, translate_stream
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import Translator
from tests.builders import SENTENCES, run_command, save_model, tiny_loaded_model, write_lines


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save_model(directory, tiny_loaded_model())
    return directory


def test_model_is_that_of_the_environment_else_the_latest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NMT_MODEL", raising=False)
    with pytest.raises(
        ModelError, match=r"runs/latest does not exist; give --model DIR .* or train one: nmt train --c"
    ):
        default_model()
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "latest").symlink_to("mine")
    assert default_model() == Path("runs/latest")
    (tmp_path / "runs" / "mine").rmdir()
    with pytest.raises(ModelError, match=r"runs/latest points to mine, which does not exist; give --model DIR"):
        default_model()
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "config.json").write_text("{}")
    monkeypatch.setenv("NMT_MODEL", str(tmp_path))
    assert default_model() == tmp_path
    for name, problem in (("nowhere", "no such directory"), ("runs", "neither a model directory .* nor a run")):
        monkeypatch.setenv("NMT_MODEL", name)
        with pytest.raises(ModelError, match=rf"\$NMT_MODEL: {name}: {problem}.*; or give --model DIR"):
            default_model()


class TestCommand:
    @pytest.mark.parametrize("options", [("--prefixes", "in.txt"), ("--n-best", "3"), ("--glossary", "in.txt")])
    def test_options_that_would_have_no_effect_are_refused(self, model: Path, options: tuple[str, str]) -> None:
        done = run_command("translate", "-m", model, "--reference", "in.txt", *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(
            "error: --reference: --prefixes, --glossary and --n-best have no effect beside it"
        )

    def test_error_names_the_option(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("a dog\n")
        done = run_command("translate", "-m", model, "-i", tmp_path / "in.txt", "--beam", 2, "--n-best", 5)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == "error: n_best: found 5, but a beam of 2 returns at most 2; widen the beam\n"

    def test_reference_with_alignment_aligns_given_translations(self, model: Path, tmp_path: Path) -> None:
        source = write_lines(tmp_path / "in.txt", *SENTENCES[:3], "")
        reference = write_lines(tmp_path / "ref.txt", *SENTENCES[3:], "x")
        plain, aligned, as_json = (
            run_command("translate", "-m", model, "-i", source, "--reference", reference, "--device", "cpu", *options)
            for options in ((), ("--alignment",), ("--alignment", "--json"))
        )
        assert (plain.exit_code, aligned.exit_code, as_json.exit_code) == (0, 0, 0), aligned.stderr
        rows = [row.split("\t") for row in aligned.stdout.splitlines()]
        assert [row[:3] for row in rows] == [row.split("\t") for row in plain.stdout.splitlines()]
        entries = [json.loads(line) for line in as_json.stdout.splitlines()]
        assert [row[3] for row in rows] == [" ".join(f"{i}-{j}" for i, j in one["alignment"]) for one in entries]
        assert any(row[3] for row in rows)
        for (*_, links), line, given in zip(rows, SENTENCES[:3], SENTENCES[3:], strict=False):
            for link in links.split():
                i, j = map(int, link.split("-"))
                assert i < len(words(line))
                assert j < len(words(given))

    def test_references_of_another_length_are_refused(self, model: Path, tmp_path: Path) -> None:
        source = write_lines(tmp_path / "in.txt", "a dog", "the cat")
        reference, output = write_lines(tmp_path / "ref.txt", "un cane"), tmp_path / "out.txt"
        command = ["translate", "-m", model, "-i", source, "-o", output, "--reference", reference]
        done = run_command(*command)
        assert done.exit_code == 2
        assert "--reference: 1 line, but the input has more; expected one for each line" in done.stderr
        write_lines(reference, "un cane", "il gatto")
        assert run_command(*command).exit_code == 0
        assert len(output.read_text().splitlines()) == 2


class TestInput:
    LINES = ("the cat sleeps", "", "今天下雨。", "a \u2028 dog")

    def test_gzip_is_unpacked(self, model: Path, tmp_path: Path, warm_programs: Path) -> None:
        plain = write_lines(tmp_path / "in.txt", *self.LINES)
        packed = tmp_path / "packed"
        packed.write_bytes(gzip.compress(plain.read_bytes()))
        expected = run_command("translate", "-m", model, "-i", plain, "-q")
        found = run_command("translate", "-m", model, "-i", packed, "-q")
        assert expected.exit_code == 0
        assert (found.exit_code, found.stdout) == (0, expected.stdout), found.stderr
        with packed.open("rb") as stream:
            command = [warm_programs / "nmt", "translate", "-m", model, "-q", "--device", "cpu"]
            piped = subprocess.run(command, stdin=stream, capture_output=True, check=True)
        assert piped.stdout.decode() == expected.stdout

    @pytest.mark.usefixtures("absolute_paths")
    def test_name_of_a_format_that_is_not_translated_is_refused(self, model: Path, tmp_path: Path) -> None:
        for name in ("page.RST", "song.lrc", "text.odt.gz"):
            path = write_lines(tmp_path / name, "the cat sleeps")
            refused = run_command("translate", "-m", model, "-i", path)
            assert (refused.exit_code, refused.stdout) == (2, "")
            assert f"{path}: files in the format .{name.lower().split('.')[1]} are not" in refused.stderr
            assert "convert it to one of srt, vtt, json, " in refused.stderr
        as_text = run_command("translate", "-m", model, "-i", tmp_path / "song.lrc", "--format", "text", "-q")
        assert as_text.stdout.count("\n") == 1

    @pytest.mark.usefixtures("absolute_paths")
    def test_text_in_a_zip_archive_is_read_and_its_archive_is_kept(self, model: Path, tmp_path: Path) -> None:
        plain, archive = write_lines(tmp_path / "in.txt", *self.LINES), tmp_path / "texts.zip"
        with ZipFile(archive, "w") as file:
            file.write(plain, "folder/in.txt")
        expected = run_command("translate", "-m", model, "-i", plain, "-q").stdout
        for path in (archive, archive / "folder" / "in.txt"):
            found = run_command("translate", "-m", model, "-i", path, "-q")
            assert (found.exit_code, found.stdout) == (0, expected), found.stderr
        missing = run_command("translate", "-m", model, "-i", archive / "in.txt", "-q")
        assert missing.stderr == f"error: {archive}: no member in.txt; name one as {archive}/NAME (folder/in.txt)\n"
        over = run_command("translate", "-m", model, "-i", archive / "folder" / "in.txt", "-o", archive, "-q")
        assert (over.exit_code, over.stderr.splitlines()[0]) == (
            2, f"error: {archive}: cannot write it: it is an input of this command; name another file",
        )  # fmt: skip

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/stdin as a link")
    def test_input_and_output_that_are_one_file_by_redirection_are_refused(
        self, model: Path, tmp_path: Path, warm_programs: Path
    ) -> None:
        text = tmp_path / "text"
        text.write_text("the cat sleeps\n")
        for redirected in (f"-o {text} < {text}", f"-i {text} >> {text}"):
            command = f"{warm_programs / 'nmt'} translate --device cpu -m {model} {redirected}"
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 2, done.stderr
            assert "another file" in done.stderr
        assert text.read_text() == "the cat sleeps\n"

    @pytest.mark.usefixtures("absolute_paths")
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("the cat sleeps\n".encode("utf-16"), "UTF-16"),
            (("the cat sleeps\n" * 20).encode("utf-16-le"), "UTF-16"),
            (("猫在垫子上睡觉\n" * 20).encode("gb18030"), "another encoding or to binary data"),
            (b"PK\x03\x04" + bytes(60), "damaged or incomplete"),
            (b"\x89PNG\r\n\x1a\n" + bytes(60), "binary data"),
            (gzip.compress(b"the cat")[:-9], "damaged or incomplete"),
        ],
        ids=["utf-16", "utf-16 without mark", "gb18030", "zip", "png", "damaged gzip"],
    )
    @pytest.mark.parametrize("option", ["-i", "--reference", "--prefixes", "--glossary"])
    def test_input_other_than_utf8_text_is_refused(
        self, model: Path, tmp_path: Path, content: bytes, message: str, option: str
    ) -> None:
        file, output = tmp_path / "file", write_lines(tmp_path / "out.txt", "before")
        file.write_bytes(content)
        options = [option, file] if option == "-i" else [option, file, "-i", write_lines(tmp_path / "in", "a dog")]
        before = sorted(tmp_path.iterdir())
        done = run_command("translate", "-m", model, "-o", output, *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {file}: ")
        assert message in done.stderr
        assert output.read_text() == "before\n"
        assert sorted(tmp_path.iterdir()) == before, "nothing is left behind"

    def test_interrupted_command_resumes_on_gzip_input(self, model: Path, tmp_path: Path) -> None:
        lines = [f"the cat {number}" for number in range(70)]
        packed, output = tmp_path / "in.gz", tmp_path / "out.txt"
        packed.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
        command = ["translate", "-m", model, "-i", packed, "-o", output, "--beam", 1, "-q"]
        original = Translator.translate_lines
        calls = 0

        def interrupted_twice(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls in (2, 4):
                raise KeyboardInterrupt
            return original(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Translator, "translate_lines", interrupted_twice)
            patch.setattr(Translator, "batch_lines", 20)
            patch.setattr(pipeline, "_CHUNK_BYTES", 100)
            codes = [run_command(*command).exit_code for _ in range(3)]
        assert codes == [130, 130, 0]
        assert output.read_text() == run_command("translate", "-m", model, "-i", packed, "--beam", 1, "-q").stdout


def test_typed_lines_are_translated_as_they_are_entered(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal gives one line at a time; a hint is printed before the first."""
    terminal, keyboard = os.openpty()[::-1]
    translator = Translator.load(model, device="cpu")
    written: list[Sequence[bytes]] = []

    class Answers(StreamOutput):
        def write(self, lines: Sequence[bytes], data: bytes) -> None:
            written.append(lines)
            os.write(keyboard, b"a cat\n" if len(written) == 1 else b"\x04")

    os.write(keyboard, b"a dog\n")
    with open(terminal, "rb", buffering=0) as typed:
        translate_stream(
            translator, LineInput(typed), Answers(io.BytesIO()), translator.options(beam=1), False, Console()
        )
    os.close(keyboard)
    assert written == [[b"a dog"], [b"a cat"]]
    assert "one sentence per line; Ctrl-D ends" in capsys.readouterr().err.splitlines()[0]


class TestOutput:
    def test_missing_folder_is_refused_before_the_model_is_loaded(self, tmp_path: Path) -> None:
        done = run_command("translate", "-m", tmp_path / "no model", "-o", tmp_path / "missing" / "out.txt")
        assert done.exit_code == 2
        assert "missing is not a folder: make it first" in done.stderr

    @pytest.mark.usefixtures("absolute_paths")
    @pytest.mark.parametrize("option", ["-i", "--reference", "--prefixes", "--glossary"])
    def test_unreadable_inputs_are_errors(self, model: Path, tmp_path: Path, option: str) -> None:
        (tmp_path / "loop").symlink_to("loop")
        for path in (tmp_path / "loop", tmp_path / "missing", tmp_path, tmp_path / "in.txt" / "x"):
            write_lines(tmp_path / "in.txt", "a dog")
            options = [option, path] if option == "-i" else [option, path, "-i", tmp_path / "in.txt"]
            done = run_command("translate", "-m", model, *options, "-o", tmp_path / "out.txt")
            assert (done.exit_code, done.stdout) == (2, "")
            assert str(path) in done.stderr
            assert "bug" not in done.stderr
            assert not (tmp_path / "out.txt").exists()
