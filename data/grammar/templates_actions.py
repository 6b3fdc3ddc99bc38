"""Templates about what people do: habits, the present, the past, plans, duties and abilities."""

from __future__ import annotations

import random

from grammar import chinese, english, italian
from grammar.actions import ACTIONS, OUTINGS, PLACES, SKILLS
from grammar.choice import (
    action_for,
    advised_subject,
    fits,
    ongoing_action,
    places_of,
    question_subject,
    statement_subject,
    suits,
    time_for,
)
from grammar.clauses import (
    en_question,
    en_verb,
    fronted,
    it_clause,
    it_verb,
    question,
    statement,
    zh_verb,
)
from grammar.lexicon import FUTURE_TIMES, HABIT_TIMES, NAMES, NO_TIME, NOW, PAST_TIMES
from grammar.model import Predicate, Subject, Template, Triple, predicates, sentence, triples

EVENTS = [action for action in ACTIONS if "alone" not in action.tags] + OUTINGS
ADVERBS = triples("""
often | spesso | 经常
sometimes | a volte | 有时候
never | mai | 从来不
""")
ADVERBS_OF_PLACE = triples("""
often | spesso | 经常
always | sempre | 总是
never | mai | 从来不
""")
NEGATIVE_HABITS = [
    when._replace(zh=when.zh.removeprefix("每个")) for when in HABIT_TIMES if not when.en.startswith("every")
]
CHORE_VERBS = ("clean", "wash", "do", "study", "work", "rest", "cook", "make", "walk", "water", "get")
CHORE_PLACES = ("学", "班", "超市", "市场", "医生", "银行", "图书馆")
CHORES = [
    action for action in (*ACTIONS, *OUTINGS) if action.en_verb in CHORE_VERBS or action.zh.endswith(CHORE_PLACES)
]
RECENT_TIMES = [when for when in PAST_TIMES if when.en not in ("last week", "last month")]
FINISHED = predicates("""
have dinner | cenare | 吃过 晚饭
have breakfast | fare colazione | 吃过 早饭
do the homework | fare i compiti | 做完 作业 | young
wash the dishes | lavare i piatti | 洗完 碗
clean the kitchen | pulire la cucina | 打扫完 厨房
read this book | leggere questo libro | 看完 这本书
read this letter | leggere questa lettera | 看完 这封信
write the letter | scrivere la lettera | 写完 信
buy the tickets | comprare i biglietti | 买好 票
pay the bill | pagare il conto | 付完 账 | adult
see this film | vedere questo film | 看过 这部电影
do the shopping | fare la spesa | 买完 菜
arrive home | arrivare a casa | 到 家
go out | uscire | 出门
leave | partire | 出发
""")


def _past_times(action: Predicate) -> list[Triple]:
    """Return the past times that suit an action: only outings are dated by the week or month."""
    return PAST_TIMES if action in OUTINGS else RECENT_TIMES


def _event(rng: random.Random, subject: Subject) -> Predicate:
    """Choose an action or outing for one occasion."""
    return action_for(rng, subject, EVENTS)


def _placed(rng: random.Random, tense: str) -> Triple:
    """Return a clause about an action at a place, without time."""
    subject = statement_subject(rng)
    placed = [action for action in ACTIONS if places_of(action) and suits(action, subject)]
    action = rng.choice([action for action in placed if tense != "progressive" or "moment" not in action.tags])
    place = PLACES[rng.choice(places_of(action))]
    mark = {"progressive": "正在", "want": "想在"}[tense]
    inside = "里" if tense == "progressive" and place.zh[-1] != "里" else ""
    return Triple(
        english.join(subject.en, en_verb(action, subject, tense), place.en),
        italian.join(it_clause(action, subject, tense), place.it),
        f"{subject.zh}{mark}{place.zh}{inside}{action.zh}",
    )


def habit(rng: random.Random) -> Triple:
    """Anna plays tennis every Monday."""
    subject = statement_subject(rng)
    action = action_for(rng, subject)
    return sentence(*statement(action, subject, "present", False, time_for(rng, action, HABIT_TIMES)))


def habit_denied(rng: random.Random) -> Triple:
    """My uncle doesn't work on Mondays."""
    subject = statement_subject(rng)
    action = action_for(rng, subject)
    return sentence(*statement(action, subject, "present", True, time_for(rng, action, NEGATIVE_HABITS)))


def habit_asked(rng: random.Random) -> Triple:
    """Do you play tennis every week?"""
    subject = question_subject(rng)
    action = action_for(rng, subject)
    return sentence(*question(action, subject, "present", time_for(rng, action, HABIT_TIMES)), "?")


