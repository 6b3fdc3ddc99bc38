"""Which sentences make which length group, in which order: a plan that is a function of (seed, epoch, part) alone.

Sentences of like lengths go together, so that little is padded; the groups are then shuffled. An epoch of a huge corpus
has several parts, each planned when the one before it is read, so that what a plan needs in memory has a bound.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nmt.text.prepared import PreparedSplit

Indices = NDArray[np.int64]

_BLOCK = 2**16
_PART = 2**22
"""Most pairs in a part. A larger corpus is split into parts of random blocks of neighbours: its texts mix, and what is
being read of the token store stays in the memory that the system keeps files in."""

_SOURCE_ALLOWANCE = 2
"""A group may hold this many times its budget in padded source tokens, so that lopsided pairs fit in memory."""

_GROUPS_MEASURED = 5_000


class Lengths(Protocol):
    """Lengths in tokens, sentence ends included, of the sentences at some indices; an array is one."""

    def __getitem__(self, pairs: Indices, /) -> NDArray[np.int64]: ...


@dataclass(frozen=True)
class StoredLengths:
    """The lengths of a side of the token store, read from its mapped offsets when they are asked for."""

    offsets: NDArray[np.int64]

    def __getitem__(self, pairs: Indices, /) -> NDArray[np.int64]:
        return self.offsets[pairs + 1] - self.offsets[pairs] + 1


@dataclass(frozen=True)
class SentenceLengths:
    """How long each pair is in tokens, sentence ends included, and how often an epoch shows it."""

    source: Lengths
    target: Lengths
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, split: PreparedSplit) -> "SentenceLengths":
        """Return the lengths and weights of a split's pairs, still on disk."""
        source, target = StoredLengths(split.source.offsets), StoredLengths(split.target.offsets)
        return cls(source, target, split.weights)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def parts(self) -> int:
        """Return how many parts an epoch has: one, unless the corpus is huge."""
        return -(-len(self) // _PART)


@dataclass(frozen=True)
class EpochPlan:
    """The length groups of an epoch, or of a part of it, in order: each an array of pair indices."""

    groups: list[Indices]


def plan_epoch(lengths: SentenceLengths, budget: int, seed: int, epoch: int, part: int = 0) -> EpochPlan:
    """Cut the corpus into groups of at most `budget` padded target tokens (sentences × longest).

    A pair longer than the budget gets a group of its own. The same arguments give the same plan. All parts of an epoch,
    of which there are `lengths.parts`, show each pair as often as its weight says.
    """
    pairs, random = _part(lengths, seed, epoch, part)
    pairs = _drawn_pairs(pairs, lengths.weights[pairs], random)
    random.shuffle(pairs)
    ordered = pairs[_by_length(lengths.source[pairs], lengths.target[pairs])]
    groups = cut(ordered, lengths, budget)
    order = random.permutation(len(groups))
    return EpochPlan([groups[i] for i in order])


def padding_share(plan: EpochPlan, lengths: SentenceLengths) -> tuple[float, float]:
    """Return the share of padding on the source and on the target side of a plan, from its first few thousand groups.

    (Groups are shuffled, so those are like the others.)
    """
    shares = []
    groups = plan.groups[:_GROUPS_MEASURED]
    for side in (lengths.source, lengths.target):
        sizes = [side[group] for group in groups]
        shares.append(1 - sum(int(size.sum()) for size in sizes) / sum(int(size.max()) * len(size) for size in sizes))
    return shares[0], shares[1]


def cut(ordered: Indices, lengths: SentenceLengths, budget: int) -> list[Indices]:
    """Cut pairs, ordered by target length, into consecutive groups that are as full as the budget lets them be."""
    source, target = lengths.source[ordered], lengths.target[ordered]
    groups = []
    start = 0
    while start < len(ordered):
        count = _that_fit(source, target, start, budget)
        groups.append(ordered[start : start + count])
        start += count
    return groups


def _that_fit(source: NDArray[np.int64], target: NDArray[np.int64], start: int, budget: int) -> int:
    """Return how many pairs from `start` on make a group; `target` ascends."""
    end = min(len(target), start + max(1, budget // int(target[start])))
    # as a rule all of them have one target length
    count = end - start
    if count * int(target[end - 1]) <= budget and count * int(source[start:end].max()) <= _SOURCE_ALLOWANCE * budget:
        return count
    sentences = np.arange(1, count + 1)
    fits = sentences * target[start:end] <= budget
    fits &= sentences * np.maximum.accumulate(source[start:end]) <= _SOURCE_ALLOWANCE * budget
    return max(1, int(np.argmin(fits)))


def _part(lengths: SentenceLengths, seed: int, epoch: int, part: int) -> tuple[Indices, np.random.Generator]:
    """Return which pairs a part of an epoch draws from, and what decides about it."""
    random = np.random.default_rng([seed, epoch])
    if lengths.parts == 1:
        return np.arange(len(lengths), dtype=np.int64), random
    starts = random.permutation(np.arange(0, len(lengths), _BLOCK))
    blocks = [
        np.arange(start, min(start + _BLOCK, len(lengths))) for start in np.array_split(starts, lengths.parts)[part]
    ]
    return np.concatenate(blocks), np.random.default_rng([seed, epoch, 1 + part])


def _drawn_pairs(pairs: Indices, weights: NDArray[np.float32], random: np.random.Generator) -> Indices:
    """Repeat each pair floor(weight) times, and once more with the probability that is left; never return nothing."""
    if (weights == 1).all():
        return pairs
    drawn = np.repeat(pairs, np.floor(weights + random.random(len(weights))).astype(np.int64))
    return drawn if len(drawn) else random.choice(pairs, 1)


def _by_length(source: NDArray[np.int64], target: NDArray[np.int64]) -> Indices:
    """Return the order by target length, within it by source length, up and down in turn.

    Going up and down keeps the source lengths close where one target length ends and the next begins. Pairs of equal
    lengths stay as they were shuffled, for numpy's lexsort is stable.
    """
    snake = np.where(target % 2 == 0, source, -source)
    return np.lexsort((snake, target))
