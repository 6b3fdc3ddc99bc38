"""Groups of lines by their length, whose scores show where a system is good or bad."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.text.languages import detect_language
from nmt.text.normalize import normalize
from nmt.text.segment import words

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
    names = [f"{low + 1}–{high}" for low, high in zip((0, *LENGTHS), LENGTHS, strict=False)] + [f"> {LENGTHS[-1]}"]
    groups: list[list[int]] = [[] for _ in names]
    for index, line in enumerate(lines):
        groups[bisect_left(LENGTHS, len(words(normalize(line))))].append(index)
    return [Bucket(name, tuple(group)) for name, group in zip(names, groups, strict=True) if group]


def length_unit(lines: Sequence[str]) -> str:
    """Return the name of what `length_buckets` counts.

    >>> length_unit(["我喜欢猫。"]), length_unit(["Yes."])
    ('characters', 'words')
    """
    return "characters" if detect_language(lines).unspaced else "words"
