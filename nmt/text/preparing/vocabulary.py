"""The number of pieces that fits an amount of text: `tokenizer.vocab_size: auto`.

The pieces that are no single characters grow with the square root of the text. This agrees with what was found best
for 5,000 sentence pairs (2,000 pieces; Sennrich & Zhang 2019), for 165,000 (over 10,000; Araabi & Monz 2020) and for
4.5 million (32,000; Gowda & May 2020), and with our recipes: 5,000 for 24,000 short pairs of English and Chinese, 8,000
for 306,000 of English and Italian.
"""

import math
from collections import Counter
from collections.abc import Iterable

from nmt.config import TokenizerSettings
from nmt.config.data_section import LARGEST_PROPOSED_VOCABULARY

_PIECES_PER_ROOT = 1.8  # pieces of several characters, for the square root of the characters of the text
_SYMBOLS = 4  # <pad>, <unk>, <s>, </s>
_ALPHABET_CHARACTERS = 10_000_000  # characters of the text among which different ones are counted
_MULTIPLE = 64
"""Larger vocabularies are a multiple of this, with which GPUs compute products of matrices several times as fast."""
_ENOUGH = (LARGEST_PROPOSED_VOCABULARY / _PIECES_PER_ROOT) ** 2  # characters, from which the size is the largest


def vocabulary_for(lines: Iterable[str], settings: TokenizerSettings, tags: int = 0) -> int:
    """Return a number of pieces for a text; no more of it is read than the result depends on."""
    characters, counts = 0, Counter[str]()
    for line in lines:
        if characters < _ALPHABET_CHARACTERS:
            counts.update(line)
        characters += len(line)
        if characters >= _ENOUGH:
            break
    return proposed_size(characters, counts, settings, tags)


def proposed_size(characters: int, counts: Counter[str], settings: TokenizerSettings, tags: int = 0) -> int:
    """Return a number of pieces for a text of so many characters, with the counts of those in a sample of it."""
    symbols = _SYMBOLS + tags + len(settings.symbols) + (256 if settings.byte_fallback else 0)
    pieces = symbols + _alphabet(counts, settings.coverage) + round(_PIECES_PER_ROOT * math.sqrt(characters))
    if pieces > 8 * _MULTIPLE:
        pieces = math.ceil(pieces / _MULTIPLE) * _MULTIPLE
    return min(pieces, LARGEST_PROPOSED_VOCABULARY)


def _alphabet(counts: Counter[str], coverage: float) -> int:
    """Return how many characters, the most frequent first, make up the share `coverage` of a text."""
    missing = coverage * counts.total()
    for size, (_, count) in enumerate(counts.most_common(), start=1):
        missing -= count
        if missing <= 0:
            return size
    return len(counts)
