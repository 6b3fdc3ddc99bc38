"""The plan of an epoch: its contents, its limits, and its dependence on seed and epoch."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nmt.batching.batch_stream import EpochPlan, cut_into_groups, padding_share, plan_epoch
from tests.builders import split_of_sizes

SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


def shown(plan: EpochPlan) -> Counter[int]:
    return Counter(int(i) for batch in plan for i in batch)


def same(a: EpochPlan, b: EpochPlan) -> bool:
    return [batch.tolist() for batch in a] == [batch.tolist() for batch in b]


@examples(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 200), st.integers(0, 2**31 - 1), st.integers(0, 50))
def test_epoch_contains_each_pair_once_within_the_budget(
    sizes: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    split = split_of_sizes(sizes)
    plan = plan_epoch(split, budget, seed, epoch)
    assert shown(plan) == Counter(range(len(sizes)))
    for batch in plan:
        assert len(batch) >= 1
        if len(batch) > 1:
            assert len(batch) * split.lengths(batch)[1].max() <= budget
            assert len(batch) * split.lengths(batch)[0].max() <= 2 * budget


@examples(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0078125, 4.5, width=32), min_size=1, max_size=60), st.integers(0, 1000), st.integers(0, 5))
def test_pair_counts_are_floor_or_ceiling_of_the_weights(weights: list[float], seed: int, epoch: int) -> None:
    split = split_of_sizes([(5, 5)] * len(weights), weights)
    counts = shown(plan_epoch(split, 50, seed, epoch))
    for i, weight in enumerate(weights):
        assert np.floor(weight) <= counts[i] <= np.ceil(weight)
    assert counts.total() > 0


def test_pair_counts_equal_the_weights_on_average() -> None:
    weights = [0.25] * 400 + [1.5] * 400 + [3.0] * 10
    split = split_of_sizes([(5, 5)] * len(weights), weights)
    total: Counter[int] = Counter()
    for epoch in range(20):
        total += shown(plan_epoch(split, 50, 1, epoch))
    for part, weight in ((range(400), 0.25), (range(400, 800), 1.5)):
        share = sum(total[i] for i in part) / (20 * 400)
        # four standard deviations of a mean of 8,000 draws with p (1 - p) <= 1/4
        assert share == pytest.approx(weight, abs=4 * 0.5 / 8000**0.5)
    assert all(total[i] == 60 for i in range(800, 810))


def test_plan_is_a_function_of_seed_and_epoch() -> None:
    sizes = [(1 + i % 17, 1 + i % 23) for i in range(500)]
    split = split_of_sizes(sizes)
    first = plan_epoch(split, 60, seed=1, epoch=3)
    np.random.seed(0)
    assert same(first, plan_epoch(split, 60, seed=1, epoch=3))
    assert not same(first, plan_epoch(split, 60, seed=1, epoch=4))
    assert not same(first, plan_epoch(split, 60, seed=2, epoch=3))
    assert not same(plan_epoch(split, 60, 0, 1), plan_epoch(split, 60, 1, 0))


def test_batches_are_not_sorted_by_length() -> None:
    split = split_of_sizes([(n, n) for n in range(1, 41) for _ in range(20)])
    longest = [int(split.lengths(batch)[1].max()) for batch in plan_epoch(split, 80, 1, 0)]
    rises = sum(a < b for a, b in pairwise(longest))
    assert 0.3 < rises / len(longest) < 0.7


@examples(max_examples=40, deadline=None)
@given(SIZES, st.integers(1, 200))
def test_cut_into_groups_fills_the_budget(sizes: list[tuple[int, int]], budget: int) -> None:
    """No batch has space for the first pair of the next one."""
    split = split_of_sizes(sizes)
    source, target = split.lengths(np.arange(len(sizes)))
    ordered = np.lexsort((source, target))
    batches = cut_into_groups(ordered, split, budget)
    assert np.concatenate(batches).tolist() == ordered.tolist()
    for batch, following in pairwise(batches):
        more = [*batch, following[0]]
        assert len(more) * target[more].max() > budget or len(more) * source[more].max() > 2 * budget


def test_padding_share_by_hand() -> None:
    split = split_of_sizes([(1, 2), (3, 2), (4, 8), (4, 8)])
    plan = [np.array([0, 1]), np.array([2, 3])]
    # source: 1 + 3 of 2 · 3 and 8 of 8; target: nothing padded
    assert padding_share(plan, split) == (pytest.approx(1 - 12 / 14), 0.0)


def test_padding_is_small_where_lengths_are_related() -> None:
    random = np.random.default_rng(1)
    source = random.geometric(0.1, 20_000)
    target = np.maximum(1, source + random.integers(-source // 8, source // 8 + 1))
    split = split_of_sizes(list(zip(source.tolist(), target.tolist(), strict=True)))
    assert max(padding_share(plan_epoch(split, 1024, 1, 0), split)) < 0.10
