"""Scripts and languages: the letters of each script, the script of each language, and the language of a text.

All character classes of scripts are here, as the inside of a regular expression's `[…]`. They cover whole blocks, with
what Unicode has not assigned yet; letters beyond the Basic Multilingual Plane are listed only for Han and kana.

>>> bool(re.search(f"[{HAN}]", "Tom 在"))
True

A text is identified by the scripts of its letters, and within a script by py3langid: langid.py (Lui & Baldwin 2012,
"langid.py: An Off-the-shelf Language Identification Tool") with a newer model, which it contains.

>>> identify("Non so che cosa abbia detto ieri.")[0]
'it'

Simplified and Traditional characters are derived from the national standards that Python's codecs contain: a
Simplified one is among the 3,755 common ones of GB 2312 (level 1) and not in Big5; a Traditional one is among the 5,401
common ones of Big5 (level 1) and not in GB 2312. Characters of both (和, 后, 台) are evidence of neither. Rarer ones
are left out, since names in both scripts use them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from typing import Any, Literal

from nmt.config import LanguagePair
from nmt.config.data_section import spelling

# radicals, iteration marks and numerals, and planes 2 and 3, which Unicode reserves for ideographs
HAN = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
KANA = (
    "\u3031-\u3035\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\U0001aff0-\U0001afff\U0001b000-\U0001b16f"
)
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7a3\ud7b0-\ud7ff\uffa0-\uffdc"
UNSPACED = HAN + KANA  # letters of Chinese and Japanese, which are written without spaces between words
# Those letters and all other characters of such text: punctuation, full-width forms, phonetic signs.
UNSPACED_TEXT = "\u2ff0-\u2fff\u3001-\u312f\u3190-\u31ff\u4dc0-\u4dff\ufe30-\ufe4f\uff01-\uff9f" + UNSPACED

# Letters of the other scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer.
FURTHER_UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"

# Combining marks, such as the vowel signs of Devanagari, which are parts of words.
MARKS = "".join(mark for mark in map(chr, range(0x300, 0x1E00)) if unicodedata.category(mark)[0] == "M")

# What belongs to the letter before it: in Burmese and Khmer letters below it; marks and variant selectors.
_BELOW = r"[\u1039\u17d2][\u1000-\u109f\u1780-\u17ff]"
_WITH_LETTER = rf"{_BELOW}|[{MARKS}\u0e33\u0eb3\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef]"
# The pattern of a character of a text without spaces between words, with all that belongs to it; in Thai and Lao also
# the vowel that is written before the letter.
UNSPACED_WORD = rf"[\u0e40-\u0e44\u0ec0-\u0ec4]?[{UNSPACED_TEXT}{FURTHER_UNSPACED}](?:{_WITH_LETTER})*"

# The pattern of a letter or digit of a script with spaces between words; and of one, or a mark, in a word of it.
SPACED_LETTER = rf"[^\W{UNSPACED}{FURTHER_UNSPACED}]"
WORD_LETTER = rf"(?:{SPACED_LETTER}|[{MARKS}])"

# The letters of each script, and the languages that are written only in it: the code, other codes and the English name
# of each, with which the first line of a table may name its columns.
_SCRIPTS = {
    "Latin": (
        "A-Za-zªºÀ-ÖØ-öø-ʯᴀ-ᴥᵢ-ᵥᵫ-ᶚḀ-ỿↃↄⱠ-ⱿꜢ-ꟿꬰ-ꭤꭦ-ꭨﬀ-ﬆＡ-Ｚａ-ｚ",
        "af:afr:afrikaans br:bre:breton ca:cat:catalan co:cos:corsican cs:ces:czech cy:cym:welsh da:dan:danish "
        "de:deu:german en:eng:english eo:epo:esperanto es:spa:spanish et:est:estonian eu:eus:basque fi:fin:finnish "
        "fo:fao:faroese fr:fra:french fy:fry:frisian ga:gle:irish gd:gla:gaelic gl:glg:galician hr:hrv:croatian "
        "ht:hat:haitian hu:hun:hungarian id:ind:in:indonesian is:isl:icelandic it:ita:italian la:lat:latin "
        "lb:ltz:luxembourgish lt:lit:lithuanian lv:lav:lvs:latvian mi:mri:maori ms:msa:zsm:malay mt:mlt:maltese "
        "nl:nld:dutch nn:nno:nynorsk no:nor:nob:nb:norwegian oc:oci:occitan pl:pol:polish pt:por:portuguese "
        "rm:roh:romansh ro:ron:romanian sc:srd:sardinian sk:slk:slovak sl:slv:slovenian so:som:somali "
        "sq:sqi:als:albanian st:sot:sotho sv:swe:swedish sw:swa:swh:swahili tl:tgl:fil:tagalog tr:tur:turkish "
        "vi:vie:vietnamese xh:xho:xhosa yo:yor:yoruba zu:zul:zulu",
    ),
    "Arabic": (
        "\u0620-\u064a\u066e-\u06d3\u06d5-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
        "ar:ara:arb:arabic fa:fas:pes:persian ur:urd:urdu ps:pus:pbt:pashto",
    ),
    "Armenian": ("\u0531-\u0588\ufb13-\ufb17", "hy:hye:armenian"),
    "Bengali": ("\u0980-\u09ff", "bn:ben:bengali as:asm:assamese"),
    "Cyrillic": (
        "\u0400-\u052f\u1c80-\u1c8f\u1d2b\u2de0-\u2dff\ua640-\ua69f",
        "ru:rus:russian uk:ukr:ukrainian be:bel:belarusian bg:bul:bulgarian mk:mkd:macedonian ky:kir:kyrgyz "
        "mn:mon:khk:mongolian",
    ),
    "Devanagari": ("\u0900-\u097f\ua8e0-\ua8ff", "hi:hin:hindi mr:mar:marathi ne:nep:npi:nepali sa:san:sanskrit"),
    "Ethiopic": ("\u1200-\u139f\u2d80-\u2ddf\uab01-\uab2f", "am:amh:amharic ti:tir:tigrinya"),
    "Georgian": ("\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f", "ka:kat:georgian"),
    "Greek": ("\u0370-\u03ff\u1d26-\u1d2a\u1f00-\u1fff\uab65", "el:ell:greek"),
    "Gujarati": ("\u0a80-\u0aff", "gu:guj:gujarati"),
    "Gurmukhi": ("\u0a00-\u0a7f", "pa:pan:punjabi"),
    "Han": (HAN, "zh:chi:zho:cmn:chinese yue wuu lzh"),
    "Hangul": (HANGUL, "ko:kor:korean"),
    "Hebrew": ("\u0590-\u05ff\ufb1d-\ufb4f", "he:heb:iw:hebrew yi:yid:ydd:yiddish"),
    "Japanese": (KANA + HAN, "ja:jp:jpn:japanese"),
    "Kannada": ("\u0c80-\u0cff", "kn:kan:kannada"),
    "Khmer": ("\u1780-\u17ff", "km:khm:khmer"),
    "Lao": ("\u0e80-\u0eff", "lo:lao"),
    "Malayalam": ("\u0d00-\u0d7f", "ml:mal:malayalam"),
    "Myanmar": ("\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f", "my:mya:burmese"),
    "Oriya": ("\u0b00-\u0b7f", "or:ori:ory:odia"),
    "Sinhala": ("\u0d80-\u0dff", "si:sin:sinhala"),
    "Tamil": ("\u0b80-\u0bff", "ta:tam:tamil"),
    "Telugu": ("\u0c00-\u0c7f", "te:tel:telugu"),
    "Thai": ("\u0e00-\u0e7f", "th:tha:thai"),
    "Tibetan": ("\u0f00-\u0fff", "bo:bod:tibetan dz:dzo:dzongkha"),
}
# Languages of several scripts, which are scored like all others.
_SEVERAL_SCRIPTS = (
    "az:aze:azj:azerbaijani bs:bos:bosnian ha:hau:hausa ig:ibo:igbo jv:jav:javanese kk:kaz:kazakh ku:kur:kmr:kurdish "
    "mg:mlg:plt:malagasy ny:nya:chichewa sd:snd:sindhi sn:sna:shona sr:srp:serbian su:sun:sundanese tg:tgk:tajik "
    "tk:tuk:turkmen tt:tat:tatar ug:uig:uyghur uz:uzb:uzn:uzbek"
)
SCRIPTS = {script: letters for script, (letters, _) in _SCRIPTS.items()}
_SCRIPT_OF = {entry.split(":")[0]: script for script, (_, entries) in _SCRIPTS.items() for entry in entries.split()}
# The languages of the scripts that only one language in this table has.
SOLE_LANGUAGES = {script: entries.split(":")[0] for script, (_, entries) in _SCRIPTS.items() if " " not in entries}
_ENTRIES = [
    entry.split(":") for entries in (*dict(_SCRIPTS.values()).values(), _SEVERAL_SCRIPTS) for entry in entries.split()
]
LANGUAGES = {code for code, *_ in _ENTRIES}
_ALIASES = {other: code for code, *others in _ENTRIES for other in others}
_ENGLISH_NAMES = {code: names[-1].capitalize() for code, *names in _ENTRIES if names}

# BLEU tokenizer of the languages that `detect_language` finds.
_EAST_ASIAN = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# A text with more than this share of its letters in a script is written in it; the rest may be foreign names.
_SHARE = 0.2
_LINES_READ = 2000


@cache
def primary_code(code: str) -> str:
    """Return the language of a code in any usual spelling, or of its English name, without script and region.

    >>> [primary_code(code) for code in ("zh-CN", "zho_Hans", "pt_BR", "IT", "Italian")]
    ['zh', 'zh', 'pt', 'it', 'it']
    """
    primary = re.split("[-_]", code.strip().lower())[0]
    return _ALIASES.get(primary, primary)


def english_name(code: str) -> str:
    """Return the English name of a language, the code of one without a name.

    >>> english_name("it"), english_name("zh-Hant"), english_name("xh")
    ('Italian', 'Chinese (zh-Hant)', 'Xhosa')
    """
    name = _ENGLISH_NAMES.get(primary_code(code), code)
    return name if code in (primary_code(code), name) else f"{name} ({code})"


def script_of(code: str) -> str | None:
    """Return the key in `SCRIPTS` of a language's script; None for languages of two scripts and unknown ones."""
    return _SCRIPT_OF.get(primary_code(code))


