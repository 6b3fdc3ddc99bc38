"""Terms and how they must be translated: tab-separated lines, source term and target term, used to the letter.

>>> glossary = Glossary.read(Path("terms.tsv"))  # download<TAB>scaricare, and US<TAB>Stati Uniti
>>> glossary.targets("Download it for us.")
['scaricare']

A term is found where its words stand whole in a line, the longest term first, terms never within each other. Words are
runs of letters and digits; of Chinese and Japanese, each character is one. Exact case goes first; a term without
capitals is also found with other capitals ("Download"), a term with capitals only as it stands, so that US is not us.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from nmt.errors import DataError
from nmt.text.corpus import read_lines
from nmt.text.languages import UNSPACED
from nmt.text.normalize import normalize

_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")

Words = tuple[str, ...]


class Glossary:
    """Target terms by source term."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        self.terms = {normalize(source): normalize(target) for source, target in terms.items()}
        self._by_words = {tuple(_WORD.findall(source)): target for source, target in self.terms.items()}

    def __repr__(self) -> str:
        digest = hashlib.sha256(repr(sorted(self.terms.items())).encode()).hexdigest()
        return f"Glossary of {len(self.terms)} terms, {digest[:16]}"

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Read a file, plain or gzip; blank lines count for nothing.

        Raises DataError with file and line: not two columns, an empty term, a term that is there already.
        """
        terms: dict[str, str] = {}
        seen: dict[Words, int] = {}
        for number, line in enumerate(read_lines(path), start=1):
            if not line.strip():
                continue
            columns = [normalize(column) for column in line.split("\t")]
            if len(columns) != 2:
                raise DataError(
                    f"{path}:{number}: found {len(columns)} column{'s' * (len(columns) > 1)}, expected 2: the source "
                    f"term, one tab, the target term: {line[:60]!r}"
                )
            source, target = columns
            words = tuple(_WORD.findall(source))
            if not words or not target:
                side = "target" if words else "source"
                raise DataError(f"{path}:{number}: the {side} term is empty; write both, or remove the line")
            if words in seen:
                raise DataError(
                    f"{path}:{number}: '{source}' is on line {seen[words]} already; keep one of the lines, for a term "
                    "has one translation"
                )
            seen[words] = number
            terms[source] = target
        if not terms:
            raise DataError(f"{path}: there are no terms in it; write one a line: source term, tab, target term")
        return cls(terms)

    def targets(self, line: str, outside: Sequence[tuple[int, int]] = ()) -> list[str]:
        """Return the target terms that the translation of a line must hold, in order, one for each place.

        Nothing is looked for in the spans `outside`, (start, end).
        """
        words = [
            found[0]
            for found in _WORD.finditer(line)
            if not any(start <= found.start() < end for start, end in outside)
        ]
        targets, place = [], 0
        while place < len(words):
            size = next((size for size in range(self._longest, 0, -1) if self._term(words, place, size)), 0)
            if size:
                targets.append(self._term(words, place, size))
            place += size or 1
        return targets

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_words), default=0)

    def _term(self, words: Sequence[str], place: int, size: int) -> str:
        """Return the target of the term that is these words, "" if it is none."""
        exact = tuple(words[place : place + size])
        return self._by_words.get(exact) or self._by_words.get(tuple(word.lower() for word in exact), "")


def missing_terms(targets: Sequence[str], text: str) -> list[str]:
    """Return the terms that a text holds less often than they are asked for, as whole words where there are spaces.

    >>> missing_terms(["gatto", "cane"], "gattone e cane")
    ['gatto']
    """
    return [
        target for target, count in Counter(targets).items() for _ in range(count - len(_whole(target).findall(text)))
    ]


def _whole(term: str) -> re.Pattern[str]:
    """Match a term where it does not run on into a word of a script with spaces."""
    letter = rf"[^\W{UNSPACED}]"
    before = rf"(?<!{letter})" if re.match(letter, term) else ""
    after = rf"(?!{letter})" if re.match(letter, term[-1]) else ""
    return re.compile(before + re.escape(term) + after)
