"""How to translate, and what a translation must contain."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypedDict

from nmt.decoding.options import SearchOptions
from nmt.text.content import ContentDiff, accelerators, invented_items, lost_numbers
from nmt.text.glossary import Glossary, Term, missing_terms
from nmt.text.items import ITEM, Item, Line, joined, read
from nmt.text.languages import MARKS, SCRIPTS, primary_code, script_of
from nmt.text.normalize import normalize, visible
from nmt.text.typography import NARROW, WIDE, apply_typography, item_typography, lower

_CAPITAL_NOUNS = ("de", "lb")  # languages whose nouns begin with capitals
_MARKS = ".。?？!！؟۔।॥።፧။។։"  # that end a sentence
_FINAL = re.compile(rf"(?<![{_MARKS}])[{_MARKS}]\Z")
# Several final marks, of which models often generate only one, and the ending of a translation that they replace.
_FINAL_MARKS, _ENDING = re.compile(r"(?:\.{3,}|…+|[?!？！]{2,})\Z"), re.compile(rf"[\s…{_MARKS}]*\Z")
# The end of a text that may have had a final mark: Thai and Lao have none.
_WORD_END = re.compile(rf"(?![{SCRIPTS['Thai']}{SCRIPTS['Lao']}])[\w{MARKS}]\Z")
# Items that are signs without a piece: marks of sentences, but no emoticons.
_MARK_ITEM = re.compile(r"(?![:;：；][()（）])[,.!?:;()\"“”，。！？：；（）、《》「」『』【】]+")
_OPENING = {"?": "¿", "!": "¡"}


class Choices(TypedDict, total=False):
    """What can be chosen for a translation: the keywords of `Translator.translate` and `Translator.options`."""

    beam: int | None  # hypotheses of each sentence; 1 is greedy search
    n_best: int  # translations of each line: the best and its alternatives
    to: str | None  # the target language, required if the model has several
    tag: str | None  # of the training text
    glossary: Glossary | Mapping[str, str] | None  # required translations of terms
    alignment: bool  # align words of source and translation
    sampling: Mapping[str, float] | None  # draw random translations: temperature, top_p
    overrides: Sequence[str] | None  # other settings of the section `decode`, as decode.key=value


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """How to translate. `Translator.options` returns those that the model's recipe sets."""

    search: SearchOptions
    # Sentences of more tokens are split: models translate input badly that is longer than their training text.
    longest_source: int
    glossary: Glossary | None = None
    alignment: bool = False  # whether to align words of source and translation
    tag: str | None = None  # a tag of the training text to put before each sentence, such as `backtranslated`
    to: str  # the target language

    def fingerprint(self) -> dict[str, Any]:
        """Return the value of every option, as JSON, by its name in recipes and options."""
        settings = {key: value for key, value in vars(self).items() if key != "search"}
        glossary = None if self.glossary is None else self.glossary.fingerprint()
        return {**self.search.model_dump(mode="json"), **settings, "glossary": glossary}

    def read(self, text: str) -> Line:
        """Return a text with its items; without `protect`, only U+FFFC is one, which stands for an item in a line."""
        if self.search.protect:
            return read(text)
        text = visible(text)
        return Line(text, (Item(ITEM),) * text.count(ITEM))

    def finished(self, source: str, prefix: str, rest: str) -> str:
        """Return a prefix and the text after it, normalized and in the language's typography; the prefix is kept."""
        if self.search.typography:
            rest = self._as_source(source, prefix, rest)
        text = self._typeset(source, normalize(prefix + rest))
        if text.startswith(prefix):
            return text
        return f"{prefix}{' ' * rest.startswith(' ')}{self._typeset(source, normalize(rest))}".rstrip()

    def _as_source(self, source: str, prefix: str, rest: str) -> str:
        """Return a translation that begins and ends like its source: a label without capital or final mark has none.

        It keeps its capital if it begins with a word of the source or a term, and in languages with capital nouns.
        """
        if _WORD_END.search(source) and _FINAL.search(rest):
            before, _opening, after = rest[:-1].rpartition(_OPENING.get(rest[-1], "\n"))
            rest = before + after
        if rest.strip() and (marks := _FINAL_MARKS.search(source)):
            chinese = "……" if marks[0][0] in ".…" else marks[0]
            other = marks[0].replace("……", "…").translate(NARROW)
            rest = _ENDING.sub(chinese if script_of(self.to) == "Han" else other, rest, count=1)
        if source[:1].islower() and not prefix and primary_code(self.to) not in _CAPITAL_NOUNS:
            cased_words = (*source.split(), *(term.text for term in self.terms(source)))
            rest = rest.lstrip()
            is_english_i = primary_code(self.to) == "en" and re.match(r"I\b", rest)
            if not rest[1:2].isupper() and not rest.startswith(cased_words) and not is_english_i:
                rest = lower(rest[:1], self.to) + rest[1:]
        return rest

    def final_mark(self, text: str) -> str:
        """Return a copied end of a sentence, whose mark is full-width in Chinese; `1.` is none."""
        is_wide = self.search.typography and script_of(self.to) == "Han" and len(text) == 1
        return text.translate(WIDE) if is_wide else text

    def terms(self, source: str) -> list[Term]:
        """Return the required terms of a normalized text."""
        return [] if self.glossary is None else self.glossary.matches(source)

    def missing_terms(self, source: str, text: str) -> list[Term]:
        """Return the terms that a translation lacks, the last ones of equal terms."""
        return missing_terms(self.terms(source), text)

    def diff(self, source: Line, translation: Line) -> ContentDiff:
        """Return the difference in content outside of items: terms, accelerators, numbers, invented items."""
        source, translation = _marks_as_text(source), _marks_as_text(translation)
        terms, generated = self.terms(normalize(source.text)), translation.text
        missing = tuple(term.text for term in missing_terms(terms, translation.text))
        if not self.search.protect:
            return ContentDiff(missing)
        for term in terms:
            generated = generated.replace(term.text, ITEM)
        lost, added = accelerators(source.text, translation.text)
        missing += (*lost, *lost_numbers(source.text, translation.text))
        return ContentDiff(missing, (*invented_items(generated), *added))

    def _typeset(self, source: str, text: str, prefix: str = "") -> str:
        if not self.search.typography:
            return text
        return apply_typography(self.to, text, [prefix, *(term.text for term in self.terms(source))])

    def typeset(self, source: str, line: Line, prefix: Line) -> Line:
        """Return a translation in the typography of its language, also beside items; the prefix and terms are kept."""
        if not self.search.typography:
            return line
        line, prefix = _marks_as_text(line), _marks_as_text(prefix)
        items = tuple(item._replace(text=item_typography(self.to, item.text)) for item in line.items)
        texts = self._typeset(normalize(source), line.text, prefix.text.rstrip()).split(ITEM)
        for i, text in enumerate(line.text.split(ITEM)[:-1]):  # a new space goes behind closing tags, or away
            if items[i].role == "closing" and texts[i][-1:] == " " != text[-1:]:
                is_needed = texts[i + 1][:1].isalnum() or (not texts[i + 1] and i + 1 < len(items))
                texts[i : i + 2] = [texts[i][:-1], " " * is_needed + texts[i + 1]]
        return Line(ITEM.join(texts), items)


