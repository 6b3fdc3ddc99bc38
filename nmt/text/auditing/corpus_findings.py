"""What is unusual about a whole corpus: written in small letters, tokenized, swapped sides, lines that drift apart, ….

The evidence is a sample of its first lines; counts over all pairs are those of the rules (`nmt.text.filters`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from nmt.config import LanguagePair
from nmt.system.console import counted
from nmt.text.auditing.drift import find_drift
from nmt.text.corpus import SentencePair, evenly_spread
from nmt.text.filters.leakage import HeldOutText, letters
from nmt.text.filters.rule_counts import RULES, RuleCounts
from nmt.text.filters.script import is_other_variant
from nmt.text.han_variants import simplified_only, traditional_only, variant_of
from nmt.text.identification import Line, found_instead
from nmt.text.languages import primary_code, script_of
from nmt.text.normalize import join_unspaced, normalize

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
_NGRAM = 4


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
    corpus: str, languages: LanguagePair, pairs: Iterable[SentencePair], held_out: Sequence[HeldOutText] = ()
) -> list[Finding]:
    """Return all findings about a corpus, of which `corpus` is the name in the report, from its first pairs."""
    lengths: tuple[list[int], list[int]] = ([], [])

    def measured() -> Iterator[SentencePair]:
        for pair in islice(pairs, _PAIRS_READ):
            lengths[0].append(len(pair.source))
            lengths[1].append(len(pair.target))
            yield pair

    sample = [pair.normalized() for pair in evenly_spread(measured(), 2 * _SAMPLE - 1)]
    sample = [pair for pair in sample if pair.source and pair.target]
    if len(sample) < _LEAST_LINES:
        return []
    source = _Side("source", languages.source, [Line(pair.line, pair.source) for pair in sample])
    target = _Side("target", languages.target, [Line(pair.line, pair.target) for pair in sample])
    found = [
        *_language_findings(source, target),
        *_drift(*lengths),
        *_side_findings(source),
        *_side_findings(target),
        *_near_duplicates(source, held_out),
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


def _side_findings(side: _Side) -> Iterator[_Found]:
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
    if script == "Han":
        yield from _variant_findings(side)


def _variant_findings(side: _Side) -> Iterator[_Found]:
    expected = variant_of(side.code, ()) or "Simplified"
    decided = [line.text for line in side.lines if simplified_only(line.text) or traditional_only(line.text)]
    other = {line for line in decided if is_other_variant(line, expected)}
    count = sum(line in other for line in decided)
    if count >= max(_LEAST_VARIANT * len(decided), _EXAMPLES):
        variant, code = ("Traditional", "zh-Hant") if expected == "Simplified" else ("Simplified", "zh-Hans")
        text = (
            f"is {variant} Chinese in {count / len(decided):.0%} of the lines: data.filters.han_variants drops, "
            f"converts or tags such lines; if all of the text is meant to be in it, set the language to {code}"
        )
        yield side.found(text, other.__contains__)


def _language_findings(source: _Side, target: _Side) -> Iterator[_Found]:
    other = [found_instead(side.lines, side.code) for side in (source, target)]
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
    if drift := find_drift(sources, targets):
        text = f"the lengths of both sides stop corresponding at about pair {drift.line:,}"
        if drift.extra is not None:
            side = "source" if drift.extra > 0 else "target"
            text += f": the {side} has {counted(abs(drift.extra), 'line')} more there"
        yield text, (), "warning"


def _near_duplicates(source: _Side, held_out: Sequence[HeldOutText]) -> Iterator[_Found]:
    index = NearDuplicates(normalize(pair.source) for text in held_out for pair in text.pairs)
    similar = [(line, other) for line in source.lines if (other := index.most_similar(line.text)) is not None]
    if similar:
        text = (
            f"{len(similar) / len(source.lines):.2%} of the sources resemble a validation or test sentence (Jaccard "
            f"similarity of their 4-grams at least {index.threshold:g}); only trivial variants are removed"
        )
        yield text, _examples(Line(line.number, f"{line.text} | {other}") for line, other in similar), "note"


def _has_capital(line: str) -> bool:
    return not line.islower() and line != line.lower()


def _is_tokenized(line: str) -> bool:
    return _TOKENIZED.search(line) is not None


def _has_tokenizer_spaces(line: str) -> bool:
    return join_unspaced(line) != line


class NearDuplicates:
    """An index of sentences, by the Jaccard similarity of their character n-grams (Broder 1997).

    Two sets of n-grams with a similarity of at least t share an n-gram among the rarest (1 - t) · n + 1 ones of either,
    the prefix filter of Chaudhuri, Ganti & Kaushik (2006), so only those are looked up.
    """

    def __init__(self, sentences: Iterable[str], threshold: float = 0.7) -> None:
        self.threshold = threshold
        self._sentences = list(dict.fromkeys(sentences))
        self._ngrams = [_ngrams(sentence) for sentence in self._sentences]
        frequency = Counter(ngram for own in self._ngrams for ngram in own)
        # by frequency; the n-gram itself decides ties, since all sentences must use one order
        ordered = sorted(frequency, key=lambda ngram: (frequency[ngram], ngram))
        self._rank = {ngram: rank for rank, ngram in enumerate(ordered)}
        self._postings: dict[int, list[int]] = {}
        for number, own in enumerate(self._ngrams):
            for rank in self._rarest(own):
                self._postings.setdefault(rank, []).append(number)

    def most_similar(self, sentence: str) -> str | None:
        """Return the sentence that is most similar to another one, and as similar as the threshold; None if none is."""
        ngrams = _ngrams(sentence)
        candidates = {number for rank in self._rarest(ngrams) for number in self._postings.get(rank, ())}
        similarity = {number: _jaccard(ngrams, self._ngrams[number]) for number in sorted(candidates)}
        best = max(similarity, key=lambda number: similarity[number], default=None)
        return None if best is None or similarity[best] < self.threshold else self._sentences[best]

    def _rarest(self, ngrams: frozenset[str]) -> list[int]:
        """Return the ranks of those among the rarest n-grams of a sentence that occur in the index."""
        ranks = [self._rank[ngram] for ngram in ngrams if ngram in self._rank]
        rarest = int((1 - self.threshold) * len(ngrams) + 1e-9) + 1
        absent = len(ngrams) - len(ranks)  # rarer than all others
        return sorted(ranks)[: max(0, rarest - absent)]


def _ngrams(sentence: str) -> frozenset[str]:
    text = letters(sentence)
    starts = range(max(1, len(text) - _NGRAM + 1)) if text else ()
    return frozenset(text[start : start + _NGRAM] for start in starts)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common)
