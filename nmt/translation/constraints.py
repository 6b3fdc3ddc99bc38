"""Constraints on the text of a translation: protected items (URLs, placeholders, tags …) and glossary terms.

A line is first translated without constraints, and most translations satisfy them. Only where content is missing or
duplicated is the line searched again, with the required content as phrases (`nmt.decoding.constrained`).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from nmt.decoding.options import NO_CONSTRAINTS, Constraints
from nmt.text.glossary import Glossary, missing_terms
from nmt.text.languages import UNSPACED, target_language
from nmt.text.normalize import normalize
from nmt.text.numerals import lost_numbers
from nmt.text.protection import NO_DIFF, ContentDiff, compare, compare_marks, items, repair
from nmt.text.segment import sentences
from nmt.text.tokenizer import UNK, Tokenizer
from nmt.text.typography import apply_typography

LONGEST_PHRASE = 8
"""A term of more tokens is represented by `<unk>` during the search, which is much faster than spelling it."""

_QUOTE = re.compile(r"(?<!\w)['’]|['’](?!\w)")
_INNER_STOP = re.compile(r"(?<=\w)[.!?](?=\w)")
_BRACKETS = {"'": "'", '"': '"', "(": ")", "[": "]", "“": "”", "‘": "’", "«": "»", "`": "`"}


class _Phrase(NamedTuple):
    """A required string, the token ids to search for, and whether no space precedes it."""

    text: str
    ids: tuple[int, ...]
    joined: bool

    @property
    def may_follow_elision(self) -> bool:
        """Whether it may stand after `l'` or `un'`: it begins with a vowel or h, or is a protected item."""
        return self.ids == (UNK,) or unicodedata.normalize("NFD", self.text)[:1].lower() in tuple("aeiouh")


@dataclass(frozen=True)
class OutputConstraints:
    """Derives the constraints of a line, and converts token ids to text that satisfies them.

    A phrase that is long or has no spelling is represented by the token `<unk>`, which `text` replaces by the phrase.
    """

    tokenizer: Tokenizer  # the target tokenizer
    language: str  # the target language code
    glossary: Glossary | None
    protect: bool
    typography: bool

    def prefix(self, prefix: str) -> Constraints:
        """Return the constraint that a translation starts with this text."""
        return Constraints(prefix=tuple(self.tokenizer.encode(prefix))) if prefix else NO_CONSTRAINTS

    def phrases(self, line: str, prefix: str) -> Constraints:
        """Return the constraints that a translation starts with the prefix and contains all required phrases."""
        phrases = tuple(phrase.ids for phrase in self._phrases(line))
        start = self.prefix(prefix).prefix
        if not phrases:
            return Constraints(start)
        # the last sentence of the line that has a phrase; stops inside of numbers and names are no sentence ends
        before = max((number for number, one in enumerate(sentences(line)) if self._phrases(one)), default=0)
        continuations = self._word_continuations
        if not _QUOTE.search(line):
            continuations |= self._joiners
        return Constraints(
            start,
            phrases,
            word_continuations=continuations,
            elisions=self._elisions if any(one.may_follow_elision for one in self._phrases(line)) else frozenset(),
            final_punctuation=self._final_punctuation,
            max_final_punctuation=before + len(_INNER_STOP.findall(line)),
            may_begin_sentence=before > 0,
        )

    def text(self, line: str, ids: Sequence[int], prefix: str = "") -> str:
        """Return the text of target ids after a prefix, with items repaired and the language's typography applied.

        Each `<unk>` is replaced by the next phrase of the line. The prefix stays unchanged.
        """
        rest = self._fill_phrases(line, ids, prefix) if UNK in ids else self._append(prefix, ids)[len(prefix) :]
        space, rest = " " if prefix and rest.startswith(" ") else "", normalize(rest)
        start = f"{prefix}{space}" if rest else prefix
        text = self._repair_text(line, start + rest)
        return text if text.startswith(prefix) else start + self._repair_text(line, rest)

    def diff(self, line: str, text: str) -> ContentDiff:
        """Return the difference in content that a constrained search can repair."""
        missing, surplus = compare(line, text) if self.protect else NO_DIFF
        return ContentDiff((*missing, *missing_terms(self._terms(line), text)), surplus)

    def diff_with_numbers(self, line: str, text: str) -> ContentDiff:
        """Return the difference in content to report: marks and numbers too, which are never searched for."""
        missing, surplus = self.diff(line, text)
        if not self.protect:
            return ContentDiff(missing, surplus)
        lost, added = compare_marks(line, text)
        return ContentDiff((*missing, *lost, *lost_numbers(line, text)), (*surplus, *added))

    def _repair_text(self, line: str, text: str) -> str:
        if self.protect:
            text = repair(line, text)
        if self.typography:
            unchanged = [item.text for item in items(text)] if self.protect else []
            text = apply_typography(self.language, text, [*unchanged, *self._terms(line)])
        return text

    def _terms(self, line: str) -> list[str]:
        """Return the target terms that the translation of a line must contain."""
        if self.glossary is None:
            return []
        line = normalize(line)
        return self.glossary.targets(line, [(item.start, item.end) for item in items(line)])

    def _phrases(self, line: str) -> list[_Phrase]:
        line = normalize(line)
        phrases = [self._term_phrase(term) for term in self._terms(line)]
        for item in items(line) if self.protect else []:
            start, end = item.start, item.end
            while start > 0 and end < len(line) and _BRACKETS.get(line[start - 1]) == line[end]:
                start, end = start - 1, end + 1  # '{0}' keeps its quotes
            if start > 0 and line[start - 1] in _BRACKETS:
                start -= 1
            # spelling an item takes twice the time of a search with `<unk>`, and places it no better
            phrases.append(_Phrase(line[start:end], (UNK,), self._unspaced or bool(line[start - 1 : start].strip())))
        return phrases

    def _term_phrase(self, term: str) -> _Phrase:
        """Spell a term, or use `<unk>` if that is impossible; without word boundary in languages without spaces."""
        encode = self.tokenizer.encode
        ids = encode(term)
        if len(ids) > LONGEST_PHRASE or self.tokenizer.decode(ids) != term:
            return _Phrase(term, (UNK,), self._unspaced)
        context, with_context = encode(","), encode(f",{term}")
        joined = self._unspaced and with_context[: len(context)] == context
        return _Phrase(term, tuple(with_context[len(context) :] if joined else ids), joined)

    @cached_property
    def _unspaced(self) -> bool:
        return target_language(self.language).unspaced

    def _fill_phrases(self, line: str, ids: Sequence[int], prefix: str) -> str:
        """Return the text after a prefix, each `<unk>` replaced by the next phrase without a spelling.

        Phrases are taken in the order of the constraints: terms, then items.
        """
        unspelled = iter([phrase for phrase in self._phrases(line) if phrase.ids == (UNK,)])
        text, start = prefix, 0
        for end in [place for place, token in enumerate(ids) if token == UNK]:
            text = self._append(text, ids[start:end])
            phrase = next(unspelled, _Phrase("", (), True))
            space = "" if phrase.joined or not text or text[-1] in _BRACKETS else " "
            text, start = f"{text}{space}{phrase.text}", end + 1
        return self._append(text, ids[start:])[len(prefix) :]

    def _append(self, text: str, ids: Sequence[int]) -> str:
        """Return a text followed by decoded ids, with a space between them if the first token starts a word."""
        spaced = text and ids and self.tokenizer.spell(ids[:1])[0][:1].decode("utf-8", "ignore").isspace()
        return f"{text}{' ' if spaced else ''}{self.tokenizer.decode(ids)}"

    @cached_property
    def _final_punctuation(self) -> frozenset[int]:
        """Token ids that end a sentence: the last character before closing quotes is a stop, and not an ellipsis."""
        return self._matching(r".*(?<![.…])[.!?。！？｡][\"'”’»」』)）\]]*")

    @cached_property
    def _joiners(self) -> frozenset[int]:
        """Token ids that begin with an apostrophe or a hyphen."""
        return frozenset() if self._unspaced else self._matching(r"['’-].*")

    @cached_property
    def _elisions(self) -> frozenset[int]:
        """Token ids that end in an apostrophe."""
        return self._matching(r".*['’]")

    def _matching(self, pattern: str) -> frozenset[int]:
        whole = re.compile(pattern)
        return frozenset(i for i, surface in enumerate(self.tokenizer.table.surfaces) if whole.fullmatch(surface))

    @cached_property
    def _word_continuations(self) -> frozenset[int]:
        """Token ids that would continue the last word of a phrase, and therefore must not follow it.

        They start with a letter or digit of a script with spaces. Byte tokens: ASCII letters, digits and control
        characters (which decoding removes), and lead bytes of Latin, Greek, Cyrillic and similar scripts.
        """
        word_character = re.compile(rf"[^\W_{UNSPACED}]")
        table = self.tokenizer.table
        words = {i for i, surface in enumerate(table.surfaces) if word_character.match(surface)}
        ascii_ = {i for i, byte in table.bytes.items() if byte < 0x20 or (byte < 0x80 and chr(byte).isalnum())}
        return frozenset(words | ascii_ | {i for i, byte in table.bytes.items() if 0xC3 <= byte <= 0xDF})
