"""Prefetch: a thread reads the batches of the next updates while the model computes."""

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream, DataPosition

_AHEAD = 2
"""Updates read in advance: one is being copied to the device, one is in reserve."""


@dataclass(frozen=True)
class PrefetchedBatches:
    """The batches of an update, and the position of the stream after them."""

    batches: list[Batch]
    position: DataPosition
    epochs_read: float
    waited: float
    """Seconds for which training waited for them."""


class Prefetcher:
    """Reads `batches` batches an update from a stream, in one thread, two updates ahead.

    Used as a context manager, which ends the threads. Within it only the thread may use the stream, which is ahead of
    training: the position of training is `PrefetchedBatches.position`. With `pin`, batches are in page-locked RAM.
    """

    def __init__(self, stream: BatchStream, batches: int, pin: bool) -> None:
        self._stream, self._batches, self._pin = stream, batches, pin
        self._reader = ThreadPoolExecutor(1, "nmt-reader")
        self._planner = ThreadPoolExecutor(1, "nmt-planner")
        self._ahead: deque[Future[PrefetchedBatches]] = deque()

    def __enter__(self) -> Self:
        self._stream.planner = self._planner
        self._ahead.extend(self._reader.submit(self._read) for _ in range(_AHEAD))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # the planner first: the reader may be waiting for a plan that is still queued
        self._planner.shutdown(wait=False, cancel_futures=True)
        self._reader.shutdown(cancel_futures=True)
        self._planner.shutdown()

    def next(self) -> PrefetchedBatches:
        """Return the batches of the next update. Raises the errors of reading them."""
        started = time.perf_counter()
        found = self._ahead.popleft().result()
        self._ahead.append(self._reader.submit(self._read))
        return PrefetchedBatches(found.batches, found.position, found.epochs_read, time.perf_counter() - started)

    def _read(self) -> PrefetchedBatches:
        batches = [self._stream.next() for _ in range(self._batches)]
        if self._pin:
            batches = [batch.pinned() for batch in batches]
        return PrefetchedBatches(batches, self._stream.position, self._stream.epochs_read, 0.0)
