"""Readers of parallel text: one module for each family of formats. `nmt.text.corpus` chooses among them.

Each yields rows: the line at which a pair begins, from 1, the source and the target.
"""

import re
from typing import NamedTuple

_LINE_BREAKS = re.compile(r"\s*[\r\n\x85\u2028\u2029]+\s*")


class Row(NamedTuple):
    """A pair with the line of its file at which it begins."""

    line: int
    source: str
    target: str


def one_line(text: str) -> str:
    """Return a text, which its format allows to have several lines, on one line."""
    return _LINE_BREAKS.sub(" ", text).strip()


def shortened(text: str, most: int = 60) -> str:
    """Return the start of a text, at most so many characters, for a message."""
    return text if len(text) <= most else f"{text[:most]}…"
