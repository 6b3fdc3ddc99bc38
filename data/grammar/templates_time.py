"""Templates about the clock, the calendar, the weather, journeys and how long things last."""

from __future__ import annotations

import random

from grammar import chinese, english, italian
from grammar.actions import CITIES, COUNTRIES
from grammar.choice import question_subject, statement_subject, wh_subject
from grammar.clauses import en_question, en_verb, it_clause, it_verb
from grammar.lexicon import DAYS, FUTURE_TIMES, MONTHS, NAMES
from grammar.model import Predicate, Subject, Template, Triple, predicate, sentence, triples

CHINESE_PLACES = ("Beijing", "Shanghai", "China")
ON_THE_HOUR = Triple("", "", "")
PAST_THE_HOUR = triples("""
quarter past | e un quarto | 一刻
half past | e mezza | 半
ten past | e dieci | 十分
twenty past | e venti | 二十分
five past | e cinque | 零五分
""")
MINUTES = [ON_THE_HOUR, ON_THE_HOUR, *PAST_THE_HOUR]
HAPPENINGS = triples("""
the train leaves | il treno parte | 火车出发
the bus leaves | l'autobus parte | 公共汽车出发
the plane leaves | l'aereo parte | 飞机起飞
the lesson begins | la lezione comincia | 课开始
the film begins | il film comincia | 电影开始
the concert begins | il concerto comincia | 音乐会开始
the meeting begins | la riunione comincia | 会议开始
the match begins | la partita comincia | 比赛开始
the lesson ends | la lezione finisce | 课结束
the film ends | il film finisce | 电影结束
the bank opens | la banca apre | 银行开门
the museum opens | il museo apre | 博物馆开门
the supermarket opens | il supermercato apre | 超市开门
the shop closes | il negozio chiude | 商店关门
the library closes | la biblioteca chiude | 图书馆关门
the post office closes | l'ufficio postale chiude | 邮局关门
""")
DAILY = [
    (predicate("get up | alzarsi | 起床"), (5, 6, 7, 8, 9)),
    (predicate("have breakfast | fare colazione | 吃早饭"), (6, 7, 8, 9)),
    (predicate("have lunch | pranzare | 吃午饭"), (12, 1)),
    (predicate("have dinner | cenare | 吃晚饭"), (6, 7, 8)),
    (predicate("go to bed | andare a letto | 上床睡觉"), (9, 10, 11)),
    (predicate("go home | tornare a casa | 回家"), (4, 5, 6, 7, 8)),
    (predicate("leave the house | uscire di casa | 出门"), (6, 7, 8, 9)),
    (predicate("begin to work | cominciare a lavorare | 开始工作"), (7, 8, 9)),
]
DATED = triples("""
the party | la festa | 聚会
the concert | il concerto | 音乐会
the exam | l'esame | 考试
the wedding | il matrimonio | 婚礼
the match | la partita | 比赛
the meeting | la riunione | 会议
""")
BIRTHDAYS = triples("""
my birthday | il mio compleanno | 我的生日
your birthday | il tuo compleanno | 你的生日
my mother's birthday | il compleanno di mia madre | 我妈妈的生日
my father's birthday | il compleanno di mio padre | 我爸爸的生日
my sister's birthday | il compleanno di mia sorella | 我妹妹的生日
""") + [Triple(f"{each.en}'s birthday", f"il compleanno di {each.it}", f"{each.zh}的生日") for each in NAMES]
WEATHER = triples("""
it is cold | fa freddo | 很冷
it is hot | fa caldo | 很热
it rains a lot | piove molto | 经常下雨
it snows a lot | nevica molto | 经常下雪
the weather is good | fa bel tempo | 天气很好
""")
COMING_WEATHER = triples("""
it will be cold | farà freddo | 会很冷
it will be hot | farà caldo | 会很热
it will rain | pioverà | 会下雨
it will snow | nevicherà | 会下雪
the weather will be good | farà bel tempo | 天气会很好
""")
SEASONS = triples("""
in winter | in inverno | 冬天
in summer | in estate | 夏天
in spring | in primavera | 春天
in autumn | in autunno | 秋天
""")
SEASONAL_SKIES = {"冬天": "冷雨雪", "夏天": "热雨好", "春天": "雨好", "秋天": "冷雨好"}
MEANS = triples("""
by train | in treno | 坐火车
by bus | in autobus | 坐公共汽车
by car | in macchina | 开车
by bicycle | in bicicletta | 骑自行车
on foot | a piedi | 走路
by underground | in metropolitana | 坐地铁
by taxi | in taxi | 坐出租车
""")
GOALS = [
    predicate("go to school | andare a scuola | 去学校"),
    predicate("go to work | andare al lavoro | 去上班"),
    predicate("go home | tornare a casa | 回家"),
    predicate("go to the library | andare in biblioteca | 去图书馆"),
    predicate("go to the station | andare alla stazione | 去车站"),
    predicate("go to the airport | andare all'aeroporto | 去机场"),
    predicate("go to the centre | andare in centro | 去市中心"),
]
LASTING = [
    (predicate("study | studiare | 学习"), "hour"),
    (predicate("work | lavorare | 工作"), "hour"),
    (predicate("sleep | dormire | 睡"), "hour"),
    (predicate("wait | aspettare | 等"), "hour"),
    (predicate("walk | camminare | 走"), "hour"),
    (predicate("swim | nuotare | 游"), "hour"),
    (predicate("live in Rome | vivere a Roma | 在罗马住"), "year"),
    (predicate("live in China | vivere in Cina | 在中国住"), "year"),
    (predicate("live in Milan | vivere a Milano | 在米兰住"), "year"),
    (predicate("work in a bank | lavorare in una banca | 在银行工作"), "year"),
    (predicate("stay in Florence | rimanere a Firenze | 在佛罗伦萨待"), "day"),
    (predicate("stay in Venice | rimanere a Venezia | 在威尼斯待"), "day"),
    (predicate("stay in Beijing | rimanere a Pechino | 在北京待"), "day"),
    (predicate("stay in Paris | rimanere a Parigi | 在巴黎待"), "day"),
]
UNITS = {"hour": ("ore", "个小时"), "day": ("giorni", "天"), "year": ("anni", "年")}


