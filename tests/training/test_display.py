"""The table that a training prints."""

from nmt.config import Stop, TrainSettings
from nmt.training.display import TrainingDisplay, format_seconds
from nmt.training.progress import Progress
from tests.training.runs import (
    QUIET,
)


def test_time_left_is_that_to_the_first_limit() -> None:
    assert [format_seconds(seconds) for seconds in (0, 59.6, 3725, 360_000)] == [
        "0:00:00",
        "0:01:00",
        "1:02:05",
        "100:00:00",
    ]

    def left(stop: Stop, progress: Progress) -> str:
        return TrainingDisplay(QUIET, TrainSettings(stop=stop)).time_left(progress)

    assert left(Stop(steps=100), Progress(step=25, seconds=60)) == "0:03:00"
    assert left(Stop(steps=100, hours=0.025), Progress(step=25, seconds=60)) == "0:00:30"
    assert left(Stop(steps=None, patience=2), Progress(step=25, seconds=60)) == "until stopped"
