"""Placement of required phrases, protected items and glossary terms, in a translation, by its word alignment.

A term replaces the words that are aligned with its source words. Items are taken out of a line before it is translated;
each is inserted behind the word that is aligned with its left neighbour.

>>> line, phrases = cut_items("Open {0} now.")
>>> line
'Open now.'
>>> place("Apri ora.", phrases, line, [(0, 0), (1, 1)])
'Apri {0} ora.'
>>> place("Un bicchiere di vino.", [Phrase("vino rosso", 11, 15)], "A glass of wine.", [(0, 0), (1, 1), (2, 2), (3, 3)])
'Un bicchiere di vino rosso.'
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from nmt.decoding.alignment import Links
from nmt.text.protection import items
from nmt.text.segment import word_spans

_BRACKETS = {"'": "'", '"': '"', "(": ")", "[": "]", "“": "”", "‘": "’", "«": "»", "`": "`"}
_OPENING = ("", "(", "[", "“", "‘", "«")
_ELISION = re.compile(r"[^\W_]+['’](?=[^\W_])")
_FINAL = re.compile(r"[.!?…。！？]+[\"'”’»)]*$")
_AFTER_FINAL = re.compile(r"[.!?…。！？]\W*$")


class Phrase(NamedTuple):
    """A phrase that a translation must contain, and the span of the source that it translates, empty for an item."""

    text: str
    start: int
    end: int
    joined_left: bool = False  # whether the source has no space before it
    joined_right: bool = False  # whether a letter or digit follows it in the source

    @property
    def begins_with_vowel(self) -> bool:
        """Whether it may follow an elision such as `l'`."""
        return unicodedata.normalize("NFD", self.text)[:1].lower() in tuple("aeiouh")


def cut_items(line: str) -> tuple[str, list[Phrase]]:
    """Return a normalized line without its protected items and the brackets around them, and these as phrases."""
    rest, position, phrases = "", 0, list[Phrase]()
    for item in items(line):
        start, end = item.start, item.end
        while position < start and end < len(line) and _BRACKETS.get(line[start - 1]) == line[end]:
            start, end = start - 1, end + 1
        joined = start > 0 and not line[start - 1].isspace(), line[end : end + 1].isalnum()
        rest += line[position:start]
        phrases.append(Phrase(line[start:end], len(rest), len(rest), *joined))
        one_space = line[end : end + 1] == " " and rest[-1:] in ("", " ")
        position = end + one_space
    return (rest + line[position:]).rstrip(), phrases


def place(text: str, phrases: Sequence[Phrase], source: str, links: Links, spaced: bool = True, begin: int = 0) -> str:
    """Return a translation with phrases at their places, behind its first `begin` characters.

    The phrases are in the order of the source; links are between its words and those of the text. `spaced` tells
    whether the language has spaces between words.
    """
    edits: list[tuple[int, int, Phrase]] = []
    for phrase in phrases:
        start, end = max(begin, _insertion(text, phrase, source, links)), 0
        inside = {i for i, (a, b) in enumerate(word_spans(source)) if a < phrase.end and b > phrase.start}
        words = word_spans(text)
        if phrase.start < phrase.end and (run := best_run(len(words), links, inside)):
            first, last = bare(text, *words[run[0]])[0], bare(text, *words[run[1]])[1]
            elision = _ELISION.match(text, first, last) if phrase.begins_with_vowel else None
            first = elision.end() if elision else first
            if first >= begin:
                start, end = first, last
                links = [(i, j) for i, j in links if not run[0] <= j <= run[1]]
        start = max([start, *(b for a, b, _ in edits if a < start < b)])
        edits.append((start, max(start, end), phrase))
    placed, position = "", 0
    for start, end, phrase in sorted(edits, key=lambda edit: edit[:2]):
        placed += text[position:start]
        if spaced and start == end:
            joined = phrase.joined_left and not placed[-1:].isalnum()
            placed += "" if joined or placed[-1:].isspace() or placed[-1:] in _OPENING else " "
        placed += phrase.text
        if spaced and text[end : end + 1].isalnum() and not phrase.joined_right:
            placed += " "
        position = end
    return placed + text[position:]


def _insertion(text: str, phrase: Phrase, source: str, links: Links) -> int:
    """Return where to insert a phrase: at the word aligned with its neighbour, and before the final punctuation."""
    source_words, words = word_spans(source), word_spans(text)
    lettered = [i for i, (a, b) in enumerate(source_words) if any(map(str.isalnum, source[a:b]))]
    left = [i for i in lettered if source_words[i][0] < phrase.start][::-1]
    right = [i for i in lettered if source_words[i][0] >= phrase.end]
    after = next((max(j for i, j in links if i == word) for word in left if any(i == word for i, _ in links)), None)
    before = next((min(j for i, j in links if i == word) for word in right if any(i == word for i, _ in links)), None)
    if before is not None and (after is None or (phrase.joined_right and not phrase.joined_left)):
        return words[before][0]
    if after is None:
        position = len(text) if left else 0
    else:
        follows_letter = source[: phrase.start].rstrip()[-1:].isalnum()
        position = bare(text, *words[after])[1] if follows_letter else words[after][1]
    final = _FINAL.search(text)
    if final and position > final.start() and not _AFTER_FINAL.search(source[: phrase.start]):
        return final.start()
    return position


def best_run(count: int, links: Links, inside: set[int]) -> tuple[int, int] | None:
    """Return the first and last target word of the run with most links to the words inside and fewest to others.

    It is the run with the greatest sum (Kadane), where a link inside counts 1 and another one -1; None if no sum is
    positive.
    """
    gain = [0] * count
    for i, j in links:
        if j < count:
            gain[j] += 1 if i in inside else -1
    best, run, total, first = 0, None, 0, 0
    for j in range(count):
        if total <= 0:
            total, first = 0, j
        total += gain[j]
        if total > best:
            best, run = total, (first, j)
    return run


def bare(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a word without the punctuation around it; all of it if there is nothing else."""
    letters = [position for position in range(start, end) if text[position].isalnum()]
    return (letters[0], letters[-1] + 1) if letters else (start, end)
