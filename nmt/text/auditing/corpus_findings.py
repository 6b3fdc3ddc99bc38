"""What is unusual about a whole corpus: written in small letters, tokenized, swapped sides, lines that drift apart, ….

The evidence is a sample of its first lines; counts over all pairs are those of the rules (`nmt.text.filters`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from nmt.config import LanguagePair
from nmt.system.console import counted
from nmt.text.auditing.drift import find_drift
from nmt.text.corpus import SentencePair
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


@dataclass(frozen=True)
class Beginning:
    """The first pairs of a corpus: the lengths of all, and an evenly spread sample, normalized."""

    lengths: tuple[list[int], list[int]]
    sample: list[SentencePair]

    @classmethod
    def of(cls, pairs: Iterable[SentencePair]) -> "Beginning":
        """Read the beginning of a corpus."""
        lengths: tuple[list[int], list[int]] = ([], [])
        sample: list[SentencePair] = []
        step = 1
        for number, pair in enumerate(islice(pairs, _PAIRS_READ)):
            lengths[0].append(len(pair.source))
            lengths[1].append(len(pair.target))
            if number % step == 0:
                source, target = normalize(pair.source), normalize(pair.target)
                sample.append(SentencePair(source, target, pair.file, pair.line))
                if len(sample) == 2 * _SAMPLE:
                    sample, step = sample[::2], 2 * step
        return cls(lengths, sample)


def findings(
    corpus: str, languages: LanguagePair, beginning: Beginning, held_out: Sequence[HeldOutText] = ()
) -> list[Finding]:
    """Return all findings about a corpus, of which `corpus` is the name in the report."""
    sample = [pair for pair in beginning.sample if pair.source and pair.target]
    if len(sample) < _LEAST_LINES:
        return []
    found = [*_language_findings(corpus, languages, sample), *_drift(corpus, beginning)]
    for name, code, lines in (
        ("source", languages.source, [pair.source for pair in sample]),
        ("target", languages.target, [pair.target for pair in sample]),
    ):
        places = [_place(pair) for pair in sample]
        found += _side_findings(_Side(corpus, f"the {name} ({code})", code, lines, places))
    return found + _near_duplicates(corpus, sample, held_out)


def rule_findings(corpus: str, counts: RuleCounts) -> list[Finding]:
    """Return a finding for each rule that removes many pairs; the report has examples of each rule."""
    shares = {rule: counts.removed[rule] / counts.read for rule in RULES if counts.removed[rule]}
    return [
        Finding(corpus, f"{share:.1%} of the pairs: {RULES[rule]} (rule {rule})", severity="note")
        for rule, share in shares.items()
        if share >= _LEAST_REMOVED
    ]


def _place(pair: SentencePair) -> str:
    return f"line {pair.line}"


@dataclass(frozen=True)
class _Side:
    corpus: str
    name: str
    code: str
    lines: list[str]
    places: list[str]

    def finding(self, text: str, shows: Callable[[str], bool], severity: Severity = "warning") -> Finding:
        """Return a finding with the first lines that show it."""
        shown = (f"{at}: {line}" for at, line in zip(self.places, self.lines, strict=True) if shows(line))
        return Finding(self.corpus, f"{self.name} {text}", tuple(islice(shown, _EXAMPLES)), severity)

    def share(self, shows: Callable[[str], bool]) -> float:
        """Return the share of the lines that show something."""
        return sum(map(shows, self.lines)) / len(self.lines)


def _side_findings(side: _Side) -> list[Finding]:
    found = []
    script = script_of(side.code)
    if script in _CASED and side.share(_has_capital) < _LEAST_CAPITALS:
        advice = "a model trained on it outputs small letters only"
        found.append(side.finding(f"has no capital letters: {advice}", lambda line: not _has_capital(line)))
    if script not in ("Han", "Japanese") and (share := side.share(_is_tokenized)) > _LEAST_SHARE:
        advice = "a tokenizer put spaces before punctuation; detokenize it, or users' text differs from it"
        found.append(side.finding(f"is tokenized in {share:.0%} of the lines: {advice}", _is_tokenized))
    if script in ("Han", "Japanese") and (share := side.share(_has_tokenizer_spaces)) > _LEAST_SHARE:
        text = f"has spaces between its characters or words in {share:.0%} of the lines: they are removed"
        found.append(side.finding(text, _has_tokenizer_spaces, "note"))
    return found + (_variant_findings(side) if script == "Han" else [])


def _variant_findings(side: _Side) -> list[Finding]:
    expected = variant_of(side.code, ()) or "Simplified"
    decided = [line for line in side.lines if simplified_only(line) or traditional_only(line)]
    other = [line for line in decided if is_other_variant(line, expected)]
    if len(other) < max(_LEAST_VARIANT * len(decided), _EXAMPLES):
        return []
    variant, code = ("Traditional", "zh-Hant") if expected == "Simplified" else ("Simplified", "zh-Hans")
    text = (
        f"is {variant} Chinese in {len(other) / len(decided):.0%} of the lines: data.filters.han_variants drops, "
        f"converts or tags such lines; if all of the text is meant to be in it, set the language to {code}"
    )
    return [side.finding(text, set(other).__contains__)]


def _language_findings(corpus: str, languages: LanguagePair, sample: list[SentencePair]) -> list[Finding]:
    codes = (languages.source, languages.target)
    sides = ([pair.source for pair in sample], [pair.target for pair in sample])
    texts = [[Line(pair.line, line) for pair, line in zip(sample, side, strict=True)] for side in sides]
    other = [found_instead(lines, code) for lines, code in zip(texts, codes, strict=True)]
    examples = tuple(f"{_place(pair)}: {pair.source} | {pair.target}" for pair in sample[:_EXAMPLES])
    if [code and primary_code(code) for code in other] == [primary_code(code) for code in reversed(codes)]:
        text = f"the sides are swapped: the source is {other[0]}, the target {other[1]}"
        return [Finding(corpus, f"{text}; exchange the columns or files", examples)]
    return [
        Finding(corpus, f"the {name} ({code}) is in another language: {found}", examples)
        for name, code, found in zip(("source", "target"), codes, other, strict=True)
        if found is not None
    ]


def _drift(corpus: str, beginning: Beginning) -> list[Finding]:
    drift = find_drift(*beginning.lengths)
    if drift is None:
        return []
    text = f"the lengths of both sides stop corresponding at about pair {drift.line:,}"
    if drift.extra is not None:
        text += f": the {'source' if drift.extra > 0 else 'target'} has {counted(abs(drift.extra), 'line')} more there"
    return [Finding(corpus, text)]


def _near_duplicates(corpus: str, sample: list[SentencePair], held_out: Sequence[HeldOutText]) -> list[Finding]:
    index = NearDuplicates(normalize(pair.source) for text in held_out for pair in text.pairs)
    similar = [(pair, other) for pair in sample if (other := index.most_similar(pair.source)) is not None]
    if not similar:
        return []
    text = (
        f"{len(similar) / len(sample):.2%} of the sources resemble a validation or test sentence (Jaccard similarity "
        f"of their 4-grams at least {index.threshold:g}); only trivial variants are removed"
    )
    shown = (f"{_place(pair)}: {pair.source} | {other}" for pair, other in similar[:_EXAMPLES])
    return [Finding(corpus, text, tuple(shown), "note")]


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
