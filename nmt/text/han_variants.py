"""Characters that occur in Simplified Chinese only, and in Traditional Chinese only.

They are derived from the national standards that Python's codecs contain: a Simplified character is among the 3,755
common ones of GB 2312 (level 1) and not in Big5; a Traditional one is among the 5,401 common ones of Big5 (level 1) and
not in GB 2312. Characters of both (和, 后, 台) are evidence of neither. The rare rest is left out, since names in
both scripts use it.

>>> simplified_only("这个國家"), traditional_only("这个國家")
('这个', '國')
"""

import re
from functools import cache
from itertools import product


def simplified_only(text: str) -> str:
    """Return the characters of a text that are Simplified."""
    return "".join(_patterns()[0].findall(text))


def traditional_only(text: str) -> str:
    """Return the characters of a text that are Traditional."""
    return "".join(_patterns()[1].findall(text))


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
