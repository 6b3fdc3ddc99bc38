"""The endless sequence of training batches, and the place in it."""

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field

from nmt.batching.batch import Batch, Pairs, assemble, dummy_batch
from nmt.batching.plan import EpochPlan, Indices, SentenceLengths, plan_epoch
from nmt.batching.resegmentation import Variation
from nmt.text.prepared import PreparedSplit
from nmt.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class DataPosition:
    """Which length group comes next: the epoch, the part of it, and the group in the part's plan."""

    epoch: int = 0
    part: int = 0
    group: int = 0


@dataclass(frozen=True)
class RankShard:
    """Which sentences of each length group are read by one of several processes that share them out."""

    rank: int = 0
    size: int = 1

    def of(self, indices: Indices, group: int) -> Indices:
        """Return every size-th; who begins takes turns from group to group, so that the odd ones are shared out too."""
        return indices[(self.rank + group) % self.size :: self.size]


@dataclass
class BatchStream:
    """Batches epoch after epoch, each of the plan's next few length groups.

    `budget` is what a group may hold in padded target tokens, `groups` how many make a batch. A stream set to a `place`
    goes on from there. A batch may end an epoch and begin the next. With a `variation`, sentences are cut into pieces
    anew each time. Of several processes, each reads its `share`. With a `planner`, the next part is planned in the
    background while this one is read.
    """

    split: PreparedSplit
    lengths: SentenceLengths
    tokenizers: Tokenizers
    budget: int
    seed: int
    groups: int = 1
    place: DataPosition = DataPosition()
    variation: Variation | None = None
    share: RankShard = RankShard()
    planner: Executor | None = None
    _planned: tuple[DataPosition, EpochPlan] | None = field(default=None, init=False)
    _coming: tuple[DataPosition, "Future[EpochPlan]"] | None = field(default=None, init=False)

    def next(self) -> Batch:
        """Return the next batch and move on."""
        chosen = []
        for _ in range(self.groups):
            indices = self.share.of(self.plan().groups[self.place.group], self.place.group)
            if len(indices):
                chosen.append(self._read(indices))
            self.place = self._after(self.place)
        return assemble(chosen, self.tokenizers) if chosen else dummy_batch()

    def plan(self) -> EpochPlan:
        """Return the plan of the current part of the current epoch."""
        here = DataPosition(self.place.epoch, self.place.part)
        if self._planned is None or self._planned[0] != here:
            if self._coming is not None and self._coming[0] == here:
                self._planned = here, self._coming[1].result()
            else:
                self._planned = here, self._plan(here)
            if self.planner is not None:
                coming = self._next_part(here)
                self._coming = coming, self.planner.submit(self._plan, coming)
        return self._planned[1]

    @property
    def epochs_read(self) -> float:
        """Return how often the corpus has been read, with the part of the current epoch."""
        part = self.place.part + self.place.group / len(self.plan().groups)
        return self.place.epoch + part / self.lengths.parts

    def _read(self, indices: Indices) -> Pairs:
        pairs = self.split.source.gather(indices), self.split.target.gather(indices)
        return pairs if self.variation is None else self.variation.of(pairs, indices, self.place.epoch)

    def _plan(self, place: DataPosition) -> EpochPlan:
        return plan_epoch(self.lengths, self.budget, self.seed, place.epoch, place.part)

    def _after(self, place: DataPosition) -> DataPosition:
        if place.group + 1 < len(self.plan().groups):
            return DataPosition(place.epoch, place.part, place.group + 1)
        return self._next_part(place)

    def _next_part(self, place: DataPosition) -> DataPosition:
        if place.part + 1 < self.lengths.parts:
            return DataPosition(place.epoch, place.part + 1)
        return DataPosition(place.epoch + 1)
