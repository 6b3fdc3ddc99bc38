"""The translation of a line, and its formats: plain text, a table of the n best, JSON."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nmt.decoding.alignment import Links, pharaoh
from nmt.text.protection import NO_DIFF, ContentDiff
from nmt.text.segment import join_segments

# valid in JSON strings, but line ends to some readers, or impossible in UTF-8
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")

IMPROBABLE_COST = 10.0
"""The cost of required phrases, in nats, above which a line is marked; benchmarks/RESULTS.md has the measurement."""


@dataclass(frozen=True)
class Alternative:
    """A possible translation and its log-probability."""

    text: str
    log_prob: float
    constraint_cost: float | None = None
    """By how much `log_prob` is lower than without constraints; None if the text was found without them."""


@dataclass(frozen=True)
class Translation:
    """The translation of one line. `text` is a single line of valid UTF-8 without tabs.

    `log_prob` is the natural logarithm of the probability of the tokens, summed over segments; 0 for a blank line.
    `alternatives` are the next best, with texts different from this one and from each other.
    """

    source: str
    text: str
    log_prob: float
    alternatives: tuple[Alternative, ...] = ()
    segments: int = 1  # the number of segments that a long line was split into
    diff: ContentDiff = NO_DIFF  # required content that is missing, and content that occurs too often
    constraint_cost: float | None = None
    """The cost of required phrases, summed over the segments that were searched for them; None if there are none."""
    alignment: Links | None = None  # pairs of aligned words if requested; `nmt.text.segment` defines a word

    @property
    def is_improbable(self) -> bool:
        """Whether the required phrases cost more than `IMPROBABLE_COST`."""
        return self.constraint_cost is not None and self.constraint_cost > IMPROBABLE_COST

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "alternatives": [{"text", "log_prob"}, …]}.

        If content is missing or occurs too often, also "missing" and "surplus", lists of strings; if requested,
        "alignment", a list of [source word, target word], both from 0. If the line was searched for required phrases,
        "constraint_cost", and "improbable": whether it is above `IMPROBABLE_COST`.
        """
        alternatives = [{"text": other.text, "log_prob": round(other.log_prob, 4)} for other in self.alternatives]
        content: dict[str, Any] = {"source": self.source, "text": self.text, "log_prob": round(self.log_prob, 4)}
        content["alternatives"] = alternatives
        if any(self.diff):
            content |= self.diff._asdict()
        if self.constraint_cost is not None:
            content |= {"constraint_cost": round(self.constraint_cost, 4), "improbable": self.is_improbable}
        if self.alignment is not None:
            content["alignment"] = self.alignment
        return plain_json(content)

    def as_text(self) -> str:
        """Return the text, followed by a tab and the alignment, as in `0-0 1-2`, if requested."""
        return self.text if self.alignment is None else f"{self.text}\t{pharaoh(self.alignment)}"

    def as_table(self, line: int) -> str:
        """Return the n best as tab-separated rows of line number, rank (from 1), log_prob and text."""
        ranked = [Alternative(self.text, self.log_prob), *self.alternatives]
        return "\n".join(f"{line}\t{rank}\t{one.log_prob:.4f}\t{one.text}" for rank, one in enumerate(ranked, start=1))


def join_alternatives(line: str, segments: Sequence[str], found: Sequence[Sequence[Alternative]]) -> Translation:
    """Join the best alternatives of all segments, then the second best, and so on; equal texts are left out."""
    joined: dict[str, float] = {}
    for rank in range(max(map(len, found))):
        chosen = [alternatives[min(rank, len(alternatives) - 1)] for alternatives in found]
        text = join_segments(segments, [one.text for one in chosen])
        joined.setdefault(text, sum(one.log_prob for one in chosen))
    best, *others = [Alternative(text, log_prob) for text, log_prob in joined.items()]
    costs = [alternatives[0].constraint_cost for alternatives in found]
    cost = None if all(one is None for one in costs) else sum(one or 0.0 for one in costs)
    return Translation(line, best.text, best.log_prob, tuple(others), len(segments), constraint_cost=cost)


def plain_json(content: dict[str, Any]) -> str:
    """Return one line of JSON in UTF-8."""
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(content, ensure_ascii=False))
