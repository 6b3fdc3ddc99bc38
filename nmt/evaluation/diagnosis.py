"""What makes a score doubtful before anyone looks at its value: empty lines, tokenized text, copies."""

import re
from collections.abc import Iterator, Sequence

from nmt.text.languages import HAN

_EMPTY_SHARE = 0.05
_COPIED_SHARE = 0.5
_TOKENIZED_SHARE = 0.2
"""Text counts as tokenized if so many of its lines look it, and three times as many as in the references:
French puts a space before `?`, and a test set may itself be tokenized."""
_TOKENIZED_FACTOR = 3.0

_TOKENIZED = re.compile(
    r"\s[.,!?;:。，！？；：、](\s|$)"  # He said : yes .
    r"|@@ |▁"  # pieces of byte-pair encoding, of SentencePiece
    rf"|[{HAN}] [{HAN}]"  # Chinese cut into words
)


def doubts_about_hypotheses(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], source: Sequence[str] | None
) -> Iterator[str]:
    """Yield what is suspicious about the file `name`, one sentence each."""
    yield from doubts_about_empty(name, hypotheses)
    tokenized, usual = _share_tokenized(hypotheses), max(map(_share_tokenized, references))
    if tokenized >= _TOKENIZED_SHARE and tokenized >= _TOKENIZED_FACTOR * usual:
        yield (
            f"{name} looks tokenized: {tokenized:.0%} of its lines, but {usual:.0%} of the references' "
            "(spaces before punctuation or inside words); scores are meant for plain text, so detokenize it first"
        )
    broken = sum("\ufffd" in line for line in hypotheses)
    if broken:
        yield f"{name} has {broken} lines with U+FFFD, the sign for bytes that were not UTF-8"
    copied = _share_equal(hypotheses, source) if source is not None else 0.0
    if copied >= _COPIED_SHARE:
        yield f"{name}: {copied:.0%} of its lines are the source, untranslated"
    if any(_share_equal(hypotheses, lines) == 1.0 for lines in references):
        yield f"{name} is the reference, word for word"


def doubts_about_empty(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if too many lines of the file `name` hold nothing."""
    empty = sum(not line.strip() for line in lines)
    if empty > _EMPTY_SHARE * len(lines):
        yield f"{name}: {empty} of {len(lines)} lines are empty"


def _share_tokenized(lines: Sequence[str]) -> float:
    filled = [line for line in lines if line.strip()]
    return sum(_TOKENIZED.search(line) is not None for line in filled) / max(1, len(filled))


def _share_equal(lines: Sequence[str], others: Sequence[str]) -> float:
    return sum(line.strip() == other.strip() for line, other in zip(lines, others, strict=True)) / len(lines)
