"""The translation of a line, and its forms: text, a table of the best, JSON."""

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from nmt.decoding.alignment import Links, pharaoh
from nmt.text.content import NO_DIFF, ContentDiff
from nmt.text.items import NO_TEXT, Line

# valid in JSON strings, but line ends to some readers, or impossible in UTF-8
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Alternative(NamedTuple):
    """A possible translation and its log-probability."""

    text: str
    log_prob: float


@dataclass(frozen=True)
class Translation:
    """The translation of one line. `text` is a single line of valid UTF-8 without tabs.

    `log_prob` is the natural logarithm of the probability of the tokens that the search found, summed over units; 0
    for a line without a letter, which is copied. `alternatives` are the next best, with texts different from this one
    and from each other.
    """

    source: str
    text: str
    log_prob: float
    alternatives: tuple[Alternative, ...] = ()
    units: int = 1  # the number of texts that were translated one by one
    line: Line = NO_TEXT  # the text with its items
    diff: ContentDiff = NO_DIFF  # required content that is missing, and content that occurs too often
    alignment: Links | None = None  # pairs of aligned words if requested; `nmt.text.words` defines a word

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "alternatives": [{"text", "log_prob"}, …]}.

        If content is missing or occurs too often, also "missing" and "surplus", lists of strings; if requested,
        "alignment", a list of [source word, target word], both from 0.
        """
        alternatives = [{"text": other.text, "log_prob": round(other.log_prob, 4)} for other in self.alternatives]
        content: dict[str, Any] = {"source": self.source, "text": self.text, "log_prob": round(self.log_prob, 4)}
        content["alternatives"] = alternatives
        if any(self.diff):
            content |= self.diff._asdict()
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


def plain_json(content: dict[str, Any]) -> str:
    """Return one line of JSON in UTF-8."""
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(content, ensure_ascii=False))
