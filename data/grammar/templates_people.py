"""Templates about people: qualities, feelings, jobs, origins, homes and ages."""

from __future__ import annotations

import random

from grammar import chinese, english, italian
from grammar.actions import CITIES, COUNTRIES, FEMININE_JOBS, JOBS
from grammar.choice import SINGULAR_PEOPLE, STRANGERS, couple, question_subject, statement_subject, wh_subject
from grammar.clauses import be, en_question, en_verb, it_clause, it_verb
from grammar.lexicon import MY_FAMILY, NAMES, NO_TIME, PEOPLE, PRONOUNS, YOUR_FAMILY
from grammar.model import Subject, Template, Triple, predicate, sentence, triples
from grammar.qualities import COMPARATIVES, FEELINGS, PERSON_QUALITIES, denied

WORKPLACES = triples("""
in a bank | in una banca | 在银行工作
in a hospital | in un ospedale | 在医院工作
in a school | in una scuola | 在学校工作
in a factory | in una fabbrica | 在工厂工作
in a restaurant | in un ristorante | 在餐厅工作
in an office | in un ufficio | 在办公室工作
in a museum | in un museo | 在博物馆工作
in a library | in una biblioteca | 在图书馆工作
""")
NATIONALITIES = triples("""
Italian | italiano | 意大利人
Chinese | cinese | 中国人
English | inglese | 英国人
French | francese | 法国人
Spanish | spagnolo | 西班牙人
German | tedesco | 德国人
Japanese | giapponese | 日本人
American | americano | 美国人
""")
STATES = [quality for quality in PERSON_QUALITIES if "state" in quality.classes]
TRAITS = [quality for quality in PERSON_QUALITIES if "trait" in quality.classes]


def _quality_of(rng: random.Random, subject: Subject, negative: bool) -> Triple:
    """Return a predicate of quality, with agreement, for a subject."""
    quality = rng.choice(STATES if subject.person in (0, 1, 3, 4) or rng.random() < 0.6 else TRAITS)
    it = italian.adjective(quality.it, subject.gender, subject.plural)
    if negative:
        return Triple(quality.en, it, denied(quality))
    degree = rng.choice((Triple("", "", "很"), Triple("", "", "很"), Triple("very", "molto", "非常")))
    return Triple(english.join(degree.en, quality.en), italian.join(degree.it, it), degree.zh + quality.zh)


def being(rng: random.Random) -> Triple:
    """My sister is very happy; the boy isn't lazy."""
    subject, negative = statement_subject(rng), rng.random() < 0.25
    quality = _quality_of(rng, subject, negative)
    today = rng.choice((NO_TIME, NO_TIME, Triple("today", "oggi", "今天")))
    if quality.en.split()[-1] not in [each.en for each in STATES]:
        today = NO_TIME
    essere = italian.present("essere", subject.person)
    return sentence(
        english.join(subject.en, be(subject), "not" if negative else "", quality.en, today.en),
        italian.join(subject.it, "non" if negative else "", essere, quality.it, today.it),
        subject.zh + today.zh + quality.zh,
    )


def being_asked(rng: random.Random) -> Triple:
    """Are you tired? Why is Anna so sad?"""
    why = rng.random() < 0.35
    subject = wh_subject(rng) if why else question_subject(rng)
    quality = rng.choice(STATES if why or subject.person in (1, 4) else PERSON_QUALITIES)
    it = italian.adjective(quality.it, subject.gender, subject.plural)
    essere = italian.present("essere", subject.person)
    if why:
        return sentence(
            f"why {be(subject)} {subject.en} so {quality.en}",
            italian.join("perché", subject.it, essere, "così", it),
            f"{subject.zh}为什么这么{quality.zh}",
            "?",
        )
    return sentence(
        f"{be(subject)} {subject.en} {quality.en}",
        italian.join(subject.it, essere, it),
        f"{subject.zh}{quality.zh}吗",
        "?",
    )


def feeling(rng: random.Random) -> Triple:
    """The children are hungry."""
    asking = rng.random() < 0.35
    subject = question_subject(rng) if asking else statement_subject(rng)
    sensed = rng.choice(FEELINGS)
    avere = italian.present("avere", subject.person)
    if asking:
        return sentence(
            f"{be(subject)} {subject.en} {sensed.en}",
            italian.join(subject.it, avere, sensed.it),
            f"{subject.zh}{sensed.zh}吗",
            "?",
        )
    negative = rng.random() < 0.35
    return sentence(
        english.join(subject.en, be(subject), "not" if negative else "", sensed.en),
        italian.join(subject.it, "non" if negative else "", avere, sensed.it),
        f"{subject.zh}{'不' if negative else '很'}{sensed.zh}",
    )


def compared_people(rng: random.Random) -> Triple:
    """Anna is taller than Marco; Laura is as young as Sara."""
    quality = rng.choice([each for each in TRAITS if each.en in COMPARATIVES])
    first, second = rng.sample(NAMES, 2)
    if quality.en != "young" and rng.random() < 0.5:
        first = rng.choice(MY_FAMILY[:10])
    it = italian.adjective(quality.it, first.gender, False)
    if rng.random() < 0.3:
        return sentence(
            f"{first.en} is as {quality.en} as {second.en}",
            f"{first.it} è {it} come {second.it}",
            f"{first.zh}和{second.zh}一样{quality.zh}",
        )
    return sentence(
        f"{first.en} is {COMPARATIVES[quality.en]} than {second.en}",
        f"{first.it} è più {it} di {second.it}",
        f"{first.zh}比{second.zh}{quality.zh}",
    )


