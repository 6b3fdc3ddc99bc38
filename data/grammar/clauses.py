"""Inflect predicates into clauses, and nouns into noun phrases, in the three languages."""

from __future__ import annotations

import random

from grammar import chinese, english, italian
from grammar.model import Adjective, Noun, Predicate, Subject, Triple

EN_MODALS = {"must": "must", "can": "can", "ability": "can", "future": "will"}
EN_NEGATIVE_MODALS = {"can": "can't", "ability": "can't", "future": "won't"}
IT_MODALS = {"must": "dovere", "want": "volere", "can": "potere", "ability": "sapere"}
ZH_MARKS = {
    "present": ("", "不"),
    "past": ("", "没"),
    "future": ("会", "不会"),
    "progressive": ("正在", "没在"),
    "must": ("必须", ""),
    "want": ("想", "不想"),
    "can": ("能", "不能"),
    "ability": ("会", "不会"),
}


def be(subject: Subject, past: bool = False) -> str:
    """Return the form of English be for a subject."""
    return (english.BE_PAST if past else english.BE_PRESENT)[subject.person]


def do(subject: Subject) -> str:
    """Return do or does for a subject."""
    return "does" if subject.is_third_singular else "do"


def en_verb(action: Predicate, subject: Subject, tense: str, negative: bool = False, adverb: str = "") -> str:
    """Return the English verb phrase of a statement."""
    base, rest = action.en_verb, action.en_rest
    third = subject.is_third_singular
    if tense == "progressive":
        return english.join(be(subject), "not" if negative else "", english.gerund(base), rest)
    if tense in EN_MODALS:
        return english.join((EN_NEGATIVE_MODALS if negative else EN_MODALS)[tense], adverb, base, rest)
    if tense == "perfect":
        return english.join("has" if third else "have", adverb, english.participle(base), rest)
    if tense == "want":
        wanting = do(subject) + "n't want" if negative else ("wants" if third else "want")
        return english.join(wanting, "to", base, rest)
    if negative:
        return english.join("didn't" if tense == "past" else do(subject) + "n't", adverb, base, rest)
    present = english.third_person(base) if third else base
    return english.join(adverb, english.past(base) if tense == "past" else present, rest)


def en_question(action: Predicate, subject: Subject, tense: str) -> str:
    """Return an English question with its auxiliary first, without capital or mark."""
    base = action.en_verb
    if tense == "progressive":
        return english.join(be(subject), subject.en, english.gerund(base), action.en_rest)
    if tense == "want":
        return english.join(do(subject), subject.en, "want to", base, action.en_rest)
    auxiliary = "did" if tense == "past" else EN_MODALS.get(tense, do(subject))
    return english.join(auxiliary, subject.en, base, action.en_rest)


def it_verb(action: Predicate, subject: Subject, tense: str, negative: bool = False, adverb: str = "") -> str:
    """Return the Italian verb phrase, with reflexive clitics and participle agreement."""
    infinitive, person = action.it_verb, subject.person
    reflexive = infinitive.endswith("rsi")
    if reflexive:
        infinitive = infinitive[:-2] + "e"
    clitic = italian.REFLEXIVE_CLITICS[person] if reflexive else ""
    no = "non" if negative else ""
    if tense in IT_MODALS:
        attached = infinitive[:-1] + clitic if reflexive else infinitive
        return italian.join(no, italian.present(IT_MODALS[tense], person), adverb, attached, action.it_rest)
    if tense in ("past", "perfect"):
        with_essere = reflexive or infinitive in italian.ESSERE_VERBS
        form = italian.participle(infinitive)
        if with_essere:
            form = italian.adjective(form, subject.gender, subject.plural)
        auxiliary = italian.present("essere" if with_essere else "avere", person)
        return italian.join(no, clitic, auxiliary, adverb, form, action.it_rest)
    if tense in ("progressive", "was_doing"):
        conjugate = italian.present if tense == "progressive" else italian.imperfect
        staying = conjugate("stare", person)
        return italian.join(no, clitic, staying, adverb, italian.gerund(infinitive), action.it_rest)
    finite = {"present": italian.present, "future": italian.future, "imperfect": italian.imperfect}[tense]
    return italian.join(no, clitic, finite(infinitive, person), adverb, action.it_rest)


def it_clause(action: Predicate, subject: Subject, tense: str, negative: bool = False) -> str:
    """Return an Italian clause with its subject."""
    return italian.join(subject.it, it_verb(action, subject, tense, negative))


