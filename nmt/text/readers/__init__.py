"""Readers of parallel text: one module for each family of formats. `nmt.text.corpus` chooses among them."""

from typing import NamedTuple

# Positions of source and target, from 1, or their names.
Columns = tuple[int | str, int | str]


class SentencePair(NamedTuple):
    """A sentence and its translation, with the line of the file, from 1, at which the pair begins."""

    source: str
    target: str
    line: int = 0


def one_line(text: str) -> str:
    """Return a text, which its format allows to have several lines, on one line."""
    return " ".join(text.split())


def shortened(text: str, most: int = 60) -> str:
    """Return the start of a text, at most so many characters, for a message."""
    return text if len(text) <= most else f"{text[:most]}…"
