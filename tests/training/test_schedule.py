"""Learning rate schedules: values by hand, equality with torch, and properties."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import Stop, TrainSettings, load_recipe
from nmt.config.schedules import Schedule
from nmt.training.optimizer import learning_rate

STEPS = 1000


def rate(schedule: Schedule, step: int, dim: int = 64, steps: int | None = STEPS) -> float:
    return learning_rate(TrainSettings(schedule=schedule, stop=Stop(steps=steps, epochs=1)), dim, step)


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        # 64^-0.5 = 1/8, 100^-1.5 = 1/1000, 100^-0.5 = 1/10
        (Schedule(factor=2, warmup=100), 1, 2 / 8 / 1000),
        (Schedule(factor=2, warmup=100), 50, 2 / 8 * 50 / 1000),
        (Schedule(factor=2, warmup=100), 100, 2 / 8 / 10),
        (Schedule(factor=2, warmup=100), 400, 2 / 8 / 20),
        (Schedule(name="inverse_sqrt", rate=0.1, warmup=100), 1, 0.001),
        (Schedule(name="inverse_sqrt", rate=0.1, warmup=100), 100, 0.1),
        (Schedule(name="inverse_sqrt", rate=0.1, warmup=100), 400, 0.05),
        (Schedule(name="constant", rate=0.1), 1, 0.1),
        (Schedule(name="constant", rate=0.1, warmup=10), 3, 0.03),
        (Schedule(name="constant", rate=0.1, warmup=10), 10, 0.1),
        (Schedule(name="constant", rate=0.1, warmup=10), 10**6, 0.1),
        (Schedule(name="linear", rate=0.1, warmup=100), 25, 0.025),
        (Schedule(name="linear", rate=0.1, warmup=100), 100, 0.1),
        (Schedule(name="linear", rate=0.1, warmup=100), 550, 0.05),
        (Schedule(name="linear", rate=0.1, warmup=100), 1000, 0.0),
        (Schedule(name="linear", rate=0.1, warmup=100, floor=0.2), 550, 0.06),
        (Schedule(name="linear", rate=0.1, warmup=1000, floor=0.2), 1000, 0.1),
        # a third of the way, half of it, two thirds of it: cos 60° = 1/2, cos 90° = 0, cos 120° = -1/2
        (Schedule(name="cosine", rate=0.1, warmup=100), 50, 0.05),
        (Schedule(name="cosine", rate=0.1, warmup=100), 100, 0.1),
        (Schedule(name="cosine", rate=0.1, warmup=100), 400, 0.075),
        (Schedule(name="cosine", rate=0.1, warmup=100), 550, 0.05),
        (Schedule(name="cosine", rate=0.1, warmup=100), 700, 0.025),
        (Schedule(name="cosine", rate=0.1, warmup=100), 1000, 0.0),
        (Schedule(name="cosine", rate=0.1, warmup=100, floor=0.2), 700, 0.04),
        (Schedule(name="cosine", rate=0.1, warmup=100, floor=0.2), 2000, 0.02),
        (Schedule(name="wsd", rate=0.1, warmup=100), 799, 0.1),
        (Schedule(name="wsd", rate=0.1, warmup=100, decay=0.5), 50, 0.05),
        (Schedule(name="wsd", rate=0.1, warmup=100, decay=0.5), 500, 0.1),
        (Schedule(name="wsd", rate=0.1, warmup=100, decay=0.5), 750, 0.05),
        (Schedule(name="wsd", rate=0.1, warmup=100, decay=0.5, floor=0.2), 750, 0.06),
        (Schedule(name="wsd", rate=0.1, warmup=100, decay=0.5, floor=0.2), 1000, 0.02),
        (Schedule(name="wsd", rate=0.1, warmup=100, decay=0.5, floor=0.2), 1200, 0.02),
        # a warm-up that lasts into the decay begins the fall where it ends
        (Schedule(name="wsd", rate=0.1, warmup=600, decay=0.5), 800, 0.05),
    ],
    ids=str,
)
def test_rates_by_hand(schedule: Schedule, step: int, expected: float) -> None:
    assert rate(schedule, step) == pytest.approx(expected, rel=1e-12, abs=1e-15)


WARMUPS = st.integers(1, 500)
RATES = st.floats(1e-6, 1.0)
FALLING = st.one_of(
    st.builds(
        Schedule, name=st.sampled_from(["linear", "cosine"]), rate=RATES, warmup=WARMUPS, floor=st.floats(0, 0.99)
    ),
    st.builds(
        Schedule,
        name=st.just("wsd"),
        rate=RATES,
        warmup=WARMUPS,
        decay=st.floats(0.01, 1),
        floor=st.floats(0, 0.99),
    ),
)
SCHEDULES = st.one_of(
    st.builds(Schedule, factor=st.floats(0.01, 10), warmup=WARMUPS),
    st.builds(Schedule, name=st.just("inverse_sqrt"), rate=RATES, warmup=WARMUPS),
    st.builds(Schedule, name=st.just("constant"), rate=RATES, warmup=st.integers(0, 500)),
    FALLING,
)


@settings(max_examples=100, deadline=None)
@given(SCHEDULES, st.integers(1, 1024))
def test_rates_are_nonnegative_and_highest_at_the_end_of_warmup(schedule: Schedule, dim: int) -> None:
    curve = [rate(schedule, step, dim) for step in range(1, STEPS + 1)]
    warmup = max(1, schedule.warmup)
    peak = curve[warmup - 1]
    assert min(curve[:-1]) > 0
    assert curve[-1] >= 0
    assert max(curve) == pytest.approx(peak)
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(curve[:warmup]))
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(curve[warmup - 1 :]))
    # the rise is straight, so that before the highest rate comes (warmup - 1) / warmup of it
    if warmup > 1:
        assert curve[warmup - 2] == pytest.approx(peak * (warmup - 1) / warmup)
    if not schedule.falls:
        assert curve[warmup] >= peak * (warmup / (warmup + 1)) ** 0.5 * (1 - 1e-9)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 10), WARMUPS, st.integers(1, 1024))
def test_noam_peak_equals_its_formula(factor: float, warmup: int, dim: int) -> None:
    assert rate(Schedule(factor=factor, warmup=warmup), warmup, dim) == pytest.approx(factor * (dim * warmup) ** -0.5)


@settings(max_examples=100, deadline=None)
@given(FALLING)
def test_rates_fall_to_the_minimum_without_a_jump(schedule: Schedule) -> None:
    """No step of the decay is steeper than the steepest step of a half cosine, pi/2 times its mean."""
    assert rate(schedule, STEPS) == pytest.approx(schedule.floor * schedule.rate, abs=1e-12)
    assert rate(schedule, 10 * STEPS) == rate(schedule, STEPS)
    share = schedule.decay if schedule.name == "wsd" else 1.0
    begin = max(schedule.warmup, STEPS - share * STEPS)
    assert rate(schedule, max(1, int(begin))) == pytest.approx(schedule.rate)
    steepest = schedule.rate * math.pi / 2 / (STEPS - begin)
    curve = [rate(schedule, step) for step in range(schedule.warmup, STEPS + 1)]
    assert all(a - b <= steepest * (1 + 1e-9) for a, b in pairwise(curve))


@settings(max_examples=20, deadline=None)
@given(RATES, WARMUPS, st.floats(0, 0.99))
def test_wsd_that_decays_from_the_start_is_linear(highest: float, warmup: int, floor: float) -> None:
    wsd = Schedule(name="wsd", rate=highest, warmup=warmup, decay=1.0, floor=floor)
    linear = Schedule(name="linear", rate=highest, warmup=warmup, floor=floor)
    for step in range(1, STEPS + 1, 7):
        assert rate(wsd, step) == pytest.approx(rate(linear, step), abs=1e-15)


def torchs(
    make: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler], highest: float
) -> list[float]:
    """Return the rates that one of torch's schedulers gives to steps 0 to STEPS."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=highest)
    scheduler = make(optimizer)
    rates = []
    for _ in range(STEPS + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_cosine_equals_torch() -> None:
    """torch's warm-up followed by its half cosine; torch counts from 0, so that its step t is our step t."""

    def make(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-9, 1.0, total_iters=100)
        fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS - 100, eta_min=0.3 * 0.05)
        return torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[100])

    expected = torchs(make, 0.3)
    schedule = Schedule(name="cosine", rate=0.3, warmup=100, floor=0.05)
    assert [rate(schedule, step) for step in range(1, STEPS + 1)] == pytest.approx(expected[1:], rel=1e-6)