def zh_verb(action: Predicate, tense: str, negative: bool = False) -> str:
    """Return the Chinese predicate with its aspect, modal and negation."""
    mark = ZH_MARKS[tense][negative]
    if tense == "past" and not negative:
        return chinese.completed(action.zh_verb, action.zh_rest)
    return mark + action.zh


def statement(action: Predicate, subject: Subject, tense: str, negative: bool, when: Triple) -> Triple:
    """Return a clause with a time expression at the end (Chinese: after the subject)."""
    return Triple(
        english.join(subject.en, en_verb(action, subject, tense, negative), when.en),
        italian.join(it_clause(action, subject, tense, negative), when.it),
        subject.zh + when.zh + zh_verb(action, tense, negative),
    )


def fronted(action: Predicate, subject: Subject, tense: str, negative: bool, when: Triple) -> Triple:
    """Return a clause that opens with the time expression in all three languages."""
    return Triple(
        english.join(when.en, subject.en, en_verb(action, subject, tense, negative)),
        italian.join(when.it, it_clause(action, subject, tense, negative)),
        when.zh + subject.zh + zh_verb(action, tense, negative),
    )


def question(action: Predicate, subject: Subject, tense: str, when: Triple) -> Triple:
    """Return a yes/no question without capital or mark."""
    return Triple(
        english.join(en_question(action, subject, tense), when.en),
        italian.join(it_clause(action, subject, tense), when.it),
        subject.zh + when.zh + zh_verb(action, tense) + "吗",
    )


def described(thing: Noun, adjective: Adjective | None, plural: bool) -> Triple:
    """Return a noun with its adjective, without determiner; Chinese without measure word."""
    it = thing.it_plural if plural else thing.it
    en = english.plural(thing.en) if plural else thing.en
    if adjective is None:
        return Triple(en, it, thing.zh)
    if adjective.it == "bello":
        it = italian.beautiful(it, thing.gender, plural)
    elif adjective.it == "buono":
        it = italian.good(it, thing.gender, plural)
    else:
        form = italian.adjective(adjective.it, thing.gender, plural)
        it = f"{form} {it}" if adjective.prenominal else f"{it} {form}"
    return Triple(f"{adjective.en} {en}", it, adjective.zh + thing.zh)


def one(thing: Noun, adjective: Adjective | None = None) -> Triple:
    """Return an indefinite singular noun phrase."""
    bare = described(thing, adjective, plural=False)
    it = italian.indefinite(bare.it, thing.gender)
    return Triple(english.indefinite(bare.en), it, f"一{thing.measure}{bare.zh}")


def several(amount: int, thing: Noun, adjective: Adjective | None = None) -> Triple:
    """Return a noun phrase counted from two upwards."""
    bare = described(thing, adjective, plural=True)
    return Triple(
        f"{english.number(amount)} {bare.en}",
        f"{italian.number(amount)} {bare.it}",
        chinese.count(amount, thing.measure) + bare.zh,
    )


def this(thing: Noun, adjective: Adjective | None = None) -> Triple:
    """Return a singular noun phrase with this."""
    bare = described(thing, adjective, plural=False)
    return Triple(f"this {bare.en}", italian.this(bare.it, thing.gender, False), f"这{thing.measure}{bare.zh}")


def that(thing: Noun, adjective: Adjective | None = None) -> Triple:
    """Return a singular noun phrase with that."""
    bare = described(thing, adjective, plural=False)
    return Triple(f"that {bare.en}", italian.that(bare.it, thing.gender, False), f"那{thing.measure}{bare.zh}")


def mine(thing: Noun, owner: int) -> Triple:
    """Return a singular noun phrase owned by me (0), you (1) or us (3)."""
    en = ("my", "your", "", "our")[owner]
    it = italian.adjective(("mio", "tuo", "", "nostro")[owner], thing.gender, False)
    it = f"il {it}" if it in ("mio", "tuo", "nostro") else f"la {it}"
    return Triple(f"{en} {thing.en}", f"{it} {thing.it}", ("我的", "你的", "", "我们的")[owner] + thing.zh)


def counted(rng: random.Random, thing: Noun, adjective: Adjective | None = None, most: int = 6) -> Triple:
    """Return one or several of a thing, one being the likelier."""
    if rng.random() < 0.6:
        return one(thing, adjective)
    return several(rng.randint(2, most), thing, adjective)
