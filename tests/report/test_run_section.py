"""The section Run: what differs from the defaults, remarks on the course, and the command that repeats the run."""

import re
import shlex
import shutil
from html import unescape
from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.report.run_records import RunRecords
from nmt.report.run_section import changed_settings, run_section
from tests.builders import run_command
from tests.report.run_files import train_line, validation_line, write_run


def section_of(path: Path, *lines: dict[str, object]) -> str:
    return unescape(run_section(RunRecords(write_run(path, list(lines)))).html)


def test_changed_settings_are_those_of_the_recipe_as_it_was_written(repository: Path) -> None:
    changes = {
        one.key: (one.before, one.now)
        for one in changed_settings(load_recipe(repository / "recipes" / "demo-en-it.yaml"))
    }
    assert changes["model.dim"] == (512, 128)
    assert changes["train.schedule.name"] == ("noam", "wsd")
    assert changes["train.schedule.rate"] == (0.001, 0.004)
    assert changes["languages.target"] == (None, "it")
    written = {
        "languages.source", "languages.target", "data.train.0.file", "data.train.0.columns", "data.valid.0.file",
        "data.valid.0.columns", "data.test.0.file", "data.test.0.columns", "tokenizer.vocab_size",
        "model.encoder_layers",
        "model.decoder_layers", "model.dim", "model.feed_forward", "model.heads", "model.dropout", "train.batch_tokens",
        "train.label_smoothing",
        "train.schedule.name", "train.schedule.rate", "train.schedule.warmup", "train.schedule.decay",
        "train.stop.steps", "train.validate_every", "train.log_every", "decode.beam", "run",
    }  # fmt: skip
    assert set(changes) == written


def test_training_time_includes_the_last_validation(tmp_path: Path) -> None:
    lines = [{**train_line(10, 3.0), "seconds": 60}, {**validation_line(10, 2.0, 5.0), "seconds": 64}]
    assert "0:01:04" in run_section(RunRecords(write_run(tmp_path / "run", lines))).html


def test_charts_are_those_for_which_the_log_has_numbers(tmp_path: Path) -> None:
    run = RunRecords(write_run(tmp_path / "run", [train_line(10, 3.0), validation_line(10, 2.0, 5.0)]))
    assert set(run_section(run).charts) == {"loss", "scores", "perplexity", "rate", "speed", "shares", "gradient"}
    run = RunRecords(write_run(tmp_path / "no-validation", [train_line(10, 3.0)]))
    assert set(run_section(run).charts) == {"loss", "perplexity", "rate", "speed", "shares", "gradient"}
    run = RunRecords(write_run(tmp_path / "no-training", [validation_line(10, 2.0, 5.0)]))
    assert set(run_section(run).charts) == {"loss", "scores", "perplexity"}


def test_loss_is_without_label_smoothing(tmp_path: Path) -> None:
    lines = [train_line(10, 3.0, objective=4.2), train_line(20, 2.0, objective=3.1)]
    chart = run_section(RunRecords(write_run(tmp_path / "run", lines))).charts["loss"]
    assert chart.columns == ("step", "training")
    assert chart.rows == ((10, 3.0), (20, 2.0))
    assert "without label smoothing" in chart.summary


def test_curve_of_one_point_has_one_value(tmp_path: Path) -> None:
    lines = [train_line(10, 3.0), train_line(20, 2.0), validation_line(20, 2.5, 5.0)]
    charts = run_section(RunRecords(write_run(tmp_path / "run", lines))).charts
    assert charts["loss"].summary.startswith("Training from 3.000 to 2.000; validation 2.500. ")
    assert charts["speed"].summary.startswith("Target tokens per second: between ")


