"""Batches that are ready when training asks for them: a thread reads ahead while the model computes."""

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream, DataPosition

_AHEAD = 2
"""Updates that are read before they are needed: one being copied to the device, one in case the next takes longer."""


@dataclass(frozen=True)
class Reading:
    """The batches of an update, and where their stream stood after them."""

    batches: list[Batch]
    place: DataPosition
    epochs_read: float
    waited: float
    """Seconds that the training stood still for them."""


class Prefetcher:
    """Reads `batches` batches an update from a stream, in one thread, two updates ahead.

    Used as a context manager; the threads end with it. The stream belongs to the thread from then on, and is ahead of
    the training: what has been taken is what `Reading.place` says. With `pin`, batches lie in pinned memory.
    """

    def __init__(self, stream: BatchStream, batches: int, pin: bool) -> None:
        self._stream, self._batches, self._pin = stream, batches, pin
        self._reader = ThreadPoolExecutor(1, "nmt-reader")
        self._planner = ThreadPoolExecutor(1, "nmt-planner")
        self._ahead: deque[Future[Reading]] = deque()

    def __enter__(self) -> Self:
        self._stream.planner = self._planner
        self._ahead.extend(self._reader.submit(self._read) for _ in range(_AHEAD))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # the planner first: the reader may be waiting for a plan that has not been begun
        self._planner.shutdown(wait=False, cancel_futures=True)
        self._reader.shutdown(cancel_futures=True)
        self._planner.shutdown()

    def next(self) -> Reading:
        """Return the next update's batches; raise what reading them raised."""
        started = time.perf_counter()
        reading = self._ahead.popleft().result()
        self._ahead.append(self._reader.submit(self._read))
        return Reading(reading.batches, reading.place, reading.epochs_read, time.perf_counter() - started)

    def _read(self) -> Reading:
        batches = [self._stream.next() for _ in range(self._batches)]
        if self._pin:
            batches = [batch.pinned() for batch in batches]
        return Reading(batches, self._stream.place, self._stream.epochs_read, 0.0)
