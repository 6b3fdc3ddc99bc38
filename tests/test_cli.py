"""The command line: output, exit codes, signals."""

import contextlib
import importlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

import nmt
from nmt.cli import app
from nmt.config import load_recipe
from nmt.errors import ConfigError, DataError, ModelError
from nmt.system.help_pages import HelpPages
from tests.builders import PLAIN_TERMINAL, run_command, write_lines, write_recipe, write_reversal_task

COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands if command.callback)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    sentences = [f"Uno{i % 7} due{i % 11} tre{i}\tOne{i % 7} two{i % 11} three{i}" for i in range(120)]
    write_lines(tmp_path / "train.tsv", *sentences[:-20])
    write_lines(tmp_path / "valid.tsv", *sentences[-20:])
    write_recipe(
        tmp_path,
        languages={"source": "it", "target": "en"},
        data={"train": [{"tsv": "train.tsv"}], "valid": {"tsv": "valid.tsv"}},
        tokenizer={"vocab_size": 60, "byte_fallback": False, "type": "bpe"},
    )
    return tmp_path / "recipe.yaml"


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    return write_lines(tmp_path / "hyp", "the cat sleeps on the mat"), write_lines(
        tmp_path / "ref", "the cat sleeps on the mat today"
    )


# help


def test_prepare_train_and_score_are_commands() -> None:
    assert {"prepare", "train", "score"} <= set(COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_is_printed_for_each_command(arguments: list[str]) -> None:
    result = run_command(*arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    assert result.stderr == ""
    if arguments[0].startswith("-"):
        assert all(name in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_page_has_headings_whole_summaries_no_types_and_an_example_that_parses(name: str) -> None:
    page = CliRunner().invoke(app, [name, "--help"], env={**PLAIN_TERMINAL, "COLUMNS": "80"}).stdout
    assert max(map(len, page.splitlines())) <= 80
    assert "General:\n" in page
    assert not re.search(r"<(?!\s)[^>]*>", page.partition("Example: ")[0])
    example = " ".join(page.partition("Example: ")[2].split()).partition(" <")[0]
    arguments = shlex.split(example)
    assert arguments[:2] == ["nmt", name]
    group = get_command(app)
    assert isinstance(group, HelpPages)
    command = group.commands[name]
    command.make_context(name, arguments[2:])  # exits if an option does not exist
    overview = CliRunner().invoke(app, ["--help"], env={**PLAIN_TERMINAL, "COLUMNS": "80"}).stdout
    assert command.get_short_help_str() in " ".join(overview.split())


def test_help_lists_options_of_translate_below_their_headings() -> None:
    page = run_command("translate", "--help").stdout
    headings = [line.rstrip(":") for line in page.splitlines() if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert headings == ["Input and output", "Search", "Computation", "In place of translating", "General"]
    assert page.index("Search:") < page.index("--beam") < page.index("Computation:") < page.index("--threads")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "Hello"], "echo Hello | nmt translate"),
        (["translate", "--beam", "2", "It's", "me"], """echo 'It'"'"'s me' | nmt translate"""),
        (["translate", "."], "give the model as --model ."),
        (["translate", "recipe.yaml"], "give the text as --input recipe.yaml"),
        (["train", "recipe.yaml"], "give the recipe as --config recipe.yaml"),
        (["prepare", "-c", "recipe.yaml", "train.stop.steps=1"], "give it as --set train.stop.steps=1"),
    ],
    ids=" ".join,
)
def test_arguments_of_commands_without_arguments_give_advice(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(recipe.parent)
    result = run_command(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


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
    assert result.output == run_command("--help").output
    assert "Usage:" in result.output
    assert result.exit_code in (0, 2)


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


def test_missing_recipe_is_a_user_error(tmp_path: Path) -> None:
    result = run_command("train", "-c", tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert "none.yaml" in result.stderr


@pytest.mark.parametrize("error", [ConfigError, DataError, ModelError])
def test_user_errors_exit_with_2(recipe: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    monkeypatch.setattr("nmt.commands.prepare.prepare", raising(error("the moon is full; wait")))
    result = run_command("prepare", "-c", recipe)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: the moon is full; wait\n"


def test_other_exceptions_are_reported_as_bugs(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.commands.prepare.prepare", raising(ZeroDivisionError("division by zero")))
    result = run_command("prepare", "-c", recipe)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: ZeroDivisionError: division by zero\nThis is a bug in nmt; --debug shows where.\n"


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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "/runs/x"), "error: /runs/x: Permission denied\n"),
        (OSError(28, "No space left on device"), "error: No space left on device\n"),
    ],
)
def test_operating_system_errors_are_user_errors(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    monkeypatch.setattr("nmt.commands.prepare.prepare", raising(error))
    result = run_command("prepare", "-c", recipe)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_ctrl_c_exits_with_130(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.commands.prepare.prepare", raising(KeyboardInterrupt()))
    result = run_command("prepare", "-c", recipe)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "error: interrupted\n")


TWICE = """
import atexit, faulthandler, os, random, signal, sys, time
import nmt.__main__, nmt.commands.prepare

choose = random.Random(5)
sys.argv[1:] = ["prepare", "--config", sys.argv[1]]


def prepare(*_, **options):
    os.write(writing, b"x")
    try:
        time.sleep(10**6)
    finally:
        time.sleep(0.005)  # there is something to clean up


nmt.commands.prepare.prepare = prepare
atexit.register(time.sleep, 0.01)  # as when threads are waited for
for number in range(30):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(300, exit=True)
        nmt.__main__.main()
    os.close(writing)  # so that the next line does not wait for a child that has failed
    assert os.read(reading, 1)
    os.close(reading)
    os.kill(child, signal.SIGINT)
    time.sleep(choose.uniform(0, 0.02))
    os.kill(child, signal.SIGINT)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_second_ctrl_c_exits_immediately(recipe: Path, repository: Path) -> None:
    """A second Ctrl-C ends the process without a traceback, whenever it comes."""
    command = [sys.executable, "-c", TWICE, str(recipe)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # at the very end of Python the signal itself ends the process, which shells report as 130 too
    assert set(map(int, done.stdout.split())) <= {130, -signal.SIGINT}
    assert len(done.stdout.split()) == 30
    assert set(done.stderr.splitlines()) <= {"error: interrupted"}


START = """
import faulthandler, signal, sys
import nmt.__main__
from tests.kill_points import kill_at_call

faulthandler.dump_traceback_later(300, exit=True)  # a process that hangs writes where it does
number, calls = (int(sys.argv.pop(1)) for _ in range(2))
kill_at_call(calls, signal.Signals(number), after=(signal, "signal"))
nmt.__main__.main()
"""
"""From the moment when the handler is installed, which is the first statement of the command and takes ten calls."""


def run_interrupted_start(
    recipe: Path, repository: Path, number: signal.Signals, calls: int
) -> subprocess.CompletedProcess[bytes]:
    """Run `nmt train`, which sends itself a signal after so many calls."""
    command = [sys.executable, "-c", START, str(int(number)), str(calls), "train", "--config", str(recipe), "--quiet"]
    return subprocess.run(command, cwd=repository, capture_output=True, check=False)


# during the imports of the command line, of the recipe and of torch
@pytest.mark.parametrize("calls", [30, 30_000, 300_000, 700_000])
def test_ctrl_c_during_the_start_prints_one_line(recipe: Path, repository: Path, calls: int) -> None:
    done = run_interrupted_start(recipe, repository, signal.SIGINT, calls)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"error: interrupted\n", 130)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("calls", [30, 300_000])
def test_termination_during_the_start_leaves_nothing(
    recipe: Path, repository: Path, number: signal.Signals, calls: int
) -> None:
    before = sorted(recipe.parent.iterdir())
    done = run_interrupted_start(recipe, repository, number, calls)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", -number)
    assert sorted(recipe.parent.iterdir()) == before


def test_out_of_memory_is_a_user_error(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ImportError("libopenblas.so: failed to map segment from shared object")
    allocator = RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory")
    for error in (MemoryError(), allocator, refused):
        monkeypatch.setattr("nmt.commands.prepare.prepare", raising(error))
        result = run_command("prepare", "-c", recipe)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error: out of memory; close other programs")


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


def test_prepare_prints_on_stderr(recipe: Path) -> None:
    result = run_command("prepare", "-c", recipe)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "preparing" in result.stderr
    assert (recipe.parent / "run" / "prepared" / "manifest.json").exists()
    assert "is current" in run_command("prepare", "-c", recipe).stderr
    assert "(--force)" in run_command("prepare", "-c", recipe, "--force").stderr
    assert run_command("prepare", "-c", recipe, "--force", "--quiet").stderr == ""


def test_overrides_change_the_recipe(recipe: Path) -> None:
    other = recipe.parent / "elsewhere"
    result = run_command(
        "prepare", "-c", recipe, "--set", f"prepared={other}", "--set", "tokenizer.vocab_size=58", "-q"
    )
    assert result.exit_code == 0
    assert json.loads((other / "manifest.json").read_text())["settings"]["tokenizer"]["vocab_size"] == 58


SMALL = ["model={encoder_layers: 1, decoder_layers: 1, dim: 8, feed_forward: 8, heads: 2}", "train.stop={steps: 2}"]


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


# score


def test_score_prints_a_table(texts: tuple[Path, Path]) -> None:
    result = run_command("score", *texts)
    assert result.exit_code == 0
    bleu, chrf = result.stdout.splitlines()
    assert bleu.split()[0] == "BLEU"
    assert chrf.split()[0] == "chrF2"
    # 4-gram precisions 6/6, 5/5, 4/4, 3/3 and brevity e^(1 - 7/6)
    assert float(bleu.split()[1]) == pytest.approx(100 * 2.718281828 ** (1 - 7 / 6), abs=0.01)
    assert "BLEU tokenizer" in result.stderr


def test_score_prints_json(texts: tuple[Path, Path]) -> None:
    result = run_command("score", *texts, "--json", "--metric", "ter", "--target-lang", "en", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert [score["name"] for score in document["scores"]] == ["TER"]
    # one of seven words is missing
    assert document["scores"][0]["value"] == pytest.approx(100 / 7)


@pytest.mark.usefixtures("absolute_paths")
def test_score_warns_even_if_quiet(texts: tuple[Path, Path]) -> None:
    result = run_command("score", texts[1], texts[1], "-q")
    assert result.exit_code == 0
    assert result.stderr == f"warning: {texts[1]} is the reference, word for word\n"


@pytest.mark.usefixtures("absolute_paths")
def test_score_refuses_texts_of_different_lengths(texts: tuple[Path, Path], tmp_path: Path) -> None:
    longer = write_lines(tmp_path / "longer", "one", "two")
    result = run_command("score", texts[0], longer)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{texts[0]} has 1 line, but {longer} has 2" in result.stderr
    assert run_command("score", *texts, "--metric", "rouge").exit_code == 2
    assert run_command("score", tmp_path / "nowhere", texts[1]).exit_code == 2


def test_closed_pipe_is_not_an_error(repository: Path, texts: tuple[Path, Path]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "nmt", "score", *map(str, texts), "-q"]
    result = subprocess.run(command, cwd=repository, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, "")


def test_score_reads_standard_input(repository: Path, texts: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "nmt", "score", "-", str(texts[1]), "-q"]
    with texts[0].open() as stream:
        result = subprocess.run(command, cwd=repository, stdin=stream, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert result.stdout == run_command("score", *texts).stdout


# hostile values

VALUES = [
    "", " ", "abc", "-1", "0", "0.5", "1e308", "-1e308", "1e-400", ".nan", ".inf", "9" * 30, "٣", "\x1b[31m", "null",
    "~", "true", "[]", "{}", "{a: 1}", "a: b", "/dev/null", "/", "..", "loop", "loop/x", "x" * 300, "*a", "&a [*a]",
    "/dev/zero", "1:30", "=", "!!python/object:os.system x", '"\\0"', "2024-01-01", "\udcff", "text", "recipe.yaml",
    "run", "prepared",
]  # fmt: skip
VARIABLES = [
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
    "NMT_MODEL", "COLUMNS", "LINES", "TERM", "FORCE_COLOR", "HOME", "TMPDIR", "LANG", "CUDA_VISIBLE_DEVICES",
]  # fmt: skip
COMPLETE_COMMANDS = {
    "prepare": ["--config", "recipe.yaml"],
    "train": ["--config", "recipe.yaml", "--set", "train.stop.steps=2"],
    "translate": ["-m", "run", "-i", "text", "-o", "out"],
    "score": ["text", "text"],
    "average": ["run", "-o", "out"],
    "export": ["run", "out", "--to", "ctranslate2"],
    "report": ["text", "--reference", "text", "-o", "out"],
    "figures": ["out", "--recipe", "missing.yaml"],  # drawing takes seconds
    "inspect": ["run"],
    "init": ["train.tsv", "-o", "mine.yaml", "--languages", "en-it"],
}
"""A command line of each command, arguments first, to which a hostile value is added."""


def hostile_commands() -> Iterator[list[str]]:
    """Yield a command line for each argument and each option with a value of all commands; "?" is the value."""
    group = get_command(app)
    assert isinstance(group, HelpPages)
    for name, command in group.commands.items():
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        for parameter in command.params:
            line = [name, *COMPLETE_COMMANDS.get(name, [])]
            given = next((line.index(option) for option in parameter.opts if option in line), None)
            if parameter in arguments:
                line[1 + arguments.index(parameter)] = "?"
            elif not getattr(parameter, "is_flag", False) and (given is None or parameter.multiple):
                line += [parameter.opts[0], "?"]
            elif given is not None:
                line[given + 1] = "?"
            if "?" in line:
                yield line


NESTED_KEYS = [
    *(f"data.train.0.{key}" for key in ("tsv", "source", "target", "columns", "columns.0", "oversample", "tag")),
    *(f"decode.sampling.{key}" for key in ("temperature", "top_k", "top_p")),
    *("decode.max_length.factor", "decode.max_length.extra", "data.valid.columns.1", "data.train.7.tsv"),
]
"""Keys of the recipe in sections that the recipe of the tests leaves out."""


def leaves(value: object, key: str = "") -> Iterator[str]:
    """Yield the dotted keys of all values of nested mappings."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{key}.{name}" if key else name)
    else:
        yield key


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, a run, a text of two lines and a link that leads to itself."""
    folder = tmp_path_factory.mktemp("trained")
    short = {"decode": {"max_length": {"factor": 0.2, "extra": 5}}}  # an untrained model rarely predicts the end
    recipe = write_reversal_task(folder, training=60, changes=short)
    with contextlib.chdir(folder):
        assert run_command("train", "--config", recipe, "--set", "train.stop.steps=2", "-q").exit_code == 0
    shutil.rmtree(folder / "runs")
    write_lines(folder / "text", "ba ce", "di")
    (folder / "loop").symlink_to("loop")
    return folder


@contextmanager
def copied(folder: Path) -> Iterator[None]:
    """Work in a copy of a folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        copy = shutil.copytree(folder, Path(place) / "copy", symlinks=True)
        os.chdir(copy)
        try:
            yield
        finally:
            os.chdir(before)


def assert_no_bug(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    result = CliRunner().invoke(app, list(arguments), env={**PLAIN_TERMINAL, **environment})
    assert result.exit_code in (0, 2), result.output
    assert "bug in nmt" not in result.output
    assert "\x1b" not in result.stderr.replace("\x1b[3", "")  # colours are allowed if the environment enables them


@settings(max_examples=30, derandomize=True)
@given(
    name=st.sampled_from(VARIABLES),
    value=st.sampled_from(VALUES),
    command=st.sampled_from(
        [
            "train --config recipe.yaml --set train.stop.steps=2 -q",
            "translate -m run -i text -o out",
            "translate -i text",
            "score text text",
            "prepare --config recipe.yaml",
            "average run -o out",
        ]
    ),
)
def test_hostile_environments_are_user_errors(trained: Path, name: str, value: str, command: str) -> None:
    with copied(trained):
        assert_no_bug(command.split(), {name: value})


def test_hostile_values_are_tried_with_every_command() -> None:
    group = get_command(app)
    assert isinstance(group, HelpPages)
    assert COMPLETE_COMMANDS.keys() == group.commands.keys(), "add a complete command line of each new command"


@pytest.mark.parametrize("command", list(hostile_commands()), ids=" ".join)
def test_hostile_arguments_and_options_are_user_errors(
    trained: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr("nmt.export.parity._LONGEST", 3)  # an untrained model rarely predicts the end
    with copied(trained):
        for value in random.Random(" ".join(command)).sample(VALUES, 4):
            assert_no_bug([value if argument == "?" else argument for argument in command], {})


@settings(max_examples=30, derandomize=True)
@given(data=st.data(), value=st.sampled_from(VALUES))
def test_hostile_recipes_are_user_errors(trained: Path, data: st.DataObject, value: str) -> None:
    recipe = load_recipe(trained / "recipe.yaml").model_dump(mode="json")
    # without a limit, a training does not end
    keys = [key for key in leaves(recipe) if not key.startswith("train.stop")]
    key = data.draw(st.sampled_from([*keys, *NESTED_KEYS]))
    limit = ["--set", "train.stop.steps=2"]
    with copied(trained):
        assert_no_bug(["train", "--config", "recipe.yaml", "--set", f"{key}={value}", *limit, "--restart", "-q"], {})