def habit_with_adverb(rng: random.Random) -> Triple:
    """We often go to the cinema."""
    subject = statement_subject(rng)
    action = action_for(rng, subject)
    adverb = rng.choice(ADVERBS)
    never, opening = adverb.en == "never", adverb.it if adverb.en == "sometimes" else ""
    inner = "" if opening else adverb.it
    return sentence(
        english.join(subject.en, en_verb(action, subject, "present", adverb=adverb.en)),
        italian.join(opening, subject.it, it_verb(action, subject, "present", never, inner)),
        subject.zh + adverb.zh + action.zh,
    )


def habit_somewhere(rng: random.Random) -> Triple:
    """Anna always studies in the library."""
    subject = statement_subject(rng)
    action = action_for(rng, subject, [action for action in ACTIONS if places_of(action)])
    place, adverb = PLACES[rng.choice(places_of(action))], rng.choice(ADVERBS_OF_PLACE)
    never = adverb.en == "never"
    return sentence(
        english.join(subject.en, en_verb(action, subject, "present", adverb=adverb.en), place.en),
        italian.join(subject.it, it_verb(action, subject, "present", never, adverb.it), place.it),
        f"{subject.zh}{adverb.zh}在{place.zh}{action.zh}",
    )


def going_on(rng: random.Random) -> Triple:
    """Anna is making dinner now."""
    subject = statement_subject(rng)
    action = ongoing_action(rng, subject)
    return sentence(*statement(action, subject, "progressive", rng.random() < 0.15, rng.choice(NOW)))


def going_on_somewhere(rng: random.Random) -> Triple:
    """The children are playing football in the park."""
    return sentence(*_placed(rng, "progressive"))


def going_on_asked(rng: random.Random) -> Triple:
    """Is Marco playing the piano?"""
    subject = question_subject(rng)
    return sentence(*question(ongoing_action(rng, subject), subject, "progressive", rng.choice(NOW)), "?")


def happened(rng: random.Random) -> Triple:
    """Yesterday we played cards."""
    subject = statement_subject(rng)
    action = _event(rng, subject)
    shape = fronted if rng.random() < 0.35 else statement
    return sentence(*shape(action, subject, "past", False, time_for(rng, action, _past_times(action))))


def did_not_happen(rng: random.Random) -> Triple:
    """Last week Anna didn't go to the gym."""
    subject = statement_subject(rng)
    action = _event(rng, subject)
    denied_times = [when for when in _past_times(action) if not when.en.endswith("ago")]
    shape = fronted if rng.random() < 0.35 else statement
    return sentence(*shape(action, subject, "past", True, time_for(rng, action, denied_times)))


def happened_asked(rng: random.Random) -> Triple:
    """Did you wash the dishes yesterday evening?"""
    subject = question_subject(rng)
    action = _event(rng, subject)
    return sentence(*question(action, subject, "past", time_for(rng, action, _past_times(action))), "?")


def planned(rng: random.Random) -> Triple:
    """Tomorrow Anna will go to the theatre."""
    subject = advised_subject(rng)
    action = _event(rng, subject)
    shape = fronted if rng.random() < 0.35 else statement
    negative = rng.random() < 0.3
    return sentence(*shape(action, subject, "future", negative, time_for(rng, action, FUTURE_TIMES)))


def planned_asked(rng: random.Random) -> Triple:
    """Will you go to the market tomorrow?"""
    subject = question_subject(rng)
    action = _event(rng, subject)
    return sentence(*question(action, subject, "future", time_for(rng, action, FUTURE_TIMES)), "?")


def duty(rng: random.Random) -> Triple:
    """I must clean the kitchen tomorrow morning."""
    subject = advised_subject(rng)
    action = action_for(rng, subject, CHORES)
    return sentence(*statement(action, subject, "must", False, time_for(rng, action, FUTURE_TIMES)))


def wish(rng: random.Random) -> Triple:
    """My son wants to swim tomorrow."""
    subject = statement_subject(rng)
    action = _event(rng, subject)
    when = time_for(rng, action, [*FUTURE_TIMES, NO_TIME, NO_TIME, NO_TIME])
    return sentence(*statement(action, subject, "want", rng.random() < 0.3, when))


def wish_asked(rng: random.Random) -> Triple:
    """Do you want to dance?"""
    subject = question_subject(rng)
    action = _event(rng, subject)
    when = time_for(rng, action, [*FUTURE_TIMES, NO_TIME, NO_TIME, NO_TIME])
    return sentence(*question(action, subject, "want", when), "?")


def wish_somewhere(rng: random.Random) -> Triple:
    """We want to have lunch at the restaurant."""
    return sentence(*_placed(rng, "want"))


def skill(rng: random.Random) -> Triple:
    """Anna can ski, or can't."""
    subject = statement_subject(rng)
    return sentence(*statement(rng.choice(SKILLS), subject, "ability", rng.random() < 0.35, NO_TIME))


