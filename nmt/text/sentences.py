"""The sentences of a line, in parts that are short enough for the model.

>>> from nmt.text.items import read
>>> line = read("I know <b>Tom</b>. See www.b.org, of course.<br>Good!")
>>> [str(unit) for unit in units(line, limit=4, count=lambda text: len(text.split()), language="en")]
['I know <b>Tom</b>. ', 'See ', 'www.b.org, of course.', '<br>Good!']
"""

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import accumulate

import sentencex

from nmt.text.items import ITEM, Line, pairs_of
from nmt.text.languages import HAN, MARKS, UNSPACED, primary_code

Count = Callable[[str], int]

_CLOSING = "[\"'”’»)\\]）】」』》〉]"
# possessive, and only at the start of a run, so that 100,000 commas take linear time
_CLAUSE_END = re.compile(rf"[，；：、]++{_CLOSING}*+\s*+|(?<![,;:–—…،؛])[,;:–—…،؛]++{_CLOSING}*+\s++|—++")
_SPACE = re.compile(r"\s++")
# Items that belong to the word before them: they divide no sentence.
_OF_WORD = re.compile(r"[®™†‡\ufe0f]+|\[\^\w+\]|<(?:wbr|r[tp])\b.*|&(?:reg|trade|shy);", re.DOTALL | re.IGNORECASE)
_MOST_MARKS = 8  # on a letter
_IN_WORD = re.compile(rf"(?<=[^\W{UNSPACED}])(?=[.,]?[^\W{UNSPACED}])|(?<=\d[.,])(?=\d)")
# such as the day of a month, in many languages, or `т. е.`; a small letter behind it begins no sentence
_ORDINAL_OR_LETTER = re.compile(r"\b(?:\d{1,4}|[^\W\d_])\.\s*\Z")
# Ends that the splitter lacks, and places that are none: in ３.６, before a mark, in 是.NET, `a .NET`, ；2.配置.
_FURTHER_END = re.compile(r"(?<=[។៕] )|(?<=[。！？｡])(?=[a-z0-9])")
_NO_END = re.compile(
    rf"(?<=\d[.．])(?=\d)|(?=[，、；：。！？）】」』》〉,;:)\]])|(?<=[{HAN}]\.)(?=[A-Z]{{2}})"
    rf"|(?<=\.)(?<![^\s，、；：,;:（(“‘「]\.)(?=[^\W{UNSPACED}])|(?<=\W\d[.．])(?=[{UNSPACED}])"
)
# Blocks of at most 5,000 characters, since the splitter takes quadratic time for quotes.
_BLOCK = re.compile(r".{1,5000}(?:\s+|\Z)|.{1,5000}", re.DOTALL)


def units(line: Line, limit: int, count: Count, language: str) -> list[Line]:
    """Return the parts of a line that are translated one by one; their concatenation is the line.

    Units are the texts between items in a sentence; inside a unit are only items of words, such as `®`, and pairs that
    contain nothing but text, pairs and such items. A unit of more than `limit` tokens, by `count` and without items, is
    halved after a comma or a similar mark, without one at a space, a word anywhere.
    """
    parts = list[Line]()
    for sentence in line.cut(_sentence_ends(line, language)):
        for part in sentence.cut(_boundaries(sentence)):
            parts += part.cut(list(accumulate(map(len, _shorten(part.text, limit, count))))[:-1])
    return [unit for unit in parts if unit.text]


def _sentence_ends(line: Line, language: str) -> list[int]:
    """Return the places between the sentences of a line; a closing item at the end of a sentence is a part of it."""
    ends = list(accumulate(map(len, sentences(line.text, language))))
    if line.items:
        marks = zip(re.finditer(ITEM, line.text), line.items, strict=True)
        closings = {match.start() for match, item in marks if item.role == "closing"}
        for index, end in enumerate(ends):
            while end in closings:
                end += 1
            ends[index] = end
    return sorted({*ends} - {len(line.text)})


def _boundaries(sentence: Line) -> list[int]:
    """Return the places of single items, except those of words, and of pairs that contain one or are empty."""
    if not sentence.items:
        return []
    pairs = pairs_of(sentence.items)
    of_words = {index for index, item in enumerate(sentence.items) if _OF_WORD.fullmatch(item.text)}
    single = sorted({*range(len(sentence.items))} - {*pairs, *pairs.values(), *of_words})
    places = [match.start() for match in re.finditer(ITEM, sentence.text)]
    for opening, closing in pairs.items():
        next_single = bisect_left(single, opening)
        is_empty = places[closing] == places[opening] + 1
        if is_empty or (next_single < len(single) and single[next_single] < closing):
            insort(single, opening)
            insort(single, closing)
    return [places[index] for index in single]


def sentences(text: str, language: str) -> list[str]:
    """Split after each sentence, by the rules of a language.

    >>> sentences("I know Tom. Mr. Smith met J. S. Bach, e.g. in Leipzig. Really?", "en")
    ['I know Tom. ', 'Mr. Smith met J. S. Bach, e.g. in Leipzig. ', 'Really?']
    """
    parts, code = list[str](), primary_code(language)
    for sentence in (part for block in _BLOCK.findall(text) for part in sentencex.segment(code, block)):
        before, is_lower = "".join(parts[-1:]), sentence[:1].islower()
        near, pieces = before[-3:], _FURTHER_END.split(sentence)
        if before and (_NO_END.match(near + sentence, len(near)) or (is_lower and _ORDINAL_OR_LETTER.search(before))):
            parts[-1] += pieces.pop(0)
        parts += filter(None, pieces)
    return parts


def _shorten(text: str, limit: int, count: Count) -> Iterator[str]:
    """Yield the text if it fits, otherwise the parts of both halves: halving avoids parts of a word or two.

    A text is divided at the clause end nearest to its middle, else at the nearest space, else in the middle.
    """
    if len(text) < 2 or count(text.replace(ITEM, " ")) <= limit:
        yield text
        return
    middle = len(text) // 2
    near = range(middle, min(middle + _MOST_MARKS, len(text)))
    # marks belong to the letter before, and a number or name between Chinese characters is not divided
    middle = next((p for p in near if text[p] not in MARKS and not _IN_WORD.match(text, p)), middle)
    for boundary in (_CLAUSE_END, _SPACE):
        if ends := [match.end() for match in boundary.finditer(text) if match.end() < len(text)]:
            middle = min(ends, key=lambda end: abs(2 * end - len(text)))
            break
    for half in (text[:middle], text[middle:]):
        yield from _shorten(half, limit, count)
