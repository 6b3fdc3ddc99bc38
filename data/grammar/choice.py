"""Random choices of subjects, actions and times that go together."""

from __future__ import annotations

import random
from collections.abc import Sequence

from grammar import italian
from grammar.actions import ACTIONS, ONGOING_ONLY
from grammar.lexicon import ATTRIBUTES, MY_FAMILY, NAMES, PEOPLE, PRONOUNS, YOUR_FAMILY
from grammar.model import Adjective, Noun, Predicate, Subject, Triple

STATEMENT_PRONOUNS = [subject for subject in PRONOUNS if subject.person not in (1, 4)]
QUESTION_PRONOUNS = [subject for subject in PRONOUNS if subject.person not in (0, 3)]
THIRD_PERSONS = [*NAMES, *MY_FAMILY, *PEOPLE]
SINGULAR_PEOPLE = [subject for subject in THIRD_PERSONS if not subject.plural]
PART_TAGS = frozenset("mne")
WEEKLY_VERBS = ("go", "play", "clean", "take", "visit")
RARE_OUTINGS = ("去电影院", "去剧院", "去海边")
WORKDAY_ACTIONS = ("上学", "上班", "工作")
STRANGERS = [person for person in PEOPLE if not person.en.startswith(("my ", "our "))]
PARTS_OF_DAY = {
    "morning": "m",
    "mattina": "m",
    "afternoon": "n",
    "evening": "e",
    "at the weekend": "w",
}


def couple(rng: random.Random) -> Subject:
    """Return two different named people as one plural subject."""
    first, second = rng.sample(NAMES, 2)
    gender = "f" if first.gender == second.gender == "f" else "m"
    it = italian.and_(first.it, second.it)
    return Subject(f"{first.en} and {second.en}", it, f"{first.zh}和{second.zh}", 5, gender)


def statement_subject(rng: random.Random) -> Subject:
    """Choose who a statement is about."""
    roll = rng.random()
    if roll < 0.34:
        return rng.choice(STATEMENT_PRONOUNS)
    if roll < 0.60:
        return rng.choice(NAMES)
    if roll < 0.66:
        return couple(rng)
    return rng.choice(MY_FAMILY if roll < 0.84 else PEOPLE)


def advised_subject(rng: random.Random) -> Subject:
    """Choose who a plan or a duty is about, at times the listener."""
    return PRONOUNS[rng.choice((1, 1, 4))] if rng.random() < 0.2 else statement_subject(rng)


def question_subject(rng: random.Random) -> Subject:
    """Choose who a question is about."""
    roll = rng.random()
    if roll < 0.4:
        return rng.choice(QUESTION_PRONOUNS)
    if roll < 0.65:
        return rng.choice(NAMES)
    return rng.choice(YOUR_FAMILY if roll < 0.85 else STRANGERS)


def wh_subject(rng: random.Random) -> Subject:
    """Choose who a question with an interrogative is about (no lui or lei: they would come last)."""
    subject = question_subject(rng)
    while subject.it in ("lui", "lei"):
        subject = question_subject(rng)
    return subject


def suits(action: Predicate, subject: Subject) -> bool:
    """Tell whether an action befits a subject: by age, and no doctor goes to the doctor."""
    if subject.zh in action.zh:
        return False
    ages = action.tags & {"adult", "young"}
    return subject.age == "any" or not ages or subject.age in ages


def action_for(rng: random.Random, subject: Subject, actions: Sequence[Predicate] = ACTIONS) -> Predicate:
    """Choose an action that befits a subject."""
    return rng.choice([action for action in actions if suits(action, subject)])


def ongoing_action(rng: random.Random, subject: Subject) -> Predicate:
    """Choose an action that lasts, for the progressive."""
    lasting = [action for action in ACTIONS if "moment" not in action.tags]
    return action_for(rng, subject, [*lasting, *ONGOING_ONLY])


def fits(action: Predicate, when: Triple) -> bool:
    """Tell whether an action happens at that part of the day."""
    named = next((part for word, part in PARTS_OF_DAY.items() if word in when.en), "")
    usual = action.tags & PART_TAGS
    if when.en == "every week":
        return action.en_verb in WEEKLY_VERBS and not action.tags & {"adult", "young", "m"}
    if action.zh in WORKDAY_ACTIONS and ("Sunday" in when.en or "Saturday" in when.en or named == "w"):
        return False
    if len(usual) == 1 and any(word in when.en for word in ("next", "last", "ago", "on ")):
        return False
    if action.zh in RARE_OUTINGS and when.en.startswith("every") and when.en != "every week":
        return False
    return named in ("", "w") or not usual or named in usual


def time_for(rng: random.Random, action: Predicate, times: Sequence[Triple]) -> Triple:
    """Choose a time that fits an action."""
    return rng.choice([when for when in times if fits(action, when)])


def places_of(action: Predicate) -> list[str]:
    """Return the keys of the places that fit an action."""
    return sorted(tag[2:] for tag in action.tags if tag.startswith("P:"))


def attribute_for(rng: random.Random, thing: Noun, chance: float, barred: str = "") -> Adjective | None:
    """Choose an attribute that suits a noun, or none."""
    suited = [adjective for adjective in ATTRIBUTES if adjective.classes & thing.classes and adjective.en != barred]
    return rng.choice(suited) if suited and rng.random() < chance else None