def has_spaces(code: str) -> bool:
    """Whether a language is written with spaces between words."""
    return script_of(code) not in ("Han", "Japanese", "Khmer", "Lao", "Myanmar", "Thai", "Tibetan")


@dataclass(frozen=True, slots=True)
class TargetLanguage:
    """The language that is scored."""

    # `zh`, `ja`, `ko`, or another primary code; empty if none was given and the text is in none of these.
    code: str
    origin: Literal["given", "detected"] = "given"
    stated: str = ""  # the code with script and region as it was given, such as `zh-Hant`

    @property
    def tokenizer(self) -> str:
        """The BLEU tokenizer, by sacreBLEU's name."""
        return _EAST_ASIAN.get(self.code, "char" if self.unspaced else "13a")

    @property
    def unspaced(self) -> bool:
        """Whether words are written without spaces between them."""
        return not has_spaces(self.code)

    @property
    def looks(self) -> str:
        """The predicate of a message about a text in this language: `looks Chinese`."""
        return f"looks {english_name(self.code)}" if self.code else "does not look Chinese, Japanese or Korean"

    @property
    def notice(self) -> str | None:
        """A message for users who gave no language, else None."""
        if self.origin == "given":
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
    return primary_code(code) in LANGUAGES


def detect_language(lines: Iterable[str]) -> TargetLanguage:
    """Return the language of a text without spaces, or Korean, by the letters of the first lines, else the code "".

    Japanese mixes Han with kana, and Korean may contain some Han; only Chinese has Han alone.
    """
    share = script_shares("".join(islice(lines, _LINES_READ)))
    for script, sole in SOLE_LANGUAGES.items():
        if sole != "ja" and not has_spaces(sole) and share.get(script, 0.0) > _SHARE:
            return TargetLanguage(sole, "detected")
    han, han_and_kana, hangul = (share.get(script, 0.0) for script in ("Han", "Japanese", "Hangul"))
    total = han_and_kana + hangul
    code = "ja" if han_and_kana - han > _SHARE * total else "ko" if hangul > _SHARE * total else "zh"
    return TargetLanguage(code if total > _SHARE else "", "detected")


