"""The people, times, things and qualities that the templates talk about."""

from __future__ import annotations

from grammar.model import Adjective, Noun, Subject, Triple, noun, triples

PRONOUNS = [
    Subject("I", "", "我", 0),
    Subject("you", "", "你", 1),
    Subject("he", "lui", "他", 2),
    Subject("she", "lei", "她", 2, "f"),
    Subject("we", "", "我们", 3),
    Subject("you all", "", "你们", 4),
    Subject("they", "", "他们", 5),
]
NAMES = [
    Subject(name, name, zh, 2, gender)
    for name, zh, gender in (
        ("Anna", "安娜", "f"),
        ("Maria", "玛丽亚", "f"),
        ("Giulia", "朱莉娅", "f"),
        ("Laura", "劳拉", "f"),
        ("Sara", "萨拉", "f"),
        ("Elena", "埃琳娜", "f"),
        ("Marco", "马可", "m"),
        ("Luca", "卢卡", "m"),
        ("Paolo", "保罗", "m"),
        ("Giovanni", "乔瓦尼", "m"),
        ("Davide", "大卫", "m"),
        ("Pietro", "彼得罗", "m"),
        ("Li Ming", "李明", "m"),
        ("Wang Fang", "王芳", "f"),
    )
]
_RELATIVES = """
father | padre m | 爸爸 | adult
mother | madre f | 妈妈 | adult
brother | fratello m | 哥哥 | any
sister | sorella f | 妹妹 | any
son | figlio m | 儿子 | young
daughter | figlia f | 女儿 | young
grandfather | nonno m | 爷爷 | adult
grandmother | nonna f | 奶奶 | adult
uncle | zio m | 叔叔 | adult
aunt | zia f | 姑姑 | adult
wife | moglie f | 妻子 | adult
husband | marito m | 丈夫 | adult
"""


def _relatives(owner_en: str, owner_it: str, owner_zh: str) -> list[Subject]:
    """Build the singular relatives of one owner (no article in Italian, no 的 in Chinese)."""
    people = []
    for line in _RELATIVES.strip().splitlines():
        en, it, zh, age = (part.strip() for part in line.split("|"))
        word, gender = it.split()
        owner = owner_it if gender == "m" else owner_it[:-1] + "a"
        people.append(Subject(f"{owner_en} {en}", f"{owner} {word}", owner_zh + zh, 2, gender, age))
    return people


MY_FAMILY = [
    *_relatives("my", "mio", "我"),
    Subject("my parents", "i miei genitori", "我父母", 5, "m", "adult"),
    Subject("my friends", "i miei amici", "我的朋友们", 5),
]
YOUR_FAMILY = [
    *(relative for relative in _relatives("your", "tuo", "你")),
    Subject("your parents", "i tuoi genitori", "你父母", 5, "m", "adult"),
    Subject("your friends", "i tuoi amici", "你的朋友们", 5),
]
PEOPLE = [
    Subject("the teacher", "l'insegnante", "老师", 2, "m", "adult"),
    Subject("the doctor", "il medico", "医生", 2, "m", "adult"),
    Subject("the nurse", "l'infermiera", "护士", 2, "f", "adult"),
    Subject("the cook", "il cuoco", "厨师", 2, "m", "adult"),
    Subject("the lawyer", "l'avvocato", "律师", 2, "m", "adult"),
    Subject("the engineer", "l'ingegnere", "工程师", 2, "m", "adult"),
    Subject("the writer", "lo scrittore", "作家", 2, "m", "adult"),
    Subject("the manager", "il direttore", "经理", 2, "m", "adult"),
    Subject("the secretary", "la segretaria", "秘书", 2, "f", "adult"),
    Subject("the boy", "il ragazzo", "那个男孩", 2, "m", "young"),
    Subject("the girl", "la ragazza", "那个女孩", 2, "f", "young"),
    Subject("the children", "i bambini", "孩子们", 5, "m", "young"),
    Subject("the students", "gli studenti", "学生们", 5, "m", "young"),
    Subject("my friend", "il mio amico", "我的朋友", 2),
    Subject("our neighbour", "il nostro vicino", "我们的邻居", 2, "m", "adult"),
    Subject("my colleague", "il mio collega", "我的同事", 2, "m", "adult"),
]

