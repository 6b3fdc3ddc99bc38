"""Templates of two clauses: causes, conditions, simultaneous actions, memories and reports."""

from __future__ import annotations

import random

from grammar import english, italian
from grammar.actions import CITIES
from grammar.choice import (
    ongoing_action,
    statement_subject,
)
from grammar.clauses import be, en_verb, it_clause, it_verb
from grammar.lexicon import MY_FAMILY, NAMES, PRONOUNS
from grammar.model import Predicate, Subject, Template, Triple, predicate, predicates, sentence, triples

CAUSES = {
    "ill": Triple("ill", "essere malato", "病了"),
    "tired": Triple("tired", "essere stanco", "很累"),
    "busy": Triple("busy", "essere occupato", "很忙"),
    "happy": Triple("happy", "essere felice", "很高兴"),
    "sad": Triple("sad", "essere triste", "很难过"),
    "hungry": Triple("hungry", "avere fame", "饿了"),
    "thirsty": Triple("thirsty", "avere sete", "渴了"),
    "sleepy": Triple("sleepy", "avere sonno", "困了"),
    "cold": Triple("cold", "avere freddo", "很冷"),
    "hot": Triple("hot", "avere caldo", "很热"),
    "late": Triple("late", "essere in ritardo", "迟到了"),
    "afraid": Triple("afraid", "avere paura", "很害怕"),
    "worried": Triple("worried", "essere preoccupato", "很担心"),
}


def _effects(table: str) -> list[tuple[Predicate, bool, str, list[str]]]:
    """Parse `+ or - predicate | italian | chinese result | causes`."""
    rows = []
    for line in table.strip().splitlines():
        en, it, zh, causes = (part.strip() for part in line.split("|"))
        rows.append((predicate(f"{en[1:]} | {it} | {zh}"), en[0] == "-", zh, causes.split()))
    return rows


EFFECTS = _effects("""
+stay at home | rimanere a casa | 待在家里 | ill tired busy
-come to the party | venire alla festa | 没来参加聚会 | ill tired busy sad
-go to the cinema | andare al cinema | 没去电影院 | ill tired busy
-go to the gym | andare in palestra | 没去健身房 | ill tired busy
-play football | giocare a calcio | 没踢足球 | ill tired cold
-cook | cucinare | 没做饭 | tired busy ill
-go out | uscire | 没出门 | cold tired ill afraid
+go to bed early | andare a letto presto | 很早就睡了 | tired ill sleepy
+go to the doctor | andare dal medico | 去看医生了 | ill worried
+eat a sandwich | mangiare un panino | 吃了一个三明治 | hungry
+eat two bananas | mangiare due banane | 吃了两根香蕉 | hungry
+order a pizza | ordinare una pizza | 点了一张比萨 | hungry
+drink a glass of water | bere un bicchiere d'acqua | 喝了一杯水 | thirsty hot
+drink a cup of tea | bere una tazza di tè | 喝了一杯茶 | cold thirsty
+open the window | aprire la finestra | 打开了窗户 | hot
+close the window | chiudere la finestra | 关上了窗户 | cold
+put on a coat | mettersi il cappotto | 穿上了大衣 | cold
+take a taxi | prendere un taxi | 坐了出租车 | tired ill
+call the police | chiamare la polizia | 报警了 | afraid worried
+cry | piangere | 哭了 | sad afraid
+sing | cantare | 唱歌了 | happy
+smile | sorridere | 笑了 | happy
-sleep | dormire | 没睡着 | worried hot afraid
""")
CONDITIONS = triples("""
it rains | piove | 下雨
it snows | nevica | 下雪
it is cold | fa freddo | 很冷
""")
FINE_CONDITIONS = triples("""
the weather is good | fa bel tempo | 天气好
it is hot | fa caldo | 很热
it doesn't rain | non piove | 不下雨
""")
INDOOR = predicates("""
stay at home | rimanere a casa | 待在家里
watch a film | guardare un film | 看一部电影
read a book | leggere un libro | 看一本书
take the bus | prendere l'autobus | 坐公共汽车
go to the museum | andare al museo | 去博物馆
make a cake | fare una torta | 做一个蛋糕
""")
OUTDOOR = predicates("""
go to the beach | andare in spiaggia | 去海边
play tennis | giocare a tennis | 打网球
go to the park | andare al parco | 去公园
have lunch in the garden | pranzare in giardino | 在花园里吃午饭
go to the swimming pool | andare in piscina | 去游泳池
wash the car | lavare la macchina | 洗车
""")
CHILDHOOD = predicates("""
play football every day | giocare a calcio ogni giorno | 每天踢足球
play chess every evening | giocare a scacchi ogni sera | 每天晚上下棋
read every evening | leggere ogni sera | 每天晚上看书
get up early every day | alzarsi presto ogni giorno | 每天早起
go to the beach every summer | andare in spiaggia ogni estate | 每年夏天去海边
go to school on foot | andare a scuola a piedi | 走路去上学
study English every day | studiare l'inglese ogni giorno | 每天学习英语
play the piano every evening | suonare il pianoforte ogni sera | 每天晚上弹钢琴
swim every week | nuotare ogni settimana | 每个星期游泳
paint every Sunday | dipingere ogni domenica | 每个星期天画画
""") + [predicate(f"live in {city.en} | vivere a {city.it} | 住在{city.zh}") for city in CITIES]
REPORTED = triples("""
tired | stanco | 很累
happy | felice | 很高兴
ill | malato | 病了
busy | occupato | 很忙
worried | preoccupato | 很担心
at home | a casa | 在家
at school | a scuola | 在学校
in the garden | in giardino | 在花园里
in the library | in biblioteca | 在图书馆
in the office | in ufficio | 在办公室
""")
PEOPLE_POOL = [*NAMES, *MY_FAMILY]


