"""What is done to each sentence pair: normalization, and the rules that remove it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from nmt.config import Filters, HanVariants, LanguagePair
from nmt.text.corpus import SentencePair
from nmt.text.filters.damage import damage
from nmt.text.filters.han import HanCheck
from nmt.text.filters.leakage import HeldOutIndex, HeldOutText
from nmt.text.filters.length_ratio import LengthRatio
from nmt.text.filters.mismatch import mismatch
from nmt.text.filters.prefilter import Prefilter, SideChecks
from nmt.text.filters.script import ScriptCheck
from nmt.text.filters.symbols import mostly_symbols
from nmt.text.filters.untranslated import UntranslatedCheck, copy
from nmt.text.filters.wrong_language import LanguageCheck
from nmt.text.normalize import normalizer_of
from nmt.text.passage_keys import Integers

FREE_TOKENS = 10  # difference in length that is permitted whatever the ratio, for short sentences

Check = Callable[[str, str], str | None]
"""Returns what is wrong with a normalized source and target, both not empty; None if nothing is."""


class LineCheck(Protocol):
    """A check of single lines."""

    def wrong(self, text: str) -> str | None:
        """Return what is wrong with a normalized line, None if nothing is."""


class Verdict(NamedTuple):
    """A normalized pair, the rule that removes it (None: it is kept), and what was found in it."""

    source: str
    target: str
    rule: str | None = None
    found: str = ""


@dataclass(frozen=True)
class PairFilter:
    """Normalizes single pairs and applies the rules to them.

    It keeps no state between pairs, so processes can share the work. Repetitions are found by the caller, between
    `apply` and `removed_by_length`.
    """

    settings: Filters
    normalize_source: Callable[[str], str]
    normalize_target: Callable[[str], str]
    checks: Mapping[str, Check]
    """By rule, in the order of their application; the quick ones come first."""
    prefilter: Prefilter
    """Which pairs of a text these checks are applied to."""

    @classmethod
    def learn(
        cls,
        filters: Filters,
        languages: LanguagePair,
        sample: Sequence[SentencePair] = (),
        held_out: Sequence[HeldOutText] = (),
    ) -> "PairFilter":
        """Return the filter for a corpus.

        `sample` are normalized pairs spread over the corpus, about 20,000; `held_out` are the texts whose sentences
        must not occur in it, as they were read. Raises ConfigError for a library that the filters need and that is not
        installed.
        """
        sides = (languages.source, languages.target)
        lines = ([pair.source for pair in sample], [pair.target for pair in sample])
        # a source needs no tag: its characters show the variant
        actions: tuple[HanVariants, HanVariants] = (
            "keep" if filters.han_variants == "tag" else filters.han_variants,
            filters.han_variants,
        )
        han = [HanCheck.of(*side) for side in zip(sides, actions, lines, strict=True)]
        source, target = (_normalizer(code, own) for code, own in zip(sides, han, strict=True))
        texts = [
            HeldOutText(text.name, [SentencePair(source(pair.source), target(pair.target)) for pair in text.pairs])
            for text in held_out
        ]
        # once more, since Chinese loses the spaces of a tokenizer
        lengths = LengthRatio.learn([SentencePair(source(pair.source), target(pair.target)) for pair in sample])
        index = HeldOutIndex.of(texts)
        scripts = ScriptCheck.of(languages.source, is_target=False), ScriptCheck.of(languages.target, is_target=True)
        # not made if it is not needed: for a language without a list of words, the library is loaded
        identified = [
            None if "language" in filters.keep else LanguageCheck.of(*side) for side in zip(sides, lines, strict=True)
        ]
        untranslated = UntranslatedCheck.of(*sides)
        checks: dict[str, Check | None] = {
            "copy": copy,
            "symbols": mostly_symbols,
            "script": _either_side(*scripts),
            "length": None if lengths is None else lengths.unusual,
            "mismatch": mismatch,
            "han": _either_side(*han),
            "leak": None if index is None else index.find,
            "untranslated": untranslated.found,
            "language": _either_side(*identified),
        }
        applied = {rule: check for rule, check in checks.items() if check is not None and rule not in filters.keep}
        of_sides = [SideChecks(*own) for own in zip(sides, scripts, han, identified, strict=True)]
        prefilter = Prefilter(of_sides[0], of_sides[1], lengths, index, untranslated, applied)
        return cls(filters, source, target, applied, prefilter)

    def apply(self, source: str, target: str) -> Verdict:
        """Return the pair as training reads it, and the first rule on its text that removes it."""
        damaged = None if "damaged" in self.settings.keep else damage(source) or damage(target)
        source, target = self.normalize_source(source), self.normalize_target(target)
        if not source or not target:
            return Verdict(source, target, "empty")
        if damaged is not None:
            return Verdict(source, target, "damaged", damaged)
        for rule, check in self.checks.items():
            found = check(source, target)
            if found is not None:
                return Verdict(source, target, rule, found)
        return Verdict(source, target)

    def removed_by_length(self, source_tokens: Integers, target_tokens: Integers) -> Iterator[tuple[int, str]]:
        """Yield the index of each pair that its lengths in tokens, (L,) each, remove, with the rule."""
        longer = np.maximum(source_tokens, target_tokens)
        too_long = longer > self.settings.max_tokens
        ratio = longer - FREE_TOKENS > self.settings.max_ratio * np.minimum(source_tokens, target_tokens)
        for index in np.flatnonzero(too_long | ratio).tolist():
            yield index, "too_long" if too_long[index] else "ratio"


def _either_side(source: LineCheck | None, target: LineCheck | None) -> Check | None:
    """Return a check of the lines of one side, or of both."""
    if source is None and target is None:
        return None

    def found(source_line: str, target_line: str) -> str | None:
        wrong = None if source is None else source.wrong(source_line)
        return target.wrong(target_line) if wrong is None and target is not None else wrong

    return found


def _normalizer(language: str, han: HanCheck | None) -> Callable[[str], str]:
    """Return the normalization of a language, and the conversion to the Chinese variant of the text."""
    normalize = normalizer_of(language)
    return normalize if han is None else lambda text: han.converted(normalize(text))