# Lines that are identified together: of 3,990 such blocks of 18 corpora, many of program texts, 3 English and no
# Italian ones were taken for another language.
_BLOCK = 20
_MOST_BLOCKS = 400  # evenly spread: they estimate the share of the blocks in a language within a few percent
_LEAST_LINES = 100  # the fewest lines from which a language is concluded: fewer may be names or commands
_CONFIDENCE, _CERTAIN = 0.8, 0.8  # probability of a block, and share of the blocks with it
_LEAST_LETTERS = 20  # of a line
_OWN_SCRIPT, _LATIN_SCRIPT = 0.2, 0.5  # least share of letters; text in other scripts has many Latin names and terms
# Languages that py3langid does not distinguish reliably.
_RELATED = (
    {"no", "nn", "da"}, {"hr", "bs", "sr"}, {"id", "ms"}, {"fa", "tg"}, {"pt", "gl"}, {"en", "pcm"},
    {"zh", "yue", "wuu"},
)  # fmt: skip


def identify(text: str) -> tuple[str, float]:
    """Return the primary code of the language that a text most probably is in, and the probability."""
    language, probability = _identifier().classify(text)
    return language, probability


def probabilities(text: str) -> dict[str, float]:
    """Return the probability of each language that py3langid has, by primary code."""
    return dict(_identifier().rank(text))


