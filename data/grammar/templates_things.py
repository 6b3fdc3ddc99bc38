"""Templates about handling things: buying, drinking, choosing, owning, wanting, giving and wearing."""

from __future__ import annotations

import random

from grammar import english, italian
from grammar.choice import attribute_for, question_subject, statement_subject, wh_subject
from grammar.clauses import (
    be,
    counted,
    do,
    en_verb,
    fronted,
    it_clause,
    one,
    question,
    several,
    statement,
    that,
    this,
)
from grammar.deeds import (
    DEEDS,
    DRINK_VERBS,
    DRINKS,
    WEARING,
)
from grammar.lexicon import (
    COLOURS,
    FUTURE_TIMES,
    MY_FAMILY,
    NAMES,
    NO_TIME,
    NOUNS,
    PAST_TIMES,
    PRONOUNS,
    nouns,
)
from grammar.model import Subject, Template, Triple, predicate, sentence

DOUBTFUL_PAST_TIMES = ("last week", "last month")
RECENT_TIMES = [when for when in PAST_TIMES if when.en not in DOUBTFUL_PAST_TIMES]
HAVING = predicate("have | avere | 有")
OWNED = nouns("pet", "vehicle", "wanted")


def deed(rng: random.Random) -> Triple:
    """Yesterday my father bought a red car."""
    subject, done = statement_subject(rng), rng.choice(DEEDS)
    thing = rng.choice([noun for noun in NOUNS if noun.classes & done.classes])
    tense = rng.choice((*done.tenses, "past"))
    edible = "food" in thing.classes or done.action.en_verb == "read"
    quality = None if edible and tense == "progressive" else attribute_for(rng, thing, 0.45)
    many = done.countable and tense == "past"
    unhurried = done.action.en_verb in ("buy", "sell", "visit", "receive") and "food" not in thing.classes
    action = done.action.with_object(counted(rng, thing, quality) if many else one(thing, quality))
    if tense == "past":
        shape = fronted if rng.random() < 0.4 else statement
        return sentence(*shape(action, subject, tense, False, rng.choice(PAST_TIMES if unhurried else RECENT_TIMES)))
    when = rng.choice((*FUTURE_TIMES, NO_TIME)) if tense == "future" else NO_TIME
    return sentence(*statement(action, subject, tense, False, when))


def deed_asked(rng: random.Random) -> Triple:
    """Did Anna buy this hat? Do you want to read that book?"""
    subject = question_subject(rng)
    done = rng.choice([each for each in DEEDS if each.action.en_verb in ("buy", "read", "visit")])
    thing = rng.choice([noun for noun in NOUNS if noun.classes & done.classes])
    tense = rng.choice(("past", "want"))
    thing_phrase = rng.choice((this, that))(thing, None)
    return sentence(*question(done.action.with_object(thing_phrase), subject, tense, NO_TIME), "?")


def drinking(rng: random.Random) -> Triple:
    """She ordered two cups of tea."""
    subject, verb = statement_subject(rng), rng.choice(DRINK_VERBS)
    sober = subject.age == "young"
    drink = rng.choice(rng.choice([pair for pair in DRINKS if not (sober and pair[0].zh[2:] in ("啤酒", "葡萄酒"))]))
    tense = rng.choice(("past", "past", "want"))
    action = verb.with_object(drink)
    return sentence(*statement(action, subject, tense, False, NO_TIME))


def which_asked(rng: random.Random) -> Triple:
    """Which book do you want to buy?"""
    subject = wh_subject(rng)
    verb = rng.choice([each for each in DEEDS if each.action.en_verb in ("buy", "read", "choose", "visit")])
    thing = rng.choice([noun for noun in NOUNS if noun.classes & verb.classes])
    action = verb.action
    tense = rng.choice(("past", "want"))
    auxiliary = f"did {subject.en}" if tense == "past" else f"{do(subject)} {subject.en} want to"
    zh_verb = action.zh + "了" if tense == "past" else "想" + action.zh
    it_verb = it_clause(action, Subject("", "", "", subject.person, subject.gender), tense)
    return sentence(
        f"which {thing.en} {auxiliary} {action.en_verb}",
        italian.join("quale", thing.it, it_verb, subject.it),
        f"{subject.zh}{zh_verb}哪{thing.measure}{thing.zh}",
        "?",
    )


def owning(rng: random.Random) -> Triple:
    """Anna has two black cats."""
    subject, thing = statement_subject(rng), rng.choice(OWNED)
    thing_phrase = counted(rng, thing, attribute_for(rng, thing, 0.5), 4)
    return sentence(*statement(HAVING.with_object(thing_phrase), subject, "present", False, NO_TIME))


def owning_denied(rng: random.Random) -> Triple:
    """My aunt doesn't have a car."""
    subject, thing = statement_subject(rng), rng.choice(OWNED)
    held = one(thing)
    return sentence(
        f"{subject.en} {do(subject)}n't have {held.en}",
        italian.join(subject.it, "non", italian.present("avere", subject.person), held.it),
        f"{subject.zh}没有{thing.zh}",
    )


