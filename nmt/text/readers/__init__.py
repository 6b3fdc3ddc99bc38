"""Readers of parallel text: one module for each family of formats. `nmt.text.corpus` chooses among them.

Each yields rows, one for each pair.
"""

Row = tuple[int, str, str]
"""The line of a file at which a pair begins, from 1, its source and its target. Millions are made: no named tuple."""


def one_line(text: str) -> str:
    """Return a text, which its format allows to have several lines, on one line."""
    return " ".join(text.split())


def shortened(text: str, most: int = 60) -> str:
    """Return the start of a text, at most so many characters, for a message."""
    return text if len(text) <= most else f"{text[:most]}…"
