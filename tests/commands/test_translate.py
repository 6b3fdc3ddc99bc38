"""What `nmt translate` does before it translates, and instead."""

from pathlib import Path

import pytest

from nmt.commands.translate import Job, default_model
from nmt.config import RuntimeSettings
from nmt.errors import DataError, ModelError
from nmt.model.checkpoint import save_model
from nmt.system.console import Console
from nmt.translation.translator import Translator
from tests.test_cli import call
from tests.translation.test_translator import opinionated


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save_model(directory, opinionated())
    return directory


class TestDefaultModel:
    def test_nothing_is_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("NMT_MODEL", raising=False)
        expected = r"runs/latest is not there; give --model DIR .* or train one: nmt train --config"
        with pytest.raises(ModelError, match=expected):
            default_model()

    def test_the_last_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("NMT_MODEL", raising=False)
        (tmp_path / "runs" / "mine").mkdir(parents=True)
        (tmp_path / "runs" / "latest").symlink_to("mine")
        assert default_model() == Path("runs/latest")
        (tmp_path / "runs" / "mine").rmdir()
        with pytest.raises(ModelError, match=r"runs/latest points to mine, which is gone; give --model DIR"):
            default_model()

    def test_what_the_environment_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for folder in ("best", "runs"):
            (tmp_path / folder).mkdir()
        (tmp_path / "best" / "config.json").write_text("{}")
        monkeypatch.setenv("NMT_MODEL", str(tmp_path))
        assert default_model() == tmp_path
        for name, problem in (("nowhere", "no such directory"), ("runs", "neither a model directory .* nor a run")):
            monkeypatch.setenv("NMT_MODEL", name)
            with pytest.raises(ModelError, match=rf"\$NMT_MODEL: {name}: {problem}.*; or give --model DIR"):
                default_model()


def test_there_are_as_many_references_as_lines(model: Path, tmp_path: Path) -> None:
    source, reference = tmp_path / "in.txt", tmp_path / "ref.txt"
    source.write_text("a dog\nthe cat\n")
    reference.write_text("un cane\n")
    translator = Translator.load(model, RuntimeSettings(device="cpu"))
    job = Job(translator, [model], translator.options(), source, tmp_path / "out.txt", as_json=False)
    with pytest.raises(DataError, match="--reference: 1 line, but the input has more; expected one for each line"):
        job.score_given(reference, Console(quiet=True))
    reference.write_text("un cane\nil gatto\n")
    job.score_given(reference, Console(quiet=True))
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 2


class TestCommand:
    def test_nothing_to_verify_is_an_error(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("\n \n")
        command = ["translate", "-m", model, "-i", tmp_path / "in.txt", "--device", "cpu", "--verify"]
        done = call(*command)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("error: --verify: no line to verify: the input is empty or blank")
        (tmp_path / "in.txt").write_text("a dog\n")
        done = call(*command)
        assert done.exit_code == 0, done.stderr
        assert "each alone: the same text for 1 of 1" in done.stdout

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--verify", "--reference", "in.txt"], "--verify: --reference"),
            (["--verify", "--output", "out.txt"], "--verify: --output"),
            (["--verify", "--json"], "--verify: --json"),
            (["--reference", "in.txt", "--n-best", "3"], "--reference: --n-best"),
            (["--reference", "in.txt", "--glossary", "in.txt"], "--reference: --glossary"),
            (["--reference", "in.txt", "--alignment"], "--reference: --alignment"),
        ],
    )
    def test_options_that_would_have_no_effect_are_refused(
        self, model: Path, tmp_path: Path, options: list[str], message: str
    ) -> None:
        done = call("translate", "-m", model, "-i", tmp_path / "in.txt", "--device", "cpu", *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {message} would have no effect beside it; leave one out")

    def test_what_is_said_of_one_line(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("a dog\n")
        done = call("translate", "-m", model, "-i", tmp_path / "in.txt", "--device", "cpu")
        assert done.exit_code == 0, done.stderr
        assert done.stderr.startswith("translated 1 line in ")

    def test_options_are_named_as_users_know_them(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("a dog\n")
        done = call("translate", "-m", model, "-i", tmp_path / "in.txt", "--beam", 2, "--n-best", 5)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == "error: --n-best: found 5, but a beam of 2 finds no more than that; widen the beam\n"
