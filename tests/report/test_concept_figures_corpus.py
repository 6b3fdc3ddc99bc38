"""Masks and padding of batches, counted independently."""

import numpy as np
import pytest
import torch

from nmt.batching.batch_stream import EpochPlan
from nmt.report.concept_figures import batch_plans, padding_of_batches, visible_source, visible_target
from nmt.text.prepared import PreparedSplit
from tests.builders import batch_of, split_of_sizes


def random_split(count: int) -> PreparedSplit:
    random = np.random.default_rng(3)
    source = random.integers(3, 40, count)
    return split_of_sizes(list(zip(source.tolist(), (source + random.integers(0, 5, count)).tolist(), strict=True)))


def test_masks_hide_padding_and_later_tokens() -> None:
    source = batch_of([([4, 5, 6], [7, 8]), ([9], [4])]).source
    assert visible_source(source).tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    np.testing.assert_array_equal(visible_target(5), torch.ones(5, 5).tril().numpy())


def test_plans_use_every_pair_once_within_the_size_of_a_batch() -> None:
    split = random_split(3000)
    targets = split.lengths(np.arange(3000))[1]
    plans = batch_plans(split)
    assert list(plans) == [(order, size) for size in (1500, 6000) for order in ("random", "by length")]
    for (_, size), plan in plans.items():
        assert sorted(np.concatenate(plan).tolist()) == list(range(3000))
        padded = [max(targets[pair] for pair in group) * len(group) for group in plan]
        assert max(padded) <= size
    first, second, *_ = plans["random", 1500]
    together = np.concatenate([first, second[:1]])
    assert targets[together].max() * len(together) > 1500, "a batch is as large as possible"


def test_drawn_shares_of_padding_and_updates_are_counted() -> None:
    split = random_split(3000)
    targets = split.lengths(np.arange(3000))[1]
    plans = batch_plans(split)

    def counted(plan: EpochPlan) -> float:
        padded = [max(targets[pair] for pair in group) * len(group) for group in plan]
        return float(1 - targets.sum() / sum(padded))

    padding, updates = padding_of_batches(split).figure.axes
    shares = [bar.get_height() for bar in padding.patches[len(plans) :]]  # of the target
    assert shares == pytest.approx([counted(plan) for plan in plans.values()])
    random, sorted_, random_large, sorted_large = shares
    assert min(random, random_large) > 0.3
    assert max(sorted_, sorted_large) < 0.1
    assert [bar.get_height() for bar in updates.patches] == [len(plan) for plan in plans.values()]
