"""Learning rate schedules: values by hand, equality with torch, and properties."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.model_sections import Schedule
from nmt.training.optimizer import learning_rate

STEPS = 1000


def rate(schedule: Schedule, step: int, dim: int = 64, last_step: float = STEPS) -> float:
    return learning_rate(schedule, dim, step, last_step)


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
        (Schedule(name="constant", rate=0.1, warmup=10), 3, 0.03),
        (Schedule(name="constant", rate=0.1, warmup=10), 10, 0.1),
        (Schedule(name="constant", rate=0.1, warmup=10), 10**6, 0.1),
        (Schedule(name="linear", rate=0.1, warmup=100), 25, 0.025),
        (Schedule(name="linear", rate=0.1, warmup=100), 550, 0.05),
        (Schedule(name="linear", rate=0.1, warmup=100), 1000, 0.0),
        (Schedule(name="linear", rate=0.1, warmup=100, floor=0.2), 550, 0.06),
        (Schedule(name="linear", rate=0.1, warmup=1000, floor=0.2), 1000, 0.1),
        # a third of the way, half of it, two thirds of it: cos 60° = 1/2, cos 90° = 0, cos 120° = -1/2
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
FLOORS = st.floats(0, 0.99)
SCHEDULES = st.one_of(
    st.builds(Schedule, factor=st.floats(0.01, 10), warmup=WARMUPS),
    st.builds(Schedule, name=st.sampled_from(["inverse_sqrt", "constant"]), rate=RATES, warmup=WARMUPS),
    st.builds(Schedule, name=st.sampled_from(["linear", "cosine"]), rate=RATES, warmup=WARMUPS, floor=FLOORS),
    st.builds(Schedule, name=st.just("wsd"), rate=RATES, warmup=WARMUPS, decay=st.floats(0.01, 1), floor=FLOORS),
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
    # while the last step is not known, the rate stays; a later decision changes no rate of the steady part
    assert rate(schedule, STEPS, dim, math.inf) == pytest.approx(peak if schedule.falls else curve[-1])
    steady = max(warmup, int(schedule.steady_share * STEPS))
    assert [rate(schedule, step, dim, math.inf) for step in range(1, steady)] == curve[: steady - 1]
    if not schedule.falls:
        assert curve[warmup] >= peak * (warmup / (warmup + 1)) ** 0.5 * (1 - 1e-9)
