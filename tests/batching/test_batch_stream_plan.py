"""The plan of an epoch: its contents, its limits, its windows, and its dependence on seed and epoch."""

import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nmt.batching import batch_stream
from nmt.batching.batch_stream import (
    BatchStream,
    DataPosition,
    EpochPlan,
    Indices,
    cut_into_groups,
    padding_share,
    plan_epoch,
    plan_window,
    window_count,
)
from nmt.text.prepared import CorpusPart, PreparedSplit, Sentences
from tests.builders import split_of_sizes

SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=120)


WINDOW, BLOCK = 16, 4  # small ones, so that small corpora have several


@contextmanager
def small_windows() -> Iterator[None]:
    with patch.object(batch_stream, "_WINDOW", WINDOW), patch.object(batch_stream, "_BLOCK", BLOCK):
        yield


def split_of_parts(parts: list[tuple[int, float]]) -> PreparedSplit:
    """Return corpora of so many pairs, each with its weight; the lengths vary."""
    pairs = sum(count for count, _ in parts)
    source, target = (Sentences.of([[0] * (1 + i * step % 11) for i in range(pairs)]) for step in (3, 5))
    return PreparedSplit(source, target, tuple(CorpusPart(*part) for part in parts))


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
@given(SIZES, st.sampled_from([1.0, 2.0]), st.integers(10, 200))
def test_updates_of_epochs_are_those_of_their_plans(sizes: list[tuple[int, int]], weight: float, budget: int) -> None:
    """Exactly, if an epoch is one window and repeats all pairs as often."""
    split = split_of_sizes(sizes, [weight] * len(sizes))
    plans = [plan_epoch(split, budget, 1, epoch) for epoch in range(3)]
    groups = sum(map(len, plans))
    assert BatchStream(split, budget, 1).updates_in(3, 1) == groups
    assert BatchStream(split, budget, 1, groups=2).updates_in(3, 3) == math.ceil(groups / 6)


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


PARTS = st.lists(st.tuples(st.integers(1, 60), st.one_of(st.just(1.0), st.floats(0.0625, 3.5, width=32))), min_size=1,
                 max_size=5)  # fmt: skip


@examples(max_examples=60, deadline=None)
@given(PARTS, st.integers(0, 1000), st.integers(0, 5))
def test_windows_together_contain_each_pair_as_often_as_its_weight_states(
    parts: list[tuple[int, float]], seed: int, epoch: int
) -> None:
    split = split_of_parts(parts)
    with small_windows():
        plan, windows = plan_epoch(split, 40, seed, epoch), window_count(split)
        assert (windows == 1) == (sum(count * math.ceil(weight) for count, weight in parts) <= WINDOW)
        assert same(plan, plan_epoch(split, 40, seed, epoch))
        for window in range(windows):
            assert 1 <= shown(plan_window(split, 40, seed, DataPosition(epoch, window))).total() <= WINDOW
    counts, weights = shown(plan), split.weights(np.arange(len(split))).tolist()
    assert all(math.floor(weight) <= counts[i] <= math.ceil(weight) for i, weight in enumerate(weights))


def test_windows_differ_between_epochs_and_copies_of_a_pair_are_in_different_windows() -> None:
    split = split_of_parts([(400, 1.0), (20, 10.0)])
    with small_windows():
        windows = window_count(split)
        epochs = [
            [shown(plan_window(split, 40, 1, DataPosition(epoch, window))) for window in range(windows)]
            for epoch in range(2)
        ]
    assert windows == 50
    assert all(set(first) != set(second) for first, second in zip(*epochs, strict=True))
    assert sum(counts[400] > 0 for counts in epochs[0]) > 4


def test_number_of_pairs_sorted_at_once_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are the pairs whose lengths are read before the first batch, in a corpus of a hundred windows."""
    split, read = split_of_parts([(100 * WINDOW, 1.0)]), list[int]()
    lengths = PreparedSplit.lengths

    def recorded(self: PreparedSplit, pairs: Indices) -> tuple[Indices, Indices]:
        read.append(len(pairs))
        return lengths(self, pairs)

    monkeypatch.setattr(PreparedSplit, "lengths", recorded)
    with small_windows():
        stream = BatchStream(split, 40, 1)
        stream.next()
        _wait_for_planner()
        assert sum(read) <= 2 * 2 * WINDOW, "two windows, the current one and the next, each read twice"
        for _ in range(50):
            stream.next()
    assert max(read) <= WINDOW


@pytest.mark.parametrize("pairs", [10, 100])
def test_stream_resumes_at_each_position(pairs: int) -> None:
    """The same groups come next, in the same order, whatever was planned before."""
    split = split_of_parts([(pairs, 1.5)])
    with small_windows():
        groups, epochs = [plan_epoch(split, 40, 7, epoch) for epoch in range(3)], list[float]()
        expected = [group.tolist() for plan in groups for group in plan]
        stream = BatchStream(split, 40, 7)
        batches = stream.batches_an_epoch
        for number in range(len(groups[0]) + len(groups[1])):
            resumed = BatchStream(split, 40, 7, position=stream.position)
            for following in range(3):
                assert resumed.plan()[resumed.position.group].tolist() == expected[number + following]
                resumed.next()
            epochs.append(stream.epochs_read)
            stream.next()
        assert stream.position == DataPosition(2)
        _wait_for_planner()
    assert epochs == sorted(set(epochs))
    assert epochs[0] == 0
    assert epochs[len(groups[0])] == 1
    assert 0.5 * len(groups[0]) < batches < 2 * len(groups[0]), "an estimate"


def test_next_window_is_planned_while_the_current_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, plan = list[tuple[DataPosition, bool]](), plan_window

    def recorded(split: PreparedSplit, budget: int, seed: int, position: DataPosition) -> EpochPlan:
        planned.append((position, threading.current_thread() is threading.main_thread()))
        return plan(split, budget, seed, position)

    monkeypatch.setattr(batch_stream, "plan_window", recorded)
    with small_windows():
        stream = BatchStream(split_of_parts([(3 * (WINDOW - BLOCK), 1.0)]), 40, 1)
        while stream.position.epoch < 1:
            stream.next()
        _wait_for_planner()
    order = [DataPosition(0, window) for window in range(3)] + [DataPosition(1)]
    assert planned == [(position, position == order[0]) for position in order]


def _wait_for_planner() -> None:
    """Wait until no thread plans, since windows have their usual size after the test."""
    for thread in threading.enumerate():
        if thread.name.startswith("planner"):
            thread.join()
