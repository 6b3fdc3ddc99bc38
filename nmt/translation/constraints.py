"""What must survive a translation, whatever the model thinks of it: protected items, and the terms of a glossary.

A line is translated plainly first, and checked: almost all lines pass at once. Where something is lost the line is
searched again with all that it must hold as phrases (`decoding/constrained.py`), and the better result is taken.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from nmt.decoding.hypothesis import Constraints
from nmt.decoding.unknown import text_with_words
from nmt.text.glossary import Glossary, missing_terms
from nmt.text.languages import UNSPACED, target_language
from nmt.text.normalize import normalize
from nmt.text.protection import compare, items, lost_numbers, mend
from nmt.text.tokenizer import UNK, Tokenizer
from nmt.text.typography import set_type

LONGEST_PHRASE = 8
"""A term that takes more tokens is searched for as a single stand-in, which takes far less time."""

_PAIRS = {"'": "'", '"': '"', "(": ")", "[": "]", "“": "”", "‘": "’", "«": "»", "`": "`"}


class Loss(NamedTuple):
    """What a translation holds less often than it must, and what more often."""

    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()


NO_LOSS = Loss()


class _Phrase(NamedTuple):
    """A string that a translation must hold, the ids to search for, and whether no space stands before it."""

    text: str
    ids: tuple[int, ...]
    glued: bool


@dataclass(frozen=True)
class OutputConstraints:
    """From lines to what their translations must hold, and from target ids to text that holds it."""

    tokenizer: Tokenizer
    """The target's."""
    language: str
    """The target's code."""
    glossary: Glossary | None
    protect: bool
    typography: bool

    def constraints(self, line: str) -> Constraints:
        """Return what the search must find for a line."""
        phrases = self._phrases(line)
        return Constraints(
            phrases=tuple(phrase.ids for phrase in phrases), apart=self._apart if phrases else frozenset()
        )

    def text(self, line: str, ids: Sequence[int], prefix: str = "", words: Sequence[str] | None = None) -> str:
        """Return target ids as text behind a prefix, mended and in the language's typography.

        Where `<unk>` is said stand the words that are given, or else what the stand-ins stand for. The prefix stays as
        it is.
        """
        if words is None:
            rest = self._decode(line, ids, prefix) if UNK in ids else self._joined(prefix, ids)[len(prefix) :]
        else:
            rest = text_with_words(self.tokenizer, ids, words)
        space, rest = " " if prefix and rest.startswith(" ") else "", normalize(rest)
        start = f"{prefix}{space}" if rest else prefix
        text = self._finished(line, start + rest)
        return text if text.startswith(prefix) else start + self._finished(line, rest)

    def _finished(self, line: str, text: str) -> str:
        if self.protect:
            text = mend(line, text)
        if self.typography:
            kept = [item.text for item in items(text)] if self.protect else []
            text = set_type(self.language, text, [*kept, *self._terms(line)])
        return text

    def loss(self, line: str, text: str) -> Loss:
        """Return what must be mended by another search."""
        missing, surplus = compare(line, text) if self.protect else NO_LOSS
        terms = self._terms(line)
        return Loss((*missing, *missing_terms(terms, text)) if terms else missing, surplus)

    def report(self, line: str, text: str) -> Loss:
        """Return what to tell people of: also numbers, which are not searched for."""
        missing, surplus = self.loss(line, text)
        return Loss((*missing, *(lost_numbers(line, text) if self.protect else ())), surplus)

    def _terms(self, line: str) -> list[str]:
        if self.glossary is None:
            return []
        line = normalize(line)
        return self.glossary.targets(line, [(item.start, item.end) for item in items(line)])

    def _phrases(self, line: str) -> list[_Phrase]:
        line = normalize(line)
        phrases = [self._spelled(term) for term in self._terms(line)]
        for item in items(line) if self.protect else []:
            start, end = item.start, item.end
            while start > 0 and end < len(line) and _PAIRS.get(line[start - 1]) == line[end]:
                start, end = start - 1, end + 1  # '{0}' keeps its quotes
            if start > 0 and line[start - 1] in _PAIRS:
                start -= 1
            # no language, so a stand-in: spelled in pieces, items take twice the time and are placed no better
            phrases.append(_Phrase(line[start:end], (UNK,), self._unspaced or bool(line[start - 1 : start].strip())))
        return phrases

    def _spelled(self, term: str) -> _Phrase:
        """Spell a term, in languages without spaces without the mark of a new word; some terms need a stand-in."""
        encode = self.tokenizer.encode
        ids = encode(term)
        if len(ids) > LONGEST_PHRASE or self.tokenizer.decode(ids) != term:
            return _Phrase(term, (UNK,), self._unspaced)
        context, whole = encode(","), encode(f",{term}")
        inside = self._unspaced and whole[: len(context)] == context
        return _Phrase(term, tuple(whole[len(context) :] if inside else ids), inside)

    @property
    def _unspaced(self) -> bool:
        return target_language(self.language).unspaced

    def _decode(self, line: str, ids: Sequence[int], prefix: str) -> str:
        """Put the strings that have no spelling where their stand-ins are: terms first, then items in order.

        What comes back follows the prefix.
        """
        stand_ins = iter([phrase for phrase in self._phrases(line) if phrase.ids == (UNK,)])
        text, start = prefix, 0
        for end in [place for place, token in enumerate(ids) if token == UNK]:
            text = self._joined(text, ids[start:end])
            phrase = next(stand_ins, _Phrase("", (), True))
            space = "" if phrase.glued or not text or text[-1] in _PAIRS else " "
            text, start = f"{text}{space}{phrase.text}", end + 1
        return self._joined(text, ids[start:])[len(prefix) :]

    def _joined(self, text: str, ids: Sequence[int]) -> str:
        spaced = text and ids and self.tokenizer.spell(ids[:1])[0][:1].decode("utf-8", "ignore").isspace()
        return f"{text}{' ' if spaced else ''}{self.tokenizer.decode(ids)}"

    @cached_property
    def _apart(self) -> frozenset[int]:
        """The ids that go on with a word: they begin with a letter or digit of a script with spaces, and no mark.

        Of bytes these are the letters, digits and controls of ASCII (controls vanish in text, and what follows would go
        on with the word), and the first bytes of Latin, Greek, Cyrillic and the like.
        """
        goes_on = re.compile(rf"[^\W_{UNSPACED}]")
        table = self.tokenizer.table
        words = {i for i, surface in enumerate(table.surfaces) if goes_on.match(surface)}
        ascii_ = {i for i, byte in table.bytes.items() if byte < 0x20 or (byte < 0x80 and chr(byte).isalnum())}
        return frozenset(words | ascii_ | {i for i, byte in table.bytes.items() if 0xC3 <= byte <= 0xDF})
