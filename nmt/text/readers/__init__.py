"""Readers of parallel text: one module for each family of formats. `nmt.text.corpus` chooses among them."""

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from nmt.config import LanguagePair
from nmt.text.languages import nearest_codes

# Positions of source and target, from 1, or their names.
Columns = tuple[int | str, int | str]


class SentencePair(NamedTuple):
    """A sentence and its translation, with the line of the file, from 1, at which the pair begins."""

    source: str
    target: str
    line: int = 0


def one_line(text: str) -> str:
    """Return a text on one line; some formats permit line breaks in it."""
    return " ".join(text.split())


def shortened(text: str, most: int = 60) -> str:
    """Return the start of a text, at most `most` characters, for a message."""
    return text if len(text) <= most else f"{text[:most]}…"


def named_sides(names: Iterable[str], languages: LanguagePair | None) -> tuple[str, str] | None:
    """Return the names of source and target among names of columns or keys; None if there are none.

    They are `source` and `target`, or codes or English names of the languages, in upper or lower case, also nested, as
    in `translation.en`. If several pairs are possible, the only one with the same parent is returned, else None.
    """
    by_name: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        by_name.setdefault(name.rpartition(".")[2].strip().casefold(), []).append(name)
    sides: tuple[str, str] | None = "source", "target"
    if not by_name.keys() >= {"source", "target"}:
        sides = None if languages is None else nearest_codes(languages, by_name)
    if sides is None:
        return None
    pairs = list(product(by_name[sides[0]], by_name[sides[1]]))
    if len(pairs) > 1:
        pairs = [pair for pair in pairs if pair[0].rpartition(".")[0] == pair[1].rpartition(".")[0]]
    return pairs[0] if len(pairs) == 1 else None
