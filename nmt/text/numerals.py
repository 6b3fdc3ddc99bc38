"""Numbers of a line that are not in its translation.

>>> lost_numbers("1,000.5 miles in 1984, 2 to 13", "1.000,5 miglia nel 1983, da due")
['1984']
>>> lost_numbers("15,000 of 1.5 million", "一百五十万中的一万五千")
[]
"""

import re
import unicodedata
from collections import Counter

from nmt.text.normalize import normalize
from nmt.text.protection import without_items

# possessive, and from the start of a run: otherwise long runs take quadratic time
_NUMBER = re.compile(r"(?<!\d)(?<!\d[.,'’，])(?:\d{1,3}(?:[ \u202f]\d{3})++(?!\d)|\d++(?:[.,'’，]\d++)*+)")
_MAGNITUDE = re.compile(
    "hundred|thousand|[mbtr]illion|milion[ei]|miliard|cent[oi]|mille|mila\\b|[百千万萬亿億]|[〇零一二三四五六七八九]{2}",
    re.IGNORECASE,
)


def lost_numbers(source: str, text: str) -> list[str]:
    """Return the numbers of three and more digits that are in the source more often than in the text.

    They are compared by their digits alone, since 1,000.5 is 1.000,5 in other languages. None is lost if either line
    has a word or character of a magnitude, or numerals: 1.5 million is 150万. Smaller ones are often words, and numbers
    inside protected items are not compared.
    """
    lines = [without_items(normalize(line), " ; ") for line in (source, text)]
    if any(map(_MAGNITUDE.search, lines)):
        return []
    in_source, in_text = map(_NUMBER.findall, lines)
    unmatched, lost = Counter(map(_digits, in_text)), []
    for number, digits in zip(in_source, map(_digits, in_source), strict=True):
        if len(digits) > 2 and unmatched[digits] <= 0:
            lost.append(number)
        unmatched[digits] -= 1
    return lost


def _digits(number: str) -> str:
    """Return the ASCII digits of a number, without zeros at its beginning and after a decimal point in 3.00."""
    number = re.sub(r"[.,]00?$", "", number)
    return "".join(str(unicodedata.decimal(character)) for character in number if character.isdecimal()).lstrip("0")
