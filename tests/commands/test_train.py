"""`nmt train`: a run from a recipe, refusals before any file is written, and signals."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from nmt.commands.prepare import prepare
from nmt.commands.train import BOARDS, LATEST, doubtful_settings, link, train
from nmt.config import load_recipe
from nmt.config.model_sections import Schedule
from nmt.errors import ConfigError, DataError
from nmt.model.checkpoint import load_model
from nmt.text.languages import TargetLanguage
from nmt.text.prepared import PreparedCorpus
from nmt.training.progress import read_progress
from tests.builders import recipe_in, reversal_pairs, run_command, write_reversal_task, write_tsv
from tests.training.runs import (
    CPU,
    QUIET,
    assert_same_run,
    progress,
    same_tensors,
    saved_steps,
    train_run,
)


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # `runs/latest` is written here


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(warm_python: str, texts: Path) -> Start:
    """Start `nmt train` with the run and other overrides of the recipe, after a patch of the program."""

    def start(run: Path, *overrides: str, patch: str = "") -> "subprocess.Popen[str]":
        settings = [part for override in (f"run={run}", *overrides) for part in ("--set", override)]
        command = [warm_python, "-c", f"{patch}\nimport nmt.cli; nmt.cli.main()", "train"]
        command += ["--config", str(texts / "recipe.yaml"), *settings]
        return subprocess.Popen(command, cwd=run.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


SLOW_TO_SAVE = """
import time
import nmt.training.checkpoint_files

def write_slowly(directory, loaded, tensors, plain=nmt.training.checkpoint_files.write_model):
    if "00000004" not in directory.name:
        print("saving", flush=True)
        time.sleep(10**6)
    plain(directory, loaded, tensors)

