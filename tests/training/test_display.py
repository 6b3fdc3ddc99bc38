"""The table that a training prints."""

import math

import pytest

from nmt.config import Stop, TrainSettings
from nmt.system.console import Console
from nmt.training.display import HEADER, TrainingDisplay, format_seconds, seconds_left
from tests.training.runs import evaluation_of

RECORD = {
    "step": 123_456, "epoch": 12.345, "loss": 2.0, "perplexity": 7.39, "rate": 1e-3, "loader_wait": 0.5,
    "target_tokens_per_second": 123_456.0, "seconds": 60.0,
}  # fmt: skip


def test_time_left_is_that_to_the_first_limit() -> None:
    assert seconds_left(Stop(), 100, 25, 0.5, 60) == 180
    assert seconds_left(Stop(hours=0.025), 100, 25, 0.5, 60) == 30
    assert seconds_left(Stop(steps=None, patience=2), math.inf, 25, 0.5, 60) is None
    assert seconds_left(Stop(epochs=2), 1000, 75, 1.5, 60) == 20, "epochs with their fraction"
    assert [format_seconds(s) for s in (0, 59.6, 3725, 360_000)] == ["0:00:00", "0:01:00", "1:02:05", "100:00:00"]


def test_rows_have_74_columns_and_losses_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    display = TrainingDisplay(Console(), TrainSettings())
    with display.live(""):
        display.update(RECORD, at_log=False)
        display.update(RECORD, at_log=True)
        display.update({**RECORD, "loss": 5000.0}, at_log=True)
        display.validation(123_456, evaluation_of(2.0, 100.0, 100.0), improved=True)
        display.validation(123_456, evaluation_of(5000.0, 0.0, 0.0, output=" "), improved=False)
    head, *lines = capsys.readouterr().err.splitlines()
    rows = [row for row in lines if row[8].isdigit()]  # without the sample translations
    assert (head, len(head)) == (HEADER, 74)
    assert max(map(len, rows)) <= 74
    columns = slice(head.index(" epoch") + len(" epoch"), head.index("perplexity") + len("perplexity"))
    assert [row[columns].split(maxsplit=1) for row in rows] == 2 * [["2.000", "7.39"], ["5.0e+03", "> 1,000,000"]]
    assert [row.endswith("best bleu") for row in rows] == [False, False, True, False]
    samples = [["source", "one"], ["reference", "uno"], ["output", "due"]]
    assert [line.split() for line in lines if line not in rows] == [*samples, *samples[:2], ["output", "(empty)"]]
