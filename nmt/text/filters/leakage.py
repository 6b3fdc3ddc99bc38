"""Sentences of the validation and test text in the training text, up to trivial differences.

Two sentences are compared by their letters and digits alone: case, punctuation and spaces do not count. Longer ones may
also differ by one letter (inserted, missing or another one). Candidates for that are found by the pigeonhole principle,
as in agrep (Wu & Manber 1992, "Fast Text Searching Allowing Errors"): if two texts differ in one place, the first or
the second half of the one is the beginning or the end of the other one. So each training sentence needs a few look-ups.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nmt.text.corpus import SentencePair

_SHORT = 16
"""Bytes up to which the translation must be the same, too: `Thank you.` is in every text."""
LEAST_WITH_EDIT = 32
"""Bytes from which one letter may differ; in shorter sentences it often changes the meaning (`He ran`, `We ran`)."""
_FOLDED = bytes(range(0x41)) + bytes(range(0x61, 0x7B)) + bytes(range(0x5B, 0x100))
_DROPPED = bytes(code for code in range(0x80) if not chr(code).isalnum())
_NO_LETTER = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class HeldOutText:
    """The pairs of a text that must not be in the training text, named `validation` or `test`."""

    name: str
    pairs: Sequence[SentencePair]


class HeldOutIndex:
    """The sentences of held-out texts, whose pairs are normalized, by their letters."""

    def __init__(self, texts: Sequence[HeldOutText]) -> None:
        self.sentences: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        """The place of each sentence (`validation sentence 12: …`), and the letters of its translation."""
        self._halves: defaultdict[str, list[str]] = defaultdict(list)
        """The longer sentences by their first half, with a prefix `<`, and by their second half, with `>`."""
        for text in texts:
            for number, pair in enumerate(text.pairs, start=1):
                if key := letters(pair.source):
                    place = f"{text.name} sentence {number}: {pair.source}"
                    self.sentences[key].append((place, letters(pair.target)))
        for key in filter(lambda key: _size(key) >= LEAST_WITH_EDIT, self.sentences):
            for half in _halves(key, len(key)):
                self._halves[half].append(key)

    def find(self, source: str, target: str) -> str | None:
        """Return the held-out sentence that a normalized training pair has as its source, or None."""
        key = letters(source)
        found: str | None = key
        if key not in self.sentences:
            found = next((other for other in self._candidates(key) if differ_by_one(key, other)), None)
        for place, translation in () if found is None else self.sentences[found]:
            if _size(key) > _SHORT or translation == letters(target):
                return place
        return None

    def _candidates(self, key: str) -> Iterator[str]:
        """Yield the longer sentences with the first or the second half of a key of about their length."""
        if len(key) < LEAST_WITH_EDIT - 1 and key.isascii():
            return
        for length in (len(key) - 1, len(key), len(key) + 1):
            for half in _halves(key, length):
                yield from (other for other in self._halves.get(half, ()) if len(other) == length)


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    if text.isascii():
        return text.encode().translate(_FOLDED, _DROPPED).decode()
    return _NO_LETTER.sub("", text.casefold())


def differ_by_one(one: str, other: str) -> bool:
    """Whether one character was inserted, removed or replaced."""
    shorter, longer = sorted((one, other), key=len)
    same = next((i for i, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    rest = shorter[same:] if len(shorter) < len(longer) else shorter[same + 1 :]
    return longer[same + 1 :] == rest


def _size(text: str) -> int:
    return len(text.encode())


def _halves(key: str, length: int) -> tuple[str, str]:
    """Return the beginning and the end of a key that are the halves of a text of this length, with their marks."""
    middle = length // 2
    return "<" + key[:middle], ">" + key[len(key) - (length - middle) :]