nmt.training.checkpoint_files.write_model = write_slowly
"""


def test_restart_equals_a_new_run(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_run(texts, run, "seed=5", "train.stop.steps=4")
    with pytest.raises(ConfigError, match="seed: was 5, now 1"):
        train_run(texts, run)
    train(recipe_in(texts, f"run={run}"), QUIET, restart=True)
    assert_same_run(uninterrupted, run)


def test_changed_text_is_refused_and_the_corpus_of_the_run_stays(tmp_path: Path) -> None:
    write_reversal_task(tmp_path, 100, 4)
    train_run(tmp_path, tmp_path / "run", "train.stop.steps=2")
    text, refused = (tmp_path / "train.tsv").read_bytes(), "have changed since this run was started.*--restart"
    write_tsv(tmp_path / "train.tsv", reversal_pairs(100, 9))
    with pytest.raises(ConfigError, match=refused):
        train_run(tmp_path, tmp_path / "run", "train.stop.steps=4")
    (tmp_path / "train.tsv").write_bytes(text)  # prepared again, since its time has changed: the same corpus
    assert train_run(tmp_path, tmp_path / "run", "train.stop.steps=4").step == 4
    write_tsv(tmp_path / "train.tsv", reversal_pairs(100, 9))
    prepare(recipe_in(tmp_path, f"run={tmp_path}/run"), QUIET)
    with pytest.raises(ConfigError, match=refused):
        train_run(tmp_path, tmp_path / "run", "train.stop.steps=5")
    (tmp_path / "train.tsv").write_bytes(text)
    assert train_run(tmp_path, tmp_path / "run", "train.stop.steps=5").step == 5
    write_tsv(tmp_path / "train.tsv", reversal_pairs(100, 9))
    train(recipe_in(tmp_path, f"run={tmp_path}/run", "train.stop.steps=1"), QUIET, restart=True)


@pytest.mark.parametrize(
    ("override", "message"),
    [("train.init_from={run}", "which is read"), ("train.freeze=[encodr.*]", "no weight matches 'encodr.*'")],
)
def test_refused_restart_leaves_the_run_unchanged(texts: Path, tmp_path: Path, override: str, message: str) -> None:
    run = tmp_path / "run"
    train_run(texts, run, "train.stop.steps=2")
    before = saved_steps(run)
    changed = recipe_in(texts, f"run={run}", override.format(run=run))
    with pytest.raises(ConfigError, match=re.escape(message)):
        train(changed, QUIET, restart=True)
    assert saved_steps(run) == before
    assert train_run(texts, run, "train.stop.steps=3").step == 3


def test_model_and_steps_out_of_proportion_to_the_text_give_a_warning(texts: Path, tmp_path: Path) -> None:
    fitting = recipe_in(texts, f"run={tmp_path}/run")
    corpus = prepare(fitting, QUIET)
    assert list(doubtful_settings(fitting, corpus)) == []
    shape = ("model.dim=2048", "model.heads=8")
    for name, warmup in product(get_args(Schedule.model_fields["name"].annotation), (12, 11)):
        schedule = f"train.schedule={{name: {name}, warmup: {warmup}}}"
        warnings = list(doubtful_settings(recipe_in(texts, f"run={tmp_path}/run", schedule), corpus))
        assert [warning.split(" at")[0] for warning in warnings] == [
            "train.schedule.warmup: 12 steps of warm-up leave none of the about 12 training steps"
        ] * (warmup == 12), name
    by_epochs = ("train.stop={epochs: 1}", "train.schedule={name: noam}")
    epoch = recipe_in(texts, f"run={tmp_path}/run", *by_epochs)
    (warning,) = doubtful_settings(epoch, corpus)
    train(epoch, QUIET)
    assert f"of the about {read_progress(epoch.run / 'last').step} training steps" in warning
    changed = recipe_in(texts, f"run={tmp_path}/run", *shape, "train.stop.steps=100000")
    tokens = corpus.manifest.train.target.tokens
    for warning, start in zip(
        doubtful_settings(changed, corpus), ("model: 5", "train.stop.steps: 100,000 steps, which read"), strict=True
    ):
        assert warning.startswith(start)
        assert f"many for {tokens:,} target tokens of text; `nmt init` writes" in warning
    # of a batch larger than the text, each length group has the text once: so many passes are what the epochs count
    large = recipe_in(texts, f"run={tmp_path}/run", "train.batch_tokens=10000000", "train.stop.steps=100000")
    assert "which read the text 400,000 times" in " ".join(doubtful_settings(large, corpus))


def test_torchrun_does_not_restart_a_run(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start it again and again: after each failure, and when a machine joins."""
    monkeypatch.setenv("RANK", "0")
    result = run_command("train", "-c", texts / "recipe.yaml", "--set", f"run={tmp_path}/run", "--restart")
    assert (result.exit_code, (tmp_path / "run").exists()) == (2, False)
    assert "--restart: not with torchrun, which starts these processes again when" in " ".join(result.stderr.split())


