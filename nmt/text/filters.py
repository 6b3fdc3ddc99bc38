"""Filters on sentence pairs, and how many pairs each rule removes."""

import re
from hashlib import blake2b

from nmt.config import Filters, Languages
from nmt.text.languages import SCRIPTS, script_of

FREE_TOKENS = 10  # difference in length that is permitted whatever the ratio, for short sentences

RULES = {
    "empty": "a side without text",
    "copy": "target is the source untranslated",
    "script": "target not in the script of its language",
    "duplicate": "equal to an earlier pair",
    "too_long": "a side longer than max_tokens",
    "ratio": "sides too unequal in length",
}
"""The rules in the order of their application; a pair is counted under the first one that removes it."""


class PairFilter:
    """Filters the normalized pairs of one pass over the text.

    The rules on text come first: the tokenizer, which the rules on length need, is trained on the pairs they keep.
    """

    def __init__(self, settings: Filters, languages: Languages) -> None:
        self.counts = dict.fromkeys(RULES, 0)
        """Pairs removed so far, by rule."""
        self._settings = settings
        self._seen: set[int] = set()  # 64-bit digests: ten million pairs collide with probability below 1e-5
        self._script = None if settings.keep_any_script else script_of(languages.target)
        self._letter = re.compile(f"[{SCRIPTS[self._script]}]") if self._script else None

    def text_reason(self, source: str, target: str) -> str | None:
        """Return the rule that removes this pair of texts, or None to keep it. To be called once for each pair."""
        if not source or not target:
            return self._remove("empty")
        if not self._settings.keep_copies and source.casefold() == target.casefold():
            return self._remove("copy")
        if self._in_wrong_script(target):
            return self._remove("script")
        if not self._settings.keep_duplicates:
            digest = int.from_bytes(blake2b(f"{source}\n{target}".encode(), digest_size=8).digest(), "little")
            if digest in self._seen:
                return self._remove("duplicate")
            self._seen.add(digest)
        return None

    def length_reason(self, source_length: int, target_length: int) -> str | None:
        """Return the rule that removes a pair of these lengths in tokens, or None to keep it."""
        shorter, longer = sorted((source_length, target_length))
        if longer > self._settings.max_tokens:
            return self._remove("too_long")
        if longer - FREE_TOKENS > self._settings.max_ratio * shorter:
            return self._remove("ratio")
        return None

    def _remove(self, rule: str) -> str:
        self.counts[rule] += 1
        return rule

    def _in_wrong_script(self, target: str) -> bool:
        """Whether the target has no letter of its script; for Latin, a target without any letter (`10:30`) is right."""
        if self._letter is None or self._letter.search(target):
            return False
        return self._script != "Latin" or any(map(str.isalpha, target))
