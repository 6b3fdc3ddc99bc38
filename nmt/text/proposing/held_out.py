"""Choose validation and test pairs from a parallel text.

The pairs with the lowest digests are chosen. So the choice depends neither on the order of the text nor on its
direction. The text itself stays as it is: the rule `leak` removes the pairs with their sentences from what is trained
on. No sentence is chosen twice, and none that many pairs have, since they would all be lost for training.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from nmt.text.corpus import SentencePair
from nmt.text.preparing.rules import damage, letters

SHARE = 20
"""A held-out text has at most one in so many pairs."""
LARGEST, LARGEST_OF_MILLIONS = 1_000, 2_000
"""Pairs in a held-out text; the second number from a million pairs."""
MOST_PAIRS = 8
"""Pairs of the text that a held-out sentence may be in."""
_LONGEST = 1_000  # characters of a sentence that is held out
_CANDIDATES = 4 * 2 * LARGEST_OF_MILLIONS  # pairs; sentences of a part of them are in others
_BREAK = re.compile(r"[\t\r\n]")  # not possible in TSV


def held_out_size(pairs: int) -> int:
    """Return how many pairs the validation and the test text of so many pairs each have.

    >>> [held_out_size(pairs) for pairs in (500, 5_000, 50_000, 5_000_000)]
    [25, 250, 1000, 2000]
    """
    return min(pairs // SHARE, LARGEST_OF_MILLIONS if pairs >= 1_000_000 else LARGEST)


def candidates(pairs: Iterable[SentencePair], most: int = _CANDIDATES) -> list[SentencePair]:
    """Return the different pairs with the lowest digests, in their order; RAM does not grow with the text."""
    found: dict[bytes, SentencePair] = {}
    for pair in pairs:
        keys = sorted((letters(pair.source), letters(pair.target)))
        if not keys[0] or keys[0] == keys[1] or not (_suits(pair.source) and _suits(pair.target)):
            continue
        digest = blake2b("\n".join(keys).encode(), digest_size=8).digest()
        found[digest] = min(found.get(digest, pair), pair, key=lambda one: sorted((one.source, one.target)))
        if len(found) > 2 * most:
            found = {digest: found[digest] for digest in sorted(found)[:most]}
    return [found[digest] for digest in sorted(found)[:most]]


def _suits(sentence: str) -> bool:
    return len(sentence) <= _LONGEST and _BREAK.search(sentence) is None and damage(sentence) is None


def choose(
    chosen_from: Sequence[SentencePair], pairs: Iterable[SentencePair], others: Iterable[SentencePair], count: int
) -> list[SentencePair]:
    """Return at most `count` of the candidates.

    None shares a sentence with another one or with `others`, the pairs of texts that are held out already.
    """
    frequency = Counter({letters(side): 0 for pair in chosen_from for side in (pair.source, pair.target)})
    for pair in pairs:
        for side in {letters(pair.source), letters(pair.target)} & frequency.keys():
            frequency[side] += 1
    taken = {letters(side) for pair in others for side in (pair.source, pair.target)}
    chosen: list[SentencePair] = []
    for pair in chosen_from:
        sides = {letters(pair.source), letters(pair.target)}
        if len(chosen) < count and not sides & taken and all(frequency[side] <= MOST_PAIRS for side in sides):
            chosen.append(pair)
            taken |= sides
    return chosen
