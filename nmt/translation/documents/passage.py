"""A text of a document, which may have several lines, as sentences to translate.

>>> passage = Passage.of("Hello. Come in!\\n\\n  <b>{name}</b>\\n  Good night. ")
>>> passage.lines
['Hello.', 'Come in!', 'Good night.']
>>> passage.joined([TranslatedLine("Ciao."), TranslatedLine("Entra!"), TranslatedLine("Buona notte.")]).text
'Ciao. Entra!\\n\\n  <b>{name}</b>\\n  Buona notte. '
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from nmt.decoding.alignment import Links, joined_links
from nmt.text.normalize import normalize
from nmt.text.protection import without_items
from nmt.text.segment import join_segments, sentences
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
    """The parts of a text: line ends, lines without a word, which stay, and lines with sentences to translate."""

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
    def has_pairs(self) -> bool:
        """Whether a line has pairs of tags inside, for which the words have to be aligned."""
        return any(isinstance(part, MarkedLine) and part.pairs for part in self.parts)

    @cached_property
    def lines(self) -> list[str]:
        """The sentences to translate, without the tags and spaces around them.

        Models are trained on single sentences: of several in a line, they often translate only one.
        """
        marked = [part for part in self.parts if isinstance(part, MarkedLine)]
        return [one.strip() for line in marked for one in sentences(line.text) if _has_words(one)]

    def joined(self, translations: Sequence[TranslatedLine]) -> RestoredLine:
        """Return the text with the translations of its sentences, and whether tags were lost in one of its lines."""
        if [one.text for one in translations] == self.lines:
            return RestoredLine(self.text)
        remaining, texts, lost = iter(translations), [], False
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            restored = part.restore(*_joined_sentences(part.text, remaining))
            texts.append(escaped(restored.text) if self.is_message else restored.text)
            lost |= restored.tags_lost
        text = "".join(texts)
        return RestoredLine(text.replace(_NUMBER, "#") if self.is_message else text, lost)


def _joined_sentences(line: str, remaining: Iterator[TranslatedLine]) -> TranslatedLine:
    """Return the translation of a line from those of its sentences, which are the next ones; others are copied."""
    segments = sentences(line)
    found = [next(remaining) if _has_words(one) else TranslatedLine(one.strip(), []) for one in segments]
    text = join_segments(segments, [one.text for one in found])
    links = [(segment, one.text, one.links or []) for segment, one in zip(segments, found, strict=True)]
    return TranslatedLine(text, None if any(one.links is None for one in found) else joined_links(links))


def _lines(text: str) -> list[str | MarkedLine]:
    """Return the lines of a text and the line ends between them."""
    parts: list[str | MarkedLine] = []
    for part in _LINE_END.split(text):
        line = MarkedLine.of(part)
        parts.append(line if _has_words(line.text) else part)
    return parts


def _has_words(line: str) -> bool:
    """Whether a line has a letter outside of URLs, placeholders and tags."""
    return any(map(str.isalpha, without_items(normalize(line))))
