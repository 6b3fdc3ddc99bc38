"""The words of a sentence, as alignments and scores count them, and links between them.

>>> words("我喜欢 New York。")
['我', '喜', '欢', 'New', 'York', '。']
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from nmt.text.languages import FURTHER_UNSPACED, UNSPACED_TEXT, UNSPACED_WORD
from nmt.text.normalize import normalize

# Indices of a source word and of a target word, from 0, in the order of the target.
Links = list[tuple[int, int]]

_WORD = re.compile(rf"{UNSPACED_WORD}|[^\s{UNSPACED_TEXT}{FURTHER_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Return the words of a normalized sentence: the text between spaces, with adjacent punctuation.

    Chinese, Japanese, Thai, Lao, Tibetan, Burmese and Khmer are written without spaces between words, so each of their
    characters and punctuation marks is a word, with its marks, whatever the language of the sentence.
    """
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each of the words of a text.

    >>> word_spans("Hi, 我们")
    [(0, 3), (4, 5), (5, 6)]
    """
    return [match.span() for match in _WORD.finditer(text)]


def linked_spans(source: str, text: str, links: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Return for each link the start and end of the source word and of the word of the text.

    Words that `normalize` removes are not counted, as in alignments.

    >>> linked_spans("\u200b Hi, Tom", "Ciao, Tom", [(0, 0), (1, 1)])
    [(2, 5, 0, 5), (6, 9, 6, 9)]
    """
    spans = [[span for span in word_spans(side) if normalize(side[slice(*span)])] for side in (source, text)]
    return [(*spans[0][i], *spans[1][j]) for i, j in links if i < len(spans[0]) and j < len(spans[1])]


def joined_links(segments: Sequence[tuple[str, str, Links]], source: str, text: str) -> Links:
    """Return the links of a line from those of its segments: source, translation, and the links between them.

    Two segments may share a word of the line: words correspond by their characters, without spaces.

    >>> joined_links([("A (b", "A (b", [(1, 1)]), (")", ")", [(0, 0)]), ("c", "c", [(0, 0)])], "A (b) c", "A (b) c")
    [(1, 1), (2, 2)]
    """
    ends = [list(accumulate(map(len, words(normalize(side))))) for side in (source, text)]
    joined, offsets = dict[tuple[int, int], None](), [0, 0]
    for part, translation, links in segments:
        sides = zip((part, translation), offsets, strict=True)
        starts = [list(accumulate(map(len, words(normalize(side))), initial=offset)) for side, offset in sides]
        joined |= dict.fromkeys(
            (bisect_right(ends[0], starts[0][i]), bisect_right(ends[1], starts[1][j])) for i, j in links
        )
        offsets = [side[-1] for side in starts]
    return list(joined)


def pharaoh(links: Links) -> str:
    """Return links in the Pharaoh format.

    >>> pharaoh([(0, 0), (2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{i}-{j}" for i, j in links)


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
        words = [word for word in owners[begin : begin + len(piece)] if word >= 0] or [0, -1]
        ranges.append(range(words[0], words[-1] + 1))
        begin += len(piece)
    return count, ranges


def is_punctuation(piece: bytes) -> bool:
    """Whether a piece, in UTF-8, consists of punctuation, perhaps with spaces.

    >>> is_punctuation(b"?"), is_punctuation(b" l'"), is_punctuation(b" ")
    (True, False, False)
    """
    categories = {unicodedata.category(character)[0] for character in piece.decode("utf-8", "surrogateescape")}
    return "P" in categories and categories <= {"P", "Z"}


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
