"""Learning rates: numbers worked by hand, and what every schedule promises."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import Constant, InverseSqrt, Linear, Noam, Schedule, Stop, TrainSettings
from nmt.learning.schedule import learning_rate

STEPS = 1000


def rate(schedule: Schedule, step: int, dim: int = 64, steps: int | None = STEPS) -> float:
    return learning_rate(TrainSettings(schedule=schedule, stop=Stop(steps=steps, epochs=1)), dim, step)


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        # 64^-0.5 = 1/8, 100^-1.5 = 1/1000, 100^-0.5 = 1/10
        (Noam(factor=2, warmup=100), 1, 2 / 8 / 1000),
        (Noam(factor=2, warmup=100), 50, 2 / 8 * 50 / 1000),
        (Noam(factor=2, warmup=100), 100, 2 / 8 / 10),
        (Noam(factor=2, warmup=100), 400, 2 / 8 / 20),
        (InverseSqrt(name="inverse_sqrt", rate=0.1, warmup=100), 1, 0.001),
        (InverseSqrt(name="inverse_sqrt", rate=0.1, warmup=100), 100, 0.1),
        (InverseSqrt(name="inverse_sqrt", rate=0.1, warmup=100), 400, 0.05),
        (Constant(name="constant", rate=0.1), 1, 0.1),
        (Constant(name="constant", rate=0.1, warmup=10), 3, 0.03),
        (Constant(name="constant", rate=0.1, warmup=10), 10, 0.1),
        (Constant(name="constant", rate=0.1, warmup=10), 10**6, 0.1),
        (Linear(name="linear", rate=0.1, warmup=100), 25, 0.025),
        (Linear(name="linear", rate=0.1, warmup=100), 100, 0.1),
        (Linear(name="linear", rate=0.1, warmup=100), 550, 0.05),
        (Linear(name="linear", rate=0.1, warmup=100), 1000, 0.0),
        (Linear(name="linear", rate=0.1, warmup=100, hold=0.5), 500, 0.1),
        (Linear(name="linear", rate=0.1, warmup=100, hold=0.5), 750, 0.05),
        (Linear(name="linear", rate=0.1, warmup=100, hold=0.5, floor=0.2), 750, 0.06),
        (Linear(name="linear", rate=0.1, warmup=100, hold=0.5, floor=0.2), 1000, 0.02),
        (Linear(name="linear", rate=0.1, warmup=100, hold=0.5, floor=0.2), 1200, 0.02),
        # a warm-up that lasts into the flat part begins the fall where it ends
        (Linear(name="linear", rate=0.1, warmup=600, hold=0.5), 800, 0.05),
    ],
    ids=str,
)
def test_by_hand(schedule: Schedule, step: int, expected: float) -> None:
    assert rate(schedule, step) == pytest.approx(expected, rel=1e-12, abs=1e-15)


WARMUPS = st.integers(1, 500)
RATES = st.floats(1e-6, 1.0)
SCHEDULES = st.one_of(
    st.builds(Noam, factor=st.floats(0.01, 10), warmup=WARMUPS),
    st.builds(InverseSqrt, name=st.just("inverse_sqrt"), rate=RATES, warmup=WARMUPS),
    st.builds(Constant, name=st.just("constant"), rate=RATES, warmup=st.integers(0, 500)),
    st.builds(
        Linear,
        name=st.just("linear"),
        rate=RATES,
        warmup=WARMUPS,
        hold=st.floats(0, 0.99),
        floor=st.floats(0.01, 0.99),
    ),
)


@settings(max_examples=100, deadline=None)
@given(SCHEDULES, st.integers(1, 1024))
def test_positive_highest_at_warmup_without_jumps(schedule: Schedule, dim: int) -> None:
    curve = [rate(schedule, step, dim) for step in range(1, STEPS + 1)]
    warmup = max(1, schedule.warmup)
    peak = curve[warmup - 1]
    assert min(curve) > 0
    assert max(curve) == pytest.approx(peak)
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(curve[:warmup]))
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(curve[warmup - 1 :]))
    # the rise is straight, so that before the highest rate comes (warmup - 1) / warmup of it
    if warmup > 1:
        assert curve[warmup - 2] == pytest.approx(peak * (warmup - 1) / warmup)
    if not isinstance(schedule, Linear):
        assert curve[warmup] >= peak * (warmup / (warmup + 1)) ** 0.5 * (1 - 1e-9)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 10), WARMUPS, st.integers(1, 1024))
def test_noams_peak(factor: float, warmup: int, dim: int) -> None:
    assert rate(Noam(factor=factor, warmup=warmup), warmup, dim) == pytest.approx(factor * (dim * warmup) ** -0.5)


@settings(max_examples=50, deadline=None)
@given(RATES, st.integers(1, 999), st.floats(0, 0.99), st.floats(0, 0.99))
def test_linear_ends_at_its_floor(highest: float, warmup: int, hold: float, floor: float) -> None:
    schedule = Linear(name="linear", rate=highest, warmup=warmup, hold=hold, floor=floor)
    assert rate(schedule, STEPS) == pytest.approx(floor * highest, abs=1e-12)
    assert rate(schedule, max(warmup, int(hold * STEPS))) == pytest.approx(highest)


def test_the_rate_does_not_depend_on_where_training_stops_but_for_linear() -> None:
    for schedule in (Noam(), InverseSqrt(name="inverse_sqrt"), Constant(name="constant", warmup=7)):
        assert rate(schedule, 50, steps=100) == rate(schedule, 50, steps=None)
