"""The endless sequence of training batches: plans of epochs, and a thread that reads them while the model computes.

The plan of an epoch consists of its length groups in random order: a function of (seed, epoch) alone. Sentences of
similar length form a group, so that there is little padding.
"""

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nmt.batching.batch import Batch, Indices, Sizes, assemble
from nmt.config import Recipe
from nmt.text.prepared import PreparedCorpus, PreparedSplit

EpochPlan = list[Indices]  # the length groups of an epoch, in order

# limit on the padded source tokens of a group, as a multiple of its budget: pairs with long sources must fit, too
_SOURCE_ALLOWANCE = 2
_GROUPS_MEASURED = 5_000
_AHEAD = 2  # updates read in advance: one is being copied to the device, one is in reserve


def plan_epoch(split: PreparedSplit, budget: int, seed: int, epoch: int) -> EpochPlan:
    """Divide the corpus into groups of at most `budget` padded target tokens (sentences × longest).

    A pair longer than the budget is a group by itself. The same arguments give the same plan, which contains each pair
    as often as its weight states.
    """
    pairs, random = np.arange(len(split), dtype=np.int64), np.random.default_rng([seed, epoch])
    pairs = _repeated(pairs, split.weights(pairs), random)
    random.shuffle(pairs)
    # by target length, then by source length, ascending and descending in turn: source lengths stay similar where one
    # target length ends and the next begins; pairs of equal lengths keep their random order, since the sort is stable
    source, target = split.lengths(pairs)
    ordered = pairs[np.lexsort((np.where(target % 2 == 0, source, -source), target))]
    groups = cut_into_groups(ordered, split, budget)
    return [groups[i] for i in random.permutation(len(groups))]


def padding_share(plan: EpochPlan, split: PreparedSplit) -> tuple[float, float]:
    """Return the share of padding on the source and on the target side, in the first few thousand (random) groups."""
    source, target = (
        1 - sum(int(size.sum()) for size in sizes) / sum(int(size.max()) * len(size) for size in sizes)
        for sizes in zip(*map(split.lengths, plan[:_GROUPS_MEASURED]), strict=True)
    )
    return source, target


def cut_into_groups(ordered: Indices, split: PreparedSplit, budget: int) -> list[Indices]:
    """Divide pairs, ordered by target length, into consecutive groups as large as the budget permits."""
    source, target = split.lengths(ordered)
    groups = []
    start = 0
    while start < len(ordered):
        end = start + max(1, budget // int(target[start]))  # beyond it, even targets of this length exceed the budget
        sentences = np.arange(1, len(target[start:end]) + 1)
        fits = sentences * target[start:end] <= budget
        fits &= sentences * np.maximum.accumulate(source[start:end]) <= _SOURCE_ALLOWANCE * budget
        count = max(1, int(fits.sum()))  # once a sentence does not fit, none behind it does
        groups.append(ordered[start : start + count])
        start += count
    return groups


def _repeated(pairs: Indices, weights: NDArray[np.float32], random: np.random.Generator) -> Indices:
    """Repeat each pair floor(weight) times, and once more with the remaining probability; return at least one pair."""
    if (weights == 1).all():
        return pairs
    drawn = np.repeat(pairs, np.floor(weights + random.random(len(weights))).astype(np.int64))
    return drawn if len(drawn) else random.choice(pairs, 1)


@dataclass(frozen=True)
class DataPosition:
    """The next length group: the epoch, and the number of the group in its plan."""

    epoch: int = 0
    group: int = 0


@dataclass
class BatchStream:
    """Batches epoch after epoch, each of the next few length groups of the plan.

    `budget` limits the padded target tokens of a group, `groups` is the number of groups in a batch. A batch may end
    one epoch and begin the next. Each of `world_size` ranks reads its share of every group.
    """

    split: PreparedSplit
    budget: int
    seed: int
    groups: int = 1
    position: DataPosition = DataPosition()
    rank: int = 0
    world_size: int = 1
    sizes: Sizes | None = None  # to which batches are filled, see `assemble`
    _planned: tuple[int, EpochPlan] | None = field(default=None, init=False)  # an epoch and its plan

    @classmethod
    def of_recipe(cls, recipe: Recipe, corpus: PreparedCorpus) -> Self:
        """Return the stream of the training text, all of it."""
        return cls(corpus.train, recipe.train.group_budget, recipe.seed, recipe.train.length_groups)

    def next(self) -> Batch:
        """Return the next batch and advance the position."""
        shares = []
        for _ in range(self.groups):
            group = self.position.group
            shares.append(self.share(self.plan()[group], group))
            is_last = group + 1 == len(self.plan())
            epoch = self.position.epoch
            self.position = DataPosition(epoch + 1) if is_last else DataPosition(epoch, group + 1)
        return self.batch(shares)

    def share(self, pairs: Indices, group: int) -> Indices:
        """Return this rank's share of a length group; the rank with the first pair alternates, so all get as many."""
        return pairs[(self.rank + group) % self.world_size :: self.world_size]

    def batch(self, shares: list[Indices]) -> Batch:
        """Return a batch of these pairs; without any it has no loss, so that a rank takes part in the collectives."""
        return assemble([self.split.gather(pairs) for pairs in shares if len(pairs)], self.sizes)

    def plan(self) -> EpochPlan:
        """Return the plan of the current epoch."""
        epoch = self.position.epoch
        if self._planned is None or self._planned[0] != epoch:
            self._planned = epoch, plan_epoch(self.split, self.budget, self.seed, epoch)
        return self._planned[1]

    @property
    def epochs_read(self) -> float:
        """Return the number of epochs read, with the fraction of the current one."""
        return self.position.epoch + self.position.group / len(self.plan())

    @property
    def batches_an_epoch(self) -> float:
        """Return the number of batches in the current epoch."""
        return len(self.plan()) / self.groups


@dataclass(frozen=True)
class PrefetchedBatches:
    """The batches of an update, and the position of the stream after them."""

    batches: list[Batch]
    position: DataPosition
    epochs_read: float
    waited: float = 0.0  # seconds for which training waited for them


class Prefetcher:
    """Reads `batches` batches per update from a stream, in one thread, two updates ahead.

    Used as a context manager, which ends the thread. Within it only the thread may use the stream, which is ahead of
    training: the position of training is `PrefetchedBatches.position`. With `pin`, batches are in page-locked RAM.
    """

    def __init__(self, stream: BatchStream, batches: int, pin: bool) -> None:
        self._stream, self._batches, self._pin = stream, batches, pin
        self._reader = ThreadPoolExecutor(1, "nmt-reader")
        self._ahead: deque[Future[PrefetchedBatches]] = deque()

    def __enter__(self) -> Self:
        self._ahead.extend(self._reader.submit(self._read) for _ in range(_AHEAD))
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.shutdown(cancel_futures=True)

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
