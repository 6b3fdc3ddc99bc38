"""Leave out the pairs that teach nothing or teach wrong, and count them by rule."""

import re
from array import array
from hashlib import blake2b

from nmt.config import Filters, Languages

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

_SCRIPTS = {
    "Latin": "A-Za-zªºÀ-ÖØ-öø-ʯᴀ-ᴥᵢ-ᵥᵫ-ᶚḀ-ỿↃↄⱠ-ⱿꜢ-ꟿꬰ-ꭤꭦ-ꭨﬀ-ﬆＡ-Ｚａ-ｚ",
    "Arabic": "\u0620-\u064a\u066e-\u06d3\u06d5-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Armenian": "\u0531-\u0588\ufb13-\ufb17",
    "Bengali": "\u0980-\u09ff",
    "Cyrillic": "\u0400-\u052f\u1c80-\u1c8f\u1d2b\u2de0-\u2dff\ua640-\ua69f",
    "Devanagari": "\u0900-\u097f\ua8e0-\ua8ff",
    "Ethiopic": "\u1200-\u139f\u2d80-\u2ddf\uab01-\uab2f",
    "Georgian": "\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f",
    "Greek": "\u0370-\u03ff\u1d26-\u1d2a\u1f00-\u1fff\uab65",
    "Gujarati": "\u0a80-\u0aff",
    "Gurmukhi": "\u0a00-\u0a7f",
    "Han": "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff",
    "Hebrew": "\u0590-\u05ff\ufb1d-\ufb4f",
    "Japanese": "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "Kannada": "\u0c80-\u0cff",
    "Khmer": "\u1780-\u17ff",
    "Lao": "\u0e80-\u0eff",
    "Malayalam": "\u0d00-\u0d7f",
    "Myanmar": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
    "Sinhala": "\u0d80-\u0dff",
    "Tamil": "\u0b80-\u0bff",
    "Telugu": "\u0c00-\u0c7f",
    "Thai": "\u0e00-\u0e7f",
    "Tibetan": "\u0f00-\u0fff",
}
"""The letters of each script, as the inside of a character class."""

_LANGUAGES = {
    "Latin": "af br ca co cs cy da de en eo es et eu fi fo fr fy ga gd gl hr ht hu id is it la lb lt lv mi ms mt "
    "nb nl nn no oc pl pt rm ro sc sk sl so sq st sv sw tl tr vi xh yo zu",
    "Arabic": "ar fa ur ps",
    "Armenian": "hy",
    "Bengali": "bn as",
    "Cyrillic": "ru uk be bg mk ky mn",
    "Devanagari": "hi mr ne sa",
    "Ethiopic": "am ti",
    "Georgian": "ka",
    "Greek": "el",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Han": "zh yue cmn wuu lzh",
    "Hangul": "ko",
    "Hebrew": "he yi",
    "Japanese": "ja",
    "Kannada": "kn",
    "Khmer": "km",
    "Lao": "lo",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
    "Tibetan": "bo dz",
}
"""Languages that are written in one script; of others (sr, kk, uz) nothing is expected."""

_SCRIPT_OF = {language: script for script, languages in _LANGUAGES.items() for language in languages.split()}


class PairFilter:
    """Decides which normalized pairs to keep. It remembers what it has seen, so it serves one pass over the text.

    The rules on text come first, so that the tokenizer can learn from what they leave, when no token is there to count.
    """

    def __init__(self, settings: Filters, languages: Languages) -> None:
        self.counts = dict.fromkeys(RULES, 0)
        """Pairs refused so far, a rule."""
        self._settings = settings
        self._seen = None if settings.keep_duplicates else _SeenPairs()
        self._script = (
            None if settings.keep_any_script else _SCRIPT_OF.get(re.split("[-_]", languages.target.lower())[0])
        )
        self._own_letter = re.compile(f"[{_SCRIPTS[self._script]}]") if self._script else None

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
