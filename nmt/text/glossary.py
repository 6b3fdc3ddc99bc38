"""Glossaries: source terms with required translations, as tab-separated lines.

>>> glossary = Glossary.read(Path("terms.tsv"))  # download<TAB>scaricare, and US<TAB>Stati Uniti
>>> glossary.matches("Download it for us.")
[Term(text='scaricare', start=0, end=8)]

A term matches whole words of a line; the longest term has priority, and matches do not overlap. Words are runs of
letters and digits; each character of Chinese, Japanese, Thai, Lao, Tibetan, Burmese and Khmer is one. The first letter
of a word of a term also matches its capital ("Download"), every other letter only itself, so that us is not US.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.errors import DataError
from nmt.system.console import counted
from nmt.system.files import json_digest
from nmt.text.items import ITEM
from nmt.text.languages import MARKS, UNSPACED_WORD, WORD_LETTER
from nmt.text.normalize import normalize
from nmt.text.readers.opening import read_lines

_WORD = re.compile(rf"{UNSPACED_WORD}|{WORD_LETTER}+|[^\w\s]")

_LONGEST = 200  # characters of a term


def _words(text: str) -> tuple[str, ...]:
    """Return words, in which both apostrophes are the same."""
    return tuple(_WORD.findall(text.replace("’", "'")))


class Term(NamedTuple):
    """A required translation, and the span of the source that it translates."""

    text: str
    start: int
    end: int


class Glossary:
    """Target terms by source term."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Take terms with their translations. Raises DataError for one that is empty, has U+FFFC or is too long."""
        for source, target in terms.items():
            _check_term("glossary", source, target)
        self.terms = {normalize(source): normalize(target) for source, target in terms.items()}
        self._by_words = {_words(source): target for source, target in self.terms.items()}
        self._lengths = sorted({*map(len, self._by_words)} - {0}, reverse=True)

    def fingerprint(self) -> str:
        """Return the number of terms and a digest of them."""
        return f"{len(self.terms)} terms, SHA-256 {json_digest(sorted(self.terms.items()))}"

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Read a file, also a compressed one; blank lines are ignored.

        Raises DataError, with file and line, unless a line has two columns, and for an empty, repeated or invalid term.
        """
        terms: dict[str, str] = {}
        seen: dict[tuple[str, ...], int] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip():
                continue
            source, *targets = line.split("\t")
            if len(targets) != 1:
                columns = counted(1 + len(targets), "column")
                found = f"found {columns}, expected the source term, one tab, the target term"
                raise DataError(f"{path}:{number}: {found}: {line[:60]!r}; correct the line, or remove it")
            _check_term(f"{path}:{number}", source, targets[0])
            words = _words(normalize(source))
            if words in seen:
                problem = f"'{source}' is on line {seen[words]} already"
                raise DataError(f"{path}:{number}: {problem}; keep one of the lines, since a term has one translation")
            seen[words] = number
            terms[source] = targets[0]
        if not terms:
            raise DataError(f"{path}: there are no terms in it; write one a line: source term, tab, target term")
        return cls(terms)

    def matches(self, line: str) -> list[Term]:
        """Return the target terms that the translation of a line must contain, one for each match, in order."""
        matched_words = list(_WORD.finditer(line))
        words, matches, start = _words(line), list[Term](), 0
        while start < len(words):
            for end in (start + length for length in self._lengths if start + length <= len(words)):
                exact = words[start:end]
                small = tuple(word[0].lower() + word[1:] for word in exact)
                target = self._by_words.get(exact) or self._by_words.get(small)
                if target:
                    matches.append(Term(target, matched_words[start].start(), matched_words[end - 1].end()))
                    start = end - 1
                    break
            start += 1
        return matches


def _check_term(place: str, source: str, target: str) -> None:
    """Raise DataError for a term or a translation that is empty, contains the character `ITEM` or is very long.

    Very long terms are probably mistakes, and a search for them takes time.
    """
    are_texts = isinstance(source, str) and isinstance(target, str)
    if not are_texts or not _WORD.search(normalize(source)) or not normalize(target):
        raise DataError(f"{place}: {source!r}: {target!r}: expected a term and its translation, not empty")
    for term in (source, target):
        if len(term) > _LONGEST:
            problem = f"found {len(term):,} characters in {term[:60]!r}"
            raise DataError(f"{place}: {problem}, expected at most {_LONGEST} a term; shorten it, or remove it")
        if ITEM in term:
            problem = f"found U+FFFC, which stands for an object such as an image, in {term[:60]!r}"
            raise DataError(f"{place}: {problem}; remove this character")


def missing_terms(terms: Sequence[Term], text: str) -> list[Term]:
    """Return the terms that a text lacks as whole words; if it has some of several equal terms, the last ones.

    >>> missing_terms([Term("gatto", 4, 7), Term("cane", 12, 15)], "gattone e cane")
    [Term(text='gatto', start=4, end=7)]
    """
    counts = Counter({term.text: len(whole_word(term.text).findall(text)) for term in terms})
    lacking = []
    for term in terms:
        counts[term.text] -= 1
        if counts[term.text] < 0:
            lacking.append(term)
    return lacking


def whole_word(term: str) -> re.Pattern[str]:
    """Return a pattern that matches a term, except inside a longer word of a script with spaces, and before a mark."""
    before = rf"(?<!{WORD_LETTER})" if re.match(WORD_LETTER, term) else ""
    after = rf"(?!{WORD_LETTER})" if re.match(WORD_LETTER, term[-1]) else f"(?![{MARKS}])"
    return re.compile(before + re.escape(term) + after)
