"""The command line: output, exit codes, signals."""

import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

import nmt
from nmt.cli import app
from nmt.errors import ConfigError, DataError, ModelError
from tests.builders import PLAIN_TERMINAL, run_command, write_lines, write_recipe

COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands if command.callback)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    sentences = [f"Uno{i % 7} due{i % 11} tre{i}\tOne{i % 7} two{i % 11} three{i}" for i in range(120)]
    write_lines(tmp_path / "train.tsv", *sentences[:-20])
    write_lines(tmp_path / "valid.tsv", *sentences[-20:])
    write_recipe(
        tmp_path,
        languages={"source": "it", "target": "en"},
        data={"train": [{"file": "train.tsv"}], "valid": {"file": "valid.tsv"}},
        tokenizer={"vocab_size": 316, "type": "bpe"},
    )
    return tmp_path / "recipe.yaml"


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    return write_lines(tmp_path / "hyp", "the cat sleeps on the mat"), write_lines(
        tmp_path / "ref", "the cat sleeps on the mat today"
    )


# help


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_is_printed_for_each_command(arguments: list[str]) -> None:
    result = run_command(*arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    assert result.stderr == ""
    if arguments[0].startswith("-"):
        assert all(name in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_example_of_each_help_page_parses(name: str) -> None:
    page = CliRunner().invoke(app, [name, "--help"], env={**PLAIN_TERMINAL, "COLUMNS": "80"}).stdout
    assert max(map(len, page.splitlines())) <= 80
    assert " General " in page
    arguments = shlex.split(page.partition("Example: ")[2].partition(" <")[0])
    assert arguments[:2] == ["nmt", name]
    get_command(app).commands[name].make_context(name, arguments[2:])  # type: ignore[attr-defined]  # exits if it is wrong


def test_shell_completion_completes_commands_and_options(repository: Path) -> None:
    for typed, expected in (("nmt tra", {"train", "translate"}), ("nmt train --re", {"--restart"})):
        environment = {
            **os.environ,
            "_NMT_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - 1),
        }
        command = [sys.executable, "-c", "import sys; sys.argv = ['nmt']; from nmt.__main__ import main; main()"]
        done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
        assert set(done.stdout.split()) == expected, done.stderr


def test_no_arguments_show_the_help() -> None:
    result = run_command()
    assert result.output.strip() == run_command("--help").output.strip()
    assert "Usage:" in result.output
    assert result.exit_code in (0, 2)


def test_prepare_can_fork_workers(repository: Path) -> None:
    """It imports numpy without threads, with which a process is not forked."""
    program = (
        "from nmt.cli import app\nfrom nmt.system.workers import can_fork\ntry:\n    app(['prepare', '-c', 'gone'])\n"
    )
    program += "except SystemExit:\n    print(can_fork())"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_help_does_not_import_torch(repository: Path) -> None:
    """All commands run in one process because imports are slow."""
    program = f"""
import sys
from typer.testing import CliRunner
from nmt.cli import app
for arguments in (["--help"], ["--version"], *([name, "--help"] for name in {COMMANDS!r})):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
heavy = [m for m in ("torch", "numpy", "sentencepiece", "sacrebleu", "yaml", "safetensors") if m in sys.modules]
print(heavy)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == "[]", result.stderr


def test_version_is_printed() -> None:
    result = run_command("--version")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{nmt.__version__}\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["score", "--help"]], ids=" ".join)
def test_full_disk_gives_no_traceback(repository: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "nmt", *arguments]
        done = subprocess.run(command, cwd=repository, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: standard output: No space left on device\n")


# exit codes


@pytest.mark.parametrize(
    "arguments",
    [["tran"], ["train"], ["prepare", "--config"], ["score", "one"], ["train", "--colour", "red"]],
    ids=" ".join,
)
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    result = run_command(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr != ""


@pytest.mark.parametrize("command", ["prepare", "train"])
def test_unknown_key_gives_a_suggestion(recipe: Path, command: str) -> None:
    content = yaml.safe_load(recipe.read_text())
    recipe.write_text(yaml.safe_dump({**content, "modle": {"dim": 8}}))
    result = run_command(command, "--config", recipe, "--set", "train.batch_token=64")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "unknown key; did you mean 'model'?" in result.stderr
    assert "unknown key; did you mean 'batch_tokens'?" in result.stderr
    assert f"{recipe.name}:" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        *(
            (kind("the moon is full; wait"), 2, "the moon is full; wait")
            for kind in (ConfigError, DataError, ModelError)
        ),
        (PermissionError(13, "Permission denied", "/runs/x"), 2, "/runs/x: Permission denied"),
        (
            OSError(28, "No space left on device"),  # without a name: of a temporary file
            2,
            "No space left on device; free some space, or set TMPDIR to a folder on another disk, for temporary files",
        ),
        (
            FileNotFoundError(2, "No usable temporary directory found"),  # of tempfile
            2,
            "No usable temporary directory found; free some space, or set TMPDIR to a folder on another disk, for "
            "temporary files",
        ),
        (MemoryError(), 2, "out of memory; close other programs, or use a smaller model, batch or beam ()"),
        (
            RuntimeError("DefaultCPUAllocator: no"),
            2,
            "out of memory; close other programs, or use a smaller model, batch or beam (DefaultCPUAllocator: no)",
        ),
        (
            ZeroDivisionError("division by zero"),
            1,
            "ZeroDivisionError: division by zero\nThis is a bug in nmt; --debug shows where.",
        ),
    ],
    ids=repr,
)
def test_exceptions_are_messages_with_exit_codes(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, message: str
) -> None:
    monkeypatch.setattr("nmt.commands.prepare.prepare", raising(error))
    result = run_command("prepare", "-c", recipe)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"error: {message}\n")


@pytest.mark.parametrize("error", [DataError("no"), ZeroDivisionError("no")])
def test_debug_prints_the_traceback(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: Exception
) -> None:
    monkeypatch.setattr("nmt.commands.prepare.prepare", raising(error))
    result = run_command("prepare", "-c", recipe, "--debug")
    assert result.exit_code == (2 if isinstance(error, DataError) else 1)
    assert "Traceback (most recent call last)" in result.stderr
    assert "in _raise" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("moment", ["builtins.__import__ = interrupt", "nmt.commands.score.score = interrupt"])
def test_ctrl_c_in_an_import_or_in_a_command_prints_one_line(repository: Path, moment: str) -> None:
    """Also while a thread waits, and while the results have no reader."""
    program = f"""
import builtins, signal, sys, threading
import nmt.__main__, nmt.cli, nmt.commands.score
def interrupt(*_, **__):
    threading.Thread(target=threading.Event().wait).start()
    signal.raise_signal(signal.SIGINT)
sys.argv[1:] = ["score", "hypothesis", "reference"]
{moment}
nmt.__main__.main()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_before_a_command_begins_has_its_exit_code(repository: Path, number: signal.Signals) -> None:
    program = f"""
import signal, sys
import nmt.cli
nmt.cli.errors_explained = lambda *_: signal.raise_signal({int(number)})
sys.argv[1:] = ["score", "hypothesis", "reference"]
nmt.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, check=False)
    assert done.returncode == 128 + number


def test_terminated_command_leaves_no_temporary_files(recipe: Path, tmp_path: Path, repository: Path) -> None:
    """Also if more signals come while these are being removed."""
    program = f"""
import os, signal, sys
import nmt.cli, nmt.text.preparing.preparation as preparation
remove = os.unlink
def signal_and_remove(*arguments, **options):
    signal.raise_signal(signal.SIGTERM)
    remove(*arguments, **options)
def filter_then_stop(text, *arguments):
    whole(text, *arguments)
    os.unlink = signal_and_remove
    assert text.file.stat().st_size and os.path.exists(text._job.rejected.name)
    signal.raise_signal(signal.SIGHUP)
whole, preparation.Text.filter = preparation.Text.filter, filter_then_stop
sys.argv[1:] = ["prepare", "-c", {str(recipe)!r}, "--dry-run", "--rejected", {str(tmp_path / "rejected.tsv")!r}]
nmt.cli.main()
"""
    (tmp_path / "temporary").mkdir()
    before = sorted(tmp_path.rglob("*"))
    command, variables = [sys.executable, "-c", program], {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(command, cwd=repository, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGHUP, "", "error: interrupted\n")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("ignored", [True, False], ids=["nohup", "closed terminal"])
def test_hangup_is_ignored_under_nohup(repository: Path, warm_python: str, ignored: bool) -> None:
    program = f"""
import signal, sys
if {ignored}:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
import nmt.cli, nmt.commands.inspect
nmt.commands.inspect.inspect = lambda model: signal.raise_signal(signal.SIGHUP) or {{}}
sys.argv[1:] = ["inspect", "model", "--json"]
nmt.cli.main()
"""
    done = subprocess.run([warm_python, "-c", program], cwd=repository, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == ((0, "{}\n") if ignored else (129, ""))


@pytest.mark.parametrize(
    ("arguments", "closed", "error"),
    [
        ("score - ref", "<&-", "error: standard input is closed; name a file, for nmt translate with -i\n"),
        ("score ref ref -q", ">&-", "error: standard output is closed; redirect it to a file\n"),
        ("--help", ">&-", "error: standard output is closed; redirect it to a file\n"),
        ("score ref missing", "2>&-", ""),
    ],
)  # fmt: skip
def test_closed_standard_stream_is_an_error(
    texts: tuple[Path, Path], repository: Path, arguments: str, closed: str, error: str
) -> None:
    command = f"{shlex.quote(sys.executable)} -m nmt {arguments} {closed}"
    done = subprocess.run(
        command, shell=True, cwd=texts[0].parent, env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(error)
    assert "Traceback" not in done.stderr


def test_file_of_a_command_does_not_become_a_closed_stream(texts: tuple[Path, Path], repository: Path) -> None:
    """A library that prints to the numbers 1 and 2 must not write into a file that was opened meanwhile."""
    program = """
import os, sys
import nmt.cli, nmt.commands.score
def score(*_):
    with open("mine", "w") as file:
        for number in (1, 2):
            try:
                os.write(number, b"printed by a library")
            except OSError:
                pass
nmt.commands.score.score = score
sys.argv[1:] = ["score", "hyp", "ref"]
nmt.cli.main()
"""
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} >&- 2>&-"
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    subprocess.run(command, shell=True, cwd=texts[0].parent, env=environment, check=False)
    assert (texts[0].parent / "mine").read_bytes() == b""


def test_removed_current_folder_is_an_error(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = 'rmdir "$PWD"; exec "$0" -m nmt score one two'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=tmp_path / "gone", env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    expected = "error: the current folder: No such file or directory; change to another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


def test_text_as_an_argument_and_two_recipes_are_errors_with_advice(tmp_path: Path) -> None:
    for arguments, advice in (
        (("translate", "Good", "morning."), "echo 'Good morning.' | nmt translate"),
        (("translate", "a" * 5000), "aaa | nmt translate"),
        (("translate", __file__), "nmt translate --input "),
        (("train",), "expected one recipe, found 0; give its file, as in --config RECIPE"),
        (("prepare", tmp_path / "a.yaml", "--config", tmp_path / "b.yaml"), "expected one recipe, found 2"),
    ):
        result = run_command(*arguments)
        assert result.exit_code == 2
        assert advice in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_escape_sequences_are_not_printed(tmp_path: Path) -> None:
    attack = "\x1b]0;title\x07\x9b31m"
    missing = run_command("score", tmp_path / attack, tmp_path / attack)
    (tmp_path / attack).write_text(f"name: {attack}\n{attack}: 1\n")
    wrong = run_command("prepare", "--config", tmp_path / attack, "--set", f"{attack}={attack}", "--debug")
    for result in (missing, wrong):
        assert result.exit_code == 2
        assert "\\x1b" in result.stderr
        assert "\x1b" not in result.output
        assert "\x9b" not in result.output


def raising(error: BaseException):  # type: ignore[no-untyped-def]
    def _raise(*_arguments: object, **_options: object) -> None:
        raise error

    return _raise


# prepare and train


SMALL = [
    "model={encoder_layers: 1, decoder_layers: 1, dim: 8, feed_forward: 8, heads: 2}", "train.stop={steps: 2}",
    "train.schedule={name: constant}",
]  # fmt: skip


def test_train_prepares_trains_and_resumes(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("nmt.commands.train")
    monkeypatch.chdir(recipe.parent)
    write_lines(recipe.parent / "train.tsv", *recipe.parent.joinpath("train.tsv").read_text().splitlines()[:60])
    overrides = [part for override in (*SMALL, "data.valid=null") for part in ("--set", override)]
    result = run_command("train", "-c", recipe, *overrides)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert "preparing" in result.stderr
    assert "stopped after step 2: train.stop.steps is 2" in result.stderr
    again = run_command("train", "-c", recipe, *overrides, "--set", "train.stop.steps=3")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "after step 2" in again.stderr
    refused = run_command("train", "-c", recipe, *overrides, "--set", "seed=3", "-q")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: ")
    assert "  seed: was 1, now 3\n" in refused.stderr
    restarted = run_command("train", "-c", recipe, *overrides, "--set", "seed=3", "-q", "--restart")
    assert (restarted.exit_code, restarted.stdout, restarted.stderr) == (0, "", "")
    assert (recipe.parent / "runs" / "latest" / "last" / "model.safetensors").exists()


def test_prepare_prints_on_stderr(recipe: Path) -> None:
    result = run_command("prepare", "-c", recipe)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "preparing" in result.stderr
    assert (recipe.parent / "run" / "prepared" / "manifest.json").exists()
    assert "is current" in run_command("prepare", "-c", recipe).stderr
    assert "(--force)" in run_command("prepare", "-c", recipe, "--force").stderr
    assert "(--rejected)" in run_command("prepare", "-c", recipe, "--rejected", recipe.parent / "rejected.tsv").stderr
    assert run_command("prepare", "-c", recipe, "--force", "--quiet").stderr == ""


def test_score_prints_json(texts: tuple[Path, Path]) -> None:
    result = run_command("score", *texts, "--json", "--metric", "ter", "--target-lang", "en", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert [score["name"] for score in document["scores"]] == ["TER"]
    # one of seven words is missing
    assert document["scores"][0]["value"] == pytest.approx(100 / 7)


def test_closed_pipe_is_not_an_error(repository: Path, texts: tuple[Path, Path]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "nmt", "score", *map(str, texts), "-q"]
    result = subprocess.run(command, cwd=repository, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("stream", ["pipe", "terminal"])
def test_messages_without_a_reader_do_not_end_the_work(
    repository: Path, texts: tuple[Path, Path], warm_python: str, stream: str
) -> None:
    """As in `nmt train 2>&1 | tee log` or a terminal that is closed."""
    reading, writing = os.pipe() if stream == "pipe" else os.openpty()
    os.close(reading)
    command = [warm_python, "-m", "nmt", "score", str(texts[0]), str(texts[0])]  # it warns of equal texts
    result = subprocess.run(command, cwd=repository, stdout=subprocess.PIPE, stderr=writing, text=True, check=False)
    os.close(writing)
    assert result.returncode == 0
    assert "BLEU" in result.stdout


def test_mistakes_of_a_recipe_are_reported_before_torch_is_loaded(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("languages: {source: en, target: it}\ntrain: {speed: 3}\n")
    program = f"""
import sys
sys.modules["torch"] = None  # importing it is an error
sys.argv[1:] = ["train", {str(tmp_path / "recipe.yaml")!r}]
import nmt.cli
nmt.cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "recipe.yaml:2: train.speed: unknown key" in done.stderr
