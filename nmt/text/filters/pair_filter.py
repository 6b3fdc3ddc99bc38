"""What is done to each sentence pair: normalization, and the rules that remove it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nmt.config import Filters, LanguagePair
from nmt.text.corpus import SentencePair
from nmt.text.filters.damage import damage, mostly_symbols
from nmt.text.filters.leakage import HeldOutIndex, HeldOutText
from nmt.text.filters.length_ratio import LengthRatio
from nmt.text.filters.mismatch import mismatch
from nmt.text.filters.prefilter import Prefilter, SideRules
from nmt.text.filters.script import ScriptCheck
from nmt.text.filters.wrong_language import LanguageCheck, UntranslatedCheck, copy
from nmt.text.passage_keys import Integers

Check = Callable[[str, str], str | None]
"""Returns what is wrong with a normalized source and target, both not empty; None if nothing is."""
LineCheck = ScriptCheck | LanguageCheck


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
        """Return the filter for the corpora of a language pair.

        `sample` are some 20,000 of their first normalized pairs, evenly spread; `held_out` are the texts whose
        sentences must not occur in them, as they were read. Raises ConfigError for a library that the filters need and
        that is not installed.
        """
        source = SideRules.learn(languages.source, [pair.source for pair in sample], filters, is_target=False)
        target = SideRules.learn(languages.target, [pair.target for pair in sample], filters, is_target=True)

        def normalized(pairs: Sequence[SentencePair]) -> list[SentencePair]:
            return [SentencePair(source.normalize(pair.source), target.normalize(pair.target)) for pair in pairs]

        # once more, since Chinese loses the spaces of a tokenizer
        lengths = LengthRatio.learn(normalized(sample))
        index = HeldOutIndex([HeldOutText(text.name, normalized(text.pairs)) for text in held_out])
        untranslated = UntranslatedCheck.of(languages.source, languages.target)
        checks: dict[str, Check | None] = {
            "copy": copy,
            "symbols": mostly_symbols,
            "script": _either_side(source.script, target.script),
            "length": None if lengths is None else lengths.unusual,
            "mismatch": mismatch,
            "leak": index.find if index.sentences else None,
            "untranslated": untranslated.found,
            "language": _either_side(source.identified, target.identified),
        }
        applied = {rule: check for rule, check in checks.items() if check is not None and rule not in filters.keep}
        prefilter = Prefilter(source, target, lengths, index, untranslated, applied)
        return cls(filters, source.normalize, target.normalize, applied, prefilter)

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
        too_long = np.maximum(source_tokens, target_tokens) > self.settings.max_tokens
        for index in np.flatnonzero(too_long).tolist():
            yield index, "too_long"


def _either_side(source: LineCheck | None, target: LineCheck | None) -> Check | None:
    """Return a check of the lines of one side, or of both."""
    if source is None and target is None:
        return None
    of_source, of_target = ((lambda line: None) if check is None else check.wrong for check in (source, target))
    return lambda source_line, target_line: of_source(source_line) or of_target(target_line)
