"""The endless sequence of training batches: plans of epochs, and a thread that reads them while the model computes.

Sentences of similar length form a group. Plain kernels pad them to the longest; a batch has no padding, but the budget
counts sentences x longest on every device, so that batches are the same everywhere. An epoch is read in windows of at
most a million pairs: blocks of consecutive pairs from random places, whose pairs are sorted and divided into length
groups in random order. Each window is a function of (seed, epoch, window) alone and is planned while the one before it
is read, so that neither the time to the first batch nor RAM depends on the size of the corpus.
"""

import math
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nmt.batching.batch import Batch, Sizes, assemble
from nmt.config import Recipe
from nmt.system import distributed
from nmt.text.prepared import PreparedCorpus, PreparedSplit

Indices = NDArray[np.int64]  # of sentence pairs in a split
EpochPlan = list[Indices]  # the length groups of an epoch, or of a window of it, in order

# limit on sentences x longest source of a group, as a multiple of its budget: pairs with long sources must fit, too
_SOURCE_ALLOWANCE = 2
_GROUPS_MEASURED = 5_000
# Pairs that are sorted together at most, and consecutive pairs of a block. Smaller windows cause more padding; larger
# blocks put neighbors in the corpus, such as sentences of a document, into one group more often.
_WINDOW, _BLOCK = 1 << 20, 1 << 10
_AHEAD = 2  # updates read in advance


def plan_epoch(split: PreparedSplit, budget: int, seed: int, epoch: int) -> EpochPlan:
    """Return the plans of all windows of an epoch in a list, which needs 16 bytes of RAM for each pair.

    It contains each pair as often as the weight of its corpus states. Training plans window by window.
    """
    windows = range(window_count(split))
    return [group for window in windows for group in plan_window(split, budget, seed, DataPosition(epoch, window))]


