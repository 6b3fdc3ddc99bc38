"""Which language a text is in, as far as a metric must know: BLEU counts words, and Chinese writes none."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal

_SCRIPTS = {
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"),  # Han
    "ja": re.compile("[\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\uff66-\uff9d]"),  # kana
    "ko": re.compile("[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]"),  # Hangul
}
_NAMES = {"zh": "Chinese", "ja": "Japanese", "ko": "Korean"}
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_ALIASES = {"zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "jpn": "ja", "jp": "ja", "kor": "ko"}

_SHARE = 0.2
"""From this share of its letters on, a text counts as written in a script: room for foreign names on either side."""
_LINES = 2000
"""How many lines are looked at."""


@dataclass(frozen=True, slots=True)
class TargetLanguage:
    """The language that is scored, and how we know it."""

    code: str
    """`zh`, `ja`, `ko`, or another code as it was given; empty where nobody said and the text is in none of these."""
    found: Literal["given", "detected"] = "given"

    @property
    def tokenizer(self) -> str:
        """The BLEU tokenizer, by sacreBLEU's name."""
        return _TOKENIZERS.get(self.code, "13a")

    @property
    def unspaced(self) -> bool:
        """Whether words are written without spaces between them."""
        return self.code in ("zh", "ja")

    @property
    def notice(self) -> str | None:
        """What to tell a person who did not name the language."""
        if self.found == "given":
            return None
        return f"target language not given; text {self.looks}: BLEU tokenizer {self.tokenizer}; --target-lang to choose"

    @property
    def looks(self) -> str:
        """How a text in it looks, to say in a sentence."""
        return f"looks {_NAMES[self.code]}" if self.code in _NAMES else "does not look Chinese, Japanese or Korean"


def given(code: str) -> TargetLanguage:
    """Read a language code in any usual spelling: `zh`, `zh-CN`, `zh_Hant`, `zho_Hans`, `ZH`.

    >>> given("zho_Hans").tokenizer
    'zh'
    """
    primary = re.split("[-_]", code.strip().lower())[0]
    return TargetLanguage(_ALIASES.get(primary, primary))


def detect(lines: Iterable[str]) -> TargetLanguage:
    """Tell Chinese, Japanese and Korean from all others by their letters.

    Japanese mixes Han with kana, and Korean may hold some Han; only Chinese has Han alone.
    """
    text = "".join(islice(lines, _LINES))
    counts = {code: len(script.findall(text)) for code, script in _SCRIPTS.items()}
    enough = _SHARE * sum(map(str.isalpha, text))
    if sum(counts.values()) <= enough:
        return TargetLanguage("", "detected")
    for code in ("ja", "ko"):
        if counts[code] > _SHARE * sum(counts.values()):
            return TargetLanguage(code, "detected")
    return TargetLanguage("zh", "detected")
