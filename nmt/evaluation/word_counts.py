"""Words and n-grams of two texts: which words of which frequency are right, and which n-grams one system prefers.

After compare-mt (Neubig et al. 2019).
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nmt.text.languages import UNSPACED
from nmt.text.normalize import normalize

FREQUENCIES = (0, 1, 9, 99, 999)
"""The highest frequency of each group of words but the last."""
FREQUENCY_NAMES = ("0", "1", "2–9", "10–99", "100–999", "≥ 1000")

_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’][^\W{UNSPACED}]+)*")
_SURPLUS_SPACE = re.compile(rf"(?<=[{UNSPACED}]) | (?=[{UNSPACED}])")
_LONGEST = 4
_LEAST_DIFFERENCE = 3
_LEAST_DEVIATION = 2.0
"""In standard deviations of the difference of two equal Poisson counts."""


@dataclass(frozen=True, slots=True)
class WordAccuracy:
    """How many words of one frequency are right: in the output and in the reference of the same line."""

    name: str
    in_output: int
    in_reference: int
    right: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in percent."""
        return 200 * self.right / max(1, self.in_output + self.in_reference)


@dataclass(frozen=True, slots=True)
class NgramCount:
    """How often two systems produce an n-gram, and how often where the reference has it too."""

    text: str
    counts: tuple[int, int]
    right: tuple[int, int]
    in_reference: int


def word_list(line: str) -> list[str]:
    """Return the words of a line in lowercase, without punctuation; Chinese and Japanese characters are words.

    >>> word_list("Dov'è New York? 在这里。")
    ["dov'è", 'new', 'york', '在', '这', '里']
    """
    return _WORD.findall(normalize(line).lower())


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs."""
    return Counter(word for line in lines for word in word_list(line))


def word_accuracy(output: Sequence[str], reference: Sequence[str], frequencies: Counter[str]) -> list[WordAccuracy]:
    """Return the accuracy of words by their frequency in some text; empty groups are left out."""
    sums = [[0, 0, 0] for _ in FREQUENCY_NAMES]
    for line, other in zip(output, reference, strict=True):
        made, required = Counter(word_list(line)), Counter(word_list(other))
        for place, counts in enumerate((made, required, made & required)):
            for word, count in counts.items():
                sums[bisect_left(FREQUENCIES, frequencies[word])][place] += count
    return [WordAccuracy(name, *counts) for name, counts in zip(FREQUENCY_NAMES, sums, strict=True) if any(counts)]


def distinctive_ngrams(
    first: Sequence[str], second: Sequence[str], reference: Sequence[str], most: int
) -> tuple[list[NgramCount], list[NgramCount]]:
    """Return the n-grams of one to four words that the first system produces more often, and those of the second.

    They are ordered by the difference in standard deviations. An n-gram inside a longer one of the same counts is left
    out.
    """
    counts, right, required = [Counter[str](), Counter[str]()], [Counter[str](), Counter[str]()], Counter[str]()
    for one, two, other in zip(first, second, reference, strict=True):
        expected = _ngrams(other)
        required.update(expected)
        for place, line in enumerate((one, two)):
            made = _ngrams(line)
            counts[place].update(made)
            right[place].update(made & expected)
    deviations: dict[NgramCount, float] = {}
    for text in counts[0].keys() | counts[1].keys():
        of_both = (counts[0][text], counts[1][text])
        difference = of_both[0] - of_both[1]
        if abs(difference) >= _LEAST_DIFFERENCE:
            found = NgramCount(text, of_both, (right[0][text], right[1][text]), required[text])
            deviations[found] = difference / math.sqrt(sum(of_both))
    ordered = sorted(deviations, key=lambda ngram: (-abs(deviations[ngram]), -len(ngram.text), ngram.text))
    preferred: tuple[list[NgramCount], list[NgramCount]] = [], []
    for sign, kept in zip((1, -1), preferred, strict=True):
        for ngram in ordered:
            inside = (ngram.text in longer.text and ngram.counts == longer.counts for longer in kept)
            if len(kept) < most and sign * deviations[ngram] >= _LEAST_DEVIATION and not any(inside):
                kept.append(ngram)
    return preferred


def _ngrams(line: str) -> Counter[str]:
    tokens = word_list(line)
    return Counter(
        _SURPLUS_SPACE.sub("", " ".join(tokens[start : start + order]))
        for order in range(1, _LONGEST + 1)
        for start in range(len(tokens) - order + 1)
    )
