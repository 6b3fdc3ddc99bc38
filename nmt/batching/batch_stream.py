"""The endless sequence of training batches, and a thread that reads them while the model computes."""

import time
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Self

from nmt.batching.batch import Batch, Pairs, assemble, dummy_batch
from nmt.batching.plan import EpochPlan, Indices, SentenceLengths, plan_epoch
from nmt.batching.resegmentation import Resegmentation
from nmt.config import Recipe
from nmt.text.prepared import PreparedCorpus, PreparedSplit

_AHEAD = 2  # updates read in advance: one is being copied to the device, one is in reserve


@dataclass(frozen=True)
class DataPosition:
    """The next length group: the epoch, the part of the epoch, and the group in the plan of that part."""

    epoch: int = 0
    part: int = 0
    group: int = 0


@dataclass
class BatchStream:
    """Batches epoch after epoch, each of the next few length groups of the plan.

    `budget` limits the padded target tokens of a group, `groups` is the number of groups in a batch. A batch may end
    one epoch and begin the next. With a `resegmentation`, the segmentation into pieces is sampled at each reading. Each
    of `world_size` ranks reads its share of every group. With a `planner`, the next part of the epoch is planned in the
    background.
    """

    split: PreparedSplit
    budget: int
    seed: int
    groups: int = 1
    position: DataPosition = DataPosition()
    resegmentation: Resegmentation | None = None
    rank: int = 0
    world_size: int = 1
    planner: Executor | None = None
    lengths: SentenceLengths = field(init=False)
    _current: tuple[DataPosition, EpochPlan] | None = field(default=None, init=False)
    _planned: tuple[DataPosition, "Future[EpochPlan]"] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.lengths = SentenceLengths.of(self.split)

    @classmethod
    def of_recipe(cls, recipe: Recipe, corpus: PreparedCorpus) -> Self:
        """Return the stream of the training text, all of it. Raises ConfigError as `Resegmentation.of_recipe`."""
        settings, resegmentation = recipe.train, Resegmentation.of_recipe(recipe, corpus.tokenizers)
        groups = settings.length_groups
        return cls(corpus.train, settings.group_budget, recipe.seed, groups, resegmentation=resegmentation)

    def next(self) -> Batch:
        """Return the next batch and advance the position."""
        chosen = []
        for _ in range(self.groups):
            group = self.position.group
            # the rank with the first sentence alternates, so that all get as many
            indices = self.plan()[group][(self.rank + group) % self.world_size :: self.world_size]
            if len(indices):
                chosen.append(self._read(indices))
            is_last = group + 1 == len(self.plan())
            self.position = self._next_part(self.position) if is_last else replace(self.position, group=group + 1)
        return assemble(chosen) if chosen else dummy_batch()

    def plan(self) -> EpochPlan:
        """Return the plan of the current part of the current epoch."""
        start = DataPosition(self.position.epoch, self.position.part)
        if self._current is None or self._current[0] != start:
            if self._planned is not None and self._planned[0] == start:
                self._current = start, self._planned[1].result()
            else:
                self._current = start, self._plan(start)
            if self.planner is not None:
                following = self._next_part(start)
                self._planned = following, self.planner.submit(self._plan, following)
        return self._current[1]

    @property
    def epochs_read(self) -> float:
        """Return the number of epochs read, with the fraction of the current one."""
        part = self.position.part + self.position.group / len(self.plan())
        return self.position.epoch + part / self.lengths.parts

    @property
    def batches_an_epoch(self) -> float:
        """Return the number of batches in an epoch, estimated from the current part of it."""
        return len(self.plan()) * self.lengths.parts / self.groups

    def _read(self, indices: Indices) -> Pairs:
        pairs = self.split.gather(indices)
        return pairs if self.resegmentation is None else self.resegmentation.of(pairs, indices, self.position.epoch)

    def _plan(self, position: DataPosition) -> EpochPlan:
        return plan_epoch(self.lengths, self.budget, self.seed, position.epoch, position.part)

    def _next_part(self, position: DataPosition) -> DataPosition:
        if position.part + 1 < self.lengths.parts:
            return DataPosition(position.epoch, position.part + 1)
        return DataPosition(position.epoch + 1)


@dataclass(frozen=True)
class PrefetchedBatches:
    """The batches of an update, and the position of the stream after them."""

    batches: list[Batch]
    position: DataPosition
    epochs_read: float
    waited: float = 0.0  # seconds for which training waited for them


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

    def __exit__(self, *error: object) -> None:
        # the planner first: the reader may be waiting for a plan that is still queued
        self._planner.shutdown(wait=False, cancel_futures=True)
        self._reader.shutdown(cancel_futures=True)
        self._planner.shutdown()

    def next(self) -> PrefetchedBatches:
        """Return the batches of the next update. Raises the errors of reading them."""
        started = time.perf_counter()
        reading = self._ahead.popleft().result()
        self._ahead.append(self._reader.submit(self._read))
        return replace(reading, waited=time.perf_counter() - started)

    def _read(self) -> PrefetchedBatches:
        batches = [self._stream.next() for _ in range(self._batches)]
        if self._pin:
            batches = [batch.pinned() for batch in batches]
        return PrefetchedBatches(batches, self._stream.position, self._stream.epochs_read)
