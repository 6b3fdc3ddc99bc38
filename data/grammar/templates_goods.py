"""Templates about where things are, what they cost, what they are like and how they compare."""

from __future__ import annotations

import random

from grammar import chinese, english, italian
from grammar.choice import attribute_for
from grammar.clauses import (
    mine,
    one,
    several,
    that,
    this,
)
from grammar.deeds import (
    BELONGINGS,
    PERSON_SPOTS,
    SPOTS,
    STORES,
    TOWN_SPOTS,
)
from grammar.lexicon import (
    NOUNS,
    nouns,
)
from grammar.model import Noun, Template, Triple, sentence
from grammar.qualities import COMPARATIVES, THING_QUALITIES, denied
from grammar.templates_things import OWNED

PRICED = [
    thing
    for thing in nouns("clothes", "headwear", "vehicle", "furniture", "readable", "fixable", "wanted")
    if thing.en not in ("car", "house")
]
BUILDINGS = nouns("town")
ONLOOKERS = nouns("person")
KINDS = frozenset(("clothes", "headwear", "vehicle", "readable", "fruit", "food", "visited", "animal", "home"))


def existing(rng: random.Random) -> Triple:
    """There are three books on the table."""
    pool, spots = rng.choice(
        (
            (nouns("onthing"), SPOTS[:9]),
            (BUILDINGS, TOWN_SPOTS),
            (ONLOOKERS, PERSON_SPOTS),
            (nouns("tabletop"), [spot for spot in SPOTS if spot.zh in ("桌子上", "厨房里")]),
        )
    )
    thing = rng.choice(pool)
    spot = rng.choice([spot for spot in spots if thing.en not in spot.en])
    amount = rng.choice((1, 1, 1, 2, 2, 3, 4, 5, 6, 10))
    if pool == BUILDINGS:
        amount = min(amount, 2)
    quality = attribute_for(rng, thing, 0.35)
    held = one(thing, quality) if amount == 1 else several(amount, thing, quality)
    opening = ("there is", "c'è") if amount == 1 else ("there are", "ci sono")
    return sentence(f"{opening[0]} {held.en} {spot.en}", f"{opening[1]} {held.it} {spot.it}", f"{spot.zh}有{held.zh}")


def existing_asked(rng: random.Random) -> Triple:
    """Is there a bank near the station?"""
    thing = rng.choice(BUILDINGS)
    spot = rng.choice([spot for spot in TOWN_SPOTS if thing.en not in spot.en])
    held = one(thing)
    if rng.random() < 0.3:
        return sentence(
            f"there isn't {held.en} {spot.en}",
            f"non c'è {held.it} {spot.it}",
            f"{spot.zh}没有{thing.zh}",
        )
    return sentence(f"is there {held.en} {spot.en}", f"c'è {held.it} {spot.it}", f"{spot.zh}有{thing.zh}吗", "?")


def stored(rng: random.Random) -> Triple:
    """Is there any milk in the fridge?"""
    stuff, spot = rng.choice(STORES)
    kind = rng.choice(("no", "some", "any", "much"))
    some = italian.contract("di", italian.definite(stuff.it, "f" if stuff.it in ("acqua", "frutta") else "m", False))
    if kind == "no":
        return sentence(
            f"there is no {stuff.en} {spot.en}", f"non c'è {stuff.it} {spot.it}", f"{spot.zh}没有{stuff.zh}"
        )
    if kind == "some":
        return sentence(f"there is some {stuff.en} {spot.en}", f"c'è {some} {spot.it}", f"{spot.zh}有一些{stuff.zh}")
    if kind == "much":
        much = "molta" if stuff.it in ("acqua", "frutta") else "molto"
        return sentence(
            f"there is a lot of {stuff.en} {spot.en}",
            f"c'è {much} {stuff.it} {spot.it}",
            f"{spot.zh}有很多{stuff.zh}",
        )
    return sentence(f"is there any {stuff.en} {spot.en}", f"c'è {some} {spot.it}", f"{spot.zh}有{stuff.zh}吗", "?")


def _the(thing: Noun) -> Triple:
    """Return a definite singular noun phrase (bare in Chinese)."""
    return Triple(f"the {thing.en}", italian.definite(thing.it, thing.gender, False), thing.zh)


