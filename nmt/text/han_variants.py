"""Simplified and Traditional Chinese: the characters of one of them only, the one a text is in, and conversion.

The characters are derived from the national standards that Python's codecs contain: a Simplified character is among
the 3,755 common ones of GB 2312 (level 1) and not in Big5; a Traditional one is among the 5,401 common ones of Big5
(level 1) and not in GB 2312. Characters of both (和, 后, 台) are evidence of neither. The rare rest is left out, since
names in both scripts use it.

>>> simplified_only("这个國家"), traditional_only("这个國家")
('这个', '國')
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from itertools import product
from typing import Any, Literal

from nmt.errors import ConfigError
from nmt.text.languages import primary_code

Variant = Literal["Simplified", "Traditional"]

_CONVERSIONS = {"hant": "s2t", "tw": "s2tw", "hk": "s2hk", "mo": "s2hk", "hans": "t2s", "cn": "t2s", "sg": "t2s"}
"""OpenCC's configurations by the script or region of a language code."""


def simplified_only(text: str) -> str:
    """Return the characters of a text that are Simplified."""
    return "".join(_patterns()[0].findall(text))


def traditional_only(text: str) -> str:
    """Return the characters of a text that are Traditional."""
    return "".join(_patterns()[1].findall(text))


def other_variant(text: str, variant: Variant) -> str:
    """Return the characters of a text that only the other variant has."""
    return traditional_only(text) if variant == "Simplified" else simplified_only(text)


def variant_of(language: str, lines: Iterable[str]) -> Variant | None:
    """Return what a Chinese text is in: as its language code states (zh-Hant, zh_TW), else as most of its lines are."""
    if (conversion := _stated_conversion(language)) is not None:
        return "Simplified" if conversion == "t2s" else "Traditional"
    simplified = traditional = 0
    for line in lines:
        difference = len(simplified_only(line)) - len(traditional_only(line))
        simplified, traditional = simplified + (difference > 0), traditional + (difference < 0)
    if simplified == traditional == 0:
        return None
    return "Simplified" if simplified >= traditional else "Traditional"


def is_traditional(language: str) -> bool:
    """Whether a language code states Traditional Chinese, as zh-Hant and zh_TW do."""
    return variant_of(language, ()) == "Traditional"


@cache
def nearest_code(requested: str, written: tuple[str, ...]) -> str | None:
    """Return the code of the requested language: if possible the same, else of the same variant of Chinese.

    >>> nearest_code("zh_TW", ("en", "zh-Hans", "zh-Hant"))
    'zh-Hant'
    """

    def distance(code: str) -> tuple[bool, bool]:
        is_other = code.lower().replace("_", "-") != requested.lower().replace("_", "-")
        return is_other, is_traditional(code) != is_traditional(requested)

    return min((code for code in written if primary_code(code) == primary_code(requested)), key=distance, default=None)


def convert(text: str, language: str, variant: Variant) -> str:
    """Return a Chinese text in this variant, with the characters of the region of the language code if it has one.

    Raises ConfigError without OpenCC.
    """
    conversion = _stated_conversion(language) or ("t2s" if variant == "Simplified" else "s2t")
    return str(_converter(conversion).convert(text))


def check_converter() -> None:
    """Raise ConfigError without OpenCC."""
    if find_spec("opencc") is None:
        raise ConfigError("data.filters.han_variants: convert needs OpenCC; install it: pip install opencc")


@cache
def _converter(conversion: str) -> Any:
    check_converter()
    from opencc import OpenCC

    return OpenCC(conversion)


def _stated_conversion(language: str) -> str | None:
    """Return OpenCC's configuration for a language code: that of its region, unless its script is the other variant."""
    parts = re.split("[-_]", language.lower())[1:]
    stated = [_CONVERSIONS[part] for part in reversed(parts) if part in _CONVERSIONS]
    if "hans" in parts:
        return "t2s"
    return next((one for one in stated if one != "t2s" or "hant" not in parts), None)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    common = _characters("gb2312", range(0xB0, 0xD8)), _characters("big5", range(0xA4, 0xC7))
    complete = _characters("gb2312", range(0xB0, 0xF8)), _characters("big5", range(0xA4, 0xFA))
    return (
        re.compile(f"[{''.join(sorted(common[0] - complete[1]))}]"),
        re.compile(f"[{''.join(sorted(common[1] - complete[0]))}]"),
    )


def _characters(codec: str, rows: range) -> set[str]:
    """Return the ideographs that a codec encodes with these first bytes."""
    encoded = (bytes(pair).decode(codec, "ignore") for pair in product(rows, range(0x40, 0xFF)))
    return {character for character in encoded if len(character) == 1 and "\u4e00" <= character <= "\u9fff"}
