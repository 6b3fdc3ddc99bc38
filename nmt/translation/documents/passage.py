"""A text of a document, which may have several lines, as sentences to translate.

>>> passage = Passage.of("Hello. Come in!\\n\\n  <b>{name}</b>\\n  Good night. ")
>>> passage.lines
['Hello.', 'Come in!', 'Good night.']
>>> passage.joined([TranslatedLine("Ciao."), TranslatedLine("Entra!"), TranslatedLine("Buona notte.")]).text
'Ciao. Entra!\\n\\n  <b>{name}</b>\\n  Buona notte. '

Of plural and select messages of ICU, as in `{count, plural, one {# file} other {# files}} in {folder}`, each branch is
translated as a sentence of its own, with the text around the argument, as ICU recommends: a part of a sentence has no
translation that fits all. See https://unicode-org.github.io/icu/userguide/format_parse/messages/.

>>> message_parts("In {n, plural, one {# file} other {# files}}.")
['{n, plural,', ' one {', Branch(text='In # file.'), '}', ' other {', Branch(text='In # files.'), '}', '}']
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from nmt.decoding.alignment import Links, joined_links
from nmt.text.normalize import normalize
from nmt.text.protection import ICU_ARGUMENT, without_items
from nmt.text.segment import join_segments, sentences
from nmt.translation.documents.markup import MarkedLine, RestoredLine

_NUMBER = "<icu-number/>"
"""What represents the `#` of a plural as a tag."""
_LINE_END = re.compile(r"(\r\n|\r|\n)")
# the syntax of ICU: the start of a branch, the end of an argument, and quoted braces
_SELECTOR = re.compile(r"\s*=?[\w.-]+\s*\{")
_END = re.compile(r"\s*\}")
_QUOTE = re.compile(r"'[{}#|]")
_MOST_ARGUMENTS, _MOST_BRANCHES = 8, 64


class Branch(NamedTuple):
    """A complete message without plural and select arguments."""

    text: str


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
        if ICU_ARGUMENT.search(text) is None:
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


def message_parts(text: str) -> list[str | Branch]:
    """Return the branches of a message, and what is between them.

    A message with braces that are quoted or not balanced, with more than 8 plural or select arguments or more than 64
    branches is returned as it is.
    """
    plain = _QUOTE.search(text) is None and len(ICU_ARGUMENT.findall(text)) <= _MOST_ARGUMENTS
    return (_expanded(text) if plain else []) or [text]


def escaped(translation: str) -> str:
    """Double the apostrophes of a translated branch that would begin a quotation: before a brace, `#` or the end."""
    return re.sub(r"'(?=[{}#|]|\Z)", "''", translation)


def _expanded(text: str) -> list[str | Branch]:
    """Return the parts of a message whose first plural or select argument is around all of it.

    [] if it is damaged or has too many branches.
    """
    argument = ICU_ARGUMENT.search(text)
    if argument is None:
        return [Branch(text)]
    found: list[tuple[str, str]] = []  # the text before a branch, and the branch
    position = argument.end()
    while selector := _SELECTOR.match(text, position):
        end = _closing(text, selector.end())
        if end is None:
            return []
        found.append((text[position : selector.end()], text[selector.end() : end]))
        position = end + 1
    end_of_argument = _END.match(text, position)
    if not found or end_of_argument is None:
        return []
    before, after = text[: argument.start()], text[end_of_argument.end() :]
    parts: list[str | Branch] = [argument[0]]
    for start, content in found:
        inner = _expanded(f"{before}{content}{after}")
        parts += [start, *inner, "}"]
        if not inner or sum(isinstance(part, Branch) for part in parts) > _MOST_BRANCHES:
            return []
    return [*parts, end_of_argument[0]]


def _closing(text: str, position: int) -> int | None:
    """Return the position of the brace that closes the one before a position."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    return None