def skill_asked(rng: random.Random) -> Triple:
    """Can your brother drive?"""
    return sentence(*question(rng.choice(SKILLS), question_subject(rng), "ability", NO_TIME), "?")


def impossible(rng: random.Random) -> Triple:
    """Marco can't go to school today."""
    subject = advised_subject(rng)
    trips = [action for action in EVENTS if action.it_verb in ("andare", "visitare", "giocare")]
    action = action_for(rng, subject, trips)
    return sentence(*statement(action, subject, "can", True, time_for(rng, action, FUTURE_TIMES)))


def accompanied(rng: random.Random) -> Triple:
    """Tomorrow my son will play chess with Luca."""
    subject = statement_subject(rng)
    while subject.plural:
        subject = statement_subject(rng)
    friend = rng.choice([name for name in NAMES if name != subject])
    tense = rng.choice(("present", "past", "future", "want"))
    times = {"present": HABIT_TIMES, "past": RECENT_TIMES, "future": FUTURE_TIMES, "want": FUTURE_TIMES}[tense]
    action = _event(rng, subject)
    when = time_for(rng, action, times)
    mark = {"present": "", "past": "", "future": "会", "want": "想"}[tense]
    done = chinese.completed(action.zh_verb, action.zh_rest) if tense == "past" else action.zh
    return sentence(
        english.join(subject.en, en_verb(action, subject, tense), "with", friend.en, when.en),
        italian.join(it_clause(action, subject, tense), "con", friend.it, when.it),
        f"{subject.zh}{when.zh}{mark}和{friend.zh}一起{done}",
    )


def already(rng: random.Random) -> Triple:
    """Anna has already paid the bill."""
    subject = statement_subject(rng)
    action = action_for(rng, subject, FINISHED)
    return sentence(
        english.join(subject.en, en_verb(action, subject, "perfect", adverb="already")),
        italian.join(subject.it, it_verb(action, subject, "perfect", adverb="già")),
        f"{subject.zh}已经{action.zh}了",
    )


def not_yet(rng: random.Random) -> Triple:
    """We haven't had breakfast yet."""
    subject = statement_subject(rng)
    action = action_for(rng, subject, FINISHED)
    have = "hasn't" if subject.is_third_singular else "haven't"
    plain = action.zh if action.zh_verb[-1] not in "过" else action.zh.replace("过", "")
    return sentence(
        english.join(subject.en, have, english.participle(action.en_verb), action.en_rest, "yet"),
        italian.join(subject.it, it_verb(action, subject, "perfect", True, "ancora")),
        f"{subject.zh}还没{plain}",
    )


def skill_contrast(rng: random.Random) -> Triple:
    """Anna can swim, but she can't drive."""
    subject = statement_subject(rng)
    first, second = rng.sample(SKILLS, 2)
    return sentence(
        f"{subject.en} {en_verb(first, subject, 'ability')}, "
        f"but {subject.pronoun_en} {en_verb(second, subject, 'ability', True)}",
        f"{it_clause(first, subject, 'ability')}, ma {it_verb(second, subject, 'ability', True)}",
        f"{subject.zh}{zh_verb(first, 'ability')}，但是{zh_verb(second, 'ability', True)}",
    )


def why_asked(rng: random.Random) -> Triple:
    """Why didn't Anna go to school yesterday?"""
    subject = question_subject(rng)
    tense, times = rng.choice((("past", RECENT_TIMES), ("want", FUTURE_TIMES)))
    action = _event(rng, subject)
    when = rng.choice([when for when in times if fits(action, when)])
    asked = en_question(action, subject, tense)
    auxiliary, rest = asked.split(" ", 1)
    return sentence(
        f"why {auxiliary}n't {rest} {when.en}",
        italian.join("perché", it_clause(action, subject, tense, True), when.it),
        f"{subject.zh}{when.zh}为什么{zh_verb(action, tense, True)}",
        "?",
    )


TEMPLATES: list[tuple[int, Template]] = [
    (760, habit),
    (380, habit_denied),
    (320, habit_asked),
    (290, habit_with_adverb),
    (260, habit_somewhere),
    (350, going_on),
    (350, going_on_somewhere),
    (200, going_on_asked),
    (580, happened),
    (290, did_not_happen),
    (260, happened_asked),
    (500, planned),
    (180, planned_asked),
    (230, duty),
    (350, wish),
    (180, wish_asked),
    (150, wish_somewhere),
    (200, skill),
    (120, skill_asked),
    (180, impossible),
    (260, accompanied),
    (180, already),
    (150, not_yet),
    (150, skill_contrast),
    (150, why_asked),
]
