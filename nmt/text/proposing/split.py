"""Divide a parallel text into training, validation and test pairs in one pass: no source sentence is in two of them.

Every source sentence gets a number, a digest of the seed and of its normalized lower-case text. The sentences with the
lowest numbers are held out, each with all of its translations. So the division does not depend on the order of the
text, and only the pairs that may still be held out are in RAM: of at most `_CANDIDATES` sources.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import itemgetter

from nmt.text.corpus import SentencePair
from nmt.text.normalize import normalize

PARTS = ("train", "valid", "test")
SHARE = 20
"""A held-out text has at most one in so many pairs."""
LARGEST, LARGEST_OF_MILLIONS = 1_000, 2_000
"""Pairs in a held-out text; the second number from a million pairs."""
_MOST_TRANSLATIONS = 8  # of a source sentence that is held out; one with more would dominate the score
_LONGEST = 1_000  # characters of a sentence that is held out
_CANDIDATES = 3 * 2 * LARGEST_OF_MILLIONS  # sources; a part of them may have no suitable translation


def held_out_size(pairs: int) -> int:
    """Return how many pairs of a text the validation and the test text each have, or a few more.

    All pairs of a source sentence stay together, so the number may be exceeded by those of the last one.

    >>> [held_out_size(pairs) for pairs in (500, 5_000, 50_000, 5_000_000)]
    [25, 250, 1000, 2000]
    """
    return min(pairs // SHARE, LARGEST_OF_MILLIONS if pairs >= 1_000_000 else LARGEST)


def divide(
    pairs: Iterable[SentencePair], held_out: Sequence[str], others: Iterable[SentencePair], seed: int
) -> Iterator[tuple[str, SentencePair]]:
    """Yield the pairs of a text, each with its part: `train`, or one of `held_out`, which are `valid`, `test` or both.

    Pairs whose source sentence is in `others`, which are held out already, are left out.
    """
    held_out_already = {normalize(pair.source).casefold() for pair in others}
    candidates = _Candidates(seed)
    count = 0
    for pair in pairs:
        source, target = normalize(pair.source), normalize(pair.target)
        if source.casefold() in held_out_already:
            continue
        count += bool(source and target)
        if held_out and 0 < len(source) <= _LONGEST:
            suits = 0 < len(target) <= _LONGEST and source.casefold() != target.casefold()
            released = candidates.offer(source, pair, suits)
        else:
            released = [pair]
        yield from (("train", other) for other in released)
    remaining = iter(candidates.by_number())
    for part in held_out:
        size = held_out_size(count)
        while size > 0 and (chosen := next(remaining, None)) is not None:
            yield from ((part, pair) for pair in chosen)
            size -= len(chosen)
    yield from (("train", pair) for chosen in remaining for pair in chosen)


class _Candidates:
    """The `_CANDIDATES` source sentences with the lowest numbers, and their pairs, which may be held out."""

    def __init__(self, seed: int) -> None:
        self._key = seed.to_bytes(8, "little")
        self._pairs: dict[int, list[SentencePair] | None] = {}
        """None for a source that is not held out, since one of its pairs is unsuitable or they are too many."""
        self._negated: list[int] = []  # a heap of the negated numbers: the highest number is first

    def offer(self, source: str, pair: SentencePair, suits: bool) -> list[SentencePair]:
        """Add a pair of a normalized source, which may be unsuitable; return the pairs to train on instead."""
        digest = blake2b(source.casefold().encode(), digest_size=8, key=self._key).digest()
        number = int.from_bytes(digest, "little")
        if number not in self._pairs:
            self._pairs[number] = []
            heapq.heappush(self._negated, -number)
        pairs, released = self._pairs[number], list[SentencePair]()
        if pairs is None:
            released = [pair]
        else:
            pairs.append(pair)
            if not suits or len(pairs) > _MOST_TRANSLATIONS:
                released, self._pairs[number] = pairs, None
        if len(self._pairs) > _CANDIDATES:
            released = (self._pairs.pop(-heapq.heappop(self._negated)) or []) + released
        return released

    def by_number(self) -> list[list[SentencePair]]:
        """Return the pairs of each source that may be held out."""
        return [pairs for _, pairs in sorted(self._pairs.items(), key=itemgetter(0)) if pairs]
