"""Templates of commands, of questions about who and what, and of where people are."""

from __future__ import annotations

import random

from grammar import english, italian
from grammar.actions import SKILLS
from grammar.choice import (
    ongoing_action,
    wh_subject,
)
from grammar.clauses import be, en_question, en_verb, it_clause, it_verb, zh_verb
from grammar.lexicon import PRONOUNS, nouns
from grammar.model import Subject, Template, Triple, predicate, predicates, sentence
from grammar.templates_complex import PEOPLE_POOL, REPORTED

COMMANDS = predicates("""
close the door | chiudere la porta | 关上门
open the door | aprire la porta | 打开门
close the window | chiudere la finestra | 关上窗户
open the window | aprire la finestra | 打开窗户
turn on the light | accendere la luce | 开灯
turn off the light | spegnere la luce | 关灯
turn off the television | spegnere la televisione | 关电视
read this page | leggere questa pagina | 看这一页
read this letter | leggere questa lettera | 看这封信
write your name | scrivere il tuo nome | 写下你的名字
wait here | aspettare qui | 在这里等
wait for Anna | aspettare Anna | 等安娜
call the doctor | chiamare il medico | 叫医生
buy some bread | comprare del pane | 买一些面包
buy the tickets | comprare i biglietti | 买票
wash the apples | lavare le mele | 洗苹果
eat the soup | mangiare la zuppa | 喝汤
speak slowly | parlare lentamente | 说慢一点儿
listen to this song | ascoltare questa canzone | 听这首歌
take this medicine | prendere questa medicina | 吃这种药
clean the kitchen | pulire la cucina | 打扫厨房
use this computer | usare questo computer | 用这台电脑
""")
PROHIBITIONS = predicates("""
open the door | aprire la porta | 打开门
open the window | aprire la finestra | 打开窗户
close the door | chiudere la porta | 关门
smoke here | fumare qui | 在这里抽烟
run in the house | correre in casa | 在家里跑
eat that apple | mangiare quella mela | 吃那个苹果
drink this water | bere quest'acqua | 喝这种水
forget the keys | dimenticare le chiavi | 忘了钥匙
forget your umbrella | dimenticare l'ombrello | 忘了雨伞
lose the tickets | perdere i biglietti | 弄丢票
call me tomorrow | chiamarmi domani | 明天给我打电话
wait for me | aspettarmi | 等我
touch that picture | toccare quel quadro | 碰那幅画
swim here | nuotare qui | 在这里游泳
sing in the library | cantare in biblioteca | 在图书馆唱歌
use that phone | usare quel telefono | 用那部手机
sell the car | vendere la macchina | 卖车
""")
WHAT_VERBS = predicates("""
eat | mangiare | 吃
drink | bere | 喝
read | leggere | 看
write | scrivere | 写
cook | cucinare | 做
buy | comprare | 买
draw | disegnare | 画
do | fare | 做
study | studiare | 学
look for | cercare | 找
sing | cantare | 唱
""")


def command(rng: random.Random) -> Triple:
    """Please close the window; don't touch that picture."""
    roll = rng.random()
    if roll < 0.35:
        banned = rng.choice(PROHIBITIONS)
        en, it = english.join(banned.en_verb, banned.en_rest), italian.join(banned.it_verb, banned.it_rest)
        return sentence(f"don't {en}", f"non {it}", f"不要{banned.zh}")
    wanted = rng.choice(COMMANDS)
    en = english.join(wanted.en_verb, wanted.en_rest)
    it = italian.join(italian.imperative(wanted.it_verb), wanted.it_rest)
    if roll < 0.7:
        return sentence(f"{en}, please", f"{it}, per favore", f"请{wanted.zh}")
    return sentence(
        f"can you {en}",
        f"puoi {italian.join(wanted.it_verb, wanted.it_rest)}",
        f"你能{wanted.zh}吗",
        "?",
    )


def what_asked(rng: random.Random) -> Triple:
    """What is your mother eating?"""
    subject, verb = wh_subject(rng), rng.choice(WHAT_VERBS)
    tense = rng.choice(("progressive", "past", "want"))
    zh = {"progressive": f"正在{verb.zh}什么", "past": f"{verb.zh}了什么", "want": f"想{verb.zh}什么"}[tense]
    return sentence(
        f"what {en_question(verb, subject, tense)}",
        italian.join("che cosa", it_verb(verb, subject, tense), subject.it),
        subject.zh + zh,
        "?",
    )


def who_asked(rng: random.Random) -> Triple:
    """Who is making dinner? Who can speak Chinese?"""
    who = Subject("who", "chi", "谁", 2)
    tense = rng.choice(("progressive", "want", "ability"))
    action = rng.choice(SKILLS) if tense == "ability" else ongoing_action(rng, who)
    return sentence(
        english.join("who", en_verb(action, who, tense)),
        it_clause(action, who, tense),
        "谁" + zh_verb(action, tense),
        "?",
    )


def who_did(rng: random.Random) -> Triple:
    """Who bought this hat?"""
    verb, classes = rng.choice(
        (
            (predicate("buy | comprare | 买了"), ("goods",)),
            (predicate("write | scrivere | 写了"), ("writable",)),
            (predicate("find | trovare | 找到了"), ("carried",)),
            (predicate("draw | disegnare | 画了"), ("drawn",)),
        )
    )
    thing = rng.choice(nouns(*classes))
    it_thing = italian.this(thing.it, thing.gender, False)
    return sentence(
        f"who {english.past(verb.en_verb)} this {thing.en}",
        f"chi ha {italian.participle(verb.it_verb)} {it_thing}",
        f"谁{verb.zh}这{thing.measure}{thing.zh}",
        "?",
    )


def where_is(rng: random.Random) -> Triple:
    """Where is Marco? Marco is in the library."""
    subject = rng.choice([*PEOPLE_POOL, *PRONOUNS[2:4]])
    if rng.random() < 0.15:
        return sentence(
            f"where {be(subject)} {subject.en}",
            f"{'dove sono' if subject.plural else 'dov' + chr(39) + 'è'} {subject.it}",
            f"{subject.zh}在哪里",
            "?",
        )
    spot = rng.choice([state for state in REPORTED if " " in state.it])
    negative = rng.random() < 0.35
    essere = italian.present("essere", subject.person)
    return sentence(
        english.join(subject.en, be(subject), "not" if negative else "", spot.en),
        italian.join(subject.it, "non" if negative else "", essere, spot.it),
        subject.zh + ("不" if negative else "") + spot.zh,
    )


TEMPLATES: list[tuple[int, Template]] = [
    (60, command),
    (230, what_asked),
    (95, who_asked),
    (40, who_did),
    (130, where_is),
]