def test_scores_that_cannot_be_computed_are_reported_before_training(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_scorer(name: str, language: TargetLanguage) -> None:
        raise ConfigError(f"{name} for {language.code} needs a package")

    monkeypatch.setattr("nmt.commands.train.make_scorer", make_scorer)
    with pytest.raises(ConfigError, match="bleu for ja needs a package"):
        train(recipe_in(texts, f"run={tmp_path}/run", "languages.target=ja"), QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("content", "problem"), [(None, "no such file"), ("", "no sentence pairs"), ("x", "no tab")])
def test_faulty_test_text_is_refused_before_training(
    texts: Path, tmp_path: Path, content: str | None, problem: str
) -> None:
    file = tmp_path / "wrong.tsv"
    if content is not None:
        file.write_text(content)
    chosen = recipe_in(texts, f"run={tmp_path}/run", f"data.test={json.dumps({'file': str(file)})}")
    with pytest.raises(DataError, match=problem):
        train(chosen, QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("on_another_disk", [False, True])
def test_the_folder_of_tensorboard_has_each_run_once(tmp_path: Path, on_another_disk: bool) -> None:
    """`runs/latest` leads to the same log, which TensorBoard shows as another run in `runs`."""
    if on_another_disk:
        (tmp_path / "disk" / "text" / "runs").mkdir(parents=True)
        (tmp_path / "runs").symlink_to("disk/text/runs")
    for name in ("one", "two", "one"):
        (tmp_path / name / "tensorboard").mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "tensorboard" / "events.out.tfevents.1").touch()
        link(BOARDS / name, tmp_path / name / "tensorboard", QUIET)
        link(LATEST, tmp_path / name, QUIET)
    logs = [file.resolve() for file in BOARDS.glob("*/events*")]
    assert sorted(logs) == sorted(tmp_path.resolve().glob("*/tensorboard/events*"))
    assert LATEST.resolve() == (tmp_path / "one").resolve()


def test_runs_latest_that_is_a_folder_is_not_replaced(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs" / "latest").mkdir(parents=True)
    train_run(texts, tmp_path / "run", "train.stop.steps=1")
    assert "runs/latest: cannot link it" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "latest").is_symlink()
    assert saved_steps(tmp_path / "run") == [1]


@pytest.mark.slow
def test_signal_saves_and_the_same_command_resumes(start: Start, texts: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with start(run, "train.stop.steps=100000", "train.validate_every=100000") as process:
        wait_for(run / "metrics.jsonl", process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 143, err
    assert out == ""
    assert "interrupted; the same command resumes it" in err
    (stopped,) = saved_steps(run)
    assert f"stopped after step {stopped:,}" in err
    train_run(texts, run, f"train.stop.steps={stopped + 2}", "train.validate_every=100000")
    assert progress(run)["step"] == stopped + 2


@pytest.mark.slow
def test_second_ctrl_c_stops_at_once_without_damage(
    start: Start, uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with start(run, patch=SLOW_TO_SAVE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "saving\n"
        process.send_signal(signal.SIGINT)
        answer = next(line for line in process.stderr if line.startswith("saving"))
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert answer == "saving after this step; press Ctrl-C again to stop at once\n"
    assert err.splitlines()[-1:] == ["error: interrupted"]
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000004"]
    train_run(texts, run)
    assert_same_run(uninterrupted, run)


@pytest.mark.slow
def test_reversal_of_words_is_learned(tmp_path: Path) -> None:
    """3,000 sentences suffice to translate unseen sentences by reversing their words."""
    write_reversal_task(tmp_path, 3000, 60)
    chosen = recipe_in(
        tmp_path, f"run={tmp_path}/run", "model={encoder_layers: 1, decoder_layers: 1, dim: 64, feed_forward: 128, "
        "heads: 4, dropout: 0.0}", "train.schedule={name: linear, rate: 0.008, warmup: 40}", "train.batch_tokens=384",
        "train.stop.steps=280", "train.validate_every=280", f"data.test={{file: {tmp_path / 'test.tsv'}}}",
    )  # fmt: skip
    prepare(chosen, QUIET)
    train(chosen, QUIET)
    translations = (tmp_path / "run" / "test.txt").read_text().splitlines()
    known = {source for source, _ in reversal_pairs(3000, 1)}
    expected = [(source, target) for source, target in reversal_pairs(60, 3)]
    unseen = [(t, target) for t, (source, target) in zip(translations, expected, strict=True) if source not in known]
    assert len(unseen) > 20
    assert sum(translation == target for translation, target in unseen) >= 0.9 * len(unseen)
    assert json.loads((tmp_path / "run" / "test.json").read_text())[0]["value"] >= 90  # BLEU


# the run directory


def contents(folder: Path) -> dict[str, bytes | str]:
    """Return all paths below a folder, with the content of files and the targets of links."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("run", "override", "problem"),
    [
        (".", "seed=1", "which is read"),
        ("mine", "seed=1", "or one with the run.json of nmt, but it holds recipe.yaml"),
        ("empty", "data.test={file: empty/test.txt}", "which is read"),
        ("texts", "seed=1", "which is read"),
    ],
)
def test_run_folder_with_other_files_is_refused_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, override: str, problem: str, restart: bool
) -> None:
    """Recipes, test texts and corpora of the user are neither replaced nor removed."""
    texts = tmp_path / "texts"
    texts.mkdir()
    file = write_reversal_task(texts)
    for folder, name in (("mine", "recipe.yaml"), ("mine", "test.txt"), ("empty", "test.txt")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text("ba ce\tvid tec\n")
    before = contents(tmp_path)
    options = ["--set", f"run={tmp_path / run}", "--set", f"prepared={tmp_path / 'prepared'}", "--set", override]
    result = run_command("train", "-c", file, *options, *(["--restart"] if restart else []))
    assert result.exit_code == 2
    assert problem in result.stderr
    assert contents(tmp_path) == before
    assert not (tmp_path / "prepared").exists()


OTHERS = (".DS_Store", "my.log", "test.out", "checkpoints/notes.txt", "checkpoints/step-00000001/notes.txt",
          "tensorboard/notes.txt", "prepared/notes.txt")  # fmt: skip


@pytest.mark.parametrize("restart", [False, True])
def test_other_files_in_a_run_are_kept(texts: Path, uninterrupted: Path, tmp_path: Path, restart: bool) -> None:
    """Also files in the folder of a checkpoint, which this training removes or writes again."""
    run = tmp_path / "run"
    train_run(texts, run, "train.stop.steps=1", f"prepared={run}/prepared")
    before = {}
    for name in OTHERS:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(name)
        before[run / name] = (run / name).stat().st_mtime_ns
    train(recipe_in(texts, f"run={run}", f"prepared={run}/prepared"), QUIET, restart)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert all(file.read_text() == str(file.relative_to(run)) for file in before)
    assert same_tensors(uninterrupted, run)


def test_copy_of_a_run_resumes_into_itself(texts: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """Its recipe names the run as the folder that it lies in. Comments of the user in it remain."""
    train_run(texts, tmp_path / "run", "train.stop.steps=4", f"prepared={tmp_path}/run/prepared")
    shutil.copytree(tmp_path / "run", tmp_path / "copy", symlinks=True)
    before, recipe = contents(tmp_path / "run"), tmp_path / "copy" / "recipe.yaml"
    assert str(tmp_path / "run") not in recipe.read_text()
    recipe.write_text("# mine\n" + recipe.read_text().replace("steps: 4", "steps: 12"))
    train(load_recipe(recipe), QUIET)
    assert same_tensors(uninterrupted, tmp_path / "copy")
    assert recipe.read_text().startswith("# mine")
    assert contents(tmp_path / "run") == before


# the test text


def test_finished_run_keeps_the_record_of_how_it_was_trained(tmp_path: Path) -> None:
    """Settings of a command that trains nothing are not those of the training."""
    file = write_reversal_task(tmp_path, 60, 4)
    settings = ("--set", "train.schedule.warmup=2", "--set", "train.stop.steps=2")
    assert run_command("train", file, *settings).exit_code == 0
    run = load_recipe(file).run
    recipe, environment = load_recipe(run / "recipe.yaml"), (run / "run.json").read_text()
    others = ("train.stop.steps=1", "train.log_every=1", "runtime.threads=2", "decode.beam=3")
    result = run_command("train", file, *settings, *(part for other in others for part in ("--set", other)))
    assert "finished after step 2" in result.output
    assert "may differ" not in result.output
    assert (run / "run.json").read_text() == environment
    now = load_recipe(run / "recipe.yaml")
    assert (now.train, now.runtime, now.decode.beam) == (recipe.train, recipe.runtime, 3)
    assert run_command("train", file, *settings, "--set", "train.stop.steps=3").exit_code == 0
    assert load_recipe(run / "recipe.yaml").train.stop.steps == 3


def test_finished_run_prints_its_scores_without_translating_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_reversal_task(tmp_path, 60, 4)
    write_tsv(tmp_path / "test.tsv", reversal_pairs(6, 3))
    settings = (
        "--set",
        "data.test={file: test.tsv}",
        "--set",
        "train.stop.steps=2",
        "--set",
        "train.schedule.warmup=2",
    )
    results = [run_command("train", file, "--quiet", *settings)]
    with monkeypatch.context() as patch:
        patch.delattr("nmt.commands.train.evaluate_tests")
        results.append(run_command("train", "-c", file, *settings))
    assert [result.exit_code for result in results] == [0, 0]
    shown = [
        [line for line in result.stdout.splitlines() if line.startswith(("test ", "signature "))] for result in results
    ]
    assert [line.split(":")[0] for line in shown[0][2:]] == ["signature of BLEU", "signature of chrF2"]
    assert shown[0] == shown[1]
    assert "run: finished after step 2: train.stop.steps is 2; best bleu " in results[1].stderr
    assert not any(word in results[1].stderr for word in ("resuming", "perplexity", "stopped"))
    log = (tmp_path / "run" / "train.log").read_text()
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S", log)
    assert [
        log.count(part) for part in ("warning: train.schedule.warmup: 2 st", "stopped after step 2", "test BLEU")
    ] == [2, 1, 2]
    other_beam = run_command("train", "-c", file, *settings, "--set", "decode.beam=3")
    assert "translating 6 test sentences" in other_beam.stderr
    assert load_model(tmp_path / "run" / "best", CPU).decode.beam == 3
    write_tsv(tmp_path / "test.tsv", reversal_pairs(4, 3))  # another text of the same name
    other_text = run_command("train", "-c", file, *settings, "--set", "decode.beam=3")
    assert "translating 4 test sentences" in other_text.stderr


@pytest.mark.parametrize("target", ["it", "zh"])
def test_test_txt_equals_the_output_of_nmt_translate(tmp_path: Path, target: str) -> None:
    """The text has placeholders, typography, and a line of more tokens than the longest training line."""
    settings = {"languages": {"source": "en", "target": target}, "tokenizer": {"vocab_size": 300}}
    file = write_reversal_task(tmp_path, changes=settings)
    sources = ["ba ce", "di {0} fo https://a.org/x", "e' ba, ce.", " ".join(["ba ce di,"] * 60)]
    write_tsv(tmp_path / "test.tsv", [(source, "vid") for source in sources])
    (tmp_path / "input.txt").write_text("".join(f"{source}\n" for source in sources))
    overrides = [
        "data.test={file: test.tsv}",
        "data.filters={keep: [script, language]}",
        "train.stop.steps=40",
        "train.validate_every=40",
    ]
    result = run_command("train", "-c", file, *(word for override in overrides for word in ("--set", override)))
    assert result.exit_code == 0, result.stderr
    longest = load_model(tmp_path / "run" / "best", CPU).longest_source
    assert longest == max(PreparedCorpus.open(load_recipe(file).prepared_directory).train.source.lengths)
    translated = run_command("translate", "--model", tmp_path / "run", "-i", tmp_path / "input.txt", "--device", "cpu")
    assert translated.exit_code == 0, translated.stderr
    written = (tmp_path / "run" / "test.txt").read_text(encoding="utf-8")
    assert translated.stdout == written
    assert written.count("\n") == 4
    assert "{0}" in written
    assert "https://a.org/x" in written


def test_another_prepared_corpus_than_that_of_rank_0_is_refused(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.system.distributed.on_rank_zero", lambda work: "the fingerprint of another corpus")
    with pytest.raises(DataError, match=r"prepared: rank 0 reads another corpus here .* that all machines share"):
        train_run(texts, tmp_path / "run")
