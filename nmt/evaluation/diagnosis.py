"""Warnings about texts whose score means little: empty lines, tokenized text, copies, another language."""

import re
from collections.abc import Iterator, Sequence

from nmt.evaluation.word_counts import count_words
from nmt.system.console import counted
from nmt.text.languages import HAN, TargetLanguage, detect_language

_EMPTY_SHARE = 0.05
_COPIED_SHARE = 0.05
_TOKENIZED_SHARE = 0.2
"""Text is reported as tokenized if this share of its lines looks so, and three times the share in the references:
French has a space before `?`, and a test set may itself be tokenized."""
_TOKENIZED_FACTOR = 3.0

_FREQUENT = 30
"""The most frequent words, mostly articles, pronouns and prepositions, are a third of the words of many texts."""
_LANGUAGE_FACTOR = 0.3
_LEAST_LINES = 20

_TOKENIZED = re.compile(
    r"\s[.,!?;:。，！？；：、](\s|$)"  # He said : yes .
    r"|@@ |▁"  # pieces of byte-pair encoding, of SentencePiece
    rf"|[{HAN}] [{HAN}]"  # Chinese cut into words
)


def hypothesis_warnings(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], source: Sequence[str] | None
) -> Iterator[str]:
    """Yield one sentence for each unusual property of the file `name`."""
    yield from empty_line_warnings(name, hypotheses)
    tokenized, usual = _share_tokenized(hypotheses), max(map(_share_tokenized, references))
    if tokenized >= _TOKENIZED_SHARE and tokenized >= _TOKENIZED_FACTOR * usual:
        yield (
            f"{name} looks tokenized: {tokenized:.0%} of its lines, but {usual:.0%} of the references' "
            "(spaces before punctuation or inside words); scores are meant for plain text, so detokenize it first"
        )
    copied = 0.0 if source is None else _share_copied(hypotheses, references, source)
    share, usual = _share_frequent(hypotheses, references)
    if copied < 0.5 and len(hypotheses) >= _LEAST_LINES and share < _LANGUAGE_FACTOR * usual:
        yield (
            f"{name} looks like another language: {share:.0%} of its words are frequent words of the references, where "
            f"{usual:.0%} are"
        )
    broken = sum("\ufffd" in line for line in hypotheses)
    if broken:
        yield f"{name} has {counted(broken, 'line')} with U+FFFD, which replaces bytes that are not UTF-8"
    if copied >= _COPIED_SHARE:
        yield f"{name}: {copied:.0%} of its lines are the source, untranslated"
    if list(map(str.strip, hypotheses)) in [list(map(str.strip, lines)) for lines in references]:
        yield f"{name} is the reference, word for word"


def language_warnings(name: str, references: Sequence[str], target: TargetLanguage) -> Iterator[str]:
    """Yield a sentence if the references in the file `name` are in another language than the target language."""
    detected = detect_language(references)
    if detected.tokenizer != target.tokenizer:
        yield f"target language given as {target.code}, but {name} {detected.looks}"


def empty_line_warnings(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if too many lines of the file `name` are empty."""
    empty = sum(not line.strip() for line in lines)
    if empty > _EMPTY_SHARE * len(lines):
        yield f"{name}: {empty:,} of {counted(len(lines), 'line')} {'is' if empty == 1 else 'are'} empty"


def _share_tokenized(lines: Sequence[str]) -> float:
    nonempty = [line for line in lines if line.strip()]
    return sum(_TOKENIZED.search(line) is not None for line in nonempty) / max(1, len(nonempty))


def _share_copied(hypotheses: Sequence[str], references: Sequence[Sequence[str]], source: Sequence[str]) -> float:
    """Return the share of lines that equal their source, which no reference does."""
    rows = zip(hypotheses, source, *references, strict=True)
    copies: int = sum(line.strip() == given.strip() not in map(str.strip, others) for line, given, *others in rows)
    return copies / len(hypotheses)


def _share_frequent(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Return the shares of the references' most frequent words in the words of the hypotheses and of the references."""
    own, usual = count_words(hypotheses), count_words(line for lines in references for line in lines)
    frequent = [word for word, _ in usual.most_common(_FREQUENT)]
    own_share, share = (sum(counts[word] for word in frequent) / max(1, counts.total()) for counts in (own, usual))
    return (own_share, share) if own else (share, share)
