"""Leave out the pairs that teach nothing or teach wrong, and count them by rule."""

import re
from array import array
from hashlib import blake2b

from nmt.config import Filters, Languages
from nmt.text.languages import SCRIPTS, script_of

FREE_TOKENS = 10
"""A side may be this much longer whatever the ratio: short sentences differ in length by nature."""

RULES = {
    "empty": "a side without text",
    "copy": "target is the source untranslated",
    "script": "target not in the script of its language",
    "duplicate": "pair seen before, word for word",
    "too_long": "a side longer than max_tokens",
    "ratio": "sides too unequal in length",
}
"""The rules in the order in which they are tried; a pair is counted at the first that refuses it."""


class PairFilter:
    """Decides which normalized pairs to keep. It remembers what it has seen, so it serves one pass over the text.

    The rules on text come first, so that the tokenizer can learn from what they leave, when no token is there to count.
    """

    def __init__(self, settings: Filters, languages: Languages) -> None:
        self.counts = dict.fromkeys(RULES, 0)
        """Pairs refused so far, a rule."""
        self._settings = settings
        self._seen = None if settings.keep_duplicates else _SeenPairs()
        self._script = None if settings.keep_any_script else script_of(languages.target)
        self._own_letter = re.compile(f"[{SCRIPTS[self._script]}]") if self._script else None

    def text_reason(self, source: str, target: str) -> str | None:
        """Return the name of the rule that refuses this pair of texts, or None to keep it; call it once a pair."""
        if not source or not target:
            return self._refuse("empty")
        if not self._settings.keep_copies and source.casefold() == target.casefold():
            return self._refuse("copy")
        if self._in_wrong_script(target):
            return self._refuse("script")
        if self._seen is not None and not self._seen.add(source, target):
            return self._refuse("duplicate")
        return None

    def length_reason(self, source_length: int, target_length: int) -> str | None:
        """Return the name of the rule that refuses a pair of these lengths in tokens, or None to keep it."""
        shorter, longer = sorted((source_length, target_length))
        if longer > self._settings.max_tokens:
            return self._refuse("too_long")
        if longer - FREE_TOKENS > self._settings.max_ratio * shorter:
            return self._refuse("ratio")
        return None

    def _refuse(self, rule: str) -> str:
        self.counts[rule] += 1
        return rule

    def _in_wrong_script(self, target: str) -> bool:
        """Whether the target lacks its script. Latin may be absent where there is no letter at all, as in `10:30`."""
        if self._own_letter is None or self._own_letter.search(target):
            return False
        return self._script != "Latin" or any(map(str.isalpha, target))


class _SeenPairs:
    """A set of pairs in 16 to 32 bytes a pair: 64-bit digests in an open-addressing table.

    Two different pairs share a digest with probability below one in a million for ten million pairs.
    """

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 * 1024))
        self._count = 0

    def add(self, source: str, target: str) -> bool:
        """Remember a pair; return False if it was known."""
        digest = blake2b(f"{source}\n{target}".encode(), digest_size=8).digest()
        key = int.from_bytes(digest, "little") or 1  # 0 marks a free slot
        slot = self._slot(key)
        if self._table[slot] == key:
            return False
        self._table[slot] = key
        self._count += 1
        if 2 * self._count > len(self._table):
            self._grow()
        return True

    def _slot(self, key: int) -> int:
        """Return where the key is, or the free slot where it belongs."""
        table, mask = self._table, len(self._table) - 1
        slot = key & mask
        while table[slot] not in (0, key):
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        old = self._table
        self._table = array("Q", bytes(2 * 8 * len(old)))
        for key in old:
            if key:
                self._table[self._slot(key)] = key