def lying(rng: random.Random) -> Triple:
    """My book is under the bed; where are the keys?"""
    thing = rng.choice(nouns("carried", "readable"))
    if rng.random() < 0.3:
        subject, plural = rng.choice(BELONGINGS), True
    else:
        subject = _the(thing) if rng.random() < 0.4 else mine(thing, rng.choice((0, 1)))
        plural = False
    spot = rng.choice([spot for spot in SPOTS if thing.en != "bag" or "bag" not in spot.en])
    roll = rng.random()
    if roll < 0.2:
        where = ("where are", "dove sono") if plural else ("where is", "dov'è")
        return sentence(f"{where[0]} {subject.en}", f"{where[1]} {subject.it}", f"{subject.zh}在哪里", "?")
    be, essere = ("are", "sono") if plural else ("is", "è")
    if roll < 0.4:
        return sentence(
            f"{subject.en} {be}n't {spot.en}",
            f"{subject.it} non {essere} {spot.it}",
            f"{subject.zh}不在{spot.zh}",
        )
    if roll < 0.55:
        return sentence(
            f"{be} {subject.en} {spot.en}",
            f"{subject.it} {essere} {spot.it}",
            f"{subject.zh}在{spot.zh}吗",
            "?",
        )
    return sentence(f"{subject.en} {be} {spot.en}", f"{subject.it} {essere} {spot.it}", f"{subject.zh}在{spot.zh}")


def costing(rng: random.Random) -> Triple:
    """This shirt costs twenty euros; how much does that hat cost?"""
    thing = rng.choice(PRICED)
    held = rng.choice((this, that))(thing, attribute_for(rng, thing, 0.4))
    if rng.random() < 0.3:
        return sentence(f"how much does {held.en} cost", f"quanto costa {held.it}", f"{held.zh}多少钱", "?")
    if "vehicle" in thing.classes or thing.en in ("computer", "phone", "camera", "guitar", "bed"):
        amount = rng.randint(1, 9) * 100
    elif "readable" in thing.classes:
        amount = rng.choice((5, 8, 10, 12, 15, 18))
    else:
        amount = rng.choice((*range(16, 30), *range(30, 100, 5)))
    return sentence(
        f"{held.en} costs {english.number(amount)} euros",
        f"{held.it} costa {italian.number(amount)} euro",
        f"{held.zh}{chinese.number(amount)}欧元",
    )


def described_thing(rng: random.Random) -> Triple:
    """That book isn't very interesting."""
    quality = rng.choice(THING_QUALITIES)
    thing = rng.choice([noun for noun in NOUNS if noun.classes & quality.classes])
    kind = rng.choice(("is", "very", "too", "not", "asked"))
    if rng.random() < 0.3 and thing in OWNED:
        held = mine(thing, 1 if kind == "asked" else rng.choice((0, 1)))
    else:
        held = rng.choice((this, that))(thing)
    it_quality = italian.adjective(quality.it, thing.gender, False)
    if kind == "asked":
        return sentence(f"is {held.en} {quality.en}", f"{held.it} è {it_quality}", f"{held.zh}{quality.zh}吗", "?")
    if kind == "not":
        return sentence(f"{held.en} isn't {quality.en}", f"{held.it} non è {it_quality}", held.zh + denied(quality))
    if kind == "too" and quality.en not in ("expensive", "heavy", "big", "small", "difficult", "dirty"):
        kind = "is"
    en_degree = {"is": "", "very": "very", "too": "too"}[kind]
    it_degree = {"is": "", "very": "molto", "too": "troppo"}[kind]
    zh_quality = {"is": f"很{quality.zh}", "very": f"非常{quality.zh}", "too": f"太{quality.zh}了"}[kind]
    return sentence(
        english.join(held.en, "is", en_degree, quality.en),
        italian.join(held.it, "è", it_degree, it_quality),
        held.zh + zh_quality,
    )


def compared_things(rng: random.Random) -> Triple:
    """This car is more expensive than that bicycle."""
    quality = rng.choice([each for each in THING_QUALITIES if each.en in COMPARATIVES])
    suited = [noun for noun in NOUNS if noun.classes & quality.classes]
    thing = rng.choice(suited)
    other = rng.choice([noun for noun in suited if noun == thing or noun.classes & thing.classes & KINDS])
    first, second = this(thing), that(other)
    return sentence(
        f"{first.en} is {COMPARATIVES[quality.en]} than {second.en}",
        f"{first.it} è più {italian.adjective(quality.it, thing.gender, False)} di {second.it}",
        f"{first.zh}比{second.zh}{quality.zh}",
    )


TEMPLATES: list[tuple[int, Template]] = [
    (380, existing),
    (120, existing_asked),
    (20, stored),
    (200, lying),
    (290, costing),
    (290, described_thing),
    (260, compared_things),
]
