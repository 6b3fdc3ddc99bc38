"""The building blocks that the templates combine: triples, subjects, nouns and predicates."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from grammar import english, italian


class Triple(NamedTuple):
    """One sentence, or part of one, in the three languages."""

    en: str
    it: str
    zh: str


Template = Callable[[random.Random], Triple]


@dataclass(frozen=True)
class Subject:
    """Who does it; an empty Italian form is a dropped pronoun."""

    en: str
    it: str
    zh: str
    person: int
    gender: str = "m"
    age: str = "any"

    @property
    def plural(self) -> bool:
        """Tell whether agreement is plural."""
        return self.person > 2

    @property
    def is_third_singular(self) -> bool:
        """Tell whether the English verb takes -s."""
        return self.person == 2

    @property
    def pronoun_en(self) -> str:
        """Return the English pronoun that takes up this subject in a second clause."""
        if self.person == 2:
            return "he" if self.gender == "m" else "she"
        return ("I", "you", "", "we", "you all", "they")[self.person]


@dataclass(frozen=True)
class Noun:
    """A countable noun with its Italian gender and Chinese measure word."""

    en: str
    it: str
    it_plural: str
    gender: str
    zh: str
    measure: str
    classes: frozenset[str]


@dataclass(frozen=True)
class Adjective:
    """An adjective; `prenominal` names its place in Italian, `classes` the nouns it suits."""

    en: str
    it: str
    zh: str
    prenominal: bool = False
    classes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Predicate:
    """A verb with its fixed complements in the three languages."""

    en_verb: str
    en_rest: str
    it_verb: str
    it_rest: str
    zh_verb: str
    zh_rest: str
    tags: frozenset[str] = frozenset()

    @property
    def zh(self) -> str:
        """Return the Chinese predicate without aspect."""
        return self.zh_verb + self.zh_rest

    def with_object(self, thing: Triple) -> Predicate:
        """Return the same verb followed by an object."""
        return Predicate(
            self.en_verb,
            english.join(self.en_rest, thing.en),
            self.it_verb,
            italian.join(self.it_rest, thing.it),
            self.zh_verb,
            self.zh_rest + thing.zh,
            self.tags,
        )


def sentence(en: str, it: str, zh: str, mark: str = ".") -> Triple:
    """Capitalise and punctuate the three sides."""
    zh_mark = {".": "。", "?": "？", "!": "！"}[mark]
    return Triple(en[0].upper() + en[1:] + mark, it[0].upper() + it[1:] + mark, zh + zh_mark)


def predicate(text: str) -> Predicate:
    """Parse `english verb rest | italian verb rest | chinese verb rest | tags`."""
    en, it, zh, *tags = (part.strip() for part in text.split("|"))
    en_verb, _, en_rest = en.partition(" ")
    it_verb, _, it_rest = it.partition(" ")
    zh_verb, _, zh_rest = zh.partition(" ")
    marks = frozenset(tags[0].split()) if tags else frozenset[str]()
    return Predicate(en_verb, en_rest, it_verb, it_rest, zh_verb, zh_rest, marks)


def triples(table: str) -> list[Triple]:
    """Parse lines of `english | italian | chinese`."""
    return [Triple(*(part.strip() for part in line.split("|"))) for line in table.strip().splitlines()]


def predicates(table: str) -> list[Predicate]:
    """Parse one predicate per line."""
    return [predicate(line) for line in table.strip().splitlines()]


def noun(text: str) -> Noun:
    """Parse `english | italian plural gender | chinese measure | classes`."""
    en, it, zh, classes = (part.strip() for part in text.split("|"))
    singular, it_plural, gender = it.split()
    zh_noun, measure = zh.split()
    return Noun(en, singular, it_plural, gender, zh_noun, measure, frozenset(classes.split()))
