"""How to translate, what a translation must contain, and the form of its text."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from nmt.decoding.options import SearchOptions
from nmt.text.glossary import Glossary, missing_terms
from nmt.text.normalize import normalize
from nmt.text.protection import ContentDiff, compare, compare_marks, items, lost_numbers, repair, without_items
from nmt.text.typography import apply_typography
from nmt.translation.placement import Phrase


def has_words(text: str) -> bool:
    """Whether a text has a letter outside of URLs, placeholders and tags."""
    return any(map(str.isalpha, without_items(normalize(text))))


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """How to translate. `Translator.options` returns those that the model's recipe sets."""

    search: SearchOptions
    # Lines of more tokens are split into segments: models translate longer input than in their training badly.
    longest_source: int
    glossary: Glossary | None = None
    alignment: bool = False  # whether to align words of source and translation
    document: bool = False  # whether lines are texts of a document: each sentence is translated by itself
    tag: str | None = None  # a tag of the training text to put before each segment, such as `backtranslated`
    to: str  # the target language

    def fingerprint(self) -> dict[str, Any]:
        """Return the value of every option, as JSON, by its name in recipes and options."""
        own = {key: value for key, value in vars(self).items() if key != "search"}
        glossary = None if self.glossary is None else self.glossary.fingerprint()
        return {**self.search.model_dump(mode="json"), **own, "glossary": glossary}

    def copies(self, text: str) -> bool:
        """Whether a text is copied: without a letter outside of URLs and placeholders, in a document."""
        return self.document and not has_words(text)

    def finished(self, line: str, prefix: str, rest: str) -> str:
        """Return a prefix and what follows it, with items repaired and the language's typography; the prefix stays."""
        text = self._corrected(line, normalize(prefix + rest))
        if text.startswith(prefix):
            return text
        return f"{prefix}{' ' * rest.startswith(' ')}{self._corrected(line, normalize(rest))}".rstrip()

    def missing_terms(self, line: str, text: str) -> list[Phrase]:
        """Return the terms that a translation of a normalized line lacks, the last ones of equal terms."""
        terms = self._terms(line)
        if not terms:
            return []
        missing = Counter(missing_terms([term.text for term in terms], text))
        lacking = []
        for term in reversed(terms):
            if missing[term.text]:
                missing[term.text] -= 1
                lacking.append(term)
        return lacking[::-1]

    def items_differ(self, line: str, text: str) -> bool:
        """Whether a translation of a line has other items than the line."""
        return self.search.protect and any(compare(line, text))

    def diff(self, line: str, text: str) -> ContentDiff:
        """Return the difference in content of a translation: items, terms, marks and numbers."""
        terms = tuple(term.text for term in self.missing_terms(normalize(line), text))
        if not self.search.protect:
            return ContentDiff(terms)
        missing, surplus = compare(line, text)
        lost, added = compare_marks(line, text)
        return ContentDiff((*missing, *terms, *lost, *lost_numbers(line, text)), (*surplus, *added))

    def differences(self, line: str, text: str) -> int:
        """Return how many parts of the content of a translation differ."""
        return sum(map(len, self.diff(line, text)))

    def _corrected(self, line: str, text: str) -> str:
        if self.search.protect:
            text = repair(line, text)
        if self.search.typography:
            unchanged = [item.text for item in items(text)] if self.search.protect else []
            text = apply_typography(self.to, text, [*unchanged, *(term.text for term in self._terms(line))])
        return text

    def _terms(self, line: str) -> list[Phrase]:
        """Return the required terms of a line; none is inside an item."""
        if self.glossary is None:
            return []
        return [Phrase(*match) for match in self.glossary.matches(line, [(one.start, one.end) for one in items(line)])]
