"""Groups of lines by a property, whose scores show where a system is good or bad: length, rare words, content."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.evaluation.word_counts import FREQUENCIES, FREQUENCY_NAMES, word_list
from nmt.text.glossary import Glossary
from nmt.text.languages import detect_language
from nmt.text.normalize import normalize
from nmt.text.protection import items
from nmt.text.segment import words

LENGTHS = (5, 10, 20, 30, 40, 60)
"""The longest lines of each bucket but the last, in words."""

_NAME = re.compile(r"(?<=[\w,;’'\"] )[^\W\d_a-z]\w+")
"""A word after another one of its sentence; whether it begins with a capital is checked apart."""


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


def length_unit(lines: Sequence[str]) -> str:
    """Return the name of what `length_buckets` counts.

    >>> length_unit(["我喜欢猫。"]), length_unit(["Yes."])
    ('characters', 'words')
    """
    return "characters" if detect_language(lines).unspaced else "words"


def rarity_buckets(lines: Sequence[str], frequencies: Counter[str]) -> list[Bucket]:
    """Group lines by how often their rarest word occurs in some text; empty buckets are left out.

    >>> [bucket.name for bucket in rarity_buckets(["A cat.", "A..."], Counter(a=30))]
    ['0', '10–99']
    """
    rarest = [min((frequencies[word] for word in word_list(line)), default=0) for line in lines]
    return _grouped(FREQUENCY_NAMES, [bisect_left(FREQUENCIES, count) for count in rarest])


def content_buckets(lines: Sequence[str], glossary: Glossary | None = None) -> list[Bucket]:
    """Group source lines by what they contain; a line can be in several buckets or in none, empty ones are left out.

    A name is a capitalized word inside a sentence, so that scripts without capitals have none.

    >>> [bucket.name for bucket in content_buckets(["Is Tom 12?", "Press {key}."])]
    ['numbers', 'names', 'placeholders, tags and URLs']
    """
    contents: dict[str, Callable[[str], bool]] = {
        "numbers": lambda line: any(map(str.isdecimal, line)),
        "names": lambda line: any(found[0].isupper() for found in _NAME.findall(line)),
        "placeholders, tags and URLs": lambda line: bool(items(line)),
        "glossary terms": lambda line: glossary is not None and bool(glossary.targets(line)),
    }
    texts = list(map(normalize, lines))
    groups = [Bucket(name, tuple(i for i, text in enumerate(texts) if has(text))) for name, has in contents.items()]
    return [group for group in groups if group.lines]


def _grouped(names: Sequence[str], places: Sequence[int]) -> list[Bucket]:
    groups = [tuple(line for line, place in enumerate(places) if place == index) for index in range(len(names))]
    return [Bucket(name, group) for name, group in zip(names, groups, strict=True) if group]