def _marks_as_text(line: Line) -> Line:
    """Return a line in which marks that are items are text."""

    def part(piece: str | Item) -> Line:
        if isinstance(piece, str):
            return Line(piece)
        is_mark = not piece.is_markup and _MARK_ITEM.fullmatch(piece.text)
        return Line(piece.text) if is_mark else Line(ITEM, (piece,))

    return joined(map(part, line.pieces())) if line.items else line


# The types of choices, as far as a wrong one has no message elsewhere, and their names in messages.
_TYPES: dict[str, tuple[Any, str]] = {
    "to": (str | None, "a language code"),
    "tag": (str | None, "the name of a tag"),
    "beam": (SupportsIndex | None, "a whole number"),
    "n_best": (SupportsIndex, "a whole number"),
    "glossary": (Glossary | Mapping | None, "a dictionary or an nmt.text.glossary.Glossary"),
    "sampling": (Mapping | None, "a dictionary with temperature, top_p"),
    "overrides": (list | tuple | None, "a list of decode.key=value"),
}


def check_types(choices: Choices) -> None:
    """Raise TypeError for a choice that does not exist, or whose value has another type."""
    if unknown := choices.keys() - Choices.__annotations__.keys():
        names = ", ".join(Choices.__annotations__)
        raise TypeError(f"translation has no option {min(unknown)!r}; it has {names}")
    for name, value in choices.items():
        type_, expected = _TYPES.get(name, (object, ""))
        entries = value if name == "overrides" and isinstance(value, list | tuple) else ()
        if not isinstance(value, type_) or not all(isinstance(entry, str) for entry in entries):
            raise TypeError(f"{name}: expected {expected}, found {value!r:.60}")


def checked_options(options: object) -> TranslateOptions:
    """Return options. Raises TypeError for another object."""
    if not isinstance(options, TranslateOptions):
        raise TypeError(f"options: expected what Translator.options returns, found {options!r:.60}")
    return options


def checked_lines(lines: Iterable[object]) -> Iterator[str]:
    """Yield lines. Raises TypeError for a line that is not a string."""
    for index, line in enumerate([lines] if isinstance(lines, bytes) else lines):
        if not isinstance(line, str):
            raise TypeError(f"item {index}: expected text, found {line!r:.60}; leave it out, or replace it by ''")
        yield line
