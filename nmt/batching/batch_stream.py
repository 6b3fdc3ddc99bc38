"""The endless sequence of training batches, and the position in it."""

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field

from nmt.batching.batch import Batch, Pairs, assemble, dummy_batch
from nmt.batching.plan import EpochPlan, Indices, SentenceLengths, plan_epoch
from nmt.batching.resegmentation import Resegmentation
from nmt.text.prepared import PreparedSplit


@dataclass(frozen=True)
class DataPosition:
    """The next length group: the epoch, the part of the epoch, and the group in the plan of that part."""

    epoch: int = 0
    part: int = 0
    group: int = 0


@dataclass(frozen=True)
class RankShard:
    """The sentences of each length group that one rank reads."""

    rank: int = 0
    size: int = 1

    def of(self, indices: Indices, group: int) -> Indices:
        """Return every `size`-th index; the rank with the first one alternates, so that all get as many."""
        return indices[(self.rank + group) % self.size :: self.size]


@dataclass
class BatchStream:
    """Batches epoch after epoch, each of the next few length groups of the plan.

    `budget` limits the padded target tokens of a group, `groups` is the number of groups in a batch. A batch may end
    one epoch and begin the next. With a `resegmentation`, the segmentation into pieces is sampled at each reading. With
    a `planner`, the next part of the epoch is planned in the background.
    """

    split: PreparedSplit
    lengths: SentenceLengths
    budget: int
    seed: int
    groups: int = 1
    position: DataPosition = DataPosition()
    resegmentation: Resegmentation | None = None
    shard: RankShard = RankShard()
    planner: Executor | None = None
    _current: tuple[DataPosition, EpochPlan] | None = field(default=None, init=False)
    _planned: tuple[DataPosition, "Future[EpochPlan]"] | None = field(default=None, init=False)

    def next(self) -> Batch:
        """Return the next batch and advance the position."""
        chosen = []
        for _ in range(self.groups):
            indices = self.shard.of(self.plan().groups[self.position.group], self.position.group)
            if len(indices):
                chosen.append(self._read(indices))
            self.position = self._after(self.position)
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
        part = self.position.part + self.position.group / len(self.plan().groups)
        return self.position.epoch + part / self.lengths.parts

    def _read(self, indices: Indices) -> Pairs:
        pairs = self.split.source.gather(indices), self.split.target.gather(indices)
        return pairs if self.resegmentation is None else self.resegmentation.of(pairs, indices, self.position.epoch)

    def _plan(self, position: DataPosition) -> EpochPlan:
        return plan_epoch(self.lengths, self.budget, self.seed, position.epoch, position.part)

    def _after(self, position: DataPosition) -> DataPosition:
        if position.group + 1 < len(self.plan().groups):
            return DataPosition(position.epoch, position.part, position.group + 1)
        return self._next_part(position)

    def _next_part(self, position: DataPosition) -> DataPosition:
        if position.part + 1 < self.lengths.parts:
            return DataPosition(position.epoch, position.part + 1)
        return DataPosition(position.epoch + 1)
