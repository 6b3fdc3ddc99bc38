"""The length limit of translations, estimated from the lengths of training pairs."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import MaxLength
from nmt.text.preparing.length_limit import length_limit


def limit_of(lengths: list[tuple[int, int]]) -> MaxLength:
    """Return the limit for pairs with the given numbers of source and target tokens."""
    source, target = np.array(lengths).T
    return length_limit(source, target)


def longest_output(limit: MaxLength, source: int) -> int:
    return math.ceil(limit.factor * source) + limit.extra


def test_length_limit_of_triple_length_targets_by_hand() -> None:
    """With `</s>` S is 11 or 21 and T is 31 or 61: the bound 2.9 · S + 0.1 is lower than 3 · S; 10 % are added."""
    assert limit_of([(10, 30), (20, 60)]) == MaxLength(factor=3.19, extra=5)


def test_length_limit_minimizes_the_mean_by_hand() -> None:
    """T is S + 20: the mean limit is 36 with factor 1 and extra 20, and 41 with 2 and 9; 10 % are added: 22."""
    assert limit_of([(10, 30), (20, 40)]) == MaxLength(factor=1.1, extra=22)


def test_length_limit_has_a_minimum() -> None:
    assert limit_of([(30, 3), (40, 4)]) == MaxLength(factor=1.1, extra=5)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 120)), min_size=1, max_size=50))
def test_length_limit_of_few_pairs_truncates_none(lengths: list[tuple[int, int]]) -> None:
    limit = limit_of(lengths)
    for source, target in lengths:
        # a quantile of few values is slightly below their maximum
        assert target + 1 <= longest_output(limit, source + 1) + 1


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_length_limit_with_outliers_truncates_no_unseen_pair(ratio: float) -> None:
    """Target lengths vary as sums of independent word lengths; one pair in 5,000 is an outlier."""
    generator = random.Random(1)

    def pair() -> tuple[int, int]:
        source = max(1, round(generator.lognormvariate(2.5, 0.6)))
        return source, max(1, round(generator.gauss(ratio * source, 0.6 * math.sqrt(ratio * source))))

    outliers = [(generator.randint(1, 10), generator.randint(60, 120)) for _ in range(4)]
    limit = limit_of([*(pair() for _ in range(20_000)), *outliers])
    assert (
        sum(target + 1 > longest_output(limit, source + 1) for source, target in (pair() for _ in range(20_000))) == 0
    )
    assert limit.factor < max(1.2, 2.2 * ratio)