def _clock(hour: int, part: Triple, preposition: str) -> Triple:
    """Return a clock time with at, or as the answer to what time it is."""
    number = english.number(hour)
    en = english.join(part.en, number) if part.en else number + ("" if preposition else " o'clock")
    article = ("all'" if preposition else "l'") if hour == 1 else ("alle" if preposition else "le")
    it = italian.join(article, "una" if hour == 1 else italian.number(hour), part.it)
    return Triple(en, it, chinese.count(hour, "点") + part.zh)


def what_time(rng: random.Random) -> Triple:
    """It is half past seven."""
    hour = rng.randint(1, 12)
    clock = _clock(hour, rng.choice(MINUTES), "")
    return sentence(f"it is {clock.en}", f"{'è' if hour == 1 else 'sono'} {clock.it}", f"现在{clock.zh}")


def scheduled(rng: random.Random) -> Triple:
    """The train leaves at quarter past nine."""
    what = rng.choice(HAPPENINGS)
    earliest, latest = (8, 10) if "open" in what.en else ((5, 8) if "close" in what.en else (1, 12))
    clock = _clock(rng.randint(earliest, latest), rng.choice(MINUTES), "at")
    verb = next(end for end in ("出发", "起飞", "开始", "结束", "开门", "关门") if what.zh.endswith(end))
    thing = what.zh[: -len(verb)]
    return sentence(f"{what.en} at {clock.en}", f"{what.it} {clock.it}", f"{thing}{clock.zh}{verb}")


def scheduled_train(rng: random.Random) -> Triple:
    """The train from Rome to Milan leaves at nine."""
    start, end = rng.sample(CITIES[:6], 2)
    clock = _clock(rng.randint(1, 12), rng.choice(MINUTES), "at")
    leaving = rng.random() < 0.6
    en, it, zh = ("leaves", "parte", "出发") if leaving else ("arrives", "arriva", "到达")
    return sentence(
        f"the train from {start.en} to {end.en} {en} at {clock.en}",
        f"il treno da {start.it} a {end.it} {it} {clock.it}",
        f"从{start.zh}到{end.zh}的火车{clock.zh}{zh}",
    )


