"""What is unusual about a whole corpus: written in small letters, tokenized, swapped sides, lines that drift apart, ….

The evidence is a sample of its first lines; counts over all pairs are those of the rules (`nmt.text.filters`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from nmt.config import LanguagePair
from nmt.system.console import counted
from nmt.text.corpus import SentencePair, evenly_spread
from nmt.text.filters.damage import damage
from nmt.text.filters.rule_counts import RULES, RuleCounts
from nmt.text.filters.script import is_other_variant
from nmt.text.han_variants import simplified_only, traditional_only, variant_of
from nmt.text.identification import found_instead
from nmt.text.languages import primary_code, script_of
from nmt.text.normalize import join_unspaced
from nmt.text.readers.two_files import first_unrelated

Severity = Literal["note", "warning"]

_PAIRS_READ = 400_000
_SAMPLE = 10_000  # of those pairs; at least half as many, if there are so many
_LEAST_LINES = 100  # with fewer there is no finding
_EXAMPLES = 3
_CASED = ("Latin", "Cyrillic", "Greek", "Armenian")
_LEAST_CAPITALS = 0.01
"""Share of the lines with a capital letter; in text of sentences nearly all lines have one."""
_TOKENIZED = re.compile(r"(?<=\w) (?:[.,]|['’](?:s|re|ve|ll|d|m|t)|n't)(?= |$)")  # French has spaces before ? ! : ;
_LEAST_SHARE = 0.2
"""Share of the lines of a sample that have a property, from which it is one of the corpus."""
_LEAST_VARIANT = 0.02  # the same for lines in the other variant of Chinese
_LEAST_REMOVED = 0.01  # share of the pairs that a rule removes


@dataclass(frozen=True)
class Finding:
    """One property of a corpus, with places and texts that show it."""

    corpus: str
    text: str
    examples: tuple[str, ...] = ()
    severity: Severity = "warning"
    """A note needs nothing to be done."""


_Found = tuple[str, tuple[str, ...], Severity]
"""A finding about a corpus that is not named yet."""


class Line(NamedTuple):
    """A line of a text with its number, from 1."""

    number: int
    text: str


class _Side(NamedTuple):
    name: str
    code: str
    lines: list[Line]

    def share(self, shows: Callable[[str], bool]) -> float:
        """Return the share of the lines that show something."""
        return sum(shows(line.text) for line in self.lines) / len(self.lines)

    def found(self, text: str, shows: Callable[[str], bool], severity: Severity = "warning") -> _Found:
        """Return a finding with the first lines that show it."""
        shown = _examples(line for line in self.lines if shows(line.text))
        return f"the {self.name} ({self.code}) {text}", shown, severity


def findings(
    corpus: str, languages: LanguagePair, pairs: Iterable[SentencePair], converted: bool = False
) -> list[Finding]:
    """Return all findings about a corpus, of which `corpus` is the name in the report, from its first pairs.

    If its Chinese is `converted` later, or lines in the other variant are dropped, that variant is no finding.
    """
    lengths: tuple[list[int], list[int]] = ([], [])
    damaged: list[Line] = []

    def measured() -> Iterator[SentencePair]:
        for pair in islice(pairs, _PAIRS_READ):
            lengths[0].append(len(pair.source))
            lengths[1].append(len(pair.target))
            if shown := damage(pair.source) or damage(pair.target):
                damaged.append(Line(pair.line, f"{pair.source} | {pair.target} ({shown})"))
            yield pair

    sample = [pair.normalized() for pair in evenly_spread(measured(), 2 * _SAMPLE - 1)]
    sample = [pair for pair in sample if pair.source and pair.target]
    of_encoding = list(_damage_findings(damaged, len(lengths[0])))
    if len(sample) < _LEAST_LINES:
        return [Finding(corpus, *one) for one in of_encoding]
    source = _Side("source", languages.source, [Line(pair.line, pair.source) for pair in sample])
    target = _Side("target", languages.target, [Line(pair.line, pair.target) for pair in sample])
    found = [
        *of_encoding,
        *_language_findings(source, target),
        *_drift(*lengths),
        *(one for side in (source, target) for one in _side_findings(side, converted)),
    ]
    return [Finding(corpus, *one) for one in found]


def rule_findings(corpus: str, counts: RuleCounts) -> list[Finding]:
    """Return a finding for each rule that removes many pairs; the report has examples of each rule."""
    shares = {rule: counts.removed[rule] / counts.read for rule in RULES if counts.removed[rule]}
    return [
        Finding(corpus, f"{share:.1%} of the pairs: {RULES[rule]} (rule {rule})", severity="note")
        for rule, share in shares.items()
        if share >= _LEAST_REMOVED
    ]


def _examples(lines: Iterable[Line]) -> tuple[str, ...]:
    return tuple(f"line {line.number}: {line.text}" for line in islice(lines, _EXAMPLES))


def _damage_findings(damaged: Sequence[Line], pairs: int) -> Iterator[_Found]:
    if damaged:
        text = (
            f"in {len(damaged):,} of {counted(pairs, 'pair')}, characters are decoded wrongly: convert the file again"
        )
        yield f"{text}; the rule damaged removes such pairs from training text only", _examples(damaged), "warning"


def _side_findings(side: _Side, converted: bool) -> Iterator[_Found]:
    script = script_of(side.code)
    if script in _CASED and side.share(_has_capital) < _LEAST_CAPITALS:
        text = "has no capital letters: a model trained on it outputs small letters only"
        yield side.found(text, lambda line: not _has_capital(line))
    if script not in ("Han", "Japanese") and (share := side.share(_is_tokenized)) > _LEAST_SHARE:
        advice = "a tokenizer put spaces before punctuation; detokenize it, or users' text differs from it"
        yield side.found(f"is tokenized in {share:.0%} of the lines: {advice}", _is_tokenized)
    if script in ("Han", "Japanese") and (share := side.share(_has_tokenizer_spaces)) > _LEAST_SHARE:
        text = f"has spaces between its characters or words in {share:.0%} of the lines: they are removed"
        yield side.found(text, _has_tokenizer_spaces, "note")
    if script == "Han" and not converted:
        yield from _variant_findings(side)


def _variant_findings(side: _Side) -> Iterator[_Found]:
    expected = variant_of(side.code, ()) or "Simplified"
    decided = [line.text for line in side.lines if simplified_only(line.text) or traditional_only(line.text)]
    other = {line for line in decided if is_other_variant(line, expected)}
    count = sum(line in other for line in decided)
    if count >= max(_LEAST_VARIANT * len(decided), _EXAMPLES):
        variant, code = ("Traditional", "zh-Hant") if expected == "Simplified" else ("Simplified", "zh-Hans")
        text = (
            f"is {variant} Chinese in {count / len(decided):.0%} of the lines: data.filters.han_variants "
            f"converts such lines; if all of the text is meant to be in it, set the language to {code}"
        )
        yield side.found(text, other.__contains__)


def _language_findings(source: _Side, target: _Side) -> Iterator[_Found]:
    other = [found_instead([line.text for line in side.lines], side.code) for side in (source, target)]
    pairs = zip(source.lines, target.lines, strict=True)
    examples = _examples(Line(one.number, f"{one.text} | {translation.text}") for one, translation in pairs)
    if [code and primary_code(code) for code in other] == [primary_code(side.code) for side in (target, source)]:
        text = f"the sides are swapped: the source is {other[0]}, the target {other[1]}"
        yield f"{text}; exchange the columns or files", examples, "warning"
        return
    for side, code in zip((source, target), other, strict=True):
        if code is not None:
            yield f"the {side.name} ({side.code}) is in another language: {code}", examples, "warning"


def _drift(sources: list[int], targets: list[int]) -> Iterator[_Found]:
    if (first := first_unrelated(sources, targets)) is not None:
        yield f"the lengths of both sides stop corresponding at about pair {first + 1:,}", (), "warning"


def _has_capital(line: str) -> bool:
    return not line.islower() and line != line.lower()


def _is_tokenized(line: str) -> bool:
    return _TOKENIZED.search(line) is not None


def _has_tokenizer_spaces(line: str) -> bool:
    return join_unspaced(line) != line
