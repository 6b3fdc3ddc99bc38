"""Warnings about texts whose score means little: tokenized text, another language, or a fault in many lines."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nmt.evaluation.findings import KINDS, Finding
from nmt.system.console import counted
from nmt.text.languages import HAN, TargetLanguage, detect_language
from nmt.text.normalize import PIECES, normalize
from nmt.text.words import words

# Kinds that one mistake may explain, if at least this share of the lines has them, and at least `_AT_LEAST` lines.
_FREQUENT_FAULTS = {"empty": 0.05, "copy": 0.05, "repetition": 0.2, "script": 0.2, "variant": 0.2}
_AT_LEAST = 5
# Text is tokenized if this share of its lines looks so, and three times the share in the references: French has a
# space before `?`, and a test set may itself be tokenized.
_TOKENIZED_SHARE, _TOKENIZED_FACTOR = 0.2, 3.0
# The most frequent words, mostly articles, pronouns and prepositions, are a third of the words of many texts.
_FREQUENT_WORDS = 30
_LANGUAGE_FACTOR, _LEAST_LINES = 0.3, 20
_TOKENIZED = re.compile(
    r"\s[.,!?;:。，！？；：、](\s|$)"  # He said : yes .
    rf"|{PIECES.pattern}"
    rf"|[{HAN}] [{HAN}]"  # Chinese cut into words
)


def hypothesis_warnings(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], findings: Sequence[Finding]
) -> Iterator[str]:
    """Yield one sentence for each unusual property of the file `name`; the findings are those of its lines."""
    tokenized, usual = _share_tokenized(hypotheses), max(map(_share_tokenized, references))
    if tokenized >= _TOKENIZED_SHARE and tokenized >= _TOKENIZED_FACTOR * usual:
        yield (
            f"{name} looks tokenized: {tokenized:.0%} of its lines, but {usual:.0%} of the references' "
            "(spaces before punctuation or inside words); scores are meant for plain text, so detokenize it first"
        )
    count = Counter(finding.kind for finding in findings)
    own, common = _count_words(hypotheses), _count_words(line for lines in references for line in lines)
    frequent = [word for word, _ in common.most_common(_FREQUENT_WORDS)]
    share, usual = (sum(counts[word] for word in frequent) / max(1, counts.total()) for counts in (own, common))
    lines = sum(map(bool, hypotheses))
    if lines >= _LEAST_LINES and share < _LANGUAGE_FACTOR * usual and count["copy"] < lines / 2:
        yield (
            f"{name} looks like another language: {share:.0%} of its words are frequent words of the references, where "
            f"{usual:.0%} are"
        )
    if broken := sum("\ufffd" in line for line in hypotheses):
        yield f"{name} has {counted(broken, 'line')} with U+FFFD, which replaces bytes that are not UTF-8"
    if any(list(hypotheses) == list(lines) for lines in references):
        yield f"{name} is the reference, word for word"
    for kind, least in _FREQUENT_FAULTS.items():
        if count[kind] >= max(_AT_LEAST, least * len(hypotheses)):
            yield f"{name}: {count[kind] / len(hypotheses):.0%} of its lines have the fault {kind}: {KINDS[kind]}"


def table_warnings(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if the file `name` is a table: at least half of its lines have a tab."""
    if 2 * (tabs := sum("\t" in line for line in lines)) >= len(lines):
        yield f"{name}: {counted(tabs, 'line')} with tabs, as in a table; give one column: cut -f 2 FILE > NEWFILE"


def reference_warnings(name: str, references: Sequence[str], target: TargetLanguage) -> Iterator[str]:
    """Yield a sentence if many references in the file `name` are empty, or if they are in another language."""
    empty = sum(not line.strip() for line in references)
    if empty > 0.05 * len(references):
        yield f"{name}: {empty:,} of {counted(len(references), 'line')} {'is' if empty == 1 else 'are'} empty"
    detected = detect_language(references)
    if detected.tokenizer != target.tokenizer:
        yield f"target language given as {target.code}, but {name} {detected.looks}"


def _share_tokenized(lines: Sequence[str]) -> float:
    nonempty = [line for line in lines if line.strip()]
    return sum(_TOKENIZED.search(line) is not None for line in nonempty) / max(1, len(nonempty))


def _count_words(lines: Iterable[str]) -> Counter[str]:
    return Counter(word for line in lines for word in words(normalize(line).lower()))
