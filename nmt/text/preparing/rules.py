"""The rules on the text of sentence pairs: which pairs are removed from the training text, and why.

A new rule is one function, one line in the table at the end of this module, and its name in `RuleName`, with
which `data.filters.keep` turns it off.

>>> rules = Rules.learn(Filters(), LanguagePair("en", "it"))
>>> rules.apply("Radio  Roma", "radio roma")
('Radio Roma', 'radio roma', 'copy', 'identical apart from case')
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from unicodedata import category

import numpy as np

from nmt.config import Filters, LanguagePair
from nmt.errors import check_installed
from nmt.text.languages import SCRIPTS, Variant, convert, script_of, variant_of, wrong_language
from nmt.text.normalize import normalizer_of
from nmt.text.readers import SentencePair

LEAST_PAIRS = 200  # with fewer pairs in the sample there is no limit
_DEVIATIONS = 5.0  # standard deviations that are permitted; measured in benchmarks/RESULTS.md
_LEAST_DIFFERENCE = math.log(2)  # a factor of two from the usual ratio is permitted in any text
_NORMAL = 1.4826  # standard deviation of a normal distribution with median absolute deviation 1


@dataclass(frozen=True)
class LengthRatio:
    """The usual ratio of target to source in bytes, and how far a pair may deviate from it, estimated from the text.

    Gale & Church (1993), "A Program for Aligning Sentences in Bilingual Corpora": the lengths of translations differ by
    a random amount for each character, so that the deviation of their ratio shrinks with the square root of the length.
    Median and median absolute deviation stand for mean and standard deviation, which wrong pairs would change.

    Lengths are in bytes of UTF-8, which are the characters of most Latin text. A Chinese character has three, about the
    letters of its translation, so that names and code inside Chinese text count as much as on the other side.
    """

    median: float  # of the logarithm of the ratio
    deviation: float  # standard deviation of this logarithm among long sentences
    # The same among short ones, to be divided by the square root of the length of both sides.
    deviation_for_length_1: float

    @classmethod
    def learn(cls, sample: Sequence[tuple[str, str]]) -> "LengthRatio | None":
        """Return the ratio in a sample of normalized pairs; None if the sample is too small."""
        lengths = [(len(source.encode()), len(target.encode())) for source, target in sample]
        source, target = np.array([pair for pair in lengths if all(pair)], dtype=float).reshape(-1, 2).T
        if len(source) < LEAST_PAIRS:
            return None
        logs = np.log(target / source)
        median = float(np.median(logs))
        differences = np.abs(logs - median)
        scaled = differences * np.sqrt(source + target * math.exp(-median))
        return cls(median, _NORMAL * float(np.median(differences)), _NORMAL * float(np.median(scaled)))

    def unusual(self, source: str, target: str) -> str | None:
        """Return a message with the ratio of a normalized pair and the usual ones if it is too far off, else None."""
        lengths = len(source.encode()), len(target.encode())
        ratio = lengths[1] / lengths[0]
        difference = abs(math.log(ratio) - self.median)
        if difference <= _LEAST_DIFFERENCE:
            return None
        length = lengths[0] + lengths[1] * math.exp(-self.median)
        limit = _DEVIATIONS * max(self.deviation, self.deviation_for_length_1 / math.sqrt(length))
        if difference <= limit:
            return None
        low, high = (math.exp(self.median + sign * max(limit, _LEAST_DIFFERENCE)) for sign in (-1, 1))
        return f"target {ratio:.2g} times as long, expected {low:.2g} to {high:.2g} times"


# UTF-8 read as Windows-1252 or Latin-1. One misread character of Latin-1 or of punctuation is evidence, unless it
# follows a capital and may be punctuation (`MANHÃ…` is Portuguese). Other alphabets need two in a row: `né»…` may be an
# accented letter before punctuation.
_CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_SUSPICIOUS = re.compile(f"[ÂÃÄÅÎÏÐÑ×ØÙà-í]{_CONTINUATION}|\ufffd|锟斤拷")
_DAMAGED = re.compile(
    f"\ufffd|锟斤拷|(?<![A-ZÀ-Þ])[ÂÃ]{_CONTINUATION}|[ÂÃ][\x80-\x9f¡-©¬±´-¶¸¼-¿]|â[\x80€]{_CONTINUATION}"
    f"|(?:[ÄÅÎÏÐÑ×ØÙ]{_CONTINUATION}){{2,}}|(?:[à-í]{_CONTINUATION}{{2}}){{2,}}"
)
_LEAST_CHARACTERS, _LEAST_SPACES = 20, 3  # of a source that a target may not contain; a shorter one may be a name
_TEXT_BYTES = bytes(code for code in range(0x100) if code >= 0x80 or chr(code).isalpha() or chr(code).isspace())
_LEAST_SYMBOLS, _LEAST_SYMBOL_SHARE = 8, 0.75  # of a line without spaces; a short text may be a time or an amount
_LEAST_FOREIGN = 5  # letters; a few may be symbols, as in `α e β`
_FOLDED = bytes(range(0x41)) + bytes(range(0x61, 0x7B)) + bytes(range(0x5B, 0x100))
_DROPPED = bytes(code for code in range(0x80) if not chr(code).isalnum())
_NO_LETTER = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Side:
    """Properties of one side of a text that the rules use."""

    code: str
    normalize: Callable[[str], str]
    script: str | None  # None for a language that is written in several scripts
    script_letters: re.Pattern[str]
    # Letters of all other scripts but Latin, which names and terms have in every language.
    foreign: re.Pattern[str]

    @classmethod
    def learn(cls, language: str, sample: Sequence[str], filters: Filters) -> "Side":
        """Return a side from its language and sample lines. Raises ConfigError if OpenCC is needed and missing."""
        normalize, script = normalizer_of(language), script_of(language)
        if filters.han_variants == "convert" and script == "Han":
            check_installed("opencc", ", which data.filters.han_variants: convert needs,")
            if (variant := variant_of(language, map(normalize, sample))) is not None:
                normalize = partial(_in_variant, normalize, language, variant)
        letters = SCRIPTS[script or "Latin"]
        others = [letters for name, letters in SCRIPTS.items() if name not in (script, "Latin")]
        foreign = re.compile(f"[{''.join(others)}](?<![{letters}])")
        return cls(language, normalize, script, re.compile(f"[{letters}]"), foreign)

    def wrong_script(self, text: str) -> str | None:
        """Return what shows that a normalized line is not in the script of its language; None if it is."""
        if self.script is None or (self.script == "Latin" and text.isascii()):
            return None
        if not self.script_letters.search(text):
            return f"no {self.script} letter" if any(map(str.isalpha, text)) else None
        if self.foreign.search(text):
            expected, foreign = len(self.script_letters.findall(text)), len(self.foreign.findall(text))
            if foreign > expected and foreign >= _LEAST_FOREIGN:
                return f"{foreign} letters of other scripts, {expected} {self.script} ones"
        return None


def _in_variant(normalize: Callable[[str], str], language: str, variant: Variant, text: str) -> str:
    return convert(normalize(text), language, variant)


@dataclass(frozen=True)
class Rules:
    """Normalizes pairs of a language pair and applies the rules to them, with what was learned from a sample.

    It keeps no state between pairs and can be pickled, so processes can share the work.
    """

    source: Side
    target: Side
    lengths: LengthRatio | None
    # Places of the sentences of validation and test text, by their letters: `test sentence 12: …`.
    held_out: Mapping[str, str]
    applied: tuple[str, ...]
    removes_damaged: bool

    @classmethod
    def learn(
        cls,
        filters: Filters,
        languages: LanguagePair,
        sample: Sequence[SentencePair] = (),
        held_out: Mapping[str, Sequence[SentencePair]] | None = None,
    ) -> "Rules":
        """Return the rules for texts of a language pair.

        `sample` are pairs of these texts, and `held_out` the validation and test text by name, all as they were read.
        Raises ConfigError for a library that the settings need and that is not installed.
        """
        source = Side.learn(languages.source, [pair.source for pair in sample], filters)
        target = Side.learn(languages.target, [pair.target for pair in sample], filters)

        def normalized(pairs: Sequence[SentencePair]) -> list[tuple[str, str]]:
            return [(source.normalize(pair.source), target.normalize(pair.target)) for pair in pairs]

        places = {
            letters(sentence): f"{name} sentence {number}: {sentence}"
            for name, pairs in (held_out or {}).items()
            for number, pair in enumerate(normalized(pairs), start=1)
            for sentence in pair
        }
        places.pop("", None)
        possible = {"leak": bool(places), "language": filters.language}
        applied = [rule for rule in _CHECKS if rule not in filters.keep and possible.get(rule, True)]
        lengths = LengthRatio.learn(normalized(sample))
        return cls(source, target, lengths, places, tuple(applied), "damaged" not in filters.keep)

    def apply(self, source: str, target: str) -> tuple[str, str, str | None, str]:
        """Return the pair as training reads it, the first rule that removes it or None, and what was found."""
        damaged = self.removes_damaged and (damage(source) or damage(target))
        source, target = self.source.normalize(source), self.target.normalize(target)
        if not source or not target:
            return source, target, "empty", ""
        if damaged:
            return source, target, "damaged", damaged
        for rule in self.applied:
            if (reason := _CHECKS[rule](self, source, target)) is not None:
                return source, target, rule, reason
        return source, target, None, ""


def damage(text: str) -> str | None:
    """Return the evidence that a line, as it was read, was decoded wrongly; None if there is none.

    >>> damage("Perch\\u00c3\\u00a9 no?")
    '“Ã©” for “é”'
    """
    if text.isascii() or not _SUSPICIOUS.search(text) or not (match := _DAMAGED.search(text)):
        return None
    if match[0] in ("\ufffd", "锟斤拷"):
        return f"“{match[0]}” at character {match.start() + 1}"
    original = b"".join(sign.encode("latin-1") if sign <= "\xff" else sign.encode("cp1252") for sign in match[0])
    return f"“{match[0]}” for “{original.decode('utf-8', 'replace')}”"


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case, with combining marks: vowels of Hindi, Arabic and Thai."""
    if text.isascii():
        return text.encode().translate(_FOLDED, _DROPPED).decode()
    folded = text.casefold().encode().translate(None, _DROPPED).decode()
    if folded.isalnum():
        return folded
    return _NO_LETTER.sub(lambda match: "".join(sign for sign in match[0] if category(sign)[0] == "M"), folded)


