"""Divide a parallel text into training, validation and test pairs in one pass: no source sentence is in two of them.

Every source sentence gets a number, a digest of the seed and of its normalized lower-case text. The sentences with the
lowest numbers are held out, each with all of its translations. So the division does not depend on the order of the
text, and only the pairs that may still be held out are in RAM: of at most `_CANDIDATES` sources.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from nmt.text.corpus import SentencePair
from nmt.text.normalize import normalize

PARTS = ("train", "valid", "test")
LEFT_OUT = "left out"
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

    Pairs whose source sentence is in `others`, which are held out already, belong to `LEFT_OUT`.
    """
    held_out_already = {normalize(pair.source).casefold() for pair in others}
    key = seed.to_bytes(8, "little")
    candidates: dict[int, list[SentencePair] | None] = {}  # by number; None if they belong to the training text
    highest: list[int] = []  # a heap of the negated numbers of all candidates
    count = 0
    for pair in pairs:
        source, target = normalize(pair.source), normalize(pair.target)
        folded = source.casefold()
        if folded in held_out_already:
            yield LEFT_OUT, pair
            continue
        count += bool(source and target)
        number = int.from_bytes(blake2b(folded.encode(), digest_size=8, key=key).digest(), "little")
        is_full = len(candidates) >= _CANDIDATES and number not in candidates
        if not held_out or not 0 < len(source) <= _LONGEST or (is_full and number > -highest[0]):
            yield "train", pair
            continue
        if is_full:
            yield from (("train", other) for other in candidates.pop(-heapq.heappop(highest)) or ())
        if number not in candidates:
            heapq.heappush(highest, -number)
        translations = candidates.setdefault(number, [])
        suits = 0 < len(target) <= _LONGEST and folded != target.casefold()
        if translations is not None and suits and len(translations) < _MOST_TRANSLATIONS:
            translations.append(pair)
        else:
            yield from (("train", other) for other in (*(translations or ()), pair))
            candidates[number] = None
    remaining = iter([chosen for _, chosen in sorted(candidates.items()) if chosen])
    for part in held_out:
        size = held_out_size(count)
        while size > 0 and (chosen := next(remaining, None)) is not None:
            yield from ((part, pair) for pair in chosen)
            size -= len(chosen)
    yield from (("train", pair) for chosen in remaining for pair in chosen)
