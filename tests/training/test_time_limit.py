"""Limits in time and in epochs: the schedule ends where they end the training. The clock is simulated."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.config import Stop, TrainSettings
from nmt.system.console import Console
from nmt.training import loop
from nmt.training.progress import Progress
from tests.training.runs import assert_same_run, interrupt_at, metrics, progress, saved_steps, train_run
from tests.training.test_data_parallel import Ranks, ranks

__all__ = ["ranks"]
WSD = "train.schedule={name: wsd, rate: 0.01, warmup: 2, decay: 0.5, floor: 0.1}"
ALL_LOGGED = (WSD, "train.log_every=1")


def set_clock(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let each lap take so long: a step has one, a validation two."""
    ticks: Iterator[int] = count(1)
    patch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks) * seconds))


def rates(run: Path) -> list[float]:
    return [record["rate"] for record in metrics(run) if record["type"] == "train"]


def test_schedule_ends_at_the_limit_in_time(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a second and a validation of two after every four: 2/3 of the seconds are steps."""
    set_clock(monkeypatch, 1)
    outcome = train_run(texts, tmp_path / "run", *ALL_LOGGED, "train.stop={steps: 1000, minutes: 1}")
    content = json.loads((tmp_path / "run" / "last" / "progress.json").read_text())
    assert outcome.step == content["last_step"] == pytest.approx(40, abs=4)
    assert content["seconds"] == pytest.approx(60, abs=6)
    assert outcome.reason.startswith("train.stop.minutes is 1")
    assert rates(tmp_path / "run")[-1] == pytest.approx(0.001)
    half = outcome.step / 2
    fall = [0.01 - 0.009 * max(0, step - half) / half for step in range(3, outcome.step + 1)]
    assert rates(tmp_path / "run")[2:] == pytest.approx(fall)


def test_recorded_last_step_decides_in_a_resumed_training(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed on machines of other speeds; with another limit, the number is computed again."""
    overrides = (*ALL_LOGGED, "train.stop={steps: null, minutes: 1}", "train.validate_every=8")
    set_clock(monkeypatch, 1)
    whole = train_run(texts, tmp_path / "whole", *overrides)
    for step, seconds in ((21, 1), (30, 10), (35, 0.1)):
        with monkeypatch.context() as patch:
            set_clock(patch, seconds)
            interrupt_at(patch, step)
            assert train_run(texts, tmp_path / "run", *overrides).signal is not None
    assert train_run(texts, tmp_path / "run", *overrides) == whole
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    longer = train_run(texts, tmp_path / "run", *overrides, "train.stop.minutes=4")
    assert longer.step > whole.step
    assert longer.reason == "train.stop.minutes is 4"


def test_limit_shorter_than_a_step_ends_after_one(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = train_run(texts, tmp_path / "run", "train.stop.hours=1e-9", WSD, console=Console())
    assert (outcome.step, outcome.reason) == (1, "train.stop.hours is 1e-09")
    assert saved_steps(tmp_path / "run") == [1]
    assert "warning: train.schedule.warmup: 2 steps are all of this training" in capsys.readouterr().err


def test_schedule_ends_with_the_last_epoch(texts: Path, tmp_path: Path) -> None:
    stop = "train.stop={epochs: 3}"  # with the default limit of 100,000 steps
    outcome = train_run(texts, tmp_path / "run", *ALL_LOGGED, stop, "train.batch_tokens=256", "train.accumulate=2")
    assert outcome.reason == "train.stop.epochs is 3"
    assert rates(tmp_path / "run")[-1] == pytest.approx(0.001)
    assert rates(tmp_path / "run")[-2] > 0.00101
    assert progress(tmp_path / "run")["epoch"] == 3


def test_first_limit_in_time_counts() -> None:
    assert Stop(minutes=90, hours=1).seconds == 3600
    assert Stop(minutes=30, hours=1).seconds == 1800
    # 100 steps of 0.5 s and 2 validations of 5 s: 940 s remain
    done = Progress(step=100, seconds=60, validation_seconds=10, last_validation=5)
    last = done.last_step_within(1000, validate_every=50)
    assert last - 100 == pytest.approx(940 / (0.5 + 5 / 50), rel=0.01)
    assert done.last_step_within(60, 50) == 100, "the limit has passed"


def test_lower_limit_of_time_is_reached_where_a_higher_one_is() -> None:
    done = Progress(step=10, validated_at=10, time_limit=120.0, last_step=10)
    for minutes, reason in ((1, "train.stop.minutes is 1"), (2, "train.stop.minutes is 2"), (3, None)):
        assert done.reached_limit(TrainSettings(stop=Stop(minutes=minutes))) == reason


@pytest.mark.slow
def test_ranks_of_different_speed_agree_on_the_last_step(ranks: Ranks, tmp_path: Path) -> None:
    """The second rank has a faster clock."""
    patch = """
import itertools, os
from types import SimpleNamespace
from nmt.training import loop
ticks = itertools.count(1)
loop.time = SimpleNamespace(perf_counter=lambda: next(ticks) * (1 + int(os.environ["RANK"])))
"""
    done = ranks.train(2, tmp_path / "run", *ALL_LOGGED, "train.stop={steps: null, minutes: 1}", patch=patch)
    assert done.returncode == 0, done.stderr
    assert rates(tmp_path / "run")[-1] == pytest.approx(0.001)
    assert progress(tmp_path / "run")["step"] == progress(tmp_path / "run")["last_step"] == pytest.approx(40, abs=4)
