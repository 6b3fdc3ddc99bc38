"""Paragraphs of a text, and lines of a paragraph: breaks inside a sentence are taken out and made again.

>>> from nmt.translation.documents.document import read_text
>>> first, space, second = paragraphs(read_text("My father has\na rabbit.\nGood!"))
>>> str(unwrapped(first)), str(second)
('My father has a rabbit.', 'Good!')
>>> str(rewrapped(read_text("Mio padre ha un coniglio."), first))
'Mio padre ha\nun coniglio.'
"""

import re
import unicodedata
from collections.abc import Sequence

from nmt.text.items import ITEM, Line, joined
from nmt.text.languages import UNSPACED, UNSPACED_TEXT
from nmt.translation.documents.document import SPACES

# In Chinese not before punctuation.
_BREAKABLE = re.compile(rf" +|(?<=[{UNSPACED_TEXT}])(?=[{UNSPACED}])")
# The end of a line of three words or more that ends no sentence.
_UNFINISHED = re.compile(r"[^\s]+ +[^\s]+ +(?:[^\r\n]* )?[^\s]*[^\s.!?:;…。！？：；](?<![.!?:][\"'”’»)\]])")


def paragraphs(line: Line) -> list[Line]:
    """Return the paragraphs of a text at even indices, between them the line breaks and the spaces around it."""
    breaks = [match for match in SPACES.finditer(line.text) if not _is_inside_sentence(match)]
    return line.cut([position for match in breaks for position in match.span()])


def _is_inside_sentence(space: re.Match[str]) -> bool:
    before = re.split(r"[\r\n]", space.string[max(0, space.start() - 200) : space.start()])[-1].lstrip()
    is_wrap = space[0].count("\n") == 1 and space.string[space.end() : space.end() + 1].islower()
    return is_wrap and bool(_UNFINISHED.fullmatch(before))


def unwrapped(paragraph: Line) -> Line:
    """Return a paragraph as one line."""
    return Line(SPACES.sub(" ", paragraph.text), paragraph.items)


def rewrapped(translation: Line, paragraph: Line) -> Line:
    """Return the translation of a paragraph in as many lines."""
    breaks = SPACES.findall(paragraph.text)
    first, *others = wrap(translation, len(breaks) + 1)
    return joined([first, *(part for line in others for part in (Line(breaks[0]), line))])


def wrap(line: Line, count: int, widest: int = 0) -> list[Line]:
    """Break a line into at most `count` lines of similar width; fewer if none is then wider than `widest`.

    >>> [str(line) for line in wrap(Line("Non so che cosa fare adesso"), 2, widest=20)]
    ['Non so che cosa', 'fare adesso']
    """
    parts = line.cut([match.end() for match in _BREAKABLE.finditer(line.text)])
    lines = [line]
    for most in range(1, count + 1):
        room = width(line) // most
        while len(lines := _filled(parts, room)) > most:
            room += 1
        if max(map(width, lines)) <= widest:
            break
    return lines


def _filled(parts: Sequence[Line], room: int) -> list[Line]:
    """Return lines, each filled as far as the room allows."""
    lines = [Line("")]
    for part in parts:
        longer = joined([lines[-1], part])
        if lines[-1].text and width(longer) > room:
            lines.append(part)
        else:
            lines[-1] = longer
    return [Line(line.text.rstrip(), line.items) for line in lines]


def width(line: Line) -> int:
    """Return the columns of a line without its markup; Chinese and similar characters take two."""
    text = line.text.rstrip().replace(ITEM, "")
    columns = sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)
    return columns + sum(len(item.text) for item in line.items if not item.is_markup)