def test_best_validation_is_marked(tmp_path: Path) -> None:
    lines = [validation_line(10, 3.0, 5.0), validation_line(20, 2.0, 9.0), validation_line(30, 2.5, 8.0)]
    charts = run_section(RunRecords(write_run(tmp_path / "run", lines))).charts
    assert charts["scores"].summary.startswith("Best at step 20: BLEU 9.00, chrF 19.00.")
    star = charts["scores"].specification["data"][-1]
    assert (star["name"], star["x"], star["y"]) == ("best (step 20)", [20], [9.0])
    assert charts["loss"].specification["data"][-1]["y"] == [2.0]


@pytest.mark.parametrize(
    ("name", "losses", "validation", "remark"),
    [
        ("overfitting", [3, 2, 1, 0.5, 0.3], [3.0, 2.0, 2.4, 2.6, 2.8], "lowest at step 20 (2.000)"),
        ("improving", [3, 2, 1, 0.9, 0.8], [3.0, 2.0, 1.5, 1.2, 1.1], "The last validation is the best one"),
        ("diverging", [3, 2, 1, 4, 6], [3.0, 2.0, 1.5, 1.4, 1.405], "rose from 1.000 to 6.000"),
    ],
)
def test_course_that_needs_attention_is_named(
    tmp_path: Path, name: str, losses: list[float], validation: list[float], remark: str
) -> None:
    lines = [train_line(10 * i, loss) for i, loss in enumerate(losses, start=1)]
    lines += [validation_line(10 * i, loss, 20 - loss) for i, loss in enumerate(validation, start=1)]
    text = section_of(tmp_path / name, *lines)
    assert remark in text
    others = {"lowest at step", "The last validation is", "rose from"} - {
        part for part in ("lowest at step", "The last validation is", "rose from") if part in remark
    }
    assert not [other for other in others if other in text]


def test_healthy_run_has_no_remark_and_one_without_validation_has(tmp_path: Path) -> None:
    lines = [train_line(10 * i, 3 / i) for i in range(1, 5)]
    validations = [validation_line(10, 2, 5), validation_line(20, 1.5, 9), validation_line(30, 1.49, 8.9)]
    assert "Nothing in the log is unusual." in section_of(tmp_path / "healthy", *lines, *validations)
    assert "There is no validation" in section_of(tmp_path / "run", *lines)


def test_waiting_and_padding_are_named(tmp_path: Path) -> None:
    text = section_of(tmp_path / "run", train_line(10, 3.0, padding=0.45, loader_wait=0.2))
    assert "45% of the target tokens in batches are padding" in text
    assert "In 20% of the time no batch was ready" in text


def test_skipped_updates_are_listed_and_counted(tmp_path: Path) -> None:
    skipped = [{"type": "skipped", "step": step, "loss": "nan", "gradient_norm": "inf"} for step in range(1, 41)]
    text = section_of(tmp_path / "run", train_line(50, 3.0), *skipped)
    assert "40 updates skipped" in text
    assert text.count("<td>nan</td>") == 20
    assert "20 of 40" in text


def test_environment_is_shown(uninterrupted: Path) -> None:
    assert re.search(r"<td>torch</td><td>\d+\.\d+", run_section(RunRecords(uninterrupted)).html)


def test_shown_command_trains_the_run_again(uninterrupted: Path, tmp_path: Path) -> None:
    copy = tmp_path / "my run's"
    shutil.copytree(uninterrupted, copy, symlinks=True)
    (command,) = re.findall(r"<pre[^>]*>(nmt train[^<]*)</pre>", run_section(RunRecords(copy)).html)
    words = shlex.split(unescape(command))
    result = run_command(*words[1:], "--quiet")
    assert result.exit_code == 0, result.output
    assert RunRecords(tmp_path / "my run's-again").train[-1]["loss"] == RunRecords(uninterrupted).train[-1]["loss"]


def test_missing_texts_are_named(tmp_path: Path) -> None:
    assert "No longer there: /text/train.tsv" in section_of(tmp_path / "run", train_line(10, 3.0))


def test_problems_stand_first(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [train_line(10, 3.0)], recipe="name: [")
    assert run_section(RunRecords(path)).html.startswith('<p class="warning">The recipe cannot be read')
