"""Find the pairs of a text that need `PairFilter.apply`, by array operations on some thousand lines at a time.

`PairFilter.apply` takes some 15 µs for a pair, and leaves nine in ten pairs of a usual text as they are. A pair is
passed over only if both lines are normalized and no rule can remove it: each condition here holds for every pair that
the rule removes, and for few others. Most depend on single characters or on two adjacent ones, whose properties are
looked up in the tables of `character_tables`; the others on words, which are looked up by their keys.

Legend: L lines, N characters of all lines, with a line break after each line, W words.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nmt.config import Filters
from nmt.text.filters import character_tables as tables
from nmt.text.filters.character_tables import Bools, Bytes
from nmt.text.filters.damage import LEAST_SYMBOL_SHARE, LEAST_SYMBOLS
from nmt.text.filters.leakage import HeldOutIndex
from nmt.text.filters.length_ratio import LengthRatio
from nmt.text.filters.script import HanCheck, ScriptCheck
from nmt.text.filters.wrong_language import (
    LEAST_FREQUENT,
    LEAST_LETTERS,
    LEAST_SPACES,
    MANY_WORDS,
    LanguageCheck,
    UntranslatedCheck,
)
from nmt.text.languages import SCRIPTS, UNSPACED_TEXT, script_of
from nmt.text.normalize import LEAST_SPACES_BETWEEN, normalizer_of
from nmt.text.passage_keys import Integers, Keys, KeyTable, passage_keys, word_bounds

PREFILTERED = frozenset(["copy", "symbols", "script", "length", "mismatch", "leak", "untranslated", "language"])
"""The checks for which this module has conditions."""

_LONGEST = 2_000  # characters; longer lines are always examined
_WORD_PARTS = 4  # of 4 characters: the longest frequent words
_WORD_SLOTS = 2**16  # for some thousand words, so few of the others need a second look
_MOST_LETTERS = 12  # at both ends of a held-out sentence that are compared


@dataclass(frozen=True)
class SideRules:
    """The normalization and the checks of the lines of one side; None for checks that are not applied."""

    language: str
    normalize: Callable[[str], str]
    script: ScriptCheck | None
    han: HanCheck | None
    identified: LanguageCheck | None

    @classmethod
    def learn(cls, language: str, sample: Sequence[str], filters: Filters, is_target: bool) -> "SideRules":
        """Return the rules for a language; `sample` are normalized lines. Raises ConfigError as `HanCheck.of` does."""
        han, normalize = HanCheck.of(language, filters.han_variants, sample), normalizer_of(language)
        # not made if it is not needed: for a language without a list of words, the library is loaded
        identified = None if "language" in filters.keep else LanguageCheck.of(language, sample)
        to_variant = normalize if han is None else lambda text: han.converted(normalize(text))
        return cls(language, to_variant, ScriptCheck.of(language, is_target), han, identified)

    @cached_property
    def properties(self) -> Bytes:
        """The properties of each character."""
        return tables.properties(self.script, self.han)


class _Lines:
    """Lines of one side as arrays."""

    def __init__(self, lines: Sequence[str], side: SideRules) -> None:
        text = "\n".join(lines) + "\n"
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self.points = np.minimum(points, tables.PLANE).astype(np.intp)  # (N,)
        self.ends = np.flatnonzero(points == ord("\n"))  # (L,)
        self.starts = np.append(0, self.ends[:-1] + 1)  # (L,)
        self.lengths = self.ends - self.starts
        self.properties = side.properties.take(self.points)  # (N,)
        self.present = np.bitwise_or.reduceat(self.properties, self.starts)  # (L,)
        self.spaces = self.count(self.properties & tables.SPACE != 0)

    def count(self, which: Bools) -> Integers:
        """Return how many of the characters for which an array (N,) is true each line has."""
        return np.add.reduceat(which.view(np.uint8), self.starts, dtype=np.uint16).astype(np.int64)

    def between(self, characters: str, neighbours: str) -> Integers:
        """Return how many of some characters each line has (L,) between two that match a pattern."""
        where = np.flatnonzero(np.logical_or.reduce([self.points[:-1] == ord(character) for character in characters]))
        is_neighbour = tables.matches(neighbours)
        where = where[is_neighbour[self.points[where - 1]] & is_neighbour[self.points[where + 1]]]
        return np.bincount(np.searchsorted(self.ends, where), minlength=len(self.ends))

    def utf8_lengths(self) -> Integers:
        """Return the bytes of each line."""
        lengths: Integers = self.lengths + self.count(self.points >= 0x80) + self.count(self.points >= 0x800)
        return lengths


@dataclass(frozen=True)
class Prefilter:
    """The conditions for the pairs of a text."""

    source: SideRules
    target: SideRules
    lengths: LengthRatio | None
    held_out: HeldOutIndex
    untranslated: UntranslatedCheck
    checks: Mapping[str, Callable[[str, str], str | None]]
    """The checks of pairs that are applied, by rule."""

    def examined(self, sources: Sequence[str], targets: Sequence[str]) -> list[int]:
        """Return the indices of the pairs, as they were read, that `PairFilter.apply` may change or remove."""
        both = [[line if len(line) <= _LONGEST else "" for line in side] for side in (sources, targets)]
        source, target = _Lines(both[0], self.source), _Lines(both[1], self.target)
        has_breaks = not len(source.ends) == len(target.ends) == len(sources)
        if has_breaks or not PREFILTERED.issuperset(self.checks):
            return list(range(len(sources)))
        mask = _by_characters(source, self.source) | _by_characters(target, self.target)
        if self.lengths is not None:
            mask |= ~self.lengths.is_usual(source.utf8_lengths(), target.utf8_lengths())
        for rule, candidates in self._candidates(source, target).items():
            if check := self.checks.get(rule):
                for index in np.flatnonzero(candidates & ~mask).tolist():
                    mask[index] = check(both[0][index], both[1][index]) is not None
        return np.flatnonzero(mask).tolist()

    def _candidates(self, source: _Lines, target: _Lines) -> dict[str, Bools]:
        """Return the pairs (L,) that rules may remove whose checks, without the others, decide on normalized pairs."""
        source_words, target_words = _Words(source), _Words(target)
        source_own, source_others = self._word_sets[0].counts(source_words)
        target_own, target_others, translated, untranslated = self._word_sets[1].counts(target_words)
        # a target that contains its source has all words of it, but perhaps the first and the last one
        contained = (source.lengths <= target.lengths) & (source.spaces >= LEAST_SPACES)
        contained &= target_words.include(source_words.second())
        return {
            "copy": source.lengths == target.lengths,
            "mismatch": source.present & target.present & tables.DIGIT != 0,
            "leak": self._ends.may_contain(source) | self._ends.may_contain(target),
            "untranslated": contained | (translated == 0) & (untranslated >= LEAST_FREQUENT),
            "language": _is_suspicious(self.source, source, source_words, source_own, source_others)
            | _is_suspicious(self.target, target, target_words, target_own, target_others),
        }

    @cached_property
    def _word_sets(self) -> tuple["_WordSets", "_WordSets"]:
        """The words by which the languages of a source and of a target are recognized."""
        of_source, of_target = (
            [frozenset[str](), frozenset[str]()] if one is None else [one.own_words, one.other_words]
            for one in (self.source.identified, self.target.identified)
        )
        of_pair = [self.untranslated.target_words, self.untranslated.source_words]
        return _WordSets(of_source), _WordSets(of_target + of_pair)

    @cached_property
    def _ends(self) -> "_SentenceEnds":
        return _SentenceEnds(self.held_out.sentences)


def _is_suspicious(side: SideRules, lines: _Lines, words: "_Words", own: Integers, others: Integers) -> Bools:
    """Return which lines (L,) have fewer frequent words of their language than of others, or none and many words."""
    if side.identified is None:
        return np.zeros(len(own), dtype=np.bool_)
    suspicious: Bools = (lines.lengths >= LEAST_LETTERS) & ((others > own) | (own == 0) & (words.counts >= MANY_WORDS))
    return suspicious


def _by_characters(lines: _Lines, side: SideRules) -> Bools:
    """Return which lines (L,) are not normalized, or have characters that a rule removes lines for."""
    pairs = tables.adjacent().take(lines.points)
    pairs[:-1] &= pairs[1:] >> tables.SECOND
    pairs[-1] = 0
    mask: Bools = np.bitwise_or.reduceat(pairs, lines.starts) != 0
    mask |= lines.present & tables.EXAMINED != 0
    mask |= lines.present & tables.LETTER == 0
    mask |= lines.properties[lines.starts] & tables.SPACE != 0
    mask |= lines.between("`´", f"[{SCRIPTS['Latin']}]") > 0  # an accent that normalization makes an apostrophe
    if script_of(side.language) in ("Han", "Japanese"):
        mask |= lines.between(" ", f"[{UNSPACED_TEXT}]") >= LEAST_SPACES_BETWEEN
    symbols = lines.count(lines.properties & tables.SYMBOL != 0)
    mask |= (symbols >= LEAST_SYMBOLS) & (symbols > LEAST_SYMBOL_SHARE * (lines.lengths - lines.spaces))
    return mask


class _Words:
    """The words of lines, in lower case, as keys."""

    def __init__(self, lines: _Lines) -> None:
        starts, sizes, self.first = word_bounds(lines.points)
        text = tables.lower_case().take(lines.points).tobytes()
        self.keys = passage_keys(text, 2 * starts, 2 * sizes, _WORD_PARTS)  # (W,)
        self.counts = np.diff(self.first, append=len(self.keys))  # (L,)

    def second(self) -> Keys:
        """Return the second word of each line (L,), or another one if it has only one."""
        words: Keys = self.keys[np.minimum(self.first + 1, len(self.keys) - 1)]
        return words

    def include(self, words: Keys) -> Bools:
        """Return whether each line has the word for it (L,)."""
        found: Bools = np.logical_or.reduceat(np.repeat(words, self.counts) == self.keys, self.first)
        return found


class _WordSets:
    """Sets of words in lower case, of at most 16 characters."""

    def __init__(self, sets: Sequence[Collection[str]]) -> None:
        bits = Counter[str]()  # of each word, one for each set that has it
        for number, own in enumerate(sets):
            bits.update(dict.fromkeys(own, 1 << number))
        words = [word.encode("utf-16-le") for word in bits]
        sizes = np.fromiter(map(len, words), dtype=np.int64)
        keys = passage_keys(b"".join(words), np.cumsum(sizes) - sizes, sizes, _WORD_PARTS)
        self._count, self._sets = len(sets), KeyTable(_WORD_SLOTS)
        self._sets.add(keys, np.fromiter(bits.values(), dtype=np.int64))

    def counts(self, words: _Words) -> list[Integers]:
        """Return how many words of each set each line has (L,)."""
        sets = self._sets.find(words.keys)
        return [np.add.reduceat(sets >> number & 1, words.first) for number in range(self._count)]


class _SentenceEnds:
    """The first and the last letters of held-out sentences."""

    _PARTS = -(-2 * _MOST_LETTERS // 8)  # of 8 bytes, at two bytes a letter

    def __init__(self, sentences: Collection[str]) -> None:
        points = np.frombuffer("".join(sentences).encode("utf-32-le"), dtype=np.uint32)
        counts = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        self._first, self._last = self._keys(np.minimum(points, tables.PLANE - 1).astype(np.uint16), counts)

    def may_contain(self, lines: _Lines) -> Bools:
        """Return which lines (L,) begin and end like one of the sentences."""
        letters_of = tables.folded().take(lines.points)
        kept = letters_of != 0
        first, last = self._keys(letters_of.take(np.flatnonzero(kept)), lines.count(kept))
        found: Bools = np.isin(first, self._first) & np.isin(last, self._last) | (lines.present & tables.EXPANDED != 0)
        return found

    def _keys(self, letters_of: npt.NDArray[np.uint16], counts: Integers) -> tuple[Keys, Keys]:
        """Return keys of the first and the last letters of sentences with these numbers of letters."""
        text, ends, sizes = letters_of.tobytes(), 2 * np.cumsum(counts), 2 * np.minimum(counts, _MOST_LETTERS)
        starts = ends - 2 * counts, ends - sizes
        first, last = (passage_keys(text, own, sizes, self._PARTS) for own in starts)
        return first, last
