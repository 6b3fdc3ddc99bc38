"""What people and things are like: predicative adjectives, comparatives and feelings."""

from __future__ import annotations

from grammar.model import Adjective, triples


def _qualities(table: str) -> list[Adjective]:
    """Parse lines of `english | italian | chinese | noun classes`."""
    rows = (tuple(part.strip() for part in line.split("|")) for line in table.strip().splitlines())
    return [Adjective(en, it, zh, False, frozenset(classes.split())) for en, it, zh, classes in rows]


def denied(quality: Adjective) -> str:
    """Return the Chinese negation of a quality: 没 before 有, else 不."""
    return ("没" if quality.zh.startswith("有") else "不") + quality.zh


THING_QUALITIES = _qualities("""
expensive | caro | 贵 | clothes vehicle furniture headwear fixable wanted
cheap | economico | 便宜 | clothes vehicle headwear fixable
beautiful | bello | 漂亮 | beautiful clothes home
interesting | interessante | 有意思 | interesting
boring | noioso | 无聊 | interesting
difficult | difficile | 难 | interesting
heavy | pesante | 重 | furniture
clean | pulito | 干净 | clothes home cup
dirty | sporco | 脏 | clothes vehicle
big | grande | 大 | big building home animal
small | piccolo | 小 | big building home animal
comfortable | comodo | 舒服 | furniture home clothes
good | buono | 好吃 | food
sweet | dolce | 甜 | fruit
fresh | fresco | 新鲜 | fruit
new | nuovo | 新 | clothes vehicle fixable
famous | famoso | 出名 | visited good
quiet | tranquillo | 安静 | home
""")
PERSON_QUALITIES = _qualities("""
tired | stanco | 累 | state
happy | felice | 高兴 | state
sad | triste | 难过 | state
busy | occupato | 忙 | state
worried | preoccupato | 担心 | state
angry | arrabbiato | 生气 | state
nervous | nervoso | 紧张 | state
tall | alto | 高 | trait
young | giovane | 年轻 | trait
kind | gentile | 友好 | trait
intelligent | intelligente | 聪明 | trait
strong | forte | 强壮 | trait
lazy | pigro | 懒 | trait
famous | famoso | 出名 | trait
rich | ricco | 有钱 | trait
polite | educato | 有礼貌 | trait
shy | timido | 害羞 | trait
thin | magro | 瘦 | trait
""")
COMPARATIVES = {
    "expensive": "more expensive",
    "cheap": "cheaper",
    "beautiful": "more beautiful",
    "interesting": "more interesting",
    "boring": "more boring",
    "difficult": "more difficult",
    "heavy": "heavier",
    "clean": "cleaner",
    "big": "bigger",
    "small": "smaller",
    "comfortable": "more comfortable",
    "sweet": "sweeter",
    "fresh": "fresher",
    "new": "newer",
    "famous": "more famous",
    "quiet": "quieter",
    "tall": "taller",
    "young": "younger",
    "kind": "kinder",
    "intelligent": "more intelligent",
    "strong": "stronger",
    "lazy": "lazier",
    "rich": "richer",
    "polite": "more polite",
    "shy": "shyer",
    "thin": "thinner",
    "busy": "busier",
    "happy": "happier",
}
FEELINGS = triples("""
hungry | fame | 饿
thirsty | sete | 渴
sleepy | sonno | 困
cold | freddo | 冷
hot | caldo | 热
afraid | paura | 害怕
""")
