"""Lines that are not in the script of their language, or in the other variant of Chinese than the rest of the text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nmt.config import HanVariants
from nmt.text.han_variants import (
    Variant,
    check_converter,
    convert,
    other_variant,
    simplified_only,
    traditional_only,
    variant_of,
)
from nmt.text.languages import SCRIPTS, script_of

_LEAST_FOREIGN = 5  # letters; a few may be symbols, as in `α e β`
_LEAST_MIXED, _LEAST_SHARE = 2, 0.2
"""A line with so many characters of the other variant, and this share of all that are of one, is in it, or mixed."""


@dataclass(frozen=True)
class ScriptCheck:
    """The letters of a language's script, and those that do not belong to it."""

    script: str
    own: re.Pattern[str]
    foreign: re.Pattern[str]
    """Letters of all other scripts but Latin, which names and terms have in every language."""
    requires_letter: bool
    """Whether text without any letter (`10:30`) is wrong, too."""

    @classmethod
    def of(cls, language: str, is_target: bool) -> "ScriptCheck | None":
        """Return the check of a language; None for one that is written in several scripts."""
        script = script_of(language)
        if script is None:
            return None
        own = SCRIPTS[script]
        others = [letters for name, letters in SCRIPTS.items() if name not in (script, "Latin")]
        foreign = re.compile(f"(?![{own}])[{''.join(others)}]")
        return cls(script, re.compile(f"[{own}]"), foreign, is_target and script != "Latin")

    def wrong(self, text: str) -> str | None:
        """Return what shows that a normalized text is not in the script; None if it is."""
        if text.isascii() and self.script == "Latin":
            return None
        if not self.own.search(text):
            wrong = self.requires_letter or any(map(str.isalpha, text))
            return f"no {self.script} letter" if wrong else None
        if self.foreign.search(text):
            own, foreign = len(self.own.findall(text)), len(self.foreign.findall(text))
            if foreign > own and foreign >= _LEAST_FOREIGN:
                return f"{foreign} letters of other scripts, {own} {self.script} ones"
        return None


@dataclass(frozen=True)
class HanCheck:
    """The variant that one side is in, and to which lines in the other one are converted."""

    language: str
    variant: Variant

    @classmethod
    def of(cls, language: str, action: HanVariants, sample: Iterable[str]) -> "HanCheck | None":
        """Return the check of a side with normalized lines; None for other languages and where all lines are kept.

        Raises ConfigError without OpenCC.
        """
        if action == "keep" or script_of(language) != "Han":
            return None
        check_converter()
        variant = variant_of(language, sample)
        return None if variant is None else cls(language, variant)

    def converted(self, text: str) -> str:
        """Return a line in the variant of the text."""
        return convert(text, self.language, self.variant) if other_variant(text, self.variant) else text


def is_other_variant(text: str, variant: Variant) -> bool:
    """Whether a line is in the other variant, or mixed: a single character may be part of a name."""
    other, both = len(other_variant(text, variant)), len(simplified_only(text)) + len(traditional_only(text))
    return other > both / 2 or (other >= _LEAST_MIXED and other >= _LEAST_SHARE * both)
