"""Sentences are packed into one row of tokens."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from nmt.model.packing import split_by_length


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_parts_hold_groups_of_one_length_within_the_limit_of_tokens(lengths: list[int], tokens: int) -> None:
    parts = split_by_length(lengths, tokens)
    indices = [index for part in parts for group in part for index in group]
    assert sorted(indices) == list(range(len(lengths)))
    assert [lengths[index] for index in indices] == sorted(lengths, reverse=True)
    for part in parts:
        assert len({lengths[group[0]] for group in part}) == len(part)
        assert all(len({lengths[index] for index in group}) == 1 for group in part)
        sentences = [lengths[index] for index in chain.from_iterable(part)]
        assert sum(sentences) <= tokens or len(sentences) == 1
