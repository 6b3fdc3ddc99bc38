"""Prefetching: the same batches as the stream, errors, positions, and the end of the thread."""

import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream, DataPosition, Prefetcher
from nmt.errors import DataError
from nmt.text.prepared import CorpusPart, PreparedSplit
from tests.builders import token_store

START = DataPosition()


def stream_of(count: int, position: DataPosition = START) -> BatchStream:
    random = np.random.default_rng(5)
    source, target = (token_store([[4 + i] * int(random.integers(1, 6)) for i in range(count)]) for _ in range(2))
    split = PreparedSplit(source, target, (CorpusPart(len(source)),))
    return BatchStream(split, 24, 7, groups=2, position=position)


def content(batch: Batch) -> list[Any]:
    return [[g.source.tolist(), g.target_in.tolist(), g.target_out.tolist()] for g in batch.groups]


def test_prefetched_batches_equal_those_of_the_stream() -> None:
    plain = stream_of(40)
    with Prefetcher(stream_of(40), batches=3, pin=False) as feed:
        for _ in range(20):
            reading = feed.next()
            assert [content(batch) for batch in reading.batches] == [content(plain.next()) for _ in range(3)]
            assert reading.position == plain.position
            assert reading.epochs_read == pytest.approx(plain.epochs_read)


def test_position_is_that_of_the_last_returned_batch() -> None:
    stream, plain = stream_of(40), stream_of(40)
    with Prefetcher(stream, batches=1, pin=False) as feed:
        position = feed.next().position
        while stream.position == position:
            time.sleep(0.001)
    plain.next()
    assert position == plain.position
    assert content(stream_of(40, position).next()) == content(plain.next())


def test_error_of_the_thread_is_raised_by_next(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(40)
    read, calls = BatchStream.next, []

    def fails_at_the_third(self: BatchStream) -> Batch:
        calls.append(1)
        if len(calls) == 3:
            raise DataError("tokens.npy: gone")
        return read(self)

    monkeypatch.setattr(BatchStream, "next", fails_at_the_third)
    with Prefetcher(stream, batches=1, pin=False) as feed:
        feed.next()
        feed.next()
        with pytest.raises(DataError, match=r"tokens\.npy: gone"):
            feed.next()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("nmt-")]


def test_number_of_prefetched_batches_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    read, count = BatchStream.next, []
    monkeypatch.setattr(BatchStream, "next", lambda self: (count.append(1), read(self))[1])
    with Prefetcher(stream_of(40), batches=2, pin=False) as feed:
        for taken in range(1, 6):
            feed.next()
            time.sleep(0.01)
            assert len(count) <= 2 * (taken + 2)


def test_next_returns_the_seconds_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.5, 20.0, 20.25])
    monkeypatch.setattr("nmt.batching.batch_stream.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with Prefetcher(stream_of(40), batches=1, pin=False) as feed:
        assert [feed.next().waited, feed.next().waited] == [1.5, 0.25]


ENDINGS = """
import importlib.util, os, sys, time
from nmt.batching import batch_stream as streams

specification = importlib.util.spec_from_file_location("test_prefetch", sys.argv[1])
test_prefetch = importlib.util.module_from_spec(specification)
specification.loader.exec_module(test_prefetch)
plan = streams.plan_epoch


def interrupt():
    raise KeyboardInterrupt


streams.plan_epoch = lambda *arguments: (time.sleep(0.3), plan(*arguments))[1]
for end in (lambda: sys.exit(3), interrupt):
    child = os.fork()
    if not child:
        with streams.Prefetcher(test_prefetch.stream_of(40), 1, False) as feed:
            feed.next()
            end()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_thread_ends_with_the_program() -> None:
    """Python ends in each way, also while an epoch is being planned."""
    run = subprocess.run([sys.executable, "-c", ENDINGS, __file__], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["3", str(-signal.SIGINT)], run.stderr
    assert run.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert run.stderr.count("Traceback") == 1
