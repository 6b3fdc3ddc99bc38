"""The sentences of a line, in parts that are short enough for the model.

>>> from nmt.text.items import read
>>> line = read("I know Tom. See www.b.org, of course.<br>Good!")
>>> [str(unit) for unit in units(line, limit=3, count=lambda text: len(text.split()), language="en")]
['I know Tom. ', 'See www.b.org, ', 'of course.', '<br>', 'Good!']
"""

import re
from collections.abc import Callable, Iterator
from itertools import accumulate

import sentencex

from nmt.text.items import ITEM, Line
from nmt.text.languages import primary_code

Count = Callable[[str], int]

_CLOSING = "[\"'”’»)\\]）】」』》〉]"
# possessive, and only at the start of a run, so that 100,000 commas take linear time
_CLAUSE_END = re.compile(rf"[，；：、]++{_CLOSING}*+\s*+|(?<![,;:–—…،؛])[,;:–—…،؛]++{_CLOSING}*+\s++|—++")
_SPACE = re.compile(r"\s++")
# The splitter takes quadratic time for quotes; characters that it gets at a time.
_BLOCK = re.compile(r".{1,5000}(?:\s+|\Z)|.{1,5000}", re.DOTALL)


def units(line: Line, limit: int, count: Count, language: str) -> list[Line]:
    """Return the sentences of a line; a break is the end of one. Their concatenation is the line.

    A sentence of more than `limit` tokens, counted by `count` without items, is halved after a comma or a similar mark,
    a longer clause at a space, a longer word anywhere.
    """

    def size(text: str) -> int:
        return count(text.replace(ITEM, " "))

    marks = (match.end() for match in re.finditer(ITEM, line.text))
    breaks = [end for end, item in zip(marks, line.items, strict=True) if item.role == "break"]
    found = list[Line]()
    for part in line.cut(breaks):
        texts = [piece for text in sentences(part.text, language) for piece in _shorten(text, limit, size)]
        found += part.cut(list(accumulate(map(len, texts)))[:-1])
    return [unit for unit in found if unit.text]


def sentences(text: str, language: str) -> list[str]:
    """Split after each sentence, by the rules of a language.

    >>> sentences("I know Tom. Mr. Smith met J. S. Bach, e.g. in Leipzig. Really?", "en")
    ['I know Tom. ', 'Mr. Smith met J. S. Bach, e.g. in Leipzig. ', 'Really?']
    """
    code = primary_code(language)
    return [sentence for block in _BLOCK.findall(text) for sentence in sentencex.segment(code, block)]


def _shorten(text: str, limit: int, count: Count) -> Iterator[str]:
    """Yield the text if it fits, otherwise its halves, and theirs: halves leave no part of a word or two.

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