def _it_was(cause: Triple, subject: Subject) -> str:
    """Return the Italian cause in the imperfect, agreeing with its subject."""
    verb, _, rest = cause.it.partition(" ")
    if verb == "essere" and " " not in rest:
        rest = italian.adjective(rest, subject.gender, subject.plural)
    return f"{italian.imperfect(verb, subject.person)} {rest}"


def because(rng: random.Random) -> Triple:
    """Anna stayed at home because she was ill; Anna was ill, so she stayed at home."""
    subject, (effect, negative, zh_effect, causes) = statement_subject(rng), rng.choice(EFFECTS)
    while subject.zh in zh_effect:
        subject = statement_subject(rng)
    cause = CAUSES[rng.choice(causes)]
    was, it_cause = english.BE_PAST[subject.person], _it_was(cause, subject)
    en_action = en_verb(effect, subject, "past", negative)
    it_action = it_verb(effect, subject, "past", negative)
    if rng.random() < 0.4:
        return sentence(
            f"{subject.en} {was} {cause.en}, so {subject.pronoun_en} {en_action}",
            f"{italian.join(subject.it, it_cause)}, quindi {it_action}",
            f"{subject.zh}{cause.zh}，所以{zh_effect}",
        )
    return sentence(
        f"{subject.en} {en_action} because {subject.pronoun_en} {was} {cause.en}",
        f"{italian.join(subject.it, it_action)} perché {it_cause}",
        f"因为{subject.zh}{cause.zh}，所以{zh_effect}",
    )


def conditional(rng: random.Random) -> Triple:
    """If it rains tomorrow, we will stay at home."""
    subject, fine = statement_subject(rng), rng.random() < 0.5
    condition = rng.choice(FINE_CONDITIONS if fine else CONDITIONS)
    result = rng.choice(OUTDOOR if fine else INDOOR)
    when = rng.choice(
        (
            Triple("tomorrow", "domani", "明天"),
            Triple("on Sunday", "domenica", "星期天"),
            Triple("on Saturday", "sabato", "星期六"),
        )
    )
    return sentence(
        f"if {condition.en} {when.en}, {subject.en} {en_verb(result, subject, 'future')}",
        f"se {when.it} {condition.it}, {it_clause(result, subject, 'future')}",
        f"如果{when.zh}{condition.zh}，{subject.zh}就{result.zh}",
    )


def when_arrived(rng: random.Random) -> Triple:
    """When I came home, Anna was sleeping."""
    comer = rng.choice([PRONOUNS[0], PRONOUNS[4], *NAMES])
    subject = rng.choice([*NAMES, *MY_FAMILY, PRONOUNS[5]])
    while subject.zh == comer.zh:
        subject = rng.choice(NAMES)
    action = ongoing_action(rng, subject)
    coming = predicate("arrive | arrivare | 到")
    doing = english.join(english.BE_PAST[subject.person], english.gerund(action.en_verb), action.en_rest)
    it_doing = italian.join(subject.it, it_verb(action, subject, "was_doing"))
    return sentence(
        f"when {comer.en} arrived, {subject.en} {doing}",
        f"quando {it_clause(coming, comer, 'past')}, {it_doing}",
        f"{comer.zh}到的时候，{subject.zh}正在{action.zh}",
    )


def memory(rng: random.Random) -> Triple:
    """When Anna was a child, she played football every day."""
    subject = rng.choice(
        [each for each in (*NAMES, *MY_FAMILY[:12], PRONOUNS[0], *PRONOUNS[2:4]) if each.age != "young"]
    )
    habit = rng.choice(CHILDHOOD)
    was = english.BE_PAST[subject.person]
    child = "bambino" if subject.gender == "m" else "bambina"
    return sentence(
        f"when {subject.en} {was} a child, {subject.pronoun_en} {en_verb(habit, subject, 'past')}",
        f"da {child}, {it_clause(habit, subject, 'imperfect')}",
        f"{subject.zh}小时候{habit.zh}",
    )


def reported(rng: random.Random) -> Triple:
    """Anna says that Marco is in the garden."""
    subject = statement_subject(rng)
    verb = rng.choice((predicate("say | dire | 说"), predicate("know | sapere | 知道")))
    if subject.person in (0, 1):
        verb = predicate("know | sapere | 知道")
    other = rng.choice([each for each in PEOPLE_POOL if each.zh not in subject.zh])
    state = rng.choice(REPORTED)
    it_state = state.it if " " in state.it else italian.adjective(state.it, other.gender, other.plural)
    essere = italian.present("essere", other.person)
    return sentence(
        f"{subject.en} {en_verb(verb, subject, 'present')} that {other.en} {be(other)} {state.en}",
        f"{it_clause(verb, subject, 'present')} che {other.it} {essere} {it_state}",
        f"{subject.zh}{verb.zh}{other.zh}{state.zh}",
    )


TEMPLATES: list[tuple[int, Template]] = [
    (470, because),
    (350, conditional),
    (200, when_arrived),
    (180, memory),
    (260, reported),
]