_NOUNS = """
book | libro libri m | 书 本 | goods readable carried onthing good interesting
novel | romanzo romanzi m | 小说 本 | readable goods interesting good
magazine | rivista riviste f | 杂志 本 | readable goods carried onthing interesting
newspaper | giornale giornali m | 报纸 份 | readable bought onthing
letter | lettera lettere f | 信 封 | writable received onthing
email | e-mail e-mail f | 电子邮件 封 | writable received
dictionary | dizionario dizionari m | 词典 本 | goods carried onthing big wanted
ticket | biglietto biglietti m | 票 张 | bought carried
photo | foto foto f | 照片 张 | received seen onthing beautiful
picture | quadro quadri m | 画 幅 | goods drawn beautiful big
shirt | camicia camicie f | 衬衫 件 | goods clothes colour beautiful
sweater | maglione maglioni m | 毛衣 件 | goods clothes colour beautiful wanted
coat | cappotto cappotti m | 大衣 件 | goods clothes colour beautiful wanted
jacket | giacca giacche f | 夹克 件 | goods clothes colour beautiful
skirt | gonna gonne f | 裙子 条 | goods clothes colour beautiful
scarf | sciarpa sciarpe f | 围巾 条 | goods headwear colour beautiful wanted
hat | cappello cappelli m | 帽子 顶 | goods headwear colour beautiful onthing wanted
bag | borsa borse f | 包 个 | goods carried colour beautiful onthing big wanted
umbrella | ombrello ombrelli m | 雨伞 把 | goods carried colour big wanted
watch | orologio orologi m | 手表 块 | goods carried fixable beautiful onthing wanted
key | chiave chiavi f | 钥匙 把 | carried onthing
phone | telefono telefoni m | 手机 部 | goods carried fixable onthing wanted
computer | computer computer m | 电脑 台 | goods fixable onthing wanted
camera | macchina fotografica_macchine fotografiche f | 相机 台 | goods
car | macchina macchine f | 汽车 辆 | goods colour fixable beautiful vehicle big wanted
bicycle | bicicletta biciclette f | 自行车 辆 | goods colour fixable beautiful vehicle wanted
table | tavolo tavoli m | 桌子 张 | goods furniture big
chair | sedia sedie f | 椅子 把 | goods furniture fixable
bed | letto letti m | 床 张 | goods furniture big
lamp | lampada lampade f | 灯 盏 | goods furniture fixable beautiful
mirror | specchio specchi m | 镜子 面 | goods furniture beautiful big
guitar | chitarra chitarre f | 吉他 把 | goods fixable beautiful wanted
cup | tazza tazze f | 杯子 个 | goods tabletop colour
bottle | bottiglia bottiglie f | 瓶子 个 | tabletop
knife | coltello coltelli m | 刀 把 | tabletop
ball | palla palle f | 球 个 | colour wanted
gift | regalo regali m | 礼物 份 | bought received onthing beautiful
cat | gatto gatti m | 猫 只 | animal colour pet
dog | cane cani m | 狗 只 | animal pet
bird | uccello uccelli m | 鸟 只 | animal seen beautiful
horse | cavallo cavalli m | 马 匹 | animal beautiful
rabbit | coniglio conigli m | 兔子 只 | animal pet
fish | pesce pesci m | 鱼 条 | animal beautiful
cow | mucca mucche f | 牛 头 | farm
sheep | pecora pecore f | 羊 只 | farm
flower | fiore fiori m | 花 朵 | drawn beautiful colour seen
tree | albero alberi m | 树 棵 | drawn big outdoor
apple | mela mele f | 苹果 个 | food fruit tabletop
orange | arancia arance f | 橙子 个 | food fruit tabletop
banana | banana banane f | 香蕉 根 | food fruit tabletop
egg | uovo uova m | 鸡蛋 个 | food
sandwich | panino panini m | 三明治 个 | food ordered
cake | torta torte f | 蛋糕 个 | tabletop treat
pizza | pizza pizze f | 比萨 张 | food ordered
house | casa case f | 房子 栋 | building wanted seen
flat | appartamento appartamenti m | 公寓 套 | home
room | camera camere f | 房间 个 | home
garden | giardino giardini m | 花园 个 | home beautiful
museum | museo musei m | 博物馆 座 | visited town
church | chiesa chiese f | 教堂 座 | visited town
castle | castello castelli m | 城堡 座 | visited
school | scuola scuole f | 学校 所 | town visited
factory | fabbrica fabbriche f | 工厂 家 | visited
bank | banca banche f | 银行 家 | town
restaurant | ristorante ristoranti m | 餐厅 家 | town good
supermarket | supermercato supermercati m | 超市 家 | town
pharmacy | farmacia farmacie f | 药店 家 | town
hotel | albergo alberghi m | 酒店 家 | town good
hospital | ospedale ospedali m | 医院 家 | town
park | parco parchi m | 公园 个 | town
bookshop | libreria librerie f | 书店 家 | town good
child | bambino bambini m | 孩子 个 | person
man | uomo uomini m | 男人 个 | person
woman | donna donne f | 女人 个 | person
tourist | turista turisti m | 游客 个 | person
student | studente studenti m | 学生 个 | person
"""


