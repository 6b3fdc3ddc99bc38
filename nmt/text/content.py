"""Content that a translation must have in common with its source: items, accelerators, numbers.

>>> content_diff("{0} of %s files", "{0} {0} di file")
ContentDiff(missing=('%s',), surplus=('{0}',))
>>> accelerators("&File", "Archivio")
ContentDiff(missing=('&',), surplus=())
>>> lost_numbers("1,000.5 miles in 1984, 2 to 13", "1.000,5 miglia nel 1983, da due")
['1984']
>>> lost_numbers("15,000 of 1.5 million", "一百五十万中的一万五千")
[]
"""

import re
import unicodedata
from collections import Counter
from typing import NamedTuple

from nmt.text.items import ITEM, Item, read
from nmt.text.languages import UNSPACED
from nmt.text.normalize import normalize

# The start of a plural or select argument of an ICU message.
ICU_ARGUMENT = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|selectordinal|select)\s*,(?:\s*offset:\d+)?")
# The letter of an accelerator depends on the word: `&File`, `文件(&F)`.
_ACCELERATOR = re.compile(r"(?<![\w&])&(?=[^\W_])(?!\w+;)")
_IN_WORD = re.compile(r"(?<=[A-Za-z])&(?=[a-z])")  # an accelerator, as in `C&opy`, or not
_SIGN = re.compile(r"[^\w{}%\U0001f000-\U0001faff\u266a-\u266f]+")
# Signs that are written next to an item in some languages, and apart from it in others.
_BESIDE = re.compile(r"^[-+~€£№](?=\{)|(?<=\})%$")
# The Chinese end of an address, which is a part of it only where it stands apart, as in `见 b.org/中 。`.
_CHINESE_END = re.compile(rf"^([A-Za-z]\S*?[/=#])[{UNSPACED}].*")
_LIST_MARK = re.compile(r" *\w{1,2}[.)]")
_AROUND = "'\"()[]“”‘’«»（）「」"


class ContentDiff(NamedTuple):
    """Required content that a translation lacks, and content that it has more often than its source."""

    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()


NO_DIFF = ContentDiff()


def content_diff(source: str, text: str) -> ContentDiff:
    """Return the items and accelerators that a given translation of a line lacks, and those that it has too often.

    Of ICU messages, only the arguments are compared, since their texts are translated. Code in backticks is missing
    only if a text has no backticks, and signs such as `>` and marks of lists are not compared: people translate these.
    """
    required, present = (Counter(map(_compared, read(line).items)) for line in (source, text))
    for key in required | present:
        if _SIGN.fullmatch(key) or (key[0] == "`" and ("`" in text or key.strip("`").lower() in text.lower())):
            del required[key], present[key]
    lost, added = accelerators(source, text)
    return ContentDiff((*(required - present).elements(), *lost), (*(present - required).elements(), *added))


def invented_items(text: str) -> list[str]:
    """Return the items, except for signs and code in backticks, of a text that should have none.

    >>> invented_items("Apri %s o `apri`")
    ['%s']
    """
    return [item for item in map(_compared, read(text).items) if not _SIGN.fullmatch(item) and item[0] != "`"]


def _compared(item: Item) -> str:
    if argument := ICU_ARGUMENT.match(item.text):
        return argument[0]
    if item.text[0] == ":" and "`" in item.text:  # a role of reStructuredText, whose text is translated
        return item.text.partition("`")[0]
    if _LIST_MARK.fullmatch(item.text):  # `1)` is `1）` or `1、` in Chinese
        return "-"
    return _CHINESE_END.sub(r"\1", _BESIDE.sub("", item.text.strip(_AROUND))) or item.text


def accelerators(source: str, text: str) -> ContentDiff:
    """Return the accelerators that a translation lacks, and those that it has too often."""
    if "&" not in source and "&" not in text:
        return NO_DIFF
    required, present = len(_ACCELERATOR.findall(source)), len(_ACCELERATOR.findall(text))
    possible = [len(_IN_WORD.findall(side)) for side in (source, text)]
    return ContentDiff(("&",) * (required - present - possible[1]), ("&",) * (present - required - possible[0]))


def without_items(line: str, substitute: str = " ") -> str:
    """Return a line with a substitute in place of each item."""
    return read(line).text.replace(ITEM, substitute)


# possessive, and from the start of a run: otherwise long runs take quadratic time
_NUMBER = re.compile(r"(?<!\d)(?<!\d[.,'’，])(?:\d{1,3}(?:[ \u202f]\d{3})++(?!\d)|\d++(?:[.,'’，]\d++)*+)")
_MAGNITUDE = re.compile(
    "hundred|thousand|[mbtr]illion|milion[ei]|miliard|cent[oi]|mille|mila\\b|[百千万萬亿億]|[〇零一二三四五六七八九]{2}"
    "|(?:\\d\\d|['’])\\d0['’]?s\\b|年代",
    re.IGNORECASE,
)


def lost_numbers(source: str, text: str) -> list[str]:
    """Return the numbers of three or more digits that occur in the source more often than in the text.

    Only their digits are compared, since 1,000.5 is 1.000,5 in other languages. No number is reported if either line
    has a word for a magnitude, Chinese numerals or a decade: 1.5 million is 150万, 1970s is '70. Shorter numbers, which
    are often written as words, and numbers inside protected items are not compared.
    """
    if not _NUMBER.search(source):
        return []
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
    """Return the ASCII digits of a number, without leading zeros and without the decimals of 3.00."""
    number = re.sub(r"[.,]00?$", "", number)
    return "".join(str(unicodedata.decimal(character)) for character in number if character.isdecimal()).lstrip("0")
