"""Cut a line that is too long for the model into pieces, and put their translations together.

>>> pieces = split_line("It rained. We stayed at home, of course.", limit=5, count=lambda text: len(text.split()))
>>> pieces
['It rained. ', 'We stayed at home, ', 'of course.']
>>> join_pieces(pieces, ["Pioveva.", "Siamo rimasti a casa,", "ovviamente."])
'Pioveva. Siamo rimasti a casa, ovviamente.'
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from nmt.text.languages import UNSPACED_TEXT

Count = Callable[[str], int]

_CLOSING = "[\"'”’»)\\]）】」』》〉]"
# possessive, and only at the start of a run, so that 100,000 full stops take no longer than 100,000 letters
_SENTENCE_END = re.compile(rf"[。！？｡]++{_CLOSING}*+\s*+|(?<![.!?…؟।])[.!?…؟।]++{_CLOSING}*+\s++")
_CLAUSE_END = re.compile(rf"[，；：、]++{_CLOSING}*+\s*+|(?<![,;:–—…،؛])[,;:–—…،؛]++{_CLOSING}*+\s++|—++")
_SPACE = re.compile(r"\s++")
_ABBREVIATION = re.compile(r"(?<!\w)[A-Z][a-z]{0,2}\.\s*\Z")
_UNSPACED = re.compile(f"[{UNSPACED_TEXT}]")
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
_LONGEST_CLUSTER = 16


def split_line(text: str, limit: int, count: Count) -> list[str]:
    """Return pieces of at most `limit` tokens, as `count` counts them; joined they are the text, to the character.

    A text that fits stays whole. Else each sentence is a piece. A sentence that does not fit is cut after commas and
    their like into pieces as long as may be; what still does not fit, at spaces; and if there are none, anywhere.
    """
    if count(text) <= limit:
        return [text]
    return [piece for sentence in _sentences(text) for piece in _shorten(sentence, limit, count)]


def join_pieces(pieces: Sequence[str], translations: Sequence[str]) -> str:
    """Join translations with the spacing that their pieces had; next to a Chinese or Japanese character there is none.

    A piece that ends in 。 or its like needs no space, but its translation into a language with spaces does.
    """
    joined: list[str] = []
    spaced = False
    for piece, translation in zip(pieces, translations, strict=True):
        if translation:
            if joined and spaced and not (_UNSPACED.match(joined[-1][-1]) or _UNSPACED.match(translation[0])):
                joined.append(" ")
            joined.append(translation)
            spaced = False
        bare = piece.rstrip()
        spaced = spaced or bare != piece or bool(re.search(rf"[。！？｡，；：、]{_CLOSING}*$", bare[-_LONGEST_CLUSTER:]))
    return "".join(joined)


def _sentences(text: str) -> list[str]:
    """Cut after each sentence; `Mr. Smith` and `J. S. Bach` are not two, nor is a stop before a small letter an end."""
    ends = []
    for match in _SENTENCE_END.finditer(text):
        abbreviated = _ABBREVIATION.search(text, max(0, match.start() - 3), match.end())
        goes_on = text[match.end() : match.end() + 1].islower()
        if not abbreviated and not goes_on:
            ends.append(match.end())
    return _cut_at(text, ends)


def _shorten(sentence: str, limit: int, count: Count) -> Iterator[str]:
    """Yield the sentence if it fits, else clauses, else words, packed as full as may be, else halves."""
    for clauses in _packed(sentence, _CLAUSE_END, limit, count):
        for words in _packed(clauses, _SPACE, limit, count):
            yield from _halves(words, limit, count)


def _packed(text: str, boundary: re.Pattern[str], limit: int, count: Count) -> Iterator[str]:
    """Yield runs of parts that end at a boundary, each run within the limit if its first part is."""
    if count(text) <= limit:
        yield text
        return
    run: list[str] = []
    room = limit
    for part in _cut_at(text, [match.end() for match in boundary.finditer(text)]):
        size = count(part)
        if run and size > room:
            yield "".join(run)
            run, room = [], limit
        run.append(part)
        room -= size
    yield "".join(run)


def _halves(text: str, limit: int, count: Count) -> Iterator[str]:
    """Yield the text if it fits, else its halves, if possible not cut between a letter and its accents."""
    if len(text) < 2 or count(text) <= limit:
        yield text
        return
    middle = len(text) // 2
    near = range(middle, min(middle + _LONGEST_CLUSTER, len(text)))
    cut = next((place for place in near if not _clings(text, place)), middle)
    yield from _halves(text[:cut], limit, count)
    yield from _halves(text[cut:], limit, count)


def _clings(text: str, place: int) -> bool:
    """Whether the character at `place` belongs to the one before it."""
    return bool(unicodedata.combining(text[place])) or text[place] in _JOINERS or text[place - 1] == "\u200d"


def _cut_at(text: str, ends: Sequence[int]) -> list[str]:
    places = [0, *(end for end in ends if end < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(places)]
