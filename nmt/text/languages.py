"""Scripts and languages: the letters of each script, the script of each language, and the language of a text.

All character classes of scripts are here, as the inside of a regular expression's `[…]`. They cover whole blocks, with
what Unicode has not assigned yet; letters beyond the Basic Multilingual Plane are listed only for Han and kana.

>>> bool(re.search(f"[{HAN}]", "Tom 在"))
True
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Literal

from nmt.errors import ConfigError

# radicals, iteration marks and numerals, and planes 2 and 3, which Unicode reserves for ideographs
HAN = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
KANA = (
    "\u3031-\u3035\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\U0001aff0-\U0001afff\U0001b000-\U0001b16f"
)
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7a3\ud7b0-\ud7ff\uffa0-\uffdc"
UNSPACED = HAN + KANA  # letters of Chinese and Japanese, which are written without spaces between words
UNSPACED_TEXT = "\u2ff0-\u2fff\u3001-\u312f\u3190-\u31ff\u4dc0-\u4dff\ufe30-\ufe4f\uff01-\uff9f" + UNSPACED
"""Those letters and all other characters of such text: punctuation, full-width forms, phonetic signs."""

_SCRIPTS = {
    "Latin": (
        "A-Za-zªºÀ-ÖØ-öø-ʯᴀ-ᴥᵢ-ᵥᵫ-ᶚḀ-ỿↃↄⱠ-ⱿꜢ-ꟿꬰ-ꭤꭦ-ꭨﬀ-ﬆＡ-Ｚａ-ｚ",
        "af br ca co cs cy da de en eo es et eu fi fo fr fy ga gd gl hr ht hu id is it la lb lt lv mi "
        "ms mt nb nl nn no oc pl pt rm ro sc sk sl so sq st sv sw tl tr vi xh yo zu",
    ),
    "Arabic": (
        "\u0620-\u064a\u066e-\u06d3\u06d5-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
        "ar fa ur ps",
    ),
    "Armenian": ("\u0531-\u0588\ufb13-\ufb17", "hy"),
    "Bengali": ("\u0980-\u09ff", "bn as"),
    "Cyrillic": ("\u0400-\u052f\u1c80-\u1c8f\u1d2b\u2de0-\u2dff\ua640-\ua69f", "ru uk be bg mk ky mn"),
    "Devanagari": ("\u0900-\u097f\ua8e0-\ua8ff", "hi mr ne sa"),
    "Ethiopic": ("\u1200-\u139f\u2d80-\u2ddf\uab01-\uab2f", "am ti"),
    "Georgian": ("\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f", "ka"),
    "Greek": ("\u0370-\u03ff\u1d26-\u1d2a\u1f00-\u1fff\uab65", "el"),
    "Gujarati": ("\u0a80-\u0aff", "gu"),
    "Gurmukhi": ("\u0a00-\u0a7f", "pa"),
    "Han": (HAN, "zh yue cmn wuu lzh"),
    "Hangul": (HANGUL, "ko"),
    "Hebrew": ("\u0590-\u05ff\ufb1d-\ufb4f", "he yi"),
    "Japanese": (KANA + HAN, "ja"),
    "Kannada": ("\u0c80-\u0cff", "kn"),
    "Khmer": ("\u1780-\u17ff", "km"),
    "Lao": ("\u0e80-\u0eff", "lo"),
    "Malayalam": ("\u0d00-\u0d7f", "ml"),
    "Myanmar": ("\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f", "my"),
    "Sinhala": ("\u0d80-\u0dff", "si"),
    "Tamil": ("\u0b80-\u0bff", "ta"),
    "Telugu": ("\u0c00-\u0c7f", "te"),
    "Thai": ("\u0e00-\u0e7f", "th"),
    "Tibetan": ("\u0f00-\u0fff", "bo dz"),
}
"""The letters of each script, and the languages that are written in it alone; others (sr, kk, uz) are not listed."""
SCRIPTS = {script: letters for script, (letters, _) in _SCRIPTS.items()}
SOLE_LANGUAGES = {script: languages for script, (_, languages) in _SCRIPTS.items() if " " not in languages}
"""The language of each script that only one language of this table has."""
_SCRIPT_OF = {language: script for script, (_, languages) in _SCRIPTS.items() for language in languages.split()}
_SEVERAL_SCRIPTS = "az bs ha ig jv kk ku mg ny sd sn sr su tg tk tt ug uz"
"""Languages without a script in this table that are scored as all others."""
_THREE_LETTERS = (
    "ara:ar ces:cs chi:zh dan:da deu:de ell:el eng:en fas:fa fin:fi fra:fr heb:he hin:hi hun:hu ind:id ita:it jpn:ja "
    "kor:ko nld:nl pol:pl por:pt ron:ro rus:ru spa:es swe:sv tha:th tur:tr ukr:uk vie:vi zho:zh"
)
_LANGUAGES = {*_SCRIPT_OF, *_SEVERAL_SCRIPTS.split()}
_ALIASES = {"jp": "ja"} | {code[:3]: code[4:] for code in _THREE_LETTERS.split()}

_EAST_ASIAN = {"zh": ("Chinese", "zh"), "ja": ("Japanese", "ja-mecab"), "ko": ("Korean", "ko-mecab")}
"""Name and BLEU tokenizer of the languages that `detect_language` finds."""
_SHARE = 0.2
"""A text with more than this share of its letters in a script is written in it; the rest may be foreign names."""
_LINES_READ = 2000


@cache
def primary_code(code: str) -> str:
    """Return the language of a code in any usual spelling, without script and region.

    >>> [primary_code(code) for code in ("zh-CN", "zho_Hans", "pt_BR", "IT", "ita_Latn")]
    ['zh', 'zh', 'pt', 'it', 'it']
    """
    primary = re.split("[-_]", code.strip().lower())[0]
    return _ALIASES.get(primary, primary)


def script_of(code: str) -> str | None:
    """Return the key in `SCRIPTS` of a language's script; None for languages of two scripts and unknown ones."""
    return _SCRIPT_OF.get(primary_code(code))