def _noun(line: str) -> Noun:
    """Parse one line of the noun table, where an underscore parts a two-word plural."""
    if "_" not in line:
        return noun(line)
    en, it, zh, classes = (part.strip() for part in line.split("|"))
    forms, _, gender = it.rpartition(" ")
    singular, it_plural = forms.split("_")
    zh_noun, measure = zh.split()
    return Noun(en, singular, it_plural, gender, zh_noun, measure, frozenset(classes.split()))


NOUNS = [_noun(line) for line in _NOUNS.strip().splitlines()]


def nouns(*classes: str) -> list[Noun]:
    """Return the nouns that belong to any of the classes."""
    return [thing for thing in NOUNS if thing.classes & set(classes)]


def _adjective(en: str, it: str, zh: str, classes: str, prenominal: bool = False) -> Adjective:
    """Build an attributive adjective for the nouns of some classes."""
    return Adjective(en, it, zh, prenominal, frozenset(classes.split()))


ATTRIBUTES = [
    _adjective("red", "rosso", "红色的", "colour"),
    _adjective("white", "bianco", "白色的", "colour"),
    _adjective("black", "nero", "黑色的", "colour"),
    _adjective("yellow", "giallo", "黄色的", "clothes headwear"),
    _adjective("green", "verde", "绿色的", "clothes headwear vehicle"),
    _adjective("blue", "blu", "蓝色的", "clothes headwear vehicle"),
    _adjective("grey", "grigio", "灰色的", "clothes headwear vehicle"),
    _adjective("new", "nuovo", "新", "goods furniture vehicle clothes"),
    _adjective("old", "vecchio", "旧", "furniture vehicle goods", prenominal=True),
    _adjective("big", "grande", "大", "big animal farm building", prenominal=False),
    _adjective("small", "piccolo", "小", "animal big building home", prenominal=True),
    _adjective("beautiful", "bello", "漂亮的", "beautiful home building", prenominal=True),
    _adjective("good", "buono", "好", "good", prenominal=True),
    _adjective("interesting", "interessante", "有意思的", "interesting"),
]
COLOURS = [adjective for adjective in ATTRIBUTES if adjective.zh.endswith("色的")]

DAYS = triples("""
Monday | lunedì | 星期一
Tuesday | martedì | 星期二
Wednesday | mercoledì | 星期三
Thursday | giovedì | 星期四
Friday | venerdì | 星期五
Saturday | sabato | 星期六
Sunday | domenica | 星期天
""")
MONTHS = triples("""
January | gennaio | 一月
February | febbraio | 二月
March | marzo | 三月
April | aprile | 四月
May | maggio | 五月
June | giugno | 六月
July | luglio | 七月
August | agosto | 八月
September | settembre | 九月
October | ottobre | 十月
November | novembre | 十一月
December | dicembre | 十二月
""")
PAST_TIMES = triples("""
yesterday | ieri | 昨天
yesterday morning | ieri mattina | 昨天早上
yesterday afternoon | ieri pomeriggio | 昨天下午
yesterday evening | ieri sera | 昨天晚上
last week | la settimana scorsa | 上个星期
last Saturday | sabato scorso | 上个星期六
last Sunday | domenica scorsa | 上个星期天
last month | il mese scorso | 上个月
two days ago | due giorni fa | 两天前
""")
FUTURE_TIMES = triples("""
tomorrow | domani | 明天
tomorrow morning | domani mattina | 明天早上
tomorrow afternoon | domani pomeriggio | 明天下午
tomorrow evening | domani sera | 明天晚上
next week | la settimana prossima | 下个星期
next Saturday | sabato prossimo | 下个星期六
next Sunday | domenica prossima | 下个星期天
this evening | stasera | 今天晚上
today | oggi | 今天
""")
HABIT_TIMES = triples("""
every day | ogni giorno | 每天
every morning | ogni mattina | 每天早上
every evening | ogni sera | 每天晚上
every week | ogni settimana | 每个星期
in the morning | la mattina | 早上
in the afternoon | il pomeriggio | 下午
in the evening | la sera | 晚上
at the weekend | nel fine settimana | 周末
""") + [Triple(f"on {day.en}s", f"{'la' if day.it == 'domenica' else 'il'} {day.it}", f"每个{day.zh}") for day in DAYS]
NO_TIME = Triple("", "", "")
NOW = [NO_TIME, Triple("now", "adesso", "现在")]