def schedule_asked(rng: random.Random) -> Triple:
    """What time does your father get up?"""
    subject, (action, _) = wh_subject(rng), rng.choice(DAILY)
    return sentence(
        f"what time {en_question(action, subject, 'present')}",
        italian.join("a che ora", it_verb(action, subject, "present"), subject.it),
        f"{subject.zh}几点{action.zh}",
        "?",
    )


def daily_routine(rng: random.Random) -> Triple:
    """My brother gets up at seven."""
    subject, (action, hours) = statement_subject(rng), rng.choice(DAILY)
    clock = _clock(rng.choice(hours), rng.choice(MINUTES[:4]), "at")
    tense = rng.choice(("present", "present", "future"))
    tomorrow = Triple("tomorrow", "domani", "明天") if tense == "future" else Triple("", "", "")
    return sentence(
        english.join(subject.en, en_verb(action, subject, tense), f"at {clock.en}", tomorrow.en),
        italian.join(tomorrow.it, it_clause(action, subject, tense), clock.it),
        f"{subject.zh}{tomorrow.zh}{clock.zh}{action.zh}",
    )


def dated(rng: random.Random) -> Triple:
    """The exam is on 3 May; Anna's birthday is on 8 June; the party is on Friday."""
    day, month = rng.randint(1, 30 if rng.random() < 0.9 else 28), rng.choice(MONTHS)
    if month.en == "February":
        day = min(day, 28)
    what = rng.choice(BIRTHDAYS if rng.random() < 0.5 else DATED)
    it_day = "primo" if day == 1 else str(day)
    it_date = italian.definite(f"{it_day} {month.it}", "m", False)
    return sentence(
        f"{what.en} is on {day} {month.en}",
        f"{what.it} è {it_date}",
        f"{what.zh}{'是' if '生日' in what.zh else '在'}{month.zh}{chinese.number(day)}号",
    )


def dated_by_day(rng: random.Random) -> Triple:
    """The meeting is on Friday at nine."""
    what, day = rng.choice(DATED), rng.choice(DAYS)
    if rng.random() < 0.25:
        return sentence(f"{what.en} is on {day.en}", f"{what.it} è {day.it}", f"{what.zh}在{day.zh}")
    clock = _clock(rng.randint(1, 9), rng.choice(MINUTES[:4]), "at")
    return sentence(
        f"{what.en} is on {day.en} at {clock.en}",
        f"{what.it} è {day.it} {clock.it}",
        f"{what.zh}在{day.zh}{clock.zh}",
    )


def usual_weather(rng: random.Random) -> Triple:
    """In winter it is cold in Milan."""
    season, city = rng.choice(SEASONS), rng.choice(CITIES)
    sky = rng.choice([sky for sky in WEATHER if sky.zh[-1] in SEASONAL_SKIES[season.zh]])
    return sentence(
        f"{season.en} {sky.en} in {city.en}",
        f"{season.it} {sky.it} a {city.it}",
        f"{season.zh}{city.zh}{sky.zh}",
    )


def coming_weather(rng: random.Random) -> Triple:
    """Tomorrow it will rain in Rome."""
    when = rng.choice([when for when in FUTURE_TIMES if when.en.startswith(("tomorrow", "next"))])
    city, sky = rng.choice(CITIES), rng.choice(COMING_WEATHER)
    return sentence(
        f"{when.en} {sky.en} in {city.en}", f"{when.it} {sky.it} a {city.it}", f"{when.zh}{city.zh}{sky.zh}"
    )


