"""English morphology: articles, plurals, verb forms and numbers."""

from __future__ import annotations

IRREGULAR_VERBS = {
    "be": "was been",
    "have": "had had",
    "do": "did done",
    "go": "went gone",
    "come": "came come",
    "eat": "ate eaten",
    "drink": "drank drunk",
    "read": "read read",
    "write": "wrote written",
    "buy": "bought bought",
    "sell": "sold sold",
    "see": "saw seen",
    "find": "found found",
    "lose": "lost lost",
    "take": "took taken",
    "give": "gave given",
    "make": "made made",
    "sing": "sang sung",
    "swim": "swam swum",
    "run": "ran run",
    "sleep": "slept slept",
    "get": "got got",
    "drive": "drove driven",
    "ride": "rode ridden",
    "speak": "spoke spoken",
    "feed": "fed fed",
    "meet": "met met",
    "know": "knew known",
    "leave": "left left",
    "put": "put put",
    "say": "said said",
    "teach": "taught taught",
    "bring": "brought brought",
    "send": "sent sent",
    "choose": "chose chosen",
    "draw": "drew drawn",
    "wear": "wore worn",
    "spend": "spent spent",
    "pay": "paid paid",
    "win": "won won",
    "break": "broke broken",
    "forget": "forgot forgotten",
}
DOUBLING_VERBS = {"run", "swim", "get", "put", "win"}
IRREGULAR_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "fish": "fish",
    "sheep": "sheep",
    "knife": "knives",
    "sandwich": "sandwiches",
}
BE_PRESENT = ("am", "are", "is", "are", "are", "are")
BE_PAST = ("was", "were", "was", "were", "were", "were")
NUMBERS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def join(*parts: str) -> str:
    """Join the non-empty parts with spaces."""
    return " ".join(part for part in parts if part)


def indefinite(phrase: str) -> str:
    """Put a or an before a phrase."""
    vowel_sound = phrase[0] in "aeiou" and not phrase.startswith(("uni", "euro", "use", "one"))
    return ("an " if vowel_sound else "a ") + phrase


def plural(noun: str) -> str:
    """Form the plural of a noun, inflecting its last word."""
    head, space, last = noun.rpartition(" ")
    if last in IRREGULAR_PLURALS:
        inflected = IRREGULAR_PLURALS[last]
    elif last.endswith("y") and last[-2] not in "aeiou":
        inflected = last[:-1] + "ies"
    elif last.endswith(("s", "x", "ch", "sh", "potato", "tomato")):
        inflected = last + "es"
    else:
        inflected = last + "s"
    return head + space + inflected


def third_person(verb: str) -> str:
    """Form the third person singular of the present."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "x", "ch", "sh", "o")) else "s")


def past(verb: str) -> str:
    """Form the simple past."""
    return IRREGULAR_VERBS[verb].split()[0] if verb in IRREGULAR_VERBS else _regular_past(verb)


def participle(verb: str) -> str:
    """Form the past participle."""
    return IRREGULAR_VERBS[verb].split()[1] if verb in IRREGULAR_VERBS else _regular_past(verb)


def _regular_past(verb: str) -> str:
    """Add the regular past ending."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "ed"


def gerund(verb: str) -> str:
    """Form the -ing form."""
    if verb in DOUBLING_VERBS:
        return verb + verb[-1] + "ing"
    if verb.endswith("e") and not verb.endswith("ee") and verb != "be":
        return verb[:-1] + "ing"
    return verb + "ing"


def number(value: int) -> str:
    """Write a number from 0 to 99, 100 or a multiple of 100 in letters."""
    if value >= 100:
        return f"{NUMBERS[value // 100]} hundred"
    if value < 20:
        return NUMBERS[value]
    tens = TENS[value // 10 - 2]
    return tens if value % 10 == 0 else f"{tens}-{NUMBERS[value % 10]}"
