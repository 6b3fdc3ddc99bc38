"""The section Run: curves, what differs from the defaults, remarks, and the command that repeats the run."""

import re
import shlex
import shutil
from html import unescape
from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.report.drawing import Drawing
from nmt.report.run_records import RunRecords
from nmt.report.run_section import changed_settings, compared_drawing, run_section, training_drawings
from tests.builders import run_command
from tests.report.run_files import train_line, validation_line, write_run


def section_of(path: Path, *lines: dict[str, object]) -> str:
    return unescape(run_section(RunRecords(write_run(path, list(lines)))).html)


def drawings_of(path: Path, *lines: dict[str, object]) -> dict[str, Drawing]:
    drawings = training_drawings(RunRecords(write_run(path, list(lines))))
    return {drawing.name.removeprefix("training-"): drawing for drawing in drawings}


def curves(drawing: Drawing) -> dict[str, tuple[list[float], list[float]]]:
    """Return the points of the labelled lines of a figure."""
    (axes,) = drawing.figure.axes
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


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


def test_curves_are_those_for_which_the_log_has_numbers(tmp_path: Path) -> None:
    lines = [{**train_line(10, 3.0), "seconds": 60}, {**validation_line(10, 2.0, 5.0), "seconds": 64}]
    of_training = {"loss", "rate", "speed", "waste", "gradient"}
    assert set(drawings_of(tmp_path / "both", *lines)) == {*of_training, "scores"}
    assert set(drawings_of(tmp_path / "no-validation", lines[0])) == of_training
    assert set(drawings_of(tmp_path / "no-training", lines[1])) == {"loss", "scores"}
    assert "0:01:04" in run_section(RunRecords(tmp_path / "both")).html


def test_curves_show_the_unsmoothed_loss_and_mark_the_best_validation(tmp_path: Path) -> None:
    train = [train_line(10, 3.0, objective=4.2), train_line(20, 2.0, objective=3.1)]
    valid = [validation_line(10, 3.0, 5.0), validation_line(20, 2.0, 9.0), validation_line(30, 2.5, 8.0)]
    drawings = drawings_of(tmp_path / "run", *train, *valid)
    loss, scores = curves(drawings["loss"]), curves(drawings["scores"])
    assert loss["training"] == ([10, 20], [3.0, 2.0])
    assert loss["validation"] == ([10, 20, 30], [3.0, 2.0, 2.5])
    assert loss["best (step 20)"] == ([20], [2.0])
    assert scores["chrF"] == ([10, 20, 30], [15.0, 19.0, 18.0])
    assert scores["best (step 20)"] == ([20], [19.0])
    assert drawings["loss"].caption.startswith("Training from 3 to 2, between 2 and 3. Validation from 3 to 2.5, betw")
    assert curves(drawings["waste"])["padding"] == ([10, 20], [10, 10])


@pytest.mark.parametrize(
    ("name", "losses", "validation", "remark"),
    [
        ("overfitting", [3, 2, 1, 0.5, 0.3], [3.0, 2.0, 2.4, 2.6, 2.8], "lowest at step 20 (2.000)"),
        ("improving", [3, 2, 1, 0.9, 0.8], [3.0, 2.0, 1.5, 1.2, 1.1], "The last validation is the best one"),
        ("diverging", [3, 2, 1, 4, 6], [3.0, 2.0, 1.5, 1.4, 1.405], "rose from 1.000 to 6.000"),
        ("healthy", [3, 1.5, 1, 0.75], [2, 1.5, 1.49, 1.495], "Nothing in the log is unusual."),
        ("without", [3, 1.5, 1, 0.75], [], "There is no validation"),
    ],
)
def test_course_that_needs_attention_is_named(
    tmp_path: Path, name: str, losses: list[float], validation: list[float], remark: str
) -> None:
    lines = [train_line(10 * i, loss) for i, loss in enumerate(losses, start=1)]
    lines += [validation_line(10 * i, loss, 20 - loss) for i, loss in enumerate(validation, start=1)]
    text = section_of(tmp_path / name, *lines)
    assert remark in text
    known = ("lowest at step", "The last validation is", "rose from", "Nothing in the log", "There is no validation")
    assert [part for part in known if part in text] == [part for part in known if part in remark]


def test_waiting_padding_and_skipped_updates_are_named(tmp_path: Path) -> None:
    skipped = [{"type": "skipped", "step": step, "loss": "nan", "gradient_norm": "inf"} for step in range(1, 41)]
    text = section_of(tmp_path / "run", train_line(50, 3.0, padding=0.45, loader_wait=0.2), *skipped)
    assert "45% of the target tokens in batches are padding" in text
    assert "In 20% of the time no batch was ready" in text
    assert "40 updates skipped" in text
    assert text.count("<td>nan</td>") == 20
    assert "the first 20 of 40" in text


def test_shown_command_trains_the_run_again(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # in which the command makes the link runs/latest
    copy = tmp_path / "my run's"
    shutil.copytree(uninterrupted, copy, symlinks=True)
    html = run_section(RunRecords(copy)).html
    assert re.search(r"<td>torch</td><td>\d+\.\d+", html)
    (command,) = re.findall(r"<pre>(nmt train[^<]*)</pre>", html)
    words = shlex.split(unescape(command))
    result = run_command(*words[1:], "--quiet")
    assert result.exit_code == 0, result.output
    assert RunRecords(tmp_path / "my run's-again").train[-1]["loss"] == RunRecords(uninterrupted).train[-1]["loss"]


def test_two_runs_are_drawn_over_each_other(tmp_path: Path) -> None:
    runs = [
        RunRecords(write_run(tmp_path / name, [train_line(10, loss), validation_line(10, loss - 1, bleu)]))
        for name, loss, bleu in (("one", 3.0, 5.0), ("two", 2.0, 9.0))
    ]
    drawing = compared_drawing(runs)
    loss, bleu = drawing.figure.axes
    drawn = {line.get_label(): line.get_ydata()[0] for line in loss.lines}
    assert drawn == {"one: training": 3, "one: validation": 2, "two: training": 2, "two: validation": 1}
    assert [line.get_ydata()[0] for line in bleu.lines] == [5, 5, 9, 9], "a star at the best"
    assert "one reaches a BLEU of 5.0 at step 10; two reaches a BLEU of 9.0 at step 10." in drawing.caption
