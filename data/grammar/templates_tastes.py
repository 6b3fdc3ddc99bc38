"""Templates about what people like and how they deal with each other."""

from __future__ import annotations

import random

from grammar import english, italian
from grammar.choice import SINGULAR_PEOPLE, question_subject, statement_subject
from grammar.clauses import do, en_verb, it_verb, statement, zh_verb
from grammar.lexicon import FUTURE_TIMES, NAMES, NO_TIME
from grammar.model import Predicate, Subject, Template, Triple, predicates, sentence, triples

DATIVES = ("mi", "ti", "", "ci", "vi", "")
OBJECT_PRONOUNS = triples("""
me | mi | 我
you | ti | 你
him | lo | 他
her | la | 她
us | ci | 我们
them | li | 他们
""")
CLITIC_VERBS = predicates("""
know well | conoscere bene | 很了解
help | aiutare | 帮助
wait for | aspettare | 等
look for | cercare | 找
listen to | ascoltare | 听
understand | capire | 理解
love | amare | 爱
""")
PERSON_VERBS = predicates("""
wait for | aspettare | 等 | progressive past future
look for | cercare | 找 | progressive
help | aiutare | 帮助 | progressive past future want
call | chiamare | 打电话 | want past future
meet | incontrare | 见 | want past future
know | conoscere | 认识 | present
invite | invitare | 邀请 | past future want
""")
LIKED_THINGS = triples("""
coffee | il caffè | 咖啡
tea | il tè | 茶
milk | il latte | 牛奶
fish | il pesce | 鱼
meat | la carne | 肉
fruit | la frutta | 水果
chocolate | il cioccolato | 巧克力
ice cream | il gelato | 冰淇淋
music | la musica | 音乐
football | il calcio | 足球
tennis | il tennis | 网球
sport | lo sport | 运动
history | la storia | 历史
mathematics | la matematica | 数学
Chinese food | la cucina cinese | 中国菜
Italian food | la cucina italiana | 意大利菜
summer | l'estate | 夏天
winter | l'inverno | 冬天
spring | la primavera | 春天
the sea | il mare | 大海
this city | questa città | 这座城市
this song | questa canzone | 这首歌
this film | questo film | 这部电影
this colour | questo colore | 这种颜色
apples | le mele | 苹果
oranges | le arance | 橙子
flowers | i fiori | 花
cats | i gatti | 猫
dogs | i cani | 狗
horses | i cavalli | 马
books | i libri | 书
sweets | i dolci | 甜食
vegetables | le verdure | 蔬菜
tomatoes | i pomodori | 西红柿
""")
LIKED_ACTIONS = predicates("""
swim | nuotare | 游泳
read | leggere | 看书
cook | cucinare | 做饭
dance | ballare | 跳舞
sing | cantare | 唱歌
travel | viaggiare | 旅行
paint | dipingere | 画画
run | correre | 跑步
ski | sciare | 滑雪
play football | giocare a calcio | 踢足球
play chess | giocare a scacchi | 下棋
listen to music | ascoltare la musica | 听音乐
watch television | guardare la televisione | 看电视
take photos | fare fotografie | 拍照
walk in the park | camminare nel parco | 在公园散步
drink tea | bere il tè | 喝茶
""")
LIKED_KINDS = [
    [thing for thing in LIKED_THINGS if thing.en in names]
    for names in (
        ("coffee", "tea", "milk", "chocolate", "ice cream"),
        ("fish", "meat", "fruit", "vegetables", "sweets"),
        ("football", "tennis"),
        ("history", "mathematics"),
        ("cats", "dogs", "horses"),
        ("apples", "oranges", "tomatoes", "sweets"),
        ("summer", "winter", "spring"),
        ("Chinese food", "Italian food"),
    )
]


def _to_whom(subject: Subject) -> str:
    """Return the Italian indirect object of piacere."""
    if DATIVES[subject.person]:
        return DATIVES[subject.person]
    if not subject.it:
        return "a loro"
    return {"lui": "gli", "lei": "le"}.get(subject.it) or italian.contract("a", subject.it)


def _not_pleasing(subject: Subject, piace: str) -> str:
    """Deny piacere: non before a clitic, after a full noun phrase."""
    whom = _to_whom(subject)
    return f"{whom} non {piace}" if whom.startswith("a") else f"non {whom} {piace}"


def _piace(thing: Triple) -> str:
    """Return piace or piacciono according to the number of the thing."""
    return "piacciono" if thing.it.startswith(("i ", "gli ", "le ")) else "piace"


