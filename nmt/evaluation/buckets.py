"""Groups of lines by a property, whose scores show where a system is good or bad: length, rare words."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.word_counts import FREQUENCIES, FREQUENCY_NAMES, word_list
from nmt.text.normalize import normalize
from nmt.text.words import words

LENGTHS = (5, 10, 20, 30, 40, 60)
"""The longest lines of each bucket but the last, in words."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Some lines of a text."""

    name: str
    lines: tuple[int, ...]
    """Indices, from 0."""


def length_buckets(lines: Sequence[str]) -> list[Bucket]:
    """Group lines by their number of words (Chinese: characters); empty buckets are left out.

    >>> [bucket.name for bucket in length_buckets(["Yes.", "a " * 12, "a " * 99])]
    ['1–5', '11–20', '> 60']
    """
    lengths = [len(words(normalize(line))) for line in lines]
    names = [f"{low + 1}–{high}" for low, high in zip((0, *LENGTHS), LENGTHS, strict=False)] + [f"> {LENGTHS[-1]}"]
    return _grouped(names, [bisect_left(LENGTHS, length) for length in lengths])


def rarity_buckets(lines: Sequence[str], frequencies: Counter[str]) -> list[Bucket]:
    """Group lines by how often their rarest word occurs in some text; empty buckets are left out.

    >>> [bucket.name for bucket in rarity_buckets(["A cat.", "A..."], Counter(a=30))]
    ['0', '10–99']
    """
    rarest = [min((frequencies[word] for word in word_list(line)), default=0) for line in lines]
    return _grouped(FREQUENCY_NAMES, [bisect_left(FREQUENCIES, count) for count in rarest])


def _grouped(names: Sequence[str], places: Sequence[int]) -> list[Bucket]:
    groups = [tuple(line for line, place in enumerate(places) if place == index) for index in range(len(names))]
    return [Bucket(name, group) for name, group in zip(names, groups, strict=True) if group]
