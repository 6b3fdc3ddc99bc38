"""Sentences of the validation and test texts that occur in the training text, on which scores mean little."""

from collections.abc import Iterable
from dataclasses import dataclass

from nmt.text.corpus import SentencePair
from nmt.text.normalize import normalize

_EXAMPLES = 5


@dataclass(frozen=True)
class Overlap:
    """How many sentences of a held-out text occur in another text; both are normalized before they are compared.

    Of all `sentences` of the text (`validation` or `test`), the source of `sources` occurs within the other one
    (`training` or `validation`), that of `pairs` with the same translation; `examples` are some of these sources.
    """

    text: str
    within: str
    sentences: int
    sources: int
    pairs: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        share = self.sources / self.sentences
        effect = "are too good. Remove them from one of the texts" if self.pairs else "may be too good"
        lines = [
            f"{self.sources:,} of {self.sentences:,} {self.text} sentences ({share:.1%}) are also in the {self.within} "
            f"text, {self.pairs:,} of them with the same translation; scores on them {effect}:",
            *(example if len(example) <= 80 else f"{example[:80]}…" for example in self.examples),
        ]
        return "\n  ".join(lines)


class OverlapCounter:
    """Counts the sentences of a held-out text that occur in the pairs it is given."""

    def __init__(self, text: str, within: str, held_out: Iterable[SentencePair]) -> None:
        self._text, self._within = text, within
        self._targets: dict[str, list[str]] = {}
        for pair in held_out:
            source = normalize(pair.source)
            if source:
                self._targets.setdefault(source, []).append(normalize(pair.target))
        self._found: dict[str, set[str]] = {}

    def add(self, source: str, target: str) -> None:
        """Compare a normalized pair of the other text."""
        if source in self._targets:
            self._found.setdefault(source, set()).add(target)

    def overlap(self) -> Overlap:
        """Return the counts over all pairs so far."""
        return Overlap(
            self._text,
            self._within,
            sentences=sum(map(len, self._targets.values())),
            sources=sum(len(self._targets[source]) for source in self._found),
            pairs=sum(target in found for source, found in self._found.items() for target in self._targets[source]),
            examples=tuple(self._found)[:_EXAMPLES],
        )
