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
from nmt.translation.documents.icu import escaped, is_complex_message, message_parts
from nmt.translation.documents.markup import MarkedLine, RestoredLine

_NUMBER = "<icu-number/>"
"""What represents the `#` of a plural as a tag."""
_LINE_END = re.compile(r"(\r\n|\r|\n)")


class TranslatedLine(NamedTuple):
    """The translation of a line and, if it is needed, the alignment of its words."""

    text: str
    links: Links | None = None


@dataclass(frozen=True)
class Passage:
    """The parts of a text: line ends, lines without a word, which stay, and lines to translate."""

    text: str
    parts: Sequence[str | MarkedLine]
    is_message: bool = False  # whether it has the syntax of ICU

    @classmethod
    def of(cls, text: str) -> "Passage":
        """Split a text at its line ends, and a message with plurals into its branches."""
        if not is_complex_message(text):
            return cls(text, _lines(text))
        parts: list[str | MarkedLine] = []
        for part in message_parts(text):
            parts += [part] if isinstance(part, str) else _lines(part.text.replace("''", "'").replace("#", _NUMBER))
        return cls(text, parts, is_message=True)

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
        if [one.text for one in translations] == self.lines:
            return RestoredLine(self.text)
        remaining, texts, lost = iter(translations), [], False
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            restored = part.restore(*next(remaining))
            texts.append(escaped(restored.text) if self.is_message else restored.text)
            lost |= restored.tags_lost
        text = "".join(texts)
        return RestoredLine(text.replace(_NUMBER, "#") if self.is_message else text, lost)


def _lines(text: str) -> list[str | MarkedLine]:
    """Return the lines of a text and the line ends between them."""
    parts: list[str | MarkedLine] = []
    for part in _LINE_END.split(text):
        line = MarkedLine.of(part)
        parts.append(line if _has_words(line.text) else part)
    return parts


def _has_words(line: str) -> bool:
    """Whether a line has a letter outside of URLs, placeholders and tags."""
    line = normalize(line)
    start, outside = 0, []
    for item in items(line):
        outside.append(line[start : item.start])
        start = item.end
    return any(map(str.isalpha, "".join([*outside, line[start:]])))