def confusable(detected: str, code: str) -> bool:
    """Whether a language detected by `identify` may be confused with `code`, and so is no evidence against it.

    That is so for the same language, for a related one, and if py3langid does not have the language `code`.
    """
    label = primary_code(code)
    is_related = any({detected, label} <= languages for languages in _RELATED)
    return detected in (label, "zxx") or label not in _identifier().labels or is_related


def agrees(found: str | None, code: str) -> bool:
    """Whether a text with this language or script, None if that is uncertain, may be in the language `code`."""
    if found in SCRIPTS:
        return script_of(code) in (found, None)
    return found in (None, primary_code(code))


def language_of(lines: Sequence[str]) -> str | None:
    """Return the language of a text, None if it is not certain: in unknown scripts, or with fewer than 100 lines."""
    lines = [line for line in lines if any(map(str.isalpha, line))]
    script = main_script("".join(lines))
    if len(lines) < _LEAST_LINES or script is None:
        return None
    if east_asian := detect_language(lines).code:
        return east_asian
    if script in SOLE_LANGUAGES:
        return SOLE_LANGUAGES[script]
    stride = -(-len(lines) // (_BLOCK * _MOST_BLOCKS))
    starts = range(0, len(lines) - _BLOCK + 1, _BLOCK * stride)
    identified = [identify("\n".join(lines[start : start + _BLOCK])) for start in starts]
    certain = Counter(language for language, probability in identified if probability >= _CONFIDENCE)
    return next((language for language, count in certain.items() if count >= _CERTAIN * len(starts)), None)


def found_instead(lines: Sequence[str], code: str) -> str | None:
    """Return the language or script that a sample of a text is in, if that is certainly not the language `code`.

    >>> found_instead(["Non so che cosa sia il tempo, ma non mi piace."] * 100, "en")
    'it'
    """
    share, expected = script_shares("".join(lines)), script_of(code)
    if sum(any(map(str.isalpha, line)) for line in lines) < _LEAST_LINES:
        return None
    detected = language_of(lines)
    if expected is not None and share.get(expected, 0) < (_LATIN_SCRIPT if expected == "Latin" else _OWN_SCRIPT):
        return detected or main_script("".join(lines)) or "another script"
    return None if detected is None or confusable(detected, code) else detected


def wrong_language(text: str, code: str) -> str | None:
    """Return the language that a line is in, with its probability, if it is certainly not the language `code`.

    None of 12,000 English and Italian lines of Tatoeba and FLORES is taken for another language.
    """
    if sum(map(str.isalpha, text)) < _LEAST_LETTERS or script_of(code) in ("Han", "Japanese"):
        return None
    detected, confidence = identify(text)
    certain = confidence >= _CONFIDENCE and not confusable(detected, code)
    return f"language {detected}, probability {confidence:.2f}" if certain else None


def script_shares(text: str) -> dict[str, float]:
    """Return the share of the letters of a text that are in each script."""
    counts = Counter(text)
    distinct = "".join(counts)
    letters = sum(counts[character] for character in distinct if character.isalpha())
    in_script = {
        script: sum(counts[letter] for letter in re.findall(f"[{inside}]", distinct))
        for script, inside in SCRIPTS.items()
    }
    return {script: count / letters for script, count in in_script.items() if count and letters}


def main_script(text: str) -> str | None:
    """Return the script of most letters of a text; None if there are no letters, or only of unknown scripts."""
    share = script_shares(text)
    return max(share, key=share.__getitem__, default=None)


@cache
def _identifier() -> Any:
    """Return the model, which takes half a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


Variant = Literal["Simplified", "Traditional"]

# OpenCC's configurations by the script or region of a language code.
_CONVERSIONS = {"hant": "s2t", "tw": "s2tw", "hk": "s2hk", "mo": "s2hk", "hans": "t2s", "cn": "t2s", "sg": "t2s"}


def other_variant(text: str, variant: Variant) -> str:
    """Return the characters of a text that only the other variant has.

    >>> other_variant("这个國家", "Traditional"), other_variant("这个國家", "Simplified")
    ('这个', '國')
    """
    return "".join(_patterns()[variant].findall(text))


def variant_of(language: str, lines: Iterable[str]) -> Variant | None:
    """Return the variant of a Chinese text: that of its language code (zh-Hant, zh_TW), else that of most lines."""
    if (conversion := _stated_conversion(language)) is not None:
        return "Simplified" if conversion == "t2s" else "Traditional"
    simplified = traditional = 0
    for line in lines:
        difference = len(other_variant(line, "Traditional")) - len(other_variant(line, "Simplified"))
        simplified, traditional = simplified + (difference > 0), traditional + (difference < 0)
    if simplified == traditional == 0:
        return None
    return "Simplified" if simplified >= traditional else "Traditional"


def is_traditional(language: str) -> bool:
    """Whether a language code states Traditional Chinese, as zh-Hant and zh_TW do."""
    return variant_of(language, ()) == "Traditional"


def short_code(code: str) -> str:
    """Return a code in the form of recipes: without script and region, except for Traditional Chinese."""
    return "zh-Hant" if primary_code(code) == "zh" and is_traditional(code) else primary_code(code)


@cache
def nearest_code(requested: str, written: tuple[str, ...]) -> str | None:
    """Return the written code of the requested language: if possible the same, else of the same script or region.

    >>> nearest_code("zh_TW", ("en", "zh-Hans", "zh-Hant"))
    'zh-Hant'
    """

    def distance(code: str) -> tuple[bool, bool, int]:
        is_other_variant = is_traditional(code) != is_traditional(requested)
        return spelling(code) != spelling(requested), is_other_variant, -len({*_subtags(code)} & {*_subtags(requested)})

    return min((code for code in written if primary_code(code) == primary_code(requested)), key=distance, default=None)


def _subtags(code: str) -> list[str]:
    """Return the script, the region and the like of a code."""
    return spelling(code).split("-")[1:]


def nearest_codes(languages: LanguagePair, written: Collection[str]) -> tuple[str, str] | None:
    """Return two of the written codes, that of the source and that of the target; None if one is missing."""
    others = tuple(code for code in written if spelling(code) != spelling(languages.target))
    source = nearest_code(languages.source, others)
    target = nearest_code(languages.target, tuple(code for code in written if code != source))
    return None if source is None or target is None else (source, target)


def convert(text: str, language: str, variant: Variant) -> str:
    """Return a Chinese text in this variant, with the characters of the region of the language code if it has one.

    A text without characters of the other variant is returned unchanged.
    """
    if not other_variant(text, variant):
        return text
    conversion = _stated_conversion(language) or ("t2s" if variant == "Simplified" else "s2t")
    return str(_converter(conversion).convert(text))


@cache
def _converter(conversion: str) -> Any:
    from opencc import OpenCC

    return OpenCC(conversion)


def _stated_conversion(language: str) -> str | None:
    """Return OpenCC's configuration for a language code: that of its region, unless its script is the other variant."""
    parts = _subtags(language)
    if "hans" in parts:
        return "t2s"
    stated = [_CONVERSIONS[part] for part in reversed(parts) if part in _CONVERSIONS]
    return next((conversion for conversion in stated if conversion != "t2s" or "hant" not in parts), None)


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Return a pattern of the characters that only the other variant has, for each variant."""
    common = _characters("gb2312", range(0xB0, 0xD8)), _characters("big5", range(0xA4, 0xC7))
    complete = _characters("gb2312", range(0xB0, 0xF8)), _characters("big5", range(0xA4, 0xFA))
    others = {"Traditional": common[0] - complete[1], "Simplified": common[1] - complete[0]}
    return {variant: re.compile(f"[{''.join(sorted(characters))}]") for variant, characters in others.items()}


def _characters(codec: str, rows: range) -> set[str]:
    """Return the ideographs that a codec encodes with these first bytes."""
    encoded = (bytes(pair).decode(codec, "ignore") for pair in product(rows, range(0x40, 0xFF)))
    return {character for character in encoded if len(character) == 1 and "\u4e00" <= character <= "\u9fff"}
