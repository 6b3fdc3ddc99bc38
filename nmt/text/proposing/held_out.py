"""Choose validation and test pairs from a parallel text.

The pairs with the lowest digests are chosen. So the choice depends neither on the order of the text nor on its
direction. The text itself is not changed: the rule `leak` removes pairs with these sentences from the training
text. No sentence is chosen twice, nor one that many pairs share, since all of these would be lost for training.
"""

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from nmt.text.preparing.rules import damage, letters
from nmt.text.readers import SentencePair

# A held-out text has at most one of this many pairs.
SHARE = 20
# Pairs in a held-out text; the second number from a million pairs.
LARGEST, LARGEST_OF_MILLIONS = 1_000, 2_000
# The most pairs of the text that may contain a held-out sentence.
MOST_PAIRS = 8
_LONGEST = 1_000  # characters of a sentence that is held out
_CANDIDATES_A_PAIR = 4  # since some of them share sentences with others
_CANDIDATES = _CANDIDATES_A_PAIR * 2 * LARGEST_OF_MILLIONS
_BREAK = re.compile(r"[\t\r\n]")  # not possible in TSV


def held_out_size(pairs: int) -> int:
    """Return how many of `pairs` pairs are held out for validation, and as many for the test.

    >>> [held_out_size(pairs) for pairs in (500, 5_000, 50_000, 5_000_000)]
    [25, 250, 1000, 2000]
    """
    return min(pairs // SHARE, LARGEST_OF_MILLIONS if pairs >= 1_000_000 else LARGEST)


def candidates(pairs: Iterable[SentencePair], held_out: int = 0) -> list[SentencePair]:
    """Return the pairs with the lowest digests, in their order: a random sample, from which to choose `held_out` pairs.

    RAM does not grow with the text.
    """
    return heapq.nsmallest(max(_CANDIDATES, _CANDIDATES_A_PAIR * held_out), pairs, key=_digest)


def distinct(sample: Iterable[SentencePair]) -> list[SentencePair]:
    """Return the pairs of a sample without repetitions: the first of all pairs with the same letters.

    All copies of a pair have the same digest, so the lowest digests are those of a random sample of different pairs.
    """
    return list({_digest(pair)[0]: pair for pair in reversed([*sample])}.values())[::-1]


def _suits(pair: SentencePair) -> bool:
    """Whether a pair can be held out: both sides with letters, different, not long, in one cell of TSV, undamaged."""
    sides = (pair.source, pair.target)
    text = letters(pair.source) not in ("", letters(pair.target)) and letters(pair.target)
    return bool(text) and all(len(side) <= _LONGEST and not _BREAK.search(side) and not damage(side) for side in sides)


def _digest(pair: SentencePair) -> tuple[bytes, list[str]]:
    """Return a digest of the letters of both sides, in any order, and the sides, which order pairs of equal digests."""
    keys = sorted((letters(pair.source), letters(pair.target)))
    return blake2b("\n".join(keys).encode(), digest_size=8).digest(), sorted((pair.source, pair.target))


def choose(
    chosen_from: Sequence[SentencePair], pairs: Iterable[SentencePair], others: Iterable[SentencePair]
) -> Iterator[SentencePair]:
    """Yield the candidates that can be held out: suitable ones, without sentences of many pairs.

    None shares a sentence with another one or with `others`, the pairs of texts that are held out already.
    """
    frequency = Counter({letters(side): 0 for pair in chosen_from for side in (pair.source, pair.target)})
    for pair in pairs:
        frequency.update({letters(pair.source), letters(pair.target)} & frequency.keys())
    taken = {letters(side) for pair in others for side in (pair.source, pair.target)}
    for pair in filter(_suits, chosen_from):
        sides = {letters(pair.source), letters(pair.target)}
        if not sides & taken and all(frequency[side] <= MOST_PAIRS for side in sides):
            taken |= sides
            yield pair
