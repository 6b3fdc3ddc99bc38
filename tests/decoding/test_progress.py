"""That whoever waits for many batches is told of each."""

from collections.abc import Callable

import pytest
import torch

from nmt.decoding.batched_search import search_all
from nmt.decoding.forced_decoding import force_all
from nmt.decoding.options import SearchOptions
from nmt.decoding.watching import told, watched
from tests.decoding.test_search import tiny_model

ASKED = [[5, 6, 7]] * 8


def heard(work: Callable[[], object]) -> list[float]:
    shares: list[float] = []
    with watched(shares.append):
        work()
    return shares


@pytest.mark.parametrize("threads", [1, 2])
def test_each_batch_of_a_search_is_told(threads: int) -> None:
    model, before = tiny_model(1, vocabulary=10), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        # four tokens each with the end, a beam of 5: two sentences a batch
        assert heard(lambda: search_all(model, ASKED, SearchOptions(), 40)) == [0.25, 0.5, 0.75, 1.0]
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_each_batch_of_given_translations_is_told() -> None:
    pairs = [(ids, ids) for ids in ASKED]
    assert heard(lambda: force_all(tiny_model(1, vocabulary=10), pairs, 8)) == [0.25, 0.5, 0.75, 1.0]


def test_the_one_who_asked_is_told_before_the_next_is_begun() -> None:
    events: list[object] = []
    with watched(events.append):
        for result in told((events.append(name) or name for name in "ab"), 2):
            events.append(result.upper())
    assert events == ["a", 0.5, "A", "b", 1.0, "B"]


def test_nobody_need_watch() -> None:
    assert list(told("ab", 2)) == ["a", "b"]
    assert heard(lambda: None) == []