def going_by(rng: random.Random) -> Triple:
    """Luca goes to work by bicycle; how do you go to work?"""
    goal, means = rng.choice(GOALS), rng.choice(MEANS)
    adult_only = goal.en_rest == "to work" or "car" in means.en
    subject = wh_subject(rng) if rng.random() < 0.25 else None
    if subject:
        return sentence(
            f"how {en_question(goal, subject, 'present')}",
            italian.join("come", it_verb(goal, subject, "present"), subject.it),
            f"{subject.zh}怎么{goal.zh}",
            "?",
        )
    subject = statement_subject(rng)
    while adult_only and subject.age == "young":
        subject = statement_subject(rng)
    tense, when, mark = rng.choice((("present", Triple("", "", ""), ""), ("future", FUTURE_TIMES[0], "会")))
    return sentence(
        english.join(subject.en, en_verb(goal, subject, tense), means.en, when.en),
        italian.join(when.it, it_clause(goal, subject, tense), means.it),
        f"{subject.zh}{when.zh}{mark}{means.zh}{goal.zh}",
    )


def lasted(rng: random.Random) -> Triple:
    """Anna studied for two hours."""
    subject, (action, unit) = statement_subject(rng), rng.choice(LASTING)
    while subject.age == "young" and action.en_verb in ("work", "live"):
        subject, (action, unit) = statement_subject(rng), rng.choice(LASTING)
    amount = rng.randint(2, 8)
    it_unit, measure = UNITS[unit]
    return sentence(
        english.join(subject.en, en_verb(action, subject, "past"), f"for {english.number(amount)} {unit}s"),
        italian.join(it_clause(action, subject, "past"), f"per {italian.number(amount)} {it_unit}"),
        f"{subject.zh}{action.zh}了{chinese.count(amount, measure)}",
    )


def been(rng: random.Random) -> Triple:
    """Have you ever been to Rome? My aunt has never been to China."""
    asking = rng.random() < 0.4
    subject = question_subject(rng) if asking else statement_subject(rng)
    at_home = CHINESE_PLACES if "李明" in subject.zh or "王芳" in subject.zh else ()
    place = rng.choice([place for place in CITIES + COUNTRIES if place.en not in at_home])
    it_place = f"{'in' if place in COUNTRIES else 'a'} {place.it}"
    stay: Predicate = predicate("be | essere | 去")
    have = "has" if subject.is_third_singular else "have"
    if asking:
        return sentence(
            f"{have} {subject.en} ever been to {place.en}",
            italian.join(subject.it, it_verb(stay, subject, "perfect", adverb="mai"), it_place),
            f"{subject.zh}去过{place.zh}吗",
            "?",
        )
    return sentence(
        f"{subject.en} {have} never been to {place.en}",
        italian.join(subject.it, it_verb(stay, subject, "perfect", True, "mai"), it_place),
        f"{subject.zh}从来没去过{place.zh}",
    )


def arriving(rng: random.Random) -> Triple:
    """When will your parents arrive? My uncle will arrive on Friday at nine."""
    verb = rng.choice((predicate("arrive | arrivare | 到"), predicate("leave | partire | 出发")))
    zh = "到" if verb.zh == "到" else "出发"
    if rng.random() < 0.3:
        subject: Subject = wh_subject(rng)
        return sentence(
            f"when will {subject.en} {verb.en_verb}",
            italian.join("quando", it_verb(verb, subject, "future"), subject.it),
            f"{subject.zh}什么时候{zh}",
            "?",
        )
    subject, day = statement_subject(rng), rng.choice(DAYS)
    clock = _clock(rng.randint(1, 9), rng.choice(MINUTES[:4]), "at")
    return sentence(
        f"{subject.en} will {verb.en_verb} on {day.en} at {clock.en}",
        italian.join(it_clause(verb, subject, "future"), day.it, clock.it),
        f"{subject.zh}{day.zh}{clock.zh}{zh}",
    )


TEMPLATES: list[tuple[int, Template]] = [
    (70, what_time),
    (260, scheduled),
    (180, scheduled_train),
    (70, schedule_asked),
    (230, daily_routine),
    (260, dated),
    (180, dated_by_day),
    (70, usual_weather),
    (120, coming_weather),
    (260, going_by),
    (230, lasted),
    (200, been),
    (230, arriving),
]
