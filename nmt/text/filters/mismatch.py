"""Numbers and addresses that contradict each other on the two sides of a pair."""

import re

from nmt.text.numerals import lost_numbers

_DIGITS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
_TOKENIZED = re.compile(r"(?<=\d) (,) (?=\d{3}(?!\d))|(?<=\d) (\.) (?=\d)")
_LIST_COMMA = re.compile(r"(?<=\d)，(?=\d)")
_ADDRESS = re.compile(r"(?:https?://|ftp://|www\.|[A-Za-z0-9_.+-]+@)([A-Za-z0-9.-]+\.[A-Za-z]{2,})")
_ADDRESS_MARK = re.compile(r"@|//|www\.")
_PERIOD = re.compile(r"\d0['’]?s\b|世[纪紀]|年代|secol|siècle|siglo|século|jahrhundert|век", re.IGNORECASE)
_HALF_DAY = 1200
"""Between 3.25 p.m. and 15.25."""
_LONGEST = 2_000  # characters of a side; longer ones are not compared, since some patterns take quadratic time
_MOST_DIGITS = 18  # of a number that are compared


def mismatch(source: str, target: str) -> str | None:
    """Return the numbers, or the domains of addresses, in which the sides of a normalized pair differ."""
    if max(len(source), len(target)) > _LONGEST:
        return None
    return number_mismatch(source, target) or address_mismatch(source, target)


def number_mismatch(source: str, target: str) -> str | None:
    """Return the numbers of each side that the other one lacks, if both sides have such numbers.

    A number that only one side has may be a word on the other one (`nmt.text.numerals` recognizes many), and is
    accepted. So are clock times of twelve hours, decades and centuries (`1900s`, 20世纪). Values in other units are not
    recognized.
    """
    if not _DIGIT.search(source) or not _DIGIT.search(target):
        return None
    if sorted(_DIGITS.findall(source)) == sorted(_DIGITS.findall(target)):
        return None  # the other comparison takes a hundred times as long
    source, target = (_LIST_COMMA.sub("， ", _TOKENIZED.sub(r"\1\2", side)) for side in (source, target))
    in_source = lost_numbers(source, target)
    in_target = lost_numbers(target, source) if in_source else []
    if not in_target or _PERIOD.search(source) or _PERIOD.search(target):
        return None
    if any(_may_be_equal(one, other) for one in in_source for other in in_target):
        return None
    return f"{', '.join(in_source)} in the source, {', '.join(in_target)} in the target"


def _may_be_equal(one: str, other: str) -> bool:
    """Whether two numbers may be the same in other notations: 4.3 (million) and 430 (万), 3.25 (p.m.) and 15.25."""
    digits = ["".join(_DIGITS.findall(number))[:_MOST_DIGITS] for number in (one, other)]
    if digits[0].strip("0") == digits[1].strip("0") or abs(int(digits[0]) - int(digits[1])) == _HALF_DAY:
        return True
    shorter, longer = sorted(digits, key=len)
    return len(shorter) + 2 <= len(longer) and shorter in longer  # 2007 and 03.02.2007


def address_mismatch(source: str, target: str) -> str | None:
    """Return the domains of the addresses on both sides, if both have some, and none in common."""
    if not _ADDRESS_MARK.search(source) or not (domains := _domains(source)):
        return None
    others = _domains(target)
    if not others or domains & others:
        return None
    return f"{', '.join(sorted(domains))} in the source, {', '.join(sorted(others))} in the target"


def _domains(text: str) -> set[str]:
    """Return the ends of the domains, so that subdomains of languages are equal."""
    return {".".join(domain.lower().rsplit(".", 2)[-2:]) for domain in _ADDRESS.findall(text)}
