"""Readers of parallel text: one module for each family of formats. `nmt.text.corpus` chooses among them.

Each yields rows, one for each pair.
"""

import re

_LINE_BREAKS = re.compile(r"[\r\n\x85\u2028\u2029]+")

Row = tuple[int, str, str]
"""The line of a file at which a pair begins, from 1, its source and its target. Millions are made: no named tuple."""


def one_line(text: str) -> str:
    """Return a text, which its format allows to have several lines, on one line."""
    return " ".join(filter(None, map(str.strip, _LINE_BREAKS.split(text))))


def shortened(text: str, most: int = 60) -> str:
    """Return the start of a text, at most so many characters, for a message."""
    return text if len(text) <= most else f"{text[:most]}…"
