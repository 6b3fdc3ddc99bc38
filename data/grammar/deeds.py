"""Verbs that take a countable object, with the classes of nouns that suit them."""

from __future__ import annotations

from dataclasses import dataclass

from grammar.model import Predicate, Triple, predicate, triples


@dataclass(frozen=True)
class Deed:
    """A transitive verb, the noun classes it governs and the tenses in which it sounds natural."""

    action: Predicate
    classes: frozenset[str]
    tenses: tuple[str, ...]
    countable: bool


def _deed(line: str) -> Deed:
    """Parse `english | italian | chinese | classes | tenses | many or one`."""
    en, it, zh, classes, tenses, amount = (part.strip() for part in line.split("|"))
    action = predicate(f"{en} | {it} | {zh}")
    return Deed(action, frozenset(classes.split()), tuple(tenses.split()), amount == "many")


_DEEDS = """
buy | comprare | 买 | goods bought | past future want | many
buy | comprare | 买 | goods fruit food | past want | many
sell | vendere | 卖 | vehicle furniture | past future want | one
read | leggere | 看 | readable | past future want progressive | one
write | scrivere | 写 | writable | past future want progressive | many
draw | disegnare | 画 | drawn animal | past want progressive | many
eat | mangiare | 吃 | food fruit | past want progressive | many
see | vedere | 看到 | seen animal farm | past | many
find | trovare | 找到 | carried | past | one
lose | perdere | 丢 | carried | past | one
receive | ricevere | 收到 | received | past | many
order | ordinare | 点 | ordered | past want | many
choose | scegliere | 选 | clothes headwear | past want | one
visit | visitare | 参观 | visited | past future want | one
"""
DEEDS = [_deed(line) for line in _DEEDS.strip().splitlines()]


def _poured(line: str) -> tuple[Triple, Triple]:
    """Parse one vessel of a drink and two of it."""
    parts = [part.strip() for part in line.split("|")]
    return Triple(*parts[:3]), Triple(*parts[3:])


_DRINKS = """
a cup of coffee | una tazza di caffè | 一杯咖啡 | two cups of coffee | due tazze di caffè | 两杯咖啡
a cup of tea | una tazza di tè | 一杯茶 | two cups of tea | due tazze di tè | 两杯茶
a glass of water | un bicchiere d'acqua | 一杯水 | two glasses of water | due bicchieri d'acqua | 两杯水
a glass of milk | un bicchiere di latte | 一杯牛奶 | two glasses of milk | due bicchieri di latte | 两杯牛奶
a glass of wine | un bicchiere di vino | 一杯葡萄酒 | two glasses of wine | due bicchieri di vino | 两杯葡萄酒
a bottle of water | una bottiglia d'acqua | 一瓶水 | two bottles of water | due bottiglie d'acqua | 两瓶水
a bottle of beer | una bottiglia di birra | 一瓶啤酒 | two bottles of beer | due bottiglie di birra | 两瓶啤酒
"""
DRINKS = [_poured(line) for line in _DRINKS.strip().splitlines()]
DRINK_VERBS = [
    predicate("drink | bere | 喝"),
    predicate("order | ordinare | 点"),
]
WEARING = {"clothes": "穿着", "headwear": "戴着"}
SPOTS = triples("""
on the table | sul tavolo | 桌子上
on the chair | sulla sedia | 椅子上
on the bed | sul letto | 床上
in the bag | nella borsa | 包里
in the drawer | nel cassetto | 抽屉里
in the car | in macchina | 车里
under the table | sotto il tavolo | 桌子下面
under the bed | sotto il letto | 床下面
in the kitchen | in cucina | 厨房里
near the window | vicino alla finestra | 窗户旁边
""")
TOWN_SPOTS = triples("""
near the station | vicino alla stazione | 车站附近
near the park | vicino al parco | 公园附近
near the river | vicino al fiume | 河边
near my house | vicino a casa mia | 我家附近
in this street | in questa via | 这条街上
in this town | in questa città | 这座城市里
in the square | in piazza | 广场上
opposite the school | di fronte alla scuola | 学校对面
""")
PERSON_SPOTS = triples("""
in the classroom | in aula | 教室里
in the park | nel parco | 公园里
in the garden | in giardino | 花园里
in front of the museum | davanti al museo | 博物馆前面
on the bus | sull'autobus | 公共汽车上
in the shop | nel negozio | 商店里
on the beach | in spiaggia | 沙滩上
""")
STORES = [
    (Triple("milk", "latte", "牛奶"), Triple("in the fridge", "nel frigorifero", "冰箱里")),
    (Triple("water", "acqua", "水"), Triple("in the bottle", "nella bottiglia", "瓶子里")),
    (Triple("bread", "pane", "面包"), Triple("on the table", "sul tavolo", "桌子上")),
    (Triple("coffee", "caffè", "咖啡"), Triple("in the cup", "nella tazza", "杯子里")),
    (Triple("cheese", "formaggio", "奶酪"), Triple("in the fridge", "nel frigorifero", "冰箱里")),
    (Triple("fruit", "frutta", "水果"), Triple("in the kitchen", "in cucina", "厨房里")),
    (Triple("sugar", "zucchero", "糖"), Triple("in the coffee", "nel caffè", "咖啡里")),
    (Triple("rice", "riso", "米饭"), Triple("on the plate", "nel piatto", "盘子里")),
]
BELONGINGS = triples("""
the keys | le chiavi | 钥匙
my glasses | i miei occhiali | 我的眼镜
your glasses | i tuoi occhiali | 你的眼镜
the tickets | i biglietti | 票
my shoes | le mie scarpe | 我的鞋
your shoes | le tue scarpe | 你的鞋
the cups | le tazze | 杯子
""")