def window_count(split: PreparedSplit) -> int:
    """Return the number of windows of an epoch; their sizes differ by at most a block."""
    pairs = sum(part.pairs * math.ceil(part.weight) for part in split.corpora)
    return 1 if pairs <= _WINDOW else -(-pairs // (_WINDOW - _BLOCK))


def plan_window(split: PreparedSplit, budget: int, seed: int, position: "DataPosition") -> EpochPlan:
    """Divide the pairs of the window of a position into groups of at most `budget` padded target tokens.

    These are sentences × longest. A pair longer than the budget is a group by itself. The same arguments give the same
    plan; `position.group` is not used.
    """
    pairs, random = _pairs_of_window(split, seed, position)
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
    """Divide pairs in any order into consecutive groups as large as the budget permits."""
    source, target = split.lengths(ordered)
    groups = []
    start = 0
    while start < len(ordered):
        end = start + max(1, budget // int(target[start]))  # beyond it, even targets of this length exceed the budget
        sentences = np.arange(1, len(target[start:end]) + 1)
        fits = sentences * np.maximum.accumulate(target[start:end]) <= budget
        fits &= sentences * np.maximum.accumulate(source[start:end]) <= _SOURCE_ALLOWANCE * budget
        count = max(1, int(fits.sum()))  # once a sentence does not fit, none behind it does
        groups.append(ordered[start : start + count])
        start += count
    return groups


def _pairs_of_window(split: PreparedSplit, seed: int, position: "DataPosition") -> tuple[Indices, np.random.Generator]:
    """Return the pairs (N,) of a window, at least one, N ≤ _WINDOW; and a generator for their order.

    A pair of weight w is in floor(w) blocks of the epoch, which may be in different windows, and in one more with the
    remaining probability. Only the table of blocks is in RAM for all pairs, 24 bytes for each 1,024 pairs.
    """
    windows, key = window_count(split), [seed, position.epoch]
    starts, sizes, chances = _blocks(split)
    if windows > 1:
        order = np.random.default_rng(key).permutation(len(starts))
        pairs_before = np.cumsum(sizes[order]) - sizes[order]  # pairs in the blocks before each
        chosen = order[pairs_before * windows // int(sizes.sum()) == position.window]
        starts, sizes, chances = starts[chosen], sizes[chosen], chances[chosen]
        key = [*key, 1 + position.window]  # numpy ignores a trailing 0 of a seed
    random = np.random.default_rng(key)
    pairs = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    if (chances < 1).any():
        drawn = pairs[random.random(len(pairs)) < np.repeat(chances, sizes)]
        pairs = drawn if len(drawn) else random.choice(pairs, 1)
    return pairs, random


def _blocks(split: PreparedSplit) -> tuple[Indices, Indices, NDArray[np.float64]]:
    """Return the first pair, the size and the probability of each pair, (blocks,), of the blocks of an epoch."""
    blocks, first = [], 0
    for part in split.corpora:
        begin, copies = np.arange(0, part.pairs, _BLOCK), np.arange(math.ceil(part.weight))
        sizes = np.minimum(_BLOCK, part.pairs - begin)
        chances = np.minimum(1.0, part.weight - copies)
        tiled = (np.tile(block, len(copies)) for block in (first + begin, sizes))
        blocks.append((*tiled, np.repeat(chances, len(begin))))
        first += part.pairs
    starts, sizes, chances = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return starts, sizes, chances


@dataclass(frozen=True)
class DataPosition:
    """The next length group: its number in the plan of a window of an epoch."""

    epoch: int = 0
    window: int = 0
    group: int = 0


@dataclass
class BatchStream:
    """The batches of all epochs, each of which has the next few length groups of the plan.

    `budget` limits the padded target tokens of a group, `groups` is the number of groups in a batch. A batch may have
    groups of two epochs. Each of `world_size` ranks reads its share of every group.
    """

    split: PreparedSplit
    budget: int
    seed: int
    groups: int = 1
    rank: int = 0
    world_size: int = 1
    position: DataPosition = DataPosition()
    sizes: Sizes | None = None  # to which batches are filled, see `assemble`
    _planned: tuple[DataPosition, EpochPlan] | None = field(default=None, init=False)  # a window and its plan
    _ahead: tuple[DataPosition, Future[EpochPlan]] | None = field(default=None, init=False)  # the one after it

    @classmethod
    def of_recipe(cls, recipe: Recipe, corpus: PreparedCorpus) -> Self:
        """Return this rank's stream of the training text."""
        ranks = distributed.rank(), distributed.world_size()
        return cls(corpus.train, recipe.train.group_budget, recipe.seed, recipe.train.length_groups, *ranks)

    def next(self) -> Batch:
        """Return the next batch and advance the position."""
        shares = []
        for _ in range(self.groups):
            plan, group = self.plan(), self.position.group
            shares.append(self.share(plan[group], group))
            self._plan_ahead()
            is_last = group + 1 == len(plan)
            self.position = self._next_window if is_last else replace(self.position, group=group + 1)
        return self.batch(shares)

    def share(self, pairs: Indices, group: int) -> Indices:
        """Return this rank's share of a length group; the rank that is first alternates, so that shares are equal."""
        return pairs[(self.rank + group) % self.world_size :: self.world_size]

    def batch(self, shares: list[Indices]) -> Batch:
        """Return a batch of these pairs; without pairs it has no loss, and lets a rank join the collectives."""
        return assemble([self.split.gather(pairs) for pairs in shares if len(pairs)], self.sizes)

    def plan(self) -> EpochPlan:
        """Return the plan of the current window."""
        window = replace(self.position, group=0)
        if self._planned is None or self._planned[0] != window:
            if self._ahead is not None and self._ahead[0] == window:
                self._planned = window, self._ahead[1].result()
            else:
                self._planned = window, plan_window(self.split, self.budget, self.seed, window)
        return self._planned[1]

    @property
    def _next_window(self) -> DataPosition:
        """The start of the window after the current one."""
        epoch, window = self.position.epoch, self.position.window + 1
        return DataPosition(epoch, window) if window < window_count(self.split) else DataPosition(epoch + 1)

    def _plan_ahead(self) -> None:
        """Begin to plan the next window in a thread, unless it has begun."""
        window = self._next_window
        if self._ahead is None or self._ahead[0] != window:
            planner = ThreadPoolExecutor(1, "planner")
            self._ahead = window, planner.submit(plan_window, self.split, self.budget, self.seed, window)
            planner.shutdown(wait=False)  # the thread ends with the plan

    @property
    def epochs_read(self) -> float:
        """Return the number of epochs read, with the fraction of the current one, whose windows count the same."""
        position = self.position
        return position.epoch + (position.window + position.group / len(self.plan())) / window_count(self.split)

    def updates_in(self, epochs: int, accumulate: int) -> int:
        """Return the number of updates of so many batches in the first epochs, if all windows are like the first."""
        first = plan_window(self.split, self.budget, self.seed, DataPosition())
        return -(-len(first) * window_count(self.split) * epochs // (self.groups * accumulate))

    @property
    def batches_an_epoch(self) -> float:
        """Return the number of batches in the current epoch, if each window has as many as the current one."""
        return len(self.plan()) * window_count(self.split) / self.groups


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
    training: the position of training is `PrefetchedBatches.position`.
    """

    def __init__(self, stream: BatchStream, batches: int) -> None:
        self._stream, self._batches = stream, batches
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
        prefetched = self._ahead.popleft().result()
        self._ahead.append(self._reader.submit(self._read))
        return replace(prefetched, waited=time.perf_counter() - started)

    def _read(self) -> PrefetchedBatches:
        batches = [self._stream.next() for _ in range(self._batches)]
        return PrefetchedBatches(batches, self._stream.position, self._stream.epochs_read)
