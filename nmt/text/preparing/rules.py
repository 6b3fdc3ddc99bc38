"""The rules on the text of sentence pairs: what is removed from the training text, and what was found in it.

>>> rules = Rules.learn(Filters(), LanguagePair("en", "it"))
>>> rules.apply("Radio  Roma", "radio roma")
('Radio Roma', 'radio roma', 'copy', 'identical apart from case')
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from nmt.config import Filters, LanguagePair
from nmt.text.han_variants import Variant, check_converter, convert, other_variant, variant_of
from nmt.text.identification import confusable, identify
from nmt.text.languages import SCRIPTS, script_of
from nmt.text.normalize import normalizer_of
from nmt.text.preparing.length_ratio import LengthRatio
from nmt.text.readers import SentencePair

RULES = {
    "empty": "a side without text",
    "damaged": "decoded wrongly: U+FFFD, mojibake",
    "copy": "target is the source, or contains it",
    "symbols": "mostly digits and symbols",
    "script": "not in the script of its language",
    "length": "lengths far from the usual ratio",
    "leak": "a sentence of the validation or test text",
    "language": "in another language",
    "duplicate": "equal to an earlier pair",
    "too_long": "a side longer than max_tokens",
}
"""The rules in the order of their application; a pair is counted under the first one that removes it.

