"""What is no language and must come through a translation unharmed: URLs, e-mail addresses, placeholders, tags.

>>> [item.text for item in items("Mail <b>{name}</b> at a@b.org, or see https://b.org/x.")]
['<b>', '{name}', '</b>', 'a@b.org', 'https://b.org/x']
>>> compare("{0} of %s files", "{0} {0} di file")
Difference(missing=('%s',), surplus=('{0}',))
>>> mend("Open {0}.", "Apri { 0 }.")
'Apri {0}.'

Each must be there as often as in the source, to the character. Accelerators (`&File`) are not protected, for their
letter changes with the word. Numbers are only looked at: 1,000.5 is 1.000,5 elsewhere, and "2" may well become "due".
"""

import re
from collections import Counter
from typing import Literal, NamedTuple

from nmt.text.normalize import normalize

Kind = Literal["url", "email", "tag", "placeholder"]

_KINDS: dict[Kind, str] = {
    "url": r"(?:https?://|ftp://|www\.)[^\s<>\"“”«»{}|\\^`]*[\w/#=&%~+-]",
    # in ASCII, for Chinese stands right beside it; from the start of a run, and `++`, or long runs take quadratic time
    "email": r"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+",
    "tag": r"</?[A-Za-z][^<>]*>",
    # in turn: { -brand }, {0:X}, {{name}} · ${name}, $name · %(name)s · %s, %1$d, %.2f · &amp;
    "placeholder": r"\{\{?\s?[-$]?\w[\w.:,+-]*\s?\}?\}|\$\{\w+\}|\$[A-Za-z_][A-Za-z0-9_]+|%\(\w+\)[sdif]"
    r"|(?<!\d)%(?:\d+\$)?[-+#0]?\d*(?:\.\d+)?(?:hh?|ll?|[zjt])?[sdiufeEgGxXc@](?![A-Za-z0-9_])"
    r"|&(?:[A-Za-z]\w*|#\d+|#x[\dA-Fa-f]+);",
}
_ITEM = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_MARK = re.compile(r"[:@<{$%&]|www\.")
"""What every item has something of, and few lines."""
_NUMBER = re.compile(r"\d+(?:[.,:'’\u202f ]\d+)*")
_SMALL = 12
"""Numbers up to this are often written as words, and are not looked for."""


class Item(NamedTuple):
    """Something in a line, and where it begins and ends."""

    text: str
    kind: Kind
    start: int
    end: int


class Difference(NamedTuple):
    """What is in the source more often than in the translation, and what less often."""

    missing: tuple[str, ...]
    surplus: tuple[str, ...]


def items(line: str) -> list[Item]:
    """Return what must survive of a normalized line, in order; nothing overlaps."""
    if not _MARK.search(line):
        return []
    return [Item(found[0], found.lastgroup, *found.span()) for found in _ITEM.finditer(line)]  # type: ignore[arg-type]


def compare(source: str, text: str) -> Difference:
    """Return what a translation lost of a line, and what it has too often."""
    in_source, in_text = items(normalize(source)), items(text)
    if not in_source and not in_text:
        return Difference((), ())
    wanted, found = Counter(item.text for item in in_source), Counter(item.text for item in in_text)
    return Difference(tuple((wanted - found).elements()), tuple((found - wanted).elements()))


def lost_numbers(source: str, text: str) -> list[str]:
    """Return the numbers above twelve that are in the source more often than in the text, by their digits alone.

    >>> lost_numbers("1,000.5 miles in 1984, 2 to 13", "1.000,5 miglia nel 1983, da due")
    ['1984', '13']
    """
    wanted, lost = _numbers(normalize(source)), []
    found = Counter(map(_digits, _numbers(text) if wanted else ()))
    for number in wanted:
        if found[_digits(number)]:
            found[_digits(number)] -= 1
        elif _is_large(_digits(number)):
            lost.append(number)
    return lost


def mend(source: str, text: str) -> str:
    """Put right in a translation what can be put right without knowing the language.

    An item that is there but for spaces and capitals, or that runs into a word, is set right. An item said too often
    loses its last occurrences. Next to tags there are no spaces where the source has none inside the tagged text.
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
    return _tags_closed_up(source, text)


def _restored(source: str, text: str, item: str) -> str:
    """Put an item in the place of a near miss, with spaces around it if it ran into something."""
    lost = len(compare(source, text).missing)
    for found in _near_miss(item).finditer(text):
        for way in (item, f"{item} ", f" {item}", f" {item} "):
            restored = normalize(text[: found.start()] + way + text[found.end() :])
            if len(compare(source, restored).missing) < lost:
                return restored
    return text


def _near_miss(item: str) -> re.Pattern[str]:
    """Match the item with other spaces and capitals; but "%s" is not in "100 % sure"."""
    pattern = r"\s*".join(re.escape(character) for character in item if not character.isspace())
    address = re.fullmatch(f"{_KINDS['url']}|{_KINDS['email']}", item)
    after = r"(?!\w)" if item[-1].isalnum() and not address else ""
    return re.compile(pattern + after, re.IGNORECASE)


def _tags_closed_up(source: str, text: str) -> str:
    """Remove spaces after an opening and before a closing tag where the source has none."""
    for item in items(source):
        if item.kind != "tag":
            continue
        tag = re.escape(item.text)
        if item.text.startswith("</"):
            if item.start and source[item.start - 1] != " ":
                text = re.sub(rf"(?<=\S) (?={tag})", "", text)
        elif source[item.end : item.end + 1].strip():
            text = re.sub(rf"(?<={tag}) (?=\S)", "", text)
    return text


def _numbers(line: str) -> list[str]:
    """Return the numbers that stand outside protected items."""
    return _NUMBER.findall(_ITEM.sub(" ; ", line) if _MARK.search(line) else line)


def _is_large(digits: str) -> bool:
    digits = digits.lstrip("0")
    return len(digits) > 2 or int(digits or "0") > _SMALL  # Python reads no number of thousands of digits


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)