@pytest.mark.parametrize(
    "schedule",
    [Schedule(warmup=50), Schedule(name="inverse_sqrt", warmup=50), Schedule(name="linear", warmup=50, floor=0.1)],
    ids=lambda schedule: schedule.name,
)
def test_rates_equal_torch_lambda_lr(schedule: Schedule) -> None:
    """LambdaLR with each formula as its paper writes it."""
    formulas: dict[str, tuple[float, Callable[[int], float]]] = {
        "noam": (2.0, lambda t: 64**-0.5 * min(max(t, 1) ** -0.5, t * 50**-1.5)),
        "inverse_sqrt": (7e-4, lambda t: min(t / 50, (50 / max(t, 1)) ** 0.5)),
        "linear": (1e-3, lambda t: min(t / 50, 1 - 0.9 * (t - 50) / (STEPS - 50))),
    }
    highest, formula = formulas[schedule.name]
    expected = torchs(lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, formula), highest)
    assert [rate(schedule, step) for step in range(1, STEPS + 1)] == pytest.approx(expected[1:], rel=1e-9)


@pytest.mark.parametrize("name", ["demo-en-it", "demo-en-zh", "tatoeba-en-it-cpu", "tatoeba-en-zh-cpu"])
def test_shipped_wsd_recipes_hold_the_rate_for_30_percent(repository: Path, name: str) -> None:
    """They hold the rate for 30 % of all steps and decay linearly from there."""
    chosen = load_recipe(repository / "recipes" / f"{name}.yaml").train
    schedule, steps = chosen.schedule, chosen.stop.steps
    assert schedule.name == "wsd"
    assert steps is not None
    for step in range(1, steps + 2):
        hold = max(0.3 * steps, schedule.warmup)
        down = schedule.rate * (1 - (1 - schedule.floor) * min(1.0, max(0.0, (step - hold) / (steps - hold))))
        expected = schedule.rate * step / schedule.warmup if step < schedule.warmup else down
        assert learning_rate(chosen, 128, step) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_only_rates_that_fall_to_the_last_step_depend_on_it() -> None:
    for schedule in (Schedule(), Schedule(name="inverse_sqrt"), Schedule(name="constant", warmup=7)):
        assert rate(schedule, 50, steps=100) == rate(schedule, 50, steps=None)
