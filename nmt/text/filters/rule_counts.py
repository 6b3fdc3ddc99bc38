"""How many pairs of a text each rule removes, with examples."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from nmt.text.corpus import SentencePair

EXAMPLES = 5
"""Examples of each rule that are kept: the first ones of the text."""

RULES = {
    "empty": "a side without text",
    "damaged": "decoded wrongly: U+FFFD, mojibake",
    "copy": "target is the source",
    "symbols": "mostly digits and symbols",
    "script": "not in the script of its language",
    "length": "lengths far from the usual ratio",
    "mismatch": "other numbers or addresses than on the other side",
    "leak": "a sentence of the validation or test text",
    "untranslated": "target contains the source",
    "language": "in another language",
    "duplicate": "equal to an earlier pair",
    "too_long": "a side longer than max_tokens",
}
"""The rules in the order of their application; a pair is counted under the first one that removes it."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A pair that a rule removed: its number in its corpus from 1, the pair as normalized, and what was found in it."""

    rule: str
    number: int
    pair: SentencePair
    found: str = ""


@dataclass
class RuleCounts:
    """Counts over one corpus, or over a part of it.

    Those of the parts, merged in any order, equal those of the whole.
    """

    file: str
    """The name of the corpus in messages."""
    read: int = 0
    """Pairs read."""
    removed: Counter[str] = field(default_factory=Counter)
    """Pairs removed, by rule."""
    examples: dict[str, list[Rejected]] = field(default_factory=dict)
    """The first removed pairs of each rule."""

    @property
    def kept(self) -> int:
        """Pairs that no rule removed."""
        return self.read - self.removed.total()

    @classmethod
    def of(cls, file: str, read: int, rejected: Iterable[Rejected]) -> "RuleCounts":
        """Return the counts of removed pairs in order."""
        counts = cls(file, read)
        for one in rejected:
            counts.removed[one.rule] += 1
            examples = counts.examples.setdefault(one.rule, [])
            if len(examples) < EXAMPLES:
                examples.append(one)
        return counts

    def merge(self, other: "RuleCounts") -> None:
        """Add the counts of another part of the corpus."""
        self.read += other.read
        self.removed.update(other.removed)
        for rule, examples in other.examples.items():
            own = self.examples.get(rule, []) + examples
            self.examples[rule] = sorted(own, key=lambda rejected: rejected.number)[:EXAMPLES]


def total_removed(parts: Iterable[RuleCounts]) -> dict[str, int]:
    """Return the pairs that each rule removed from several corpora, in the order of the rules."""
    total = sum((part.removed for part in parts), Counter[str]())
    return {rule: total[rule] for rule in RULES}
