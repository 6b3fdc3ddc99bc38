"""Which sentences make which batch, in which order: a plan that is a function of (seed, epoch) alone.

Sentences of like lengths go together, so that little is padded; the batches are then shuffled.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Lengths = NDArray[np.int64]

_SOURCE_ALLOWANCE = 2
"""A batch may hold this many times its budget in padded source tokens, so that lopsided pairs fit in memory."""


@dataclass(frozen=True)
class SentenceLengths:
    """How long each pair is in tokens, sentence ends included, and how often an epoch shows it."""

    source: Lengths
    target: Lengths
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class EpochPlan:
    """The length groups of one epoch in order, each an array of pair indices."""

    groups: list[Indices]


def plan_epoch(lengths: SentenceLengths, budget: int, seed: int, epoch: int) -> EpochPlan:
    """Cut the corpus into batches of at most `budget` padded target tokens (sentences × longest).

    A pair longer than the budget gets a batch of its own. The same arguments give the same plan.
    """
    random = np.random.default_rng([seed, epoch])
    pairs = _drawn_pairs(lengths.weights, random)
    random.shuffle(pairs)
    ordered = pairs[_by_length(lengths.source[pairs], lengths.target[pairs])]
    batches = cut(ordered, lengths, budget)
    order = random.permutation(len(batches))
    return EpochPlan([batches[i] for i in order])


def padding_share(plan: EpochPlan, lengths: SentenceLengths) -> tuple[float, float]:
    """Return the share of padding on the source and on the target side of a plan."""
    shares = []
    for side in (lengths.source, lengths.target):
        padded = sum(int(side[batch].max()) * len(batch) for batch in plan.groups)
        real = sum(int(side[batch].sum()) for batch in plan.groups)
        shares.append(1 - real / padded)
    return shares[0], shares[1]


def cut(ordered: Indices, lengths: SentenceLengths, budget: int) -> list[Indices]:
    """Cut pairs, ordered by target length, into consecutive batches that are as full as the budget lets them be."""
    batches = []
    start = 0
    while start < len(ordered):
        most = max(1, budget // int(lengths.target[ordered[start]]))
        window = ordered[start : start + most]
        sentences = np.arange(1, len(window) + 1)
        target_padded = sentences * np.maximum.accumulate(lengths.target[window])
        source_padded = sentences * np.maximum.accumulate(lengths.source[window])
        fits = (target_padded <= budget) & (source_padded <= _SOURCE_ALLOWANCE * budget)
        count = max(1, len(window) if fits.all() else int(np.argmin(fits)))
        batches.append(window[:count])
        start += count
    return batches


def _drawn_pairs(weights: NDArray[np.float32], random: np.random.Generator) -> Indices:
    """Repeat each pair floor(weight) times, and once more with the probability that is left; never return nothing."""
    pairs = np.arange(len(weights), dtype=np.int64)
    if (weights == 1).all():
        return pairs
    drawn = np.repeat(pairs, np.floor(weights + random.random(len(weights))).astype(np.int64))
    return drawn if len(drawn) else random.choice(pairs, 1)


def _by_length(source: Lengths, target: Lengths) -> Indices:
    """Return the order by target length, within it by source length, up and down in turn.

    Going up and down keeps the source lengths close where one target length ends and the next begins. Pairs of equal
    lengths stay as they were shuffled, for numpy's lexsort is stable.
    """
    snake = np.where(target % 2 == 0, source, -source)
    return np.lexsort((snake, target))