@dataclass(frozen=True, slots=True)
class TargetLanguage:
    """The language that is scored."""

    code: str
    """`zh`, `ja`, `ko`, or another primary code; empty if none was given and the text is in none of these."""
    found: Literal["given", "detected"] = "given"
    stated: str = ""
    """The code with script and region as it was given, such as `zh-Hant`."""

    @property
    def tokenizer(self) -> str:
        """The BLEU tokenizer, by sacreBLEU's name."""
        return _EAST_ASIAN[self.code][1] if self.code in _EAST_ASIAN else "13a"

    @property
    def unspaced(self) -> bool:
        """Whether words are written without spaces between them."""
        return self.code in ("zh", "ja")

    @property
    def looks(self) -> str:
        """The predicate of a sentence on a text in this language."""
        known = self.code in _EAST_ASIAN
        return f"looks {_EAST_ASIAN[self.code][0]}" if known else "does not look Chinese, Japanese or Korean"

    @property
    def notice(self) -> str | None:
        """A line for users who gave no language."""
        if self.found == "given":
            return None
        return f"target language not given; text {self.looks}: BLEU tokenizer {self.tokenizer}; --target-lang to choose"


def target_language(code: str) -> TargetLanguage:
    """Return the language of a code in any usual spelling; Cantonese and Mandarin (`yue`, `cmn`) are `zh`.

    >>> target_language("zho_Hans").tokenizer
    'zh'
    """
    return TargetLanguage("zh" if script_of(code) == "Han" else primary_code(code), stated=code)


def is_language(code: str) -> bool:
    """Whether a code in any usual spelling is that of a language in the tables of nmt."""
    return primary_code(code) in _LANGUAGES


def known_language(code: str, name: str) -> TargetLanguage:
    """Return the language of a code. Raises ConfigError, with the name of the option, for a code that is unknown."""
    if not is_language(code):
        raise ConfigError(f"{name} {code}: unknown language code, expected one of {' '.join(sorted(_LANGUAGES))}")
    return target_language(code)


def detect_language(lines: Iterable[str]) -> TargetLanguage:
    """Return Chinese, Japanese or Korean by the share of their letters in the first lines, else the code "".

    Japanese mixes Han with kana, and Korean may contain some Han; only Chinese has Han alone.
    """
    text = "".join(islice(lines, _LINES_READ))
    han, kana, hangul = (len(re.findall(f"[{letters}]", text)) for letters in (HAN, KANA, HANGUL))
    total = han + kana + hangul
    code = "ja" if kana > _SHARE * total else "ko" if hangul > _SHARE * total else "zh"
    return TargetLanguage(code if total > _SHARE * sum(map(str.isalpha, text)) else "", "detected")
