"""Parts of a line that a translation must contain unchanged: URLs, e-mail addresses, placeholders, tags.

>>> [item.text for item in items("Mail <b>{name}</b> at a@b.org, or see https://b.org/x.")]
['<b>', '{name}', '</b>', 'a@b.org', 'https://b.org/x']
>>> compare("{0} of %s files", "{0} {0} di file")
ContentDiff(missing=('%s',), surplus=('{0}',))
>>> repair("Open {0}.", "Apri { 0 }.")
'Apri {0}.'

Each must occur as often as in the source. Numbers are only compared, and so are marks:
accelerators (`&File`), since their letter depends on the word, escapes (`\n`), arguments of ICU messages, and code.

>>> compare_marks("&Open `git log`\n", "Apri\n")
ContentDiff(missing=('&', '`git log`'), surplus=())
>>> lost_numbers("1,000.5 miles in 1984, 2 to 13", "1.000,5 miglia nel 1983, da due")
['1984']
>>> lost_numbers("15,000 of 1.5 million", "一百五十万中的一万五千")
[]
"""

import re
import unicodedata
from collections import Counter
from typing import NamedTuple

from nmt.text.normalize import normalize

_URL = r"(?:https?://|ftp://|www\.)[^\s<>\"“”«»{}|\\^`]*[\w/#=&%~+-]"
# ASCII, since Chinese may be adjacent; from the start of a run and with `++`, or long runs take quadratic time
_EMAIL = r"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+"
_TAG = r"</?[A-Za-z][^<>]*>"
# in this order: { -brand }, {0:X}, {{name}} · ${name}, $name · %(name)s · %s, %1$d, %.2f · %1, %L1 · &amp;
_PLACEHOLDER = (
    r"\{\{?\s?[-$]?\w[\w.:,+-]*\s?\}?\}|\$\{\w+\}|\$[A-Za-z_][A-Za-z0-9_]+|%\(\w+\)[sdif]"
    r"|(?<!\d)%(?:\d+\$)?[-+#0]?\d*(?:\.\d+)?(?:hh?|ll?|[zjt])?[sdiufeEgGxXc@](?![A-Za-z0-9_])"
    r"|(?<!\d)%L?[1-9](?![A-Za-z0-9_]|[.,]\d)|&(?:[A-Za-z]\w*|#\d+|#x[\dA-Fa-f]+);"
)
ITEM = re.compile(f"{_URL}|{_EMAIL}|{_TAG}|{_PLACEHOLDER}")
# A match in every protected item, but in few lines.
_MARK = re.compile(r"[:@<{$%&]|www\.")
# The start of a plural or select argument of an ICU message.
ICU_ARGUMENT = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|selectordinal|select)\s*,(?:\s*offset:\d+)?")
_COMPARED = re.compile(rf"\\[nrt]|(?<![\w&])&(?=[^\W_])(?!\w+;)|{ICU_ARGUMENT.pattern}")


class Item(NamedTuple):
    """A protected part of a line with its span."""

    text: str
    start: int
    end: int


class ContentDiff(NamedTuple):
    """Required content that a translation lacks, and content that it has more often than its source."""

    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()


NO_DIFF = ContentDiff()


def items(line: str) -> list[Item]:
    """Return the protected items of a normalized line, in order and without overlap."""
    if not _MARK.search(line):
        return []
    return [Item(found[0], *found.span()) for found in ITEM.finditer(line)]


def without_items(line: str, substitute: str = " ") -> str:
    """Return a normalized line with a substitute in place of each protected item."""
    for item in reversed(items(line)):
        line = f"{line[: item.start]}{substitute}{line[item.end :]}"
    return line


def compare(source: str, text: str) -> ContentDiff:
    """Return the items that a translation of a line lacks, and those that it has too often."""
    in_source, in_text = items(normalize(source)), items(text)
    if not in_source and not in_text:
        return NO_DIFF
    required, found = Counter(item.text for item in in_source), Counter(item.text for item in in_text)
    return ContentDiff(tuple((required - found).elements()), tuple((found - required).elements()))


def compare_marks(source: str, text: str) -> ContentDiff:
    """Return the marks that a translation of a line lacks, and those that it has too often.

    Code between backticks is lost only from a text without backticks, since people mark and translate it differently.
    """
    if not re.search(r"[`\\&{]", source + text):
        return NO_DIFF
    source = normalize(source)
    required, found = Counter(_COMPARED.findall(source)), Counter(_COMPARED.findall(text))
    code = [] if "`" in text else [one for one in re.findall(r"`[^`]+`", source) if one[1:-1] not in text]
    return ContentDiff((*(required - found).elements(), *code), tuple((found - required).elements()))


def repair(source: str, text: str) -> str:
    """Correct the protected items of a translation where that is possible without knowledge of the language.

    An item with other spaces and capitals, or joined to a word, is restored. Of an item that occurs too often the last
    occurrences are removed, and so are spaces inside tagged text where the source has none.
    """
    source = normalize(source)
    if not items(source):
        return text
    for missing in compare(source, text).missing:
        text = _restored(source, text, missing)
    for surplus in compare(source, text).surplus:
        if surplus in source:
            start = [item.start for item in items(text) if item.text == surplus][-1]
            text = normalize(text[:start].rstrip() + text[start + len(surplus) :])
    return _without_spaces_in_tags(source, text)


def _restored(source: str, text: str, item: str) -> str:
    """Replace a near match of an item by the item, with spaces around it if it was joined to a word."""
    lost = len(compare(source, text).missing)
    for found in _near_match(item).finditer(text):
        for spaced in (item, f"{item} ", f" {item}", f" {item} "):
            restored = normalize(text[: found.start()] + spaced + text[found.end() :])
            if len(compare(source, restored).missing) < lost:
                return restored
    return text


def _near_match(item: str) -> re.Pattern[str]:
    """Match the item with other spaces and capitals; "100 % sure" does not contain "%s"."""
    pattern = r"\s*".join(re.escape(character) for character in item if not character.isspace())
    address = re.fullmatch(f"{_URL}|{_EMAIL}", item)
    after = r"(?!\w)" if item[-1].isalnum() and not address else ""
    return re.compile(pattern + after, re.IGNORECASE)


def _without_spaces_in_tags(source: str, text: str) -> str:
    """Remove spaces after an opening and before a closing tag where the source has none."""
    for item in items(source):
        tag = re.escape(item.text)
        if item.text.startswith("</"):
            if item.start and source[item.start - 1] != " ":
                text = re.sub(rf"(?<=\S) (?={tag})", "", text)
        elif item.text.startswith("<") and source[item.end : item.end + 1].strip():
            text = re.sub(rf"(?<={tag}) (?=\S)", "", text)
    return text


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
    """Return the ASCII digits of a number, without zeros at its beginning and after a decimal point in 3.00."""
    number = re.sub(r"[.,]00?$", "", number)
    return "".join(str(unicodedata.decimal(character)) for character in number if character.isdecimal()).lstrip("0")
