"""The infinite stream of batches, and prefetching: the same batches, errors, and a limit."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from nmt.batching.batch import Batch, assemble
from nmt.batching.batch_stream import BatchStream, DataPosition, Prefetcher, plan_epoch
from nmt.errors import DataError
from nmt.text.prepared import CorpusPart, PreparedSplit, Sentences


def stream_of(count: int, groups: int = 2) -> BatchStream:
    random = np.random.default_rng(5)
    source, target = (Sentences.of([[4 + i] * int(random.integers(1, 6)) for i in range(count)]) for _ in range(2))
    return BatchStream(PreparedSplit(source, target, (CorpusPart(count),)), 24, 7, groups)


def content(batch: Batch) -> list[Any]:
    sides = (batch.source, batch.target)
    rows = [[*map(Tensor.tolist, (*side.by_token, side.tiles)), side.group_starts] for side in sides]
    return [*rows, batch.labels.tolist(), batch.source_tokens, batch.target_tokens]


def test_stream_equals_the_plans() -> None:
    stream = stream_of(40, groups=1)
    for epoch in range(3):
        groups = plan_epoch(stream.split, stream.budget, stream.seed, epoch)
        for number, indices in enumerate(groups):
            assert stream.position == DataPosition(epoch, group=number)
            assert stream.epochs_read == pytest.approx(epoch + number / len(groups))
            assert content(stream.next()) == content(assemble([stream.split.gather(indices)]))
    assert stream.position == DataPosition(3)


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_shares_of_all_ranks_add_up_and_the_larger_one_alternates(world_size: int) -> None:
    ranks = [replace(stream_of(40, groups=1), rank=rank, world_size=world_size) for rank in range(world_size)]
    for number, indices in enumerate(ranks[0].plan()):
        shares = [rank.share(indices, number) for rank in ranks]
        assert sorted(np.concatenate(shares)) == sorted(indices)
        larger = [(rank + number) % world_size < len(indices) % world_size for rank in range(world_size)]
        assert [len(share) for share in shares] == [len(indices) // world_size + more for more in larger]
        batches = [rank.next() for rank in ranks]
        whole = assemble([ranks[0].split.gather(indices)])
        assert sum(batch.target_tokens for batch in batches) == whole.target_tokens
        assert sum(batch.source_tokens for batch in batches) == whole.source_tokens


def test_prefetched_batches_equal_those_of_the_stream() -> None:
    plain = stream_of(40)
    with Prefetcher(stream_of(40), batches=3) as feed:
        for _ in range(20):
            reading = feed.next()
            assert [content(batch) for batch in reading.batches] == [content(plain.next()) for _ in range(3)]
            assert reading.position == plain.position
            assert reading.epochs_read == pytest.approx(plain.epochs_read)


def test_error_of_the_thread_is_raised_by_next(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(40)
    read, calls = BatchStream.next, []

    def fails_at_the_third(self: BatchStream) -> Batch:
        calls.append(1)
        if len(calls) == 3:
            raise DataError("tokens.npy: gone")
        return read(self)

    monkeypatch.setattr(BatchStream, "next", fails_at_the_third)
    with Prefetcher(stream, batches=1) as feed:
        feed.next()
        feed.next()
        with pytest.raises(DataError, match=r"tokens\.npy: gone"):
            feed.next()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("nmt-")]


def test_number_of_prefetched_batches_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    read, count = BatchStream.next, []
    monkeypatch.setattr(BatchStream, "next", lambda self: (count.append(1), read(self))[1])
    with Prefetcher(stream_of(40), batches=2) as feed:
        for taken in range(1, 6):
            feed.next()
            time.sleep(0.01)
            assert len(count) <= 2 * (taken + 2)


def test_next_returns_the_seconds_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.5, 20.0, 20.25])
    monkeypatch.setattr("nmt.batching.batch_stream.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with Prefetcher(stream_of(40), batches=1) as feed:
        assert [feed.next().waited, feed.next().waited] == [1.5, 0.25]
