"""The limit on translations against the pairs that it was learnt from."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import MaxLength
from nmt.text import preparation
from nmt.text.preparation import length_limit
from nmt.text.prepared import PreparedSplit, TokenStore


def split_of(lengths: list[tuple[int, int]]) -> PreparedSplit:
    """Return pairs of so many tokens; which, does not matter."""
    sides = [np.cumsum([0, *side]) for side in zip(*lengths, strict=True)]
    source, target = (TokenStore(np.zeros(ends[-1], dtype=np.uint16), ends) for ends in sides)
    return PreparedSplit(source, target, np.ones(len(lengths), dtype=np.float32))


def limit(learnt: MaxLength, source: int) -> int:
    return math.ceil(learnt.factor * source) + learnt.extra


def test_three_for_one_by_hand() -> None:
    """S with `</s>` is 11 or 21, T 31 or 61: all are up to 2.9 · S + 0.1, lower than 3 · S; a tenth more."""
    assert length_limit(split_of([(10, 30), (20, 60)])) == MaxLength(factor=3.19, extra=5)


def test_the_lowest_line_by_hand() -> None:
    """T is S + 20: with factor 1 and extra 20 the limit is on average 36, with 2 and 9 it is 41; a tenth more: 22."""
    assert length_limit(split_of([(10, 30), (20, 40)])) == MaxLength(factor=1.1, extra=22)


def test_short_targets_get_room_all_the_same() -> None:
    assert length_limit(split_of([(30, 3), (40, 4)])) == MaxLength(factor=1.1, extra=5)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 120)), min_size=1, max_size=50))
def test_few_pairs_cut_none_of_them(lengths: list[tuple[int, int]]) -> None:
    learnt = length_limit(split_of(lengths))
    for source, target in lengths:
        assert target + 1 <= limit(learnt, source + 1) + 1  # a quantile of a few is just below the greatest


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_unseen_pairs_of_the_same_kind_are_not_cut_though_some_are_nonsense(ratio: float) -> None:
    """Target lengths vary as a sum of independent words does; one pair in 5,000 is of two texts that do not belong."""
    choose = random.Random(1)

    def pair() -> tuple[int, int]:
        source = max(1, round(choose.lognormvariate(2.5, 0.6)))
        return source, max(1, round(choose.gauss(ratio * source, 0.6 * math.sqrt(ratio * source))))

    nonsense = [(choose.randint(1, 10), choose.randint(60, 120)) for _ in range(4)]
    learnt = length_limit(split_of([*(pair() for _ in range(20_000)), *nonsense]))
    assert sum(target + 1 > limit(learnt, source + 1) for source, target in (pair() for _ in range(20_000))) == 0
    assert learnt.factor < max(1.2, 2.2 * ratio)


def test_large_corpora_are_measured_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [(i % 40 + 1, 2 * (i % 40) + 3) for i in range(1001)]
    whole = length_limit(split_of(lengths))
    monkeypatch.setattr(preparation, "_LIMIT_PAIRS", 300)
    assert length_limit(split_of(lengths)) == whole
