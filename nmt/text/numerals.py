"""Numbers of a line that are not in its translation, whatever digits, separators, numerals or words express them there.

>>> lost_numbers("1,000.5 miles in 1984, 2 to 13", "1.000,5 miglia nel 1983, da due")
['1984', '13']
>>> lost_numbers("20 of 1.5 million", "一百五十万中的二十")
[]
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from decimal import Decimal

from nmt.text.normalize import normalize
from nmt.text.protection import without_items

# possessive, and from the start of a run: otherwise long runs take quadratic time
_NUMBER = re.compile(r"(?<!\d)(?<!\d[.,'’，])(?:\d{1,3}(?:[ \u202f]\d{3})++(?!\d)|\d++(?:[.,'’，]\d++)*+)")
_SMALL = 12
"""Numbers up to this are often written as words, and are not compared."""
_LONGEST = 20
"""Numbers of more digits are compared by their digits only."""

_HAN_DIGITS = {character: value % 10 for value, character in enumerate("〇一二三四五六七八九零")} | {"两": 2, "兩": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_HAN_NUMBER = re.compile(
    rf"(?:(?:{_NUMBER.pattern}) ?|点?[{''.join(_HAN_DIGITS)}]|[多余餘个個]?[{''.join(_HAN_UNITS)}] ?)++"
)
_MAGNITUDES = {
    r"hundred|cento": 100, r"thousand|mila|k\b": 1000, r"million|milion[ei]": 10**6, r"billion|miliard[oi]": 10**9,
    "trillion": 10**12,
}  # fmt: skip
_SCALED_NUMBERS = [
    (re.compile(rf"({_NUMBER.pattern})[\s-]?(?:{word})", re.I), unit) for word, unit in _MAGNITUDES.items()
]
_WORDS = {
    13: "thirte|tredic", 14: "fourte|quattordic", 15: "fifte|quindic", 16: "sixte|sedic", 17: "sevente|diciassett",
    18: "eighte|diciott", 19: "ninete|diciannov", 20: "twent|vent", 30: "thirt|trent", 40: "fort|quarant",
    50: "fift|cinquant", 60: "sixt|sessant", 70: "sevent|settant", 80: "eight|ottant", 90: "ninet|novant",
}  # fmt: skip
"""The beginnings of English and Italian words for 13 to 19 and the tens."""
_PARTS_OF_HOUR = {15: "quart|刻", 30: "half|mezz[ao]|半", 45: "quart|刻"}
_ROMAN = ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


def lost_numbers(source: str, text: str) -> list[str]:
    """Return the numbers above twelve that are in the source more often than in the text.

    They are compared by their digits alone, since 1,000.5 is 1.000,5 in other languages. A number is not lost if the
    text has it in Chinese numerals, with another magnitude (1.5 million, 150万), as a year of two digits, in Roman
    numerals, or, roughly, in English or Italian words; it is lost if it has a magnitude of another value there (20
    billion, 20亿). Numbers inside protected items are not compared.
    """
    line = without_items(normalize(source), " ; ")
    required = _NUMBER.findall(line)
    if not required:
        return []
    text = without_items(text, " ; ")
    unmatched, lost = Counter(map(_digits, _NUMBER.findall(text))), []
    in_line, in_text = _scaled(line), {value: _digits(found) for found, value in _scaled(text)}
    for number in required:
        digits = _digits(number)
        scaled = {value for found, value in in_line if found == number}
        if unmatched[digits]:
            unmatched[digits] -= 1
            # 20 billion and 20亿
            is_lost = bool(scaled) and digits in in_text.values() and scaled.isdisjoint(in_text)
        else:
            is_short = len(digits) <= _LONGEST
            is_lost = _is_large(digits) and not (is_short and _is_written_otherwise(digits, scaled, text, in_text))
        if is_lost:
            lost.append(number)
    return lost


def _is_written_otherwise(digits: str, scaled: set[str], text: str, in_text: Collection[str]) -> bool:
    """Return whether a number is in the text in one of the ways that `lost_numbers` accepts.

    `scaled` are its products with the magnitude after it, and `in_text` those of the numbers of the text.
    """
    han = [one for one in _HAN_NUMBER.findall(text) if len(one) <= _LONGEST and not _NUMBER.fullmatch(one.strip())]
    if not {digits, *scaled}.isdisjoint([*in_text, *(reading for one in han for reading in _read_han(one))]):
        return True
    others = set(map(_digits, _NUMBER.findall(text)))
    # 1984 and '84; the minutes of 10:30 and 10.30
    if scaled & others or (len(digits) == 4 and digits[2:] in others):
        return True
    if len(digits) == 2 and any(len(other) in (3, 4) and other.endswith(digits) for other in others):
        return True
    return _is_in_words(int(digits), text)


def _scaled(line: str) -> list[tuple[str, str]]:
    """Return the numbers before a magnitude such as `million` or 万, and the digits of the products."""
    scaled = [
        (found, _digits(f"{value * unit:f}"))
        for pattern, unit in _SCALED_NUMBERS
        for found in pattern.findall(line)
        if len(found) <= _LONGEST
        for value in _values(found)
    ]
    for match in _HAN_NUMBER.finditer(line):
        number = _NUMBER.match(match[0])
        if number is not None and number.end() < len(match[0].rstrip()) and len(match[0]) <= _LONGEST:
            scaled += [(number[0], reading) for reading in _read_han(match[0])]
    return scaled


def _is_in_words(number: int, text: str) -> bool:
    if number in _PARTS_OF_HOUR and re.search(_PARTS_OF_HOUR[number], text, re.I):
        return True
    if number < 90 and re.search(rf"\b{_roman(number)}\b", text):
        return True
    if number < 100:
        key = number if number < 20 else number // 10 * 10
        return re.search(rf"\b(?:{_WORDS[key]})", text, re.I) is not None
    word = r"hundred|cent[oi]|百" if number < 1000 else r"thousand|hundred|mille|mila|千"
    return (number < 10_000 or number % 1000 == 0) and re.search(word, text, re.I) is not None


def _read_han(numeral: str) -> list[str]:
    """Return the digits of a number in Chinese numerals and Arabic digits; of two readings if a point is ambiguous.

    >>> [_read_han(numeral)[0] for numeral in ("一九八四", "三千零二十", "十五点二亿", "1亿2000万")]
    ['1984', '3020', '1520000000', '120000000']
    """
    tokens = re.findall(_NUMBER.pattern + "|[^ 多余餘个個]", numeral)
    if not any(token in _HAN_UNITS for token in tokens):
        return [_digits("".join(str(_HAN_DIGITS.get(token, token)) for token in tokens))]
    first = _values(tokens[0]) if tokens[0][0].isdecimal() else [Decimal(0)]
    return [_digits(f"{_han_value(tokens, value).normalize():f}") for value in first]


def _han_value(tokens: list[str], first: Decimal) -> Decimal:
    """Return the value of a number; `first` is that of its first token if it has Arabic digits."""
    total = section = number = Decimal(0)
    place = Decimal(1)  # of the next digit, after 点
    for index, token in enumerate(tokens):
        unit = _HAN_UNITS.get(token)
        if token == "点":
            place = Decimal("0.1")
        elif unit is None:
            digit = Decimal(_HAN_DIGITS[token]) if token in _HAN_DIGITS else first if index == 0 else _values(token)[0]
            number = digit if place == 1 else number + digit * place
            place /= 10 if place < 1 else 1
        elif unit < 10_000:
            section, number, place = section + (number or 1) * unit, Decimal(0), Decimal(1)
        else:
            below = (section + number) * unit
            total = total * unit + below if unit == 10**8 else total + below
            section, number, place = Decimal(0), Decimal(0), Decimal(1)
    return total + section + number


def _values(number: str) -> list[Decimal]:
    """Return the possible values of a number: its last separator may be a decimal one.

    >>> [list(map(str, _values(number))) for number in ("1,500.5", "1.500,5", "1,5", "1.500")]
    [['1500.5'], ['1500.5'], ['1.5'], ['1.500', '1500']]
    """
    *groups, last = re.split(r"\D", number)
    whole = Decimal("".join(groups) + last)
    if not groups:
        return [whole]
    fraction = Decimal(f"{''.join(groups)}.{last}")
    return [fraction, whole] if len(last) == 3 else [fraction]


def _roman(number: int) -> str:
    numeral = ""
    for value, letters in _ROMAN:
        numeral += letters * (number // value)
        number %= value
    return numeral


def _is_large(digits: str) -> bool:
    digits = digits.lstrip("0")
    return len(digits) > 2 or int(digits or "0") > _SMALL  # int() refuses thousands of digits


def _digits(number: str) -> str:
    """Return the ASCII digits of a number, without the zeros after a decimal point in 3.00."""
    number = re.sub(r"[.,]00?$", "", number)
    return "".join(str(unicodedata.decimal(character)) for character in number if character.isdecimal())