def liking_thing(rng: random.Random) -> Triple:
    """Anna likes Chinese food; do you like cats?"""
    thing, roll = rng.choice(LIKED_THINGS), rng.random()
    if roll < 0.3:
        subject = question_subject(rng)
        return sentence(
            f"{do(subject)} {subject.en} like {thing.en}",
            f"{_to_whom(subject)} {_piace(thing)} {thing.it}",
            f"{subject.zh}喜欢{thing.zh}吗",
            "?",
        )
    subject = statement_subject(rng)
    if roll < 0.55:
        return sentence(
            f"{subject.en} {do(subject)}n't like {thing.en}",
            f"{_not_pleasing(subject, _piace(thing))} {thing.it}",
            f"{subject.zh}不喜欢{thing.zh}",
        )
    return sentence(
        f"{subject.en} {'likes' if subject.is_third_singular else 'like'} {thing.en}",
        f"{_to_whom(subject)} {_piace(thing)} {thing.it}",
        f"{subject.zh}喜欢{thing.zh}",
    )


def liking_action(rng: random.Random) -> Triple:
    """My son likes to swim; do you like to read?"""
    action, asking = rng.choice(LIKED_ACTIONS), rng.random() < 0.3
    subject = question_subject(rng) if asking else statement_subject(rng)
    en, it = english.join(action.en_verb, action.en_rest), italian.join(action.it_verb, action.it_rest)
    if asking:
        return sentence(
            f"{do(subject)} {subject.en} like to {en}",
            f"{_to_whom(subject)} piace {it}",
            f"{subject.zh}喜欢{action.zh}吗",
            "?",
        )
    return sentence(
        f"{subject.en} {'likes' if subject.is_third_singular else 'like'} to {en}",
        f"{_to_whom(subject)} piace {it}",
        f"{subject.zh}喜欢{action.zh}",
    )


def liking_contrast(rng: random.Random) -> Triple:
    """Anna likes coffee, but she doesn't like tea."""
    subject = statement_subject(rng)
    first, second = rng.sample(rng.choice(LIKED_KINDS), 2)
    clitic = DATIVES[subject.person] or ("le" if subject.gender == "f" and not subject.plural else "gli")
    likes = "likes" if subject.is_third_singular else "like"
    return sentence(
        f"{subject.en} {likes} {first.en}, but {subject.pronoun_en} {do(subject)}n't like {second.en}",
        f"{_to_whom(subject)} {_piace(first)} {first.it}, ma non {clitic} {_piace(second)} {second.it}",
        f"{subject.zh}喜欢{first.zh}，但是不喜欢{second.zh}",
    )


def dealing_with_person(rng: random.Random) -> Triple:
    """Anna is waiting for my brother."""
    subject, verb = statement_subject(rng), rng.choice(PERSON_VERBS)
    near = subject.en.startswith(("my ", "our ")) or subject.person in (1, 4)
    pool = NAMES if near or rng.random() < 0.4 else SINGULAR_PEOPLE
    whom = rng.choice([person for person in pool if person.zh not in subject.zh])
    tense = rng.choice(sorted(verb.tags))
    when = rng.choice(FUTURE_TIMES) if tense == "future" else NO_TIME
    action = verb.with_object(Triple(whom.en, whom.it, whom.zh))
    zh = zh_verb(action, tense)
    if verb.en_verb == "call":
        zh = {"want": "想", "past": "", "future": "会"}[tense] + f"给{whom.zh}打{'了' if tense == 'past' else ''}电话"
    elif tense == "past":
        done = {"wait": "等了", "help": "帮助了", "meet": "见了", "invite": "邀请了"}[verb.en_verb]
        zh = done + whom.zh
    plain = statement(action, subject, tense, False, when)
    return sentence(plain.en, plain.it, subject.zh + when.zh + zh)


def dealing_with_pronoun(rng: random.Random) -> Triple:
    """Marco is waiting for us; my mother helps me."""
    subject, verb = statement_subject(rng), rng.choice(CLITIC_VERBS)
    whom = rng.choice([each for each in OBJECT_PRONOUNS if each.zh not in subject.zh])
    if subject.person in (0, 3):
        whom = rng.choice([each for each in OBJECT_PRONOUNS if each.zh not in ("我", "我们")])
    ongoing = verb.en_verb in ("wait", "look", "listen") or (verb.en_verb == "help" and rng.random() < 0.5)
    tense = "progressive" if ongoing else "present"
    negative = not ongoing and rng.random() < 0.2 and verb.en_verb != "know"
    en_action = verb.with_object(Triple(whom.en, "", ""))
    if verb.en_verb == "know":
        en_action = Predicate("know", f"{whom.en} well", verb.it_verb, verb.it_rest, verb.zh_verb, "")
    mark = {"present": "不" if negative else "", "progressive": "正在"}[tense]
    if verb.en_verb in ("look", "wait", "listen") and tense == "present":
        mark = ""
    return sentence(
        english.join(subject.en, en_verb(en_action, subject, tense, negative)),
        italian.join(subject.it, "non" if negative else "", whom.it, it_verb(verb, subject, tense)),
        f"{subject.zh}{mark}{verb.zh}{whom.zh}{'说话' if verb.zh == '听' else ''}",
    )


TEMPLATES: list[tuple[int, Template]] = [
    (410, liking_thing),
    (200, liking_action),
    (150, liking_contrast),
    (380, dealing_with_person),
    (200, dealing_with_pronoun),
]
