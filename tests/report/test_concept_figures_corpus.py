"""Masks and padding of batches, counted independently."""

import numpy as np
import pytest
import torch

from nmt.batching.batch_stream import EpochPlan, padding_share
from nmt.report.concept_figures import batch_plans, visible_source, visible_target
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


def test_each_way_to_cut_batches_uses_every_pair_once() -> None:
    for plan in batch_plans(random_split(500), 400).values():
        assert sorted(np.concatenate(plan).tolist()) == list(range(500))


def test_shares_of_padding_are_counted_and_fall_from_left_to_right() -> None:
    split = random_split(500)
    targets = split.lengths(np.arange(500))[1]
    plans = batch_plans(split, 400)

    def counted(plan: EpochPlan) -> float:
        padded = [max(targets[pair] for pair in group) * len(group) for group in plan]
        return float(1 - targets.sum() / sum(padded))

    shares = [padding_share(plan, split)[1] for plan in plans.values()]
    assert shares == pytest.approx([counted(plan) for plan in plans.values()])
    assert shares[0] > 0.3
    assert max(shares[1:]) < 0.1
    *_, ours = plans.values()
    assert max(targets[group].max() * len(group) for group in ours) <= 400
