"""The ratio of the lengths of a sentence and its translation, estimated from the text itself.

Gale & Church (1993), "A Program for Aligning Sentences in Bilingual Corpora": the lengths of translations differ by a
random amount for each character, so that the deviation of their ratio shrinks with the square root of the length.
Median and median absolute deviation stand for mean and standard deviation, which wrong pairs in the text would change.

Lengths are in bytes of UTF-8, which are the characters of most Latin text. A Chinese character has three, about the
letters of its translation, so that names and code inside Chinese text count as much as on the other side.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_PAIRS = 200
"""With fewer pairs in the sample there is no limit."""
_DEVIATIONS = 5.0  # of a normal distribution; measured in benchmarks/RESULTS.md
_LEAST_DIFFERENCE = math.log(2)  # a factor of two from the usual ratio is permitted in any text
_NORMAL = 1.4826  # standard deviation of a normal distribution with median absolute deviation 1


@dataclass(frozen=True)
class LengthRatio:
    """The usual ratio of target to source in bytes, and how far a pair may deviate from it."""

    median: float
    """Of the logarithm of the ratio."""
    deviation: float
    """Standard deviation of this logarithm among long sentences."""
    deviation_for_length_1: float
    """The same among short ones, to be divided by the square root of the length of both sides."""

    @classmethod
    def learn(cls, sample: Sequence[tuple[str, str]]) -> "LengthRatio | None":
        """Return the ratio in a sample of normalized pairs; None if the sample is too small."""
        lengths = [(len(source.encode()), len(target.encode())) for source, target in sample]
        source, target = np.array([pair for pair in lengths if all(pair)], dtype=float).reshape(-1, 2).T
        if len(source) < LEAST_PAIRS:
            return None
        logs = np.log(target / source)
        median = float(np.median(logs))
        differences = np.abs(logs - median)
        scaled = differences * np.sqrt(source + target * math.exp(-median))
        return cls(median, _NORMAL * float(np.median(differences)), _NORMAL * float(np.median(scaled)))

    def unusual(self, source: str, target: str) -> str | None:
        """Return the ratio of a normalized pair, and the usual ones, if it is too far from them."""
        lengths = len(source.encode()), len(target.encode())
        ratio = lengths[1] / lengths[0]
        difference = abs(math.log(ratio) - self.median)
        if difference <= _LEAST_DIFFERENCE:
            return None
        length = lengths[0] + lengths[1] * math.exp(-self.median)
        limit = _DEVIATIONS * max(self.deviation, self.deviation_for_length_1 / math.sqrt(length))
        if difference <= limit:
            return None
        low, high = (math.exp(self.median + sign * max(limit, _LEAST_DIFFERENCE)) for sign in (-1, 1))
        return f"target {ratio:.2g} times as long, expected {low:.2g} to {high:.2g} times"