def _copy(rules: Rules, source: str, target: str) -> str | None:
    if len(source) == len(target) and source.casefold() == target.casefold():
        return "identical" if source == target else "identical apart from case"
    if _LEAST_CHARACTERS <= len(source) <= len(target) and source.count(" ") >= _LEAST_SPACES:
        return "contains the source" if source.rstrip(".?!:;").lower() in target.lower() else None
    return None


def _symbols(rules: Rules, source: str, target: str) -> str | None:
    for text in (source, target):
        number = len(text.encode().translate(None, _TEXT_BYTES))
        if number >= _LEAST_SYMBOLS and (share := number / len(text.replace(" ", ""))) > _LEAST_SYMBOL_SHARE:
            return f"{share:.0%} digits and symbols"
    return None


def _script(rules: Rules, source: str, target: str) -> str | None:
    return rules.source.wrong_script(source) or rules.target.wrong_script(target)


def _length(rules: Rules, source: str, target: str) -> str | None:
    return None if rules.lengths is None else rules.lengths.unusual(source, target)


def _leak(rules: Rules, source: str, target: str) -> str | None:
    return rules.held_out.get(letters(source)) or rules.held_out.get(letters(target))


def _language(rules: Rules, source: str, target: str) -> str | None:
    return wrong_language(source, rules.source.code) or wrong_language(target, rules.target.code)


# The rules in the order of their application; a pair is counted under the first one that removes it.
#
# The function of a rule returns what is wrong with a normalized pair, whose sides are not empty, or None. Rules without
# a function are applied by `Rules.apply` (the first two) and `nmt.text.preparing.preparation` (the others).
_TABLE: dict[str, tuple[str, Callable[[Rules, str, str], str | None] | None]] = {
    "empty": ("a side without text", None),
    "damaged": ("decoded wrongly: U+FFFD, mojibake", None),
    "copy": ("target is the source, or contains it", _copy),
    "symbols": ("mostly digits and symbols", _symbols),
    "script": ("not in the script of its language", _script),
    "length": ("lengths far from the usual ratio", _length),
    "leak": ("a sentence of the validation or test text", _leak),
    "language": ("in another language", _language),
    "duplicate": ("equal to an earlier pair", None),
    "improbable": ("as improbable as shuffled pairs", None),
    "too_long": ("a side longer than max_tokens", None),
}
RULES = {rule: meaning for rule, (meaning, _) in _TABLE.items()}
_CHECKS = {rule: check for rule, (_, check) in _TABLE.items() if check is not None}
