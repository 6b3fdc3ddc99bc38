"""What is done to each sentence pair: normalization, and the rules that remove it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nmt.config import Filters, LanguagePair
from nmt.text.corpus import SentencePair
from nmt.text.languages import SCRIPTS, script_of
from nmt.text.normalize import normalize

FREE_TOKENS = 10  # difference in length that is permitted whatever the ratio, for short sentences


class Verdict(NamedTuple):
    """A normalized pair, the rule that removes it (None: it is kept), and what was found in it."""

    source: str
    target: str
    rule: str | None = None
    found: str = ""


@dataclass(frozen=True)
class HeldOutText:
    """The pairs of a text that training must not see, named `validation` or `test`."""

    name: str
    pairs: Sequence[SentencePair]


@dataclass(frozen=True)
class PairFilter:
    """Normalizes and judges single pairs.

    It has no memory of earlier pairs and can be pickled, so processes can share the work. Repetitions are found by
    `nmt.text.duplicates` (or by the caller), between `apply` and `length_reason`.
    """

    settings: Filters
    letter: re.Pattern[str] | None
    """A letter in the script of the target language; None if any script is kept."""
    expects_latin: bool

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
        must not occur in it.
        """
        script = None if "script" in filters.keep else script_of(languages.target)
        letter = re.compile(f"[{SCRIPTS[script]}]") if script else None
        return cls(filters, letter, script == "Latin")

    def apply(self, source: str, target: str) -> Verdict:
        """Return the pair as training reads it, and the first rule on its text that removes it."""
        source, target = normalize(source), normalize(target)
        return Verdict(source, target, self._reason(source, target))

    def length_reason(self, source_tokens: int, target_tokens: int) -> str | None:
        """Return the rule that removes a pair of these lengths in tokens, or None to keep it."""
        shorter, longer = sorted((source_tokens, target_tokens))
        if longer > self.settings.max_tokens:
            return "too_long"
        if longer - FREE_TOKENS > self.settings.max_ratio * shorter:
            return "ratio"
        return None

    def _reason(self, source: str, target: str) -> str | None:
        if not source or not target:
            return "empty"
        if "copy" not in self.settings.keep and source.casefold() == target.casefold():
            return "copy"
        if self._in_wrong_script(target):
            return "script"
        return None

    def _in_wrong_script(self, target: str) -> bool:
        """Whether the target has no letter of its script; for Latin, a target without any letter (`10:30`) is right."""
        if self.letter is None or self.letter.search(target):
            return False
        return not self.expects_latin or any(map(str.isalpha, target))
