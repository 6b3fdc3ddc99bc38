"""A text of a document, which may have several lines, as lines to translate.

>>> passage = Passage.of("Hello.\\n\\n  <b>{name}</b>\\n  Good night. ")
>>> passage.lines
['Hello.', 'Good night.']
>>> passage.joined([TranslatedLine("Ciao."), TranslatedLine("Buona notte.")]).text
'Ciao.\\n\\n  <b>{name}</b>\\n  Buona notte. '
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nmt.decoding.alignment import Links
from nmt.text.normalize import normalize
from nmt.text.protection import items
from nmt.translation.documents.markup import MarkedLine, RestoredLine

_LINE_END = re.compile(r"(\r\n|\r|\n)")


class TranslatedLine(NamedTuple):
    """The translation of a line and, if it is needed, the alignment of its words."""

    text: str
    links: Links | None = None


@dataclass(frozen=True)
class Passage:
    """The parts of a text: line ends, lines without a word, which stay, and lines to translate."""

    parts: Sequence[str | MarkedLine]

    @classmethod
    def of(cls, text: str) -> "Passage":
        """Split a text at its line ends."""
        parts: list[str | MarkedLine] = []
        for part in _LINE_END.split(text):
            line = MarkedLine.of(part)
            parts.append(line if _has_words(line.text) else part)
        return cls(parts)

    @property
    def marked(self) -> list[MarkedLine]:
        """The lines to translate with their tags."""
        return [part for part in self.parts if isinstance(part, MarkedLine)]

    @property
    def lines(self) -> list[str]:
        """The lines to translate, without the tags and spaces around them."""
        return [part.text for part in self.marked]

    def joined(self, translations: Sequence[TranslatedLine]) -> RestoredLine:
        """Return the text with the translations of its lines, and whether tags were lost in one of them."""
        remaining = iter(translations)
        texts = [
            part.restore(*next(remaining)) if isinstance(part, MarkedLine) else RestoredLine(part)
            for part in self.parts
        ]
        return RestoredLine("".join(one.text for one in texts), any(one.tags_lost for one in texts))


def _has_words(line: str) -> bool:
    """Whether a line has a letter outside of URLs, placeholders and tags."""
    line = normalize(line)
    start, outside = 0, []
    for item in items(line):
        outside.append(line[start : item.start])
        start = item.end
    return any(map(str.isalpha, "".join([*outside, line[start:]])))
