"""Tables of the properties of characters, from which arrays of characters look them up.

A table has an entry for each of the 65,536 characters of the first plane of Unicode, by code. Most have one more, at
`PLANE`, for all characters of the higher planes. Each property is a bit.

What depends on two adjacent characters is looked up as well: in the table `adjacent`, a character has a bit for what it
may be the first one of, and, shifted by `SECOND`, a bit for what it may be the second one of. For the two spaces in
`Ciao  Tom`

    adjacent[" "] & (adjacent[" "] >> SECOND) == _BESIDE_SPACE
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np
import numpy.typing as npt

from nmt.text.filters.damage import CONTINUATION, MISREAD_RUN, MISREAD_START, MISREAD_UNKNOWN, TEXT_BYTES
from nmt.text.filters.leakage import letters
from nmt.text.filters.script import HanCheck, ScriptCheck
from nmt.text.han_variants import other_variant

PLANE = 0x10000

# of a character: a line with it is always examined, it is of the script of the language, an ASCII symbol, a space, a
# digit, or several letters when case is ignored (ß)
EXAMINED, LETTER, SYMBOL, SPACE, DIGIT, EXPANDED = (np.uint8(1 << bit) for bit in range(6))
# of two characters: a space that normalization removes, mojibake, `//` or `ww` of an address, accented letters
_BESIDE_SPACE, _MISREAD, _ADDRESS, _ACCENTS = (np.uint8(1 << bit) for bit in range(4))
SECOND = np.uint8(4)

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


@cache
def all_characters() -> str:
    """Return all characters that have an entry of their own in the tables, by code."""
    return "".join(map(chr, range(PLANE)))


def is_in(characters: Iterable[str]) -> Bools:
    """Return (65536,) bools: True for these characters."""
    table = np.zeros(PLANE, dtype=np.bool_)
    table[[ord(character) for character in characters]] = True
    return table


@cache
def matches(pattern: str) -> Bools:
    """Return (65537,) bools: True for the characters that match a pattern, False for all higher planes."""
    return np.append(is_in(re.findall(pattern, all_characters())), False)


def properties(script: ScriptCheck | None, han: HanCheck | None) -> Bytes:
    """Return (65537,) properties of each character under the checks of a side, None for those that are not applied."""
    characters = all_characters()
    examined = ~np.fromiter(map(str.isprintable, characters), dtype=np.bool_, count=PLANE)
    examined |= is_in(f"@\ufffd{MISREAD_UNKNOWN[0]}") | is_in(composable())
    own = np.ones(PLANE, dtype=np.bool_)
    if script is not None:
        examined |= is_in(script.foreign.findall(characters))
        own = is_in(script.own.findall(characters))
    if han is not None:
        examined |= is_in(other_variant(characters, han.variant))
    symbols = is_in(chr(code) for code in range(0x80) if code not in TEXT_BYTES)
    digits = is_in(filter(str.isdecimal, characters))
    expanded = np.array([len(letters_of) > 1 for letters_of in letters_of_each()])
    table = examined * EXAMINED | own * LETTER | symbols * SYMBOL | digits * DIGIT | expanded * EXPANDED
    table[ord("\n")] = 0
    table[ord(" ")] = SPACE
    return np.append(table, EXAMINED).astype(np.uint8)


@cache
def adjacent() -> Bytes:
    """Return the properties of each character as the first and as the second one of two."""
    misread, continuation, accented = (
        is_in(re.findall(f"[{letters_of}]", all_characters()))
        for letters_of in (MISREAD_START, CONTINUATION, MISREAD_RUN)
    )
    pairs = (
        (_BESIDE_SPACE, is_in(" "), is_in(" \n")),
        (_MISREAD, misread, continuation),
        (_ADDRESS, is_in("/w"), is_in("/w")),
        (_ACCENTS, accented, accented),
    )
    table = sum(first * bit | second * (bit << SECOND) for bit, first, second in pairs)
    return np.append(table, 0).astype(np.uint8)


@cache
def composable() -> str:
    """Return the characters that NFC changes, or that it may join to the one before."""
    parts = [unicodedata.decomposition(character).split() for character in all_characters()]
    seconds = {chr(int(part, 16)) for own in parts if own and "<" not in own[0] for part in own[1:]}
    jamo = set(map(chr, [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]))  # Unicode 16, 3.12: Hangul syllables
    return "".join(
        character
        for character in all_characters()
        if character in seconds
        or character in jamo
        or unicodedata.combining(character)
        or not unicodedata.is_normalized("NFC", character)
    )


@cache
def lower_case() -> npt.NDArray[np.uint16]:
    """Return each character in lower case (65537,); one that becomes several stays as it is, as in no frequent word."""
    lower = [ord(own) if len(own) == 1 else code for code, own in enumerate(map(str.lower, all_characters()))]
    lower[ord("ς")] = ord("σ")  # which of the two a capital becomes depends on its place in a word
    return np.array([*lower, 0], dtype=np.uint16)


@cache
def letters_of_each() -> list[str]:
    """Return each character as `letters` returns it: none, one or several letters."""
    return list(map(letters, all_characters()))


@cache
def folded() -> npt.NDArray[np.uint16]:
    """Return the letter that each character is compared as (65537,); 0 for none or several."""
    return np.array([*(ord(own) if len(own) == 1 else 0 for own in letters_of_each()), 0], dtype=np.uint16)
