"""Segments of a line that is too long for the model, its sentences, and its words as alignments and scores count them.

>>> segments = split_line("It rained. We stayed at home, of course.", limit=5, count=lambda text: len(text.split()))
>>> segments
['It rained. ', 'We stayed at home, ', 'of course.']
>>> join_segments(segments, ["Pioveva.", "Siamo rimasti a casa,", "ovviamente."])
'Pioveva. Siamo rimasti a casa, ovviamente.'
>>> words("我喜欢 New York。")
['我', '喜', '欢', 'New', 'York', '。']
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from nmt.text.languages import UNSPACED_TEXT
from nmt.text.normalize import normalize

Count = Callable[[str], int]

_CLOSING = "[\"'”’»)\\]）】」』》〉]"
# possessive, and only at the start of a run, so that 100,000 full stops take linear time
_SENTENCE_END = re.compile(rf"[。！？｡]++{_CLOSING}*+\s*+|(?<![.!?…؟।])[.!?…؟।]++{_CLOSING}*+\s++")
_CLAUSE_END = re.compile(rf"[，；：、]++{_CLOSING}*+\s*+|(?<![,;:–—…،؛])[,;:–—…،؛]++{_CLOSING}*+\s++|—++")
_SPACE = re.compile(r"\s++")
_ABBREVIATION = re.compile(r"(?<!\w)[A-Z][a-z]{0,2}\.\s*\Z")
_UNSPACED = re.compile(f"[{UNSPACED_TEXT}]")
_MARK = "[\u0300-\u036f\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_WORD = re.compile(rf"[{UNSPACED_TEXT}]{_MARK}*|[^\s{UNSPACED_TEXT}]+")


def split_line(text: str, limit: int, count: Count) -> list[str]:
    """Return segments of at most `limit` tokens, counted by `count`; their concatenation is the text.

    A text within the limit is one segment; otherwise each sentence is one. A longer sentence is halved after a comma or
    a similar mark, a longer clause at a space, a longer word anywhere.
    """
    if count(text) <= limit:
        return [text]
    return [segment for sentence in sentences(text) for segment in _shorten(sentence, limit, count)]


def join_segments(segments: Sequence[str], translations: Sequence[str]) -> str:
    """Join translations with the spaces that were between the segments; none next to a Chinese or Japanese character.

    A segment that ends in 。 or a similar mark has no space after it, but its translation into Italian needs one.
    """
    joined: list[str] = []
    spaced = False
    for segment, translation in zip(segments, translations, strict=True):
        if translation:
            if joined and spaced and not (_UNSPACED.match(joined[-1][-1]) or _UNSPACED.match(translation[0])):
                joined.append(" ")
            joined.append(translation)
            spaced = False
        bare = segment.rstrip()
        spaced = spaced or bare != segment or bool(re.search(rf"[。！？｡，；：、]{_CLOSING}*$", bare[-16:]))
    return "".join(joined)


def sentences(text: str) -> list[str]:
    """Split after each sentence: not after `Mr.` or the `J.` of `J. S. Bach`, and not before a lower-case letter."""
    ends = []
    for match in _SENTENCE_END.finditer(text):
        abbreviated = _ABBREVIATION.search(text, max(0, match.start() - 3), match.end())
        continued = text[match.end() : match.end() + 1].islower()
        if not abbreviated and not continued:
            ends.append(match.end())
    boundaries = [0, *(end for end in ends if end < len(text)), len(text)]
    return [text[start:end] for start, end in pairwise(boundaries)]


def _shorten(text: str, limit: int, count: Count) -> Iterator[str]:
    """Yield the text if it fits, otherwise its halves, and theirs: halves leave no segment of a word or two.

    They are divided at the clause end nearest to the middle; without one at the space nearest to it, or anywhere.
    """
    if len(text) < 2 or count(text) <= limit:
        yield text
        return
    middle = len(text) // 2
    for boundary in (_CLAUSE_END, _SPACE):
        if ends := [match.end() for match in boundary.finditer(text) if match.end() < len(text)]:
            middle = min(ends, key=lambda end: abs(2 * end - len(text)))
            break
    for half in (text[:middle], text[middle:]):
        yield from _shorten(half, limit, count)


def words(text: str) -> list[str]:
    """Return the words of a normalized sentence: the text between spaces, with adjacent punctuation.

    Chinese and Japanese are written without spaces, so each of their characters and punctuation marks is a word,
    whatever the language of the sentence.
    """
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each of the words of a text.

    >>> word_spans("Hi, 我们")
    [(0, 3), (4, 5), (5, 6)]
    """
    return [found.span() for found in _WORD.finditer(text)]


def words_of_pieces(pieces: Sequence[bytes]) -> tuple[int, list[range]]:
    """Return the number of words in the concatenation of pieces, and the range of words that each piece overlaps.

    Pieces are UTF-8, and may end inside a character. The words are those of the normalized sentence.

    >>> words_of_pieces([b" Hel", b"lo", b" ", b" wor", b"ld!"])
    (2, [range(0, 1), range(0, 1), range(0, 0), range(1, 2), range(1, 2)])
    """
    text = b"".join(pieces).decode("utf-8", "surrogateescape")
    owners: list[int] = []  # the word of each byte, -1 between words
    count = position = 0
    for match in _WORD.finditer(text):
        if not normalize(match[0]):
            continue  # invisible
        owners += [-1] * _size(text[position : match.start()]) + [count] * _size(match[0])
        count, position = count + 1, match.end()
    owners += [-1] * _size(text[position:])
    ranges, begin = [], 0
    for piece in pieces:
        own = [word for word in owners[begin : begin + len(piece)] if word >= 0] or [0, -1]
        ranges.append(range(own[0], own[-1] + 1))
        begin += len(piece)
    return count, ranges


def is_punctuation(piece: bytes) -> bool:
    """Whether a piece, in UTF-8, has punctuation and no letter, digit, symbol or part of a character.

    >>> is_punctuation(b"?"), is_punctuation(b" l'"), is_punctuation(b" ")
    (True, False, False)
    """
    categories = {unicodedata.category(character)[0] for character in piece.decode("utf-8", "surrogateescape")}
    return "P" in categories and categories <= {"P", "Z"}


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
