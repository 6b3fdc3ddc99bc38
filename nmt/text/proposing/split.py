"""Divide a parallel text into training, validation and test pairs in one pass: no source sentence is in two of them.

Every source sentence gets a number, a digest of the seed and of its normalized lower-case text. The sentences with the
lowest numbers are held out, each with all of its translations. So the division does not depend on the order of the
text, and only the pairs that may still be held out are in RAM: of at most `_CANDIDATES` sources.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

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

Write = Callable[[str, SentencePair], None]
"""Takes a part of the text, `train`, `valid` or `test`, and a pair of it."""


@dataclass(slots=True)
class _Candidate:
    """The pairs of a source sentence that may be held out; `unsuitable` if they belong to the training text."""

    pairs: list[SentencePair] = field(default_factory=list)
    unsuitable: bool = False


def held_out_size(pairs: int) -> int:
    """Return how many pairs of a text the validation and the test text each have, or a few more.

    All pairs of a source sentence stay together, so the number may be exceeded by those of the last one.

    >>> [held_out_size(pairs) for pairs in (500, 5_000, 50_000, 5_000_000)]
    [25, 250, 1000, 2000]
    """
    return min(pairs // SHARE, LARGEST_OF_MILLIONS if pairs >= 1_000_000 else LARGEST)


class Splitter:
    """Takes the pairs of a text one by one, and writes each to its part."""

    def __init__(self, seed: int, held_out: Iterable[str], others: Iterable[SentencePair], write: Write) -> None:
        """`held_out` are the parts to fill besides `train`: `valid`, `test`, both or none.

        Pairs whose source sentence is in `others`, which are held out already, are left out.
        """
        self.counts = dict.fromkeys(PARTS, 0)
        """Pairs written to each part."""
        self.left_out = 0
        self._key = seed.to_bytes(8, "little")
        self.held_out = tuple(held_out)
        self._write_pair = write
        self._candidates: dict[int, _Candidate] = {}
        self._highest: list[int] = []  # a heap of the negated numbers of all candidates
        self._pairs = 0
        self._others = {normalize(pair.source).casefold() for pair in others}

    def add(self, pair: SentencePair) -> None:
        """Take the next pair."""
        source, target = normalize(pair.source), normalize(pair.target)
        if source.casefold() in self._others:
            self.left_out += 1
            return
        self._pairs += bool(source and target)
        if not self.held_out or not source or len(source) > _LONGEST:
            self._write("train", (pair,))
            return
        number = int.from_bytes(blake2b(source.casefold().encode(), digest_size=8, key=self._key).digest(), "little")
        candidate = self._candidates.get(number)
        if candidate is None:
            if len(self._candidates) >= _CANDIDATES and number > -self._highest[0]:
                self._write("train", (pair,))
                return
            candidate = self._new_candidate(number)
        suits = 0 < len(target) <= _LONGEST and source.casefold() != target.casefold()
        if not suits or len(candidate.pairs) == _MOST_TRANSLATIONS:
            candidate.unsuitable = True
        candidate.pairs.append(pair)
        if candidate.unsuitable:
            self._write("train", candidate.pairs)
            candidate.pairs = []

    def finish(self) -> None:
        """Write the pairs that are left: fill the held-out parts, and give the rest to the training text."""
        size = held_out_size(self._pairs)
        candidates = iter([self._candidates[number].pairs for number in sorted(self._candidates)])
        for part in self.held_out:
            while self.counts[part] < size and (pairs := next(candidates, None)) is not None:
                self._write(part, pairs)
        for pairs in candidates:
            self._write("train", pairs)

    def _new_candidate(self, number: int) -> _Candidate:
        if len(self._candidates) >= _CANDIDATES:
            highest = -heapq.heappop(self._highest)
            self._write("train", self._candidates.pop(highest).pairs)
        heapq.heappush(self._highest, -number)
        self._candidates[number] = candidate = _Candidate()
        return candidate

    def _write(self, part: str, pairs: Iterable[SentencePair]) -> None:
        for pair in pairs:
            self.counts[part] += 1
            self._write_pair(part, pair)
