"""Sentences of the validation and test text in the training text.

Sentences are compared by their letters and digits alone: case, punctuation and spaces do not count. A pair is removed
if either side of it is either side of a held-out pair, so the same text can also be used in the other direction, for
example for back-translation.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.text.corpus import SentencePair

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
        self.sentences: dict[str, str] = {}
        """The place of each sentence: `validation sentence 12: …`."""
        for text in texts:
            for number, pair in enumerate(text.pairs, start=1):
                for sentence in (pair.source, pair.target):
                    self.sentences.setdefault(letters(sentence), f"{text.name} sentence {number}: {sentence}")
        self.sentences.pop("", None)

    def find(self, source: str, target: str) -> str | None:
        """Return the held-out sentence that is a side of a normalized training pair, or None."""
        return self.sentences.get(letters(source)) or self.sentences.get(letters(target))


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    if text.isascii():
        return text.encode().translate(_FOLDED, _DROPPED).decode()
    return _NO_LETTER.sub("", text.casefold())