def owning_asked(rng: random.Random) -> Triple:
    """Do you have a bicycle?"""
    subject, thing = question_subject(rng), rng.choice(OWNED)
    held = one(thing)
    return sentence(
        f"{do(subject)} {subject.en} have {held.en}",
        italian.join(subject.it, italian.present("avere", subject.person), held.it),
        f"{subject.zh}有{thing.zh}吗",
        "?",
    )


def wanting(rng: random.Random) -> Triple:
    """My daughter wants a white cat."""
    subject, thing = statement_subject(rng), rng.choice(nouns("wanted", "pet", "treat"))
    held = one(thing, attribute_for(rng, thing, 0.6, barred="old"))
    third = subject.is_third_singular
    needing = rng.random() < 0.3 and "pet" not in thing.classes
    it_verb = "avere" if needing else "volere"
    it_object = f"bisogno di {held.it}" if needing else held.it
    verb = ("needs" if third else "need") if needing else ("wants" if third else "want")
    return sentence(
        f"{subject.en} {verb} {held.en}",
        italian.join(subject.it, italian.present(it_verb, subject.person), it_object),
        f"{subject.zh}{'需要' if needing else '想要'}{held.zh}",
    )


def giving(rng: random.Random) -> Triple:
    """Marco gave Anna a red scarf."""
    subject = statement_subject(rng)
    pool = [*NAMES, *MY_FAMILY] if subject.en == "I" else NAMES
    receiver = rng.choice([person for person in pool if not person.plural and person.zh not in subject.zh])
    given = rng.random() < 0.6
    thing = rng.choice(nouns("readable", "clothes", "headwear", "carried") if given else nouns("writable"))
    held = one(thing, attribute_for(rng, thing, 0.4) if given else None)
    when = rng.choice((NO_TIME, *RECENT_TIMES))
    verb = predicate("give | dare | 给" if given else "write | scrivere | 写")
    ordered = f"{receiver.en} {held.en}" if given else f"{held.en} to {receiver.en}"
    zh_verb = f"给了{receiver.zh}" if given else f"给{receiver.zh}写了"
    return sentence(
        english.join(subject.en, en_verb(verb, subject, "past"), ordered, when.en),
        italian.join(it_clause(verb, subject, "past"), held.it, italian.contract("a", receiver.it), when.it),
        subject.zh + when.zh + zh_verb + held.zh,
    )


def wearing(rng: random.Random) -> Triple:
    """Anna is wearing a green skirt."""
    subject = statement_subject(rng)
    kind = rng.choice(sorted(WEARING))
    thing = rng.choice([noun for noun in nouns(kind) if noun.en != "skirt" or subject.gender == "f"])
    while subject.plural or subject.person == 1:
        subject = rng.choice((*NAMES, *PRONOUNS[2:4]))
        thing = rng.choice([noun for noun in nouns(kind) if noun.en != "skirt" or subject.gender == "f"])
    held = one(thing, rng.choice(COLOURS))
    return sentence(
        english.join(subject.en, be(subject), "wearing", held.en),
        italian.join(subject.it, italian.present("indossare", subject.person), held.it),
        subject.zh + WEARING[kind] + held.zh,
    )


def how_many_asked(rng: random.Random) -> Triple:
    """How many apples did Anna buy?"""
    subject = wh_subject(rng)
    verb, pool, tense = rng.choice(
        (
            (predicate("buy | comprare | 买"), nouns("goods", "fruit"), "past"),
            (predicate("eat | mangiare | 吃"), nouns("fruit"), "past"),
            (HAVING, OWNED, "present"),
            (predicate("read | leggere | 看"), nouns("readable"), "past"),
            (predicate("draw | disegnare | 画"), nouns("drawn", "animal"), "past"),
        )
    )
    thing = rng.choice(pool)
    many = several(2, thing)
    gender = "f" if thing.en == "egg" else thing.gender
    bare = Subject("", "", "", subject.person, subject.gender)
    auxiliary = "did" if tense == "past" else do(subject)
    return sentence(
        f"how many {many.en.split(' ', 1)[1]} {auxiliary} {subject.en} {verb.en_verb}",
        italian.join(
            italian.adjective("quanto", gender, True),
            thing.it_plural,
            it_clause(verb, bare, tense),
            subject.it,
        ),
        f"{subject.zh}{verb.zh}{'了' if tense == 'past' else ''}几{thing.measure}{thing.zh}",
        "?",
    )


TEMPLATES: list[tuple[int, Template]] = [
    (880, deed),
    (200, deed_asked),
    (150, drinking),
    (180, which_asked),
    (350, owning),
    (150, owning_denied),
    (150, owning_asked),
    (230, wanting),
    (290, giving),
    (200, wearing),
    (180, how_many_asked),
]
