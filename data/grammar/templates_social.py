"""Templates of greetings, introductions, orders and tickets, filled with names and places."""

from __future__ import annotations

import random

from grammar.actions import CITIES
from grammar.deeds import DRINKS, STORES
from grammar.lexicon import NAMES
from grammar.model import Template, Triple, sentence, triples

ADDRESSES = triples("""
hello, {} | ciao, {} | 你好，{}
good morning, {} | buongiorno, {} | 早上好，{}
goodbye, {} | arrivederci, {} | 再见，{}
happy birthday, {} | buon compleanno, {} | 生日快乐，{}
see you tomorrow, {} | a domani, {} | 明天见，{}
thank you, {} | grazie, {} | 谢谢，{}
good night, {} | buonanotte, {} | 晚安，{}
""")
INTRODUCTIONS = triples("""
my name is {} | mi chiamo {} | 我叫{}
""")
GENDERED_INTRODUCTIONS = {
    "m": triples("""
this is my friend {} | questo è il mio amico {} | 这是我的朋友{}
his name is {} | lui si chiama {} | 他叫{}
my teacher's name is {} | il mio insegnante si chiama {} | 我的老师叫{}
"""),
    "f": triples("""
her name is {} | lei si chiama {} | 她叫{}
my sister's name is {} | mia sorella si chiama {} | 我妹妹叫{}
"""),
}
TRAVEL_WISHES = triples("""
a ticket to {}, please | un biglietto per {}, per favore | 请给我一张去{}的票
I would like to go to {} | vorrei andare a {} | 我想去{}看看
how do I get to {} | come arrivo a {} | 去{}怎么走
""")


def _filled(pattern: Triple, filling: Triple, mark: str = ".") -> Triple:
    """Fill the three sides of a pattern."""
    en, it, zh = (side.format(word) for side, word in zip(pattern, filling, strict=True))
    return sentence(en, it, zh, mark)


def address(rng: random.Random) -> Triple:
    """Good morning, Anna!"""
    name = rng.choice(NAMES)
    return _filled(rng.choice(ADDRESSES), Triple(name.en, name.it, name.zh), "!")


def introduction(rng: random.Random) -> Triple:
    """My name is Anna."""
    name = rng.choice(NAMES)
    pattern = rng.choice(INTRODUCTIONS + GENDERED_INTRODUCTIONS[name.gender])
    return _filled(pattern, Triple(name.en, name.it, name.zh))


def travel_wish(rng: random.Random) -> Triple:
    """A ticket to Rome, please."""
    pattern = rng.choice(TRAVEL_WISHES)
    return _filled(pattern, rng.choice(CITIES), "?" if pattern.en.startswith("how") else ".")


def order(rng: random.Random) -> Triple:
    """I would like two cups of tea, please."""
    drink = rng.choice(rng.choice(DRINKS))
    if rng.random() < 0.5:
        return sentence(f"{drink.en}, please", f"{drink.it}, per favore", f"请来{drink.zh}")
    return sentence(f"I would like {drink.en}, please", f"vorrei {drink.it}, per favore", f"我想要{drink.zh}，谢谢")


def missing(rng: random.Random) -> Triple:
    """We don't have any bread."""
    stuff, _ = rng.choice(STORES)
    person = rng.choice((Triple("I", "ho", "我"), Triple("we", "abbiamo", "我们"), Triple("they", "hanno", "他们")))
    return sentence(
        f"{person.en} don't have any {stuff.en}", f"non {person.it} {stuff.it}", f"{person.zh}没有{stuff.zh}"
    )


TEMPLATES: list[tuple[int, Template]] = [
    (70, address),
    (40, introduction),
    (25, travel_wish),
    (26, order),
    (20, missing),
]
