"""The plan of an epoch: length groups in random order, as a function of (seed, epoch, part) alone.

Sentences of similar length form a group, so that there is little padding. An epoch of a huge corpus has several parts,
each planned while the part before it is read, so that the size of a plan in RAM is bounded.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.text.prepared import ByCorpus, PreparedSplit

Indices = NDArray[np.int64]
EpochPlan = list[Indices]  # the length groups of an epoch, or of a part of it, in order

# Most pairs in a part. A larger corpus is split into parts of random blocks of consecutive pairs: its texts are mixed,
# and the blocks being read stay in the page cache.
_PART = 2**22
_BLOCK = 2**16
# limit on the padded source tokens of a group, as a multiple of its budget: pairs with long sources must fit, too
_SOURCE_ALLOWANCE = 2
_GROUPS_MEASURED = 5_000


@dataclass(frozen=True)
class StoredLengths:
    """The lengths of one side of the token store in tokens, `</s>` included, computed from its mapped offsets.

    `prefixes` are the numbers of tokens that are put before the stored ones.
    """

    offsets: NDArray[np.int64]
    prefixes: ByCorpus | None = None

    def __getitem__(self, pairs: Indices) -> NDArray[np.int64]:
        lengths = self.offsets[pairs + 1] - self.offsets[pairs] + 1
        return lengths if self.prefixes is None else lengths + self.prefixes[pairs]


@dataclass(frozen=True)
class SentenceLengths:
    """The lengths of all pairs in tokens, `</s>` included, and their number of repetitions in an epoch."""

    source: StoredLengths | NDArray[np.int64]
    target: StoredLengths | NDArray[np.int64]
    weights: ByCorpus | NDArray[np.float32]

    @classmethod
    def of(cls, split: PreparedSplit) -> "SentenceLengths":
        """Return the lengths and weights of a split's pairs, still on disk."""
        source = StoredLengths(split.source.offsets, split.prefix_lengths)
        return cls(source, StoredLengths(split.target.offsets), split.weights)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def parts(self) -> int:
        """Return the number of parts of an epoch: one, unless the corpus is huge."""
        return -(-len(self) // _PART)


def plan_epoch(lengths: SentenceLengths, budget: int, seed: int, epoch: int, part: int = 0) -> EpochPlan:
    """Divide the corpus into groups of at most `budget` padded target tokens (sentences × longest).

    A pair longer than the budget is a group by itself. The same arguments give the same plan. The parts of an epoch,
    `lengths.parts` of them, together contain each pair as often as its weight states.
    """
    pairs, random = _part(lengths, seed, epoch, part)
    pairs = _repeated(pairs, lengths.weights[pairs], random)
    random.shuffle(pairs)
    # by target length, then by source length, ascending and descending in turn: source lengths stay similar where one
    # target length ends and the next begins; pairs of equal lengths keep their random order, since the sort is stable
    source, target = lengths.source[pairs], lengths.target[pairs]
    ordered = pairs[np.lexsort((np.where(target % 2 == 0, source, -source), target))]
    groups = cut_into_groups(ordered, lengths, budget)
    return [groups[i] for i in random.permutation(len(groups))]


def padding_share(plan: EpochPlan, lengths: SentenceLengths) -> tuple[float, float]:
    """Return the share of padding on the source and on the target side, in the first few thousand (random) groups."""
    shares = []
    for side in (lengths.source, lengths.target):
        sizes = [side[group] for group in plan[:_GROUPS_MEASURED]]
        shares.append(1 - sum(int(size.sum()) for size in sizes) / sum(int(size.max()) * len(size) for size in sizes))
    return shares[0], shares[1]


def cut_into_groups(ordered: Indices, lengths: SentenceLengths, budget: int) -> list[Indices]:
    """Divide pairs, ordered by target length, into consecutive groups as large as the budget permits."""
    source, target = lengths.source[ordered], lengths.target[ordered]
    groups = []
    start = 0
    while start < len(ordered):
        count = _group_size(source, target, start, budget)
        groups.append(ordered[start : start + count])
        start += count
    return groups


def _group_size(source: NDArray[np.int64], target: NDArray[np.int64], start: int, budget: int) -> int:
    """Return the number of pairs from `start` on that form a group; `target` is ascending."""
    end = min(len(target), start + max(1, budget // int(target[start])))
    # usually all of them have one target length
    count = end - start
    if count * int(target[end - 1]) <= budget and count * int(source[start:end].max()) <= _SOURCE_ALLOWANCE * budget:
        return count
    sentences = np.arange(1, count + 1)
    fits = sentences * target[start:end] <= budget
    fits &= sentences * np.maximum.accumulate(source[start:end]) <= _SOURCE_ALLOWANCE * budget
    return max(1, int(np.argmin(fits)))


def _part(lengths: SentenceLengths, seed: int, epoch: int, part: int) -> tuple[Indices, np.random.Generator]:
    """Return the pairs of a part of an epoch and its random generator."""
    random = np.random.default_rng([seed, epoch])
    if lengths.parts == 1:
        return np.arange(len(lengths), dtype=np.int64), random
    starts = random.permutation(np.arange(0, len(lengths), _BLOCK))
    blocks = [
        np.arange(start, min(start + _BLOCK, len(lengths))) for start in np.array_split(starts, lengths.parts)[part]
    ]
    return np.concatenate(blocks), np.random.default_rng([seed, epoch, 1 + part])


def _repeated(pairs: Indices, weights: NDArray[np.float32], random: np.random.Generator) -> Indices:
    """Repeat each pair floor(weight) times, and once more with the remaining probability; return at least one pair."""
    if (weights == 1).all():
        return pairs
    drawn = np.repeat(pairs, np.floor(weights + random.random(len(weights))).astype(np.int64))
    return drawn if len(drawn) else random.choice(pairs, 1)
