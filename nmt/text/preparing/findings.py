"""What is unusual about a whole corpus: written in small letters, tokenized, lines that do not correspond, ….

The evidence is a sample of its pairs; counts over all pairs are those of the rules.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from nmt.config import Filters, LanguagePair
from nmt.system.console import counted
from nmt.text.corpus import evenly_spread
from nmt.text.han_variants import other_variant, simplified_only, traditional_only, variant_of
from nmt.text.languages import script_of
from nmt.text.normalize import join_unspaced, normalize
from nmt.text.preparing.rules import RULES, damage, wrong_language
from nmt.text.readers import SentencePair
from nmt.text.readers.two_files import first_unrelated

Severity = Literal["note", "warning"]

FIRST_PAIRS, SAMPLE = 400_000, 40_000
"""Pairs at the start of a corpus, and at most so many of them, evenly spread, that are its sample."""
_LEAST_LINES = 100  # with fewer only damage is found
_EXAMPLES = 3
_CASED = ("Latin", "Cyrillic", "Greek", "Armenian")
_TOKENIZED = re.compile(r"(?<=\w) (?:[.,]|['’](?:s|re|ve|ll|d|m|t)|n't)(?= |$)")  # French has spaces before ? ! : ;
_NO_CAPITALS, _MANY, _VARIANT, _ANY = 0.99, 0.2, 0.02, 0.0
"""Shares of the lines beyond which a property is one of the corpus."""
_JUDGED, _WRONG = 1_000, 0.005  # lines whose language is judged, and the share of them that is many
_LEAST_REMOVED = 0.01  # share of the pairs that a rule removes

_Property = tuple[Callable[[str], object], float, str, Severity]
"""What shows a property in a line, the share of the lines beyond which it is found, the text, and the severity."""


@dataclass(frozen=True)
class Finding:
    """One property of a corpus, with places and texts that show it."""

    corpus: str
    text: str
    examples: tuple[str, ...] = ()
    severity: Severity = "warning"
    """A note needs nothing to be done."""


def sample_of(pairs: Iterable[SentencePair]) -> list[SentencePair]:
    """Return a sample of a corpus, which is all of a small one."""
    return evenly_spread(islice(pairs, FIRST_PAIRS), SAMPLE)


def findings(
    corpus: str, languages: LanguagePair, sample: Iterable[SentencePair], filters: Filters | None = None
) -> list[Finding]:
    """Return all findings about a corpus, of which `corpus` is the name in the audit, and `sample` that of `sample_of`.

    `filters` are those that are applied to the corpus later: what they remove or convert is no finding.
    """
    sample = [pair for pair in sample if pair.source.strip() and pair.target.strip()]
    sides = {"source": [pair.source for pair in sample], "target": [pair.target for pair in sample]}
    found = list[Finding]()
    first = first_unrelated(*([len(line) for line in lines] for lines in sides.values()))
    if first is not None:
        text = f"the lengths of both sides stop corresponding at about line {sample[first].line:,}"
        found.append(Finding(corpus, text))
    for name, lines in sides.items():
        code: str = getattr(languages, name)
        if filters is not None and not filters.language and "language" not in filters.keep:
            found += _lines_in_other_languages(corpus, f"{name} ({code})", code, sample, lines)
        converted = filters is not None and filters.han_variants == "convert"
        for shows, least, text, severity in _properties(code, converted) if lines else ():
            if least > _ANY and len(lines) < _LEAST_LINES:
                continue
            shown = [number for number, line in enumerate(lines) if shows(line)]
            if len(shown) > least * len(lines):
                examples = [f"line {sample[number].line}: {lines[number]}" for number in shown[:_EXAMPLES]]
                share = (
                    f"{len(shown):,} of {counted(len(lines), 'line')}"
                    if least == _ANY
                    else f"{len(shown) / len(lines):.0%} of the lines"
                )
                found.append(Finding(corpus, f"the {name} ({code}) {text.format(share)}", tuple(examples), severity))
    return found


def _lines_in_other_languages(
    corpus: str, side: str, code: str, sample: Sequence[SentencePair], lines: Sequence[str]
) -> Iterator[Finding]:
    """Yield a finding if many of some thousand lines, evenly spread, are in another language."""
    judged = range(0, len(lines), -(-len(lines) // _JUDGED) or 1)
    wrong = [number for number in judged if wrong_language(normalize(lines[number]), code)]
    if len(wrong) > max(_WRONG * len(judged), _EXAMPLES):
        text = f"the {side} is in another language in {len(wrong) / len(judged):.1%} of the lines: "
        examples = tuple(f"line {sample[number].line}: {lines[number]}" for number in wrong[:_EXAMPLES])
        yield Finding(corpus, f"{text}data.filters.language: true removes such pairs", examples)


def _properties(code: str, converted: bool) -> Iterator[_Property]:
    script = script_of(code)
    advice = "convert the file again; the rule damaged removes such pairs from training text only"
    yield damage, _ANY, f"is decoded wrongly in {{}}: {advice}", "warning"
    if script in _CASED:
        advice = "a model trained on it outputs small letters only"
        yield lambda line: line == line.lower(), _NO_CAPITALS, f"has no capital letters: {advice}", "warning"
    if script in ("Han", "Japanese"):
        text = "has spaces between its characters or words in {}: they are removed"
        yield _has_tokenizer_spaces, _MANY, text, "note"
    else:
        advice = "a tokenizer put spaces before punctuation; detokenize it, or users' text differs from it"
        yield _TOKENIZED.search, _MANY, f"is tokenized in {{}}: {advice}", "warning"
    if script == "Han" and not converted:
        expected = variant_of(code, ()) or "Simplified"
        variant, other = ("Traditional", "zh-Hant") if expected == "Simplified" else ("Simplified", "zh-Hans")
        advice = (
            "data.filters.han_variants converts such lines; if all of the text is meant to be in it, set the language "
            f"to {other}"
        )
        yield lambda line: _is_variant(line, variant), _VARIANT, f"is {variant} Chinese in {{}}: {advice}", "warning"


def _has_tokenizer_spaces(line: str) -> bool:
    line = normalize(line)
    return join_unspaced(line) != line


def _is_variant(line: str, variant: str) -> bool:
    """Whether a line is in this variant of Chinese, or mixed: a single character may be part of a name."""
    other = len(other_variant(line, "Simplified" if variant == "Traditional" else "Traditional"))
    both = len(simplified_only(line)) + len(traditional_only(line))
    return other > both / 2 or (other >= 2 and other >= both / 5)


def rule_findings(corpus: str, read: int, removed: Mapping[str, int]) -> list[Finding]:
    """Return a finding for each rule that removes many pairs; the audit has examples of each rule."""
    shares = {rule: removed[rule] / read for rule in RULES if removed.get(rule)}
    return [
        Finding(corpus, f"{share:.1%} of the pairs: {RULES[rule]} (rule {rule})", severity="note")
        for rule, share in shares.items()
        if share >= _LEAST_REMOVED
    ]
