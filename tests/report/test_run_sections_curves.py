"""The section Training: curves and remarks of a run, and curves of several runs."""

import math
from html import unescape
from pathlib import Path

import pytest
from matplotlib.axes import Axes

from nmt.report.drawing import Drawing, in_legend
from nmt.report.run_records import RunRecords
from nmt.report.run_sections import comparison_drawings, curves_html, training_drawings, update_drawings
from tests.report.run_files import train_line, validation_line, write_run


def section_of(path: Path, *lines: dict[str, object]) -> str:
    return unescape(curves_html(RunRecords(write_run(path, list(lines)))))


def drawings_of(path: Path, *lines: dict[str, object]) -> dict[str, Drawing]:
    run = RunRecords(write_run(path, list(lines)))
    drawings = [*training_drawings(run), *update_drawings(run)]
    return {drawing.name.removeprefix("training-"): drawing for drawing in drawings}


def curves(drawing: Drawing) -> dict[str, tuple[list[float], list[float]]]:
    """Return the points of the labelled lines of a figure."""
    (axes,) = drawing.figure.axes
    return curves_in(axes)


def curves_in(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """Return the points of the labelled lines of a panel, all of which are inside its limits."""
    curves = {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}
    for points in curves.values():
        for values, (low, high) in zip(points, (axes.get_xlim(), axes.get_ylim()), strict=True):
            assert low <= min(values) <= max(values) < high, "no point is cut off"
    return curves


def test_curves_are_those_for_which_the_log_has_numbers(tmp_path: Path) -> None:
    lines = [{**train_line(10, 3.0), "seconds": 60}, {**validation_line(10, 2.0, 5.0), "seconds": 64}]
    of_training = {"loss", "rate", "speed", "padding", "gradient"}
    assert set(drawings_of(tmp_path / "both", *lines)) == {*of_training, "scores"}
    assert set(drawings_of(tmp_path / "no-validation", lines[0])) == of_training
    assert set(drawings_of(tmp_path / "no-training", lines[1])) == {"loss", "scores"}
    assert [drawing.name for drawing in training_drawings(RunRecords(tmp_path / "no-validation"))] == ["training-loss"]


def test_curves_show_the_unsmoothed_loss_and_mark_the_best_validation(tmp_path: Path) -> None:
    train = [train_line(10, 3.0, objective=4.2), train_line(20, 2.0, objective=3.1)]
    valid = [validation_line(10, 3.0, 5.0), validation_line(20, 2.0, 9.0), validation_line(30, 2.5, 8.0)]
    drawings = drawings_of(tmp_path / "run", *train, *valid)
    loss, scores = curves(drawings["loss"]), curves(drawings["scores"])
    assert loss["training 2"] == ([10, 20], [3.0, 2.0])
    assert loss["validation 2.5"] == ([10, 20, 30], [3.0, 2.0, 2.5])
    assert loss["_best"] == ([20], [2.0])
    assert scores["chrF 18"] == ([10, 20, 30], [15.0, 19.0, 18.0])
    assert scores["_best"] == ([20], [19.0])
    assert f"A validation loss of 2.5 is a perplexity of {math.exp(2.5):.2f}" in drawings["loss"].caption
    assert "The last 10 steps changed BLEU by -1.0." in drawings["scores"].caption
    for name, values in (("padding", [10, 10]), ("rate", [0.001, 0.001])):
        assert list(curves(drawings[name]).values()) == [([10, 20], values)]


def test_no_text_of_a_chart_is_cut_off(tmp_path: Path) -> None:
    runs = [(1, 3.0, 0.0015, 2.0), (180_000, 3.0, 0.00035, 2.0), (60, 136_160.0, 50.0, 3.8e13)]
    for number, (last, loss, rate, norm) in enumerate(runs):
        changing = {"rate": rate, "gradient_norm": norm, "target_tokens_per_second": 12_500.0}
        log = [train_line(step, step * loss / last, **changing) for step in (last, 2 * last)]
        log += [validation_line(step, step * loss / last, 20.0) for step in (last, 2 * last)]
        for drawing in drawings_of(tmp_path / str(number), *log).values():
            box = drawing.figure.get_tightbbox()
            assert box.x0 >= 0, drawing.name
            assert box.x1 <= drawing.figure.get_figwidth(), drawing.name
            assert len(drawing.caption) < 120


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
    # as many tokens take 1 s, and 9 s with a third of the time waiting: 3 of 10 s
    lines = [train_line(50, 3.0, padding=0.45, target_tokens_per_second=900.0)]
    lines += [train_line(100, 3.0, padding=0.45, target_tokens_per_second=100.0, loader_wait=1 / 3)]
    text = section_of(tmp_path / "run", *lines, *skipped)
    assert "180 target tokens on average" in text
    assert "45% of the target tokens only fill batches up to their size; there are fewer with larger" in text
    assert "In 30% of the time no batch was ready" in text
    assert "40 updates skipped" in text
    assert "not finite: steps 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …." in text


def test_runs_are_drawn_over_each_other_by_steps_tokens_and_minutes(tmp_path: Path) -> None:
    runs = [
        RunRecords(
            write_run(tmp_path / place, [validation_line(step, 2.0, bleu), validation_line(2 * step, 1.0, bleu)])
        )
        for place, step, bleu in (("a/one", 30, 5.0), ("b/one", 60, 9.0))
    ]
    drawings = comparison_drawings(runs)
    assert [drawing.name for drawing in drawings] == ["runs-by-steps", "runs-by-tokens", "runs-by-minutes"]
    for drawing, of_step in zip(drawings, (1, 100e-6, 1 / 60), strict=True):
        bleu, loss = drawing.figure.axes
        assert curves_in(bleu) == {
            in_legend(str(run.path)): ([pytest.approx(step * of_step), pytest.approx(2 * step * of_step)], [score] * 2)
            for run, step, score in zip(runs, (30, 60), (5, 9), strict=True)
        }, "names that are equal are paths"
        assert [losses for _, losses in curves_in(loss).values()] == [[2, 1]] * 2