Those on the text of a pair are in this module, `duplicate` and `too_long` in `nmt.text.preparing.preparation`.
"""

# UTF-8 read as Windows-1252 or Latin-1. One misread character of Latin-1 or of punctuation is evidence, unless it
# follows a capital (`MANHÃ…` is Portuguese). Those of other alphabets are two in a row: `né»…` may be an accented
# letter before punctuation.
_CONTINUATION = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_SUSPICIOUS = re.compile(f"[ÂÃÄÅÎÏÐÑ×ØÙà-í]{_CONTINUATION}|\ufffd|锟斤拷")
_DAMAGED = re.compile(
    f"\ufffd|锟斤拷|(?<![A-ZÀ-Þ])[ÂÃ]{_CONTINUATION}|â[\x80€]{_CONTINUATION}|(?:[ÄÅÎÏÐÑ×ØÙ]{_CONTINUATION}){{2,}}"
    f"|(?:[à-í]{_CONTINUATION}{{2}}){{2,}}"
)
_LEAST_CHARACTERS, _LEAST_SPACES = 20, 3  # of a source that a target may not contain; a shorter one may be a name
_TEXT_BYTES = bytes(code for code in range(0x100) if code >= 0x80 or chr(code).isalpha() or chr(code).isspace())
_LEAST_SYMBOLS, _LEAST_SYMBOL_SHARE = 8, 0.75  # of a line without spaces; a short text may be a time or an amount
_LEAST_FOREIGN = 5  # letters; a few may be symbols, as in `α e β`
_LEAST_LETTERS, _LEAST_CONFIDENCE = 20, 0.8
"""With these, none of 12,000 English and Italian lines of Tatoeba and FLORES was taken for another language."""
_FOLDED = bytes(range(0x41)) + bytes(range(0x61, 0x7B)) + bytes(range(0x5B, 0x100))
_DROPPED = bytes(code for code in range(0x80) if not chr(code).isalnum())
_NO_LETTER = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Side:
    """What the rules know of the lines of one side."""

    code: str
    normalize: Callable[[str], str]
    script: str | None
    """None for a language that is written in several scripts."""
    own: re.Pattern[str]
    foreign: re.Pattern[str]
    """Letters of all other scripts but Latin, which names and terms have in every language."""

    @classmethod
    def learn(cls, language: str, sample: Sequence[str], filters: Filters) -> "Side":
        """Return what is known of a side with these lines. Raises ConfigError where OpenCC is needed and missing."""
        normalize, script = normalizer_of(language), script_of(language)
        if filters.han_variants == "convert" and script == "Han":
            check_converter()
            if (variant := variant_of(language, map(normalize, sample))) is not None:
                normalize = partial(_in_variant, normalize, language, variant)
        own = SCRIPTS[script or "Latin"]
        others = [letters for name, letters in SCRIPTS.items() if name not in (script, "Latin")]
        foreign = re.compile(f"(?![{own}])[{''.join(others)}]")
        return cls(language, normalize, script, re.compile(f"[{own}]"), foreign)

    def wrong_script(self, text: str) -> str | None:
        """Return what shows that a normalized line is not in the script of its language; None if it is."""
        if self.script is None or (self.script == "Latin" and text.isascii()):
            return None
        if not self.own.search(text):
            return f"no {self.script} letter" if any(map(str.isalpha, text)) else None
        if self.foreign.search(text):
            own, foreign = len(self.own.findall(text)), len(self.foreign.findall(text))
            if foreign > own and foreign >= _LEAST_FOREIGN:
                return f"{foreign} letters of other scripts, {own} {self.script} ones"
        return None


def wrong_language(text: str, code: str) -> str | None:
    """Return the language that a line is in, with its probability, if it is certainly not the language `code`."""
    if sum(map(str.isalpha, text)) < _LEAST_LETTERS or script_of(code) in ("Han", "Japanese"):
        return None
    found, confidence = identify(text)
    certain = confidence >= _LEAST_CONFIDENCE and not confusable(found, code)
    return f"language {found}, probability {confidence:.2f}" if certain else None


def _in_variant(normalize: Callable[[str], str], language: str, variant: Variant, text: str) -> str:
    text = normalize(text)
    return convert(text, language, variant) if other_variant(text, variant) else text


@dataclass(frozen=True)
class Rules:
    """Normalizes pairs of a language pair and applies the rules to them, with what was learned from a sample.

    It keeps no state between pairs and can be pickled, so processes can share the work.
    """

    source: Side
    target: Side
    lengths: LengthRatio | None
    held_out: Mapping[str, str]
    """Places of the sentences of validation and test text, by their letters: `test sentence 12: …`."""
    applied: tuple[str, ...]

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
        lengths = LengthRatio.learn(normalized(sample))
        possible = {"length": lengths is not None, "leak": bool(places), "language": filters.language}
        applied = [rule for rule in _CHECKS if rule not in filters.keep and possible.get(rule, True)]
        return cls(source, target, lengths, places, tuple(applied))

    def apply(self, source: str, target: str) -> tuple[str, str, str | None, str]:
        """Return the pair as training reads it, the first rule that removes it or None, and what was found."""
        found = damage(source) or damage(target) if "damaged" in self.applied else None
        source, target = self.source.normalize(source), self.target.normalize(target)
        if not source or not target:
            return source, target, "empty", ""
        for rule in self.applied:
            found = found or _CHECKS[rule](self, source, target)
            if found is not None:
                return source, target, rule, found
        return source, target, None, ""


def damage(text: str) -> str | None:
    """Return what shows that a line, as it was read, was decoded wrongly; None if nothing does.

    >>> damage("Perch\\u00c3\\u00a9 no?")
    '“Ã©” for “é”'
    """
    if text.isascii() or not _SUSPICIOUS.search(text) or not (match := _DAMAGED.search(text)):
        return None
    if match[0] in ("\ufffd", "锟斤拷"):
        return f"“{match[0]}” at character {match.start() + 1}"
    read = b"".join(one.encode("latin-1") if one <= "\xff" else one.encode("cp1252") for one in match[0])
    return f"“{match[0]}” for “{read.decode('utf-8', 'replace')}”"


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    if text.isascii():
        return text.encode().translate(_FOLDED, _DROPPED).decode()
    return _NO_LETTER.sub("", text.casefold())


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


_CHECKS: dict[str, Callable[[Rules, str, str], str | None]] = {
    "damaged": lambda *_: None,  # applied to the pair as it was read
    "copy": _copy,
    "symbols": _symbols,
    "script": _script,
    "length": _length,
    "leak": _leak,
    "language": _language,
}
"""The function of each rule: it returns what is wrong with a normalized pair, both sides not empty, or None."""
