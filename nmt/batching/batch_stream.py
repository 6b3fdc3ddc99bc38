"""The endless sequence of training batches: plans of epochs, and a thread that reads them while the model computes.

The plan of an epoch consists of its length groups in random order: a function of (seed, epoch) alone. Sentences of
similar length form a group, so that there is little padding.
"""

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nmt.batching.batch import Batch, Indices, Pairs, assemble, dummy_batch
from nmt.config import Recipe
from nmt.errors import ConfigError
from nmt.system.device import seed_for
from nmt.text.prepared import PreparedCorpus, PreparedSplit, Sentences
from nmt.text.subword_sampling import SegmentationSampler
from nmt.text.tokenizer import Tokenizers

EpochPlan = list[Indices]  # the length groups of an epoch, in order

# limit on the padded source tokens of a group, as a multiple of its budget: pairs with long sources must fit, too
_SOURCE_ALLOWANCE = 2
_GROUPS_MEASURED = 5_000
_AHEAD = 2  # updates read in advance: one is being copied to the device, one is in reserve
GROWTH = 1.5  # limit on the padded length of a group, as a multiple of its longest stored sentence


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
class Resegmentation:
    """Samples segmentations of both sides, subword regularization: each a function of (seed, epoch, pair, side) alone.

    Groups are planned by the lengths in the token store, and their size must be bounded: a sentence whose sample is
    longer than `GROWTH` times the longest of its group, or than `longest` tokens (with `</s>`), is used as stored.
    """

    source: SegmentationSampler
    target: SegmentationSampler
    seed: int
    longest: int

    @classmethod
    def of_recipe(cls, recipe: Recipe, tokenizers: Tokenizers) -> "Resegmentation | None":
        """Return the sampler for `train.subword_sampling`, or None. Raises ConfigError for a value too large."""
        amount = recipe.train.subword_sampling
        if amount is None:
            return None
        # the recipe need not state the type of the initial model's tokenizer
        if amount >= 1 and (tokenizers.source.merges or tokenizers.target.merges):
            raise ConfigError(
                f"train.subword_sampling: found {amount:g}, expected less than 1: with a bpe "
                "tokenizer, which this is, it is the share of merges that are left out"
            )
        source = SegmentationSampler(tokenizers.source, amount)
        target = source if tokenizers.shared else SegmentationSampler(tokenizers.target, amount)
        return cls(source, target, recipe.seed, recipe.data.filters.max_tokens + 1)

    def sample(self, pairs: Pairs, indices: Indices, stored: tuple[int, int], epoch: int) -> Pairs:
        """Return the pairs at `indices` with the segmentations of this epoch.

        `stored` are the lengths, with `</s>`, of the longest stored source and target of the whole group, of which a
        rank may have only some pairs: so the samples do not depend on the number of ranks.
        """
        source = self._side(pairs[0], indices, stored[0], epoch, "source")
        return source, self._side(pairs[1], indices, stored[1], epoch, "target")

    def _side(self, sentences: Sentences, indices: Indices, stored: int, epoch: int, side: str) -> Sentences:
        sampler = self.source if side == "source" else self.target
        most = max(stored, min(int(GROWTH * stored), self.longest)) - 1
        chosen = []
        for ids, index in zip(sentences.split(), indices.tolist(), strict=True):
            sampled = sampler.sample(ids, Random(seed_for("segmentation", self.seed, epoch, index, side)))
            chosen.append(sampled if len(sampled) <= most else ids)
        return Sentences.of(chosen)


@dataclass(frozen=True)
class DataPosition:
    """The next length group: the epoch, and the number of the group in its plan."""

    epoch: int = 0
    group: int = 0


@dataclass
class BatchStream:
    """Batches epoch after epoch, each of the next few length groups of the plan.

    `budget` limits the padded target tokens of a group, `groups` is the number of groups in a batch. A batch may end
    one epoch and begin the next. With a `resegmentation`, the segmentation into pieces is sampled at each reading. Each
    of `world_size` ranks reads its share of every group.
    """

    split: PreparedSplit
    budget: int
    seed: int
    groups: int = 1
    position: DataPosition = DataPosition()
    resegmentation: Resegmentation | None = None
    rank: int = 0
    world_size: int = 1
    _planned: tuple[int, EpochPlan] | None = field(default=None, init=False)  # an epoch and its plan

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
            pairs = self.plan()[group]
            indices = pairs[(self.rank + group) % self.world_size :: self.world_size]
            if len(indices):
                chosen.append(self._read(indices, pairs))
            is_last = group + 1 == len(self.plan())
            epoch = self.position.epoch
            self.position = DataPosition(epoch + 1) if is_last else DataPosition(epoch, group + 1)
        return assemble(chosen) if chosen else dummy_batch()

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

    def _read(self, indices: Indices, group: Indices) -> Pairs:
        """Return the pairs at `indices`, which are all of a group, or the share of this rank."""
        pairs = self.split.gather(indices)
        if self.resegmentation is None:
            return pairs
        source, target = (int(lengths.max()) for lengths in self.split.lengths(group))
        return self.resegmentation.sample(pairs, indices, (source, target), self.position.epoch)


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