def job(rng: random.Random) -> Triple:
    """My uncle is a doctor; is Anna a lawyer?"""
    asking = rng.random() < 0.3
    family = YOUR_FAMILY if asking else MY_FAMILY
    grown = [person for person in (*NAMES, *family, *PRONOUNS[2:4]) if not person.plural and person.age != "young"]
    subject, work = rng.choice(grown), rng.choice(JOBS)
    it_job = FEMININE_JOBS.get(work.it, work.it) if subject.gender == "f" else work.it
    if asking:
        return sentence(f"is {subject.en} {work.en}", f"{subject.it} è {it_job}", f"{subject.zh}是{work.zh}吗", "?")
    if rng.random() < 0.3:
        return sentence(
            f"{subject.en} is not {work.en}",
            f"{subject.it} non è {it_job}",
            f"{subject.zh}不是{work.zh}",
        )
    return sentence(f"{subject.en} is {work.en}", f"{subject.it} è {it_job}", f"{subject.zh}是{work.zh}")


def nationality(rng: random.Random) -> Triple:
    """The engineer is German."""
    asking = rng.random() < 0.3
    spouses = [each for each in (YOUR_FAMILY if asking else MY_FAMILY) if each.it.endswith(("moglie", "marito"))]
    foreigners = [*PRONOUNS[2:4], *(STRANGERS if asking else PEOPLE), *spouses]
    subject = rng.choice(foreigners)
    people = rng.choice(NATIONALITIES)
    it = italian.adjective(people.it, subject.gender, subject.plural)
    essere = italian.present("essere", subject.person)
    if asking:
        return sentence(
            f"{be(subject)} {subject.en} {people.en}",
            f"{subject.it} {essere} {it}",
            f"{subject.zh}是{people.zh}吗",
            "?",
        )
    return sentence(
        f"{subject.en} {be(subject)} {people.en}", f"{subject.it} {essere} {it}", f"{subject.zh}是{people.zh}"
    )


def living(rng: random.Random) -> Triple:
    """My aunt lives in Milan; Paolo works in a bank; the tourists come from Japan."""
    subject = statement_subject(rng)
    city, country, work = rng.choice(CITIES), rng.choice(COUNTRIES), rng.choice(WORKPLACES)
    cases = [(predicate("live | vivere | 住"), Triple(f"in {city.en}", f"a {city.it}", f"住在{city.zh}"))]
    cases.append((predicate("live | vivere | 住"), Triple(f"in {country.en}", f"in {country.it}", f"住在{country.zh}")))
    if subject.age != "young":
        cases.append((predicate("work | lavorare | 工作"), work))
    article = italian.definite(country.it, "m" if country.it == "Giappone" else "f", False)
    origin = Triple(f"from {country.en}", italian.contract("da", article), f"来自{country.zh}")
    cases.append((predicate("come | venire | 来"), origin))
    verb, where = rng.choice(cases)
    return sentence(
        english.join(subject.en, en_verb(verb, subject, "present"), where.en),
        italian.join(it_clause(verb, subject, "present"), where.it),
        subject.zh + where.zh,
    )


def where_living(rng: random.Random) -> Triple:
    """Where does your brother live?"""
    subject = wh_subject(rng)
    verb, zh = rng.choice(
        (
            (predicate("live | abitare | 住"), "住在哪里"),
            (predicate("work | lavorare | 工作"), "在哪里工作"),
            (predicate("study | studiare | 学习"), "在哪里学习"),
            (predicate("swim | nuotare | 游泳"), "在哪里游泳"),
            (predicate("play football | giocare a calcio | 踢"), "在哪里踢足球"),
            (predicate("have lunch | pranzare | 吃"), "在哪里吃午饭"),
            (predicate("buy fruit | comprare la frutta | 买"), "在哪里买水果"),
            (predicate("play tennis | giocare a tennis | 打"), "在哪里打网球"),
        )
    )
    return sentence(
        f"where {en_question(verb, subject, 'present')}",
        italian.join("dove", it_verb(verb, subject, "present"), subject.it),
        subject.zh + zh,
        "?",
    )


def age(rng: random.Random) -> Triple:
    """My grandmother is eighty years old; how old is your son?"""
    subject = rng.choice([*SINGULAR_PEOPLE[:26], *PRONOUNS[2:4], PRONOUNS[0]])
    ranges = {
        "son": (2, 18),
        "daughter": (2, 18),
        "grandfather": (65, 95),
        "grandmother": (65, 95),
        "mother": (40, 60),
        "father": (40, 60),
        "brother": (12, 35),
        "sister": (12, 35),
    }
    years = rng.randint(*ranges.get(subject.en.split()[-1], (20, 60)))
    it_years = italian.number(years)
    if it_years.endswith("uno"):
        it_years = it_years[:-1]
    it_age = f"{it_years[:-1]}'anni" if years % 10 == 0 and years >= 20 else f"{it_years} anni"
    return sentence(
        f"{subject.en} {be(subject)} {english.number(years)} years old",
        italian.join(subject.it, italian.present("avere", subject.person), it_age),
        f"{subject.zh}{chinese.count(years, '')}岁",
    )


def pair_being(rng: random.Random) -> Triple:
    """Anna and Marco are very tired."""
    subject = couple(rng)
    quality = rng.choice(PERSON_QUALITIES)
    return sentence(
        f"{subject.en} are very {quality.en}",
        f"{subject.it} sono molto {italian.adjective(quality.it, subject.gender, True)}",
        f"{subject.zh}非常{quality.zh}",
    )


TEMPLATES: list[tuple[int, Template]] = [
    (320, being),
    (200, being_asked),
    (200, feeling),
    (260, compared_people),
    (200, job),
    (120, nationality),
    (260, living),
    (150, where_living),
    (150, age),
    (80, pair_being),
]
