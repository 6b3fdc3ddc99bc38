"""Sentences of the validation and test texts that occur in the training text, on which scores mean little."""

from collections.abc import Iterable
from dataclasses import dataclass

from nmt.text.filters import HeldOutText
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

    @classmethod
    def of(cls, text: HeldOutText, within: str, pairs: Iterable[tuple[str, str]]) -> "Overlap":
        """Compare a held-out text with the normalized pairs of the text `within`."""
        targets: dict[str, list[str]] = {}
        for pair in text.pairs:
            if source := normalize(pair.source):
                targets.setdefault(source, []).append(normalize(pair.target))
        found: dict[str, set[str]] = {}
        for source, target in pairs:
            if source in targets:
                found.setdefault(source, set()).add(target)
        return cls(
            text.name,
            within,
            sentences=sum(map(len, targets.values())),
            sources=sum(len(targets[source]) for source in found),
            pairs=sum(target in found[source] for source in found for target in targets[source]),
            examples=tuple(found)[:_EXAMPLES],
        )
