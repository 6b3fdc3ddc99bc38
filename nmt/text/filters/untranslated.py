"""Targets that are, or contain, the source sentence untranslated."""

from dataclasses import dataclass

from nmt.text.identification import FREQUENT_WORDS, listed_code

_LEAST_CHARACTERS, LEAST_SPACES = 20, 3
"""Of a source that a target may not contain; a shorter one may be a name."""
LEAST_FREQUENT = 2
_LEAST_COMMON = 0.8


@dataclass(frozen=True)
class UntranslatedCheck:
    """The frequent words of the source language that the target language does not have, and those of the target."""

    source_words: frozenset[str]
    target_words: frozenset[str]

    @classmethod
    def of(cls, source: str, target: str) -> "UntranslatedCheck":
        """Return the check of a pair of languages; without lists of both, no word is evidence."""
        words, own = (FREQUENT_WORDS.get(listed_code(code), frozenset()) for code in (source, target))
        return cls(words - own if own else frozenset(), own)

    def found(self, source: str, target: str) -> str | None:
        """Return what of a normalized source is in its target; None if it is translated."""
        if len(source) <= len(target) and len(source) >= _LEAST_CHARACTERS and source.count(" ") >= LEAST_SPACES:
            passage = source.rstrip(".?!:;")
            if passage.lower() in target.lower():
                return "contains the source"
        words = target.lower().split()
        frequent = self.source_words.intersection(words)
        if len(frequent) < LEAST_FREQUENT or not self.target_words.isdisjoint(words):
            return None
        in_source = set(source.lower().split())
        if sum(word in in_source for word in words) < _LEAST_COMMON * len(words):
            return None
        return f"words of the source language: {', '.join(sorted(frequent))}"


def copy(source: str, target: str) -> str | None:
    """Return a word for it if a target is the source, apart from case."""
    if len(source) != len(target) or source.casefold() != target.casefold():
        return None
    return "identical" if source == target else "identical apart from case"
