"""What became of a line, and how it is written: as text, as a table of the n best, as JSON."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nmt.decoding.alignment import Links, pharaoh
from nmt.text.segment import join_segments
from nmt.translation.constraints import NO_LOSS, Loss

# what JSON lets stand in a string, though readers of lines and encoders of UTF-8 stumble on it
_NOT_PLAIN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Alternative:
    """One way to say it."""

    text: str
    log_prob: float


@dataclass(frozen=True)
class Translation:
    """What became of one line. `text` is one line itself, without tabs, and valid UTF-8.

    `log_prob` is the natural logarithm of the probability of the tokens; of a line in several pieces, their sum. Of an
    empty line it is 0. `alternatives` are the next best, other texts than this and than each other.
    """

    source: str
    text: str
    log_prob: float
    alternatives: tuple[Alternative, ...] = ()
    pieces: int = 1
    """Into how many pieces a long line was cut."""
    loss: Loss = NO_LOSS
    """What is missing that had to survive, and what is there too often."""
    alignment: Links | None = None
    """Which words belong together, if that was asked for; what a word is says `nmt.text.words`."""

    def as_json(self) -> str:
        """Return one line: {"source", "text", "log_prob", "alternatives": [{"text", "log_prob"}, …]}.

        If something had to survive and did not, it also has "missing" and "surplus", lists of strings; if it was asked
        for, "alignment", a list of [source word, target word], both from 0.
        """
        alternatives = [{"text": other.text, "log_prob": round(other.log_prob, 4)} for other in self.alternatives]
        content = {
            "source": self.source,
            "text": self.text,
            "log_prob": round(self.log_prob, 4),
            "alternatives": alternatives,
            **(self.loss._asdict() if any(self.loss) else {}),
            **({} if self.alignment is None else {"alignment": self.alignment}),
        }
        return plain_json(content)

    def as_text(self) -> str:
        """Return the text, and behind a tab the alignment, as in `0-0 1-2`, if it was asked for."""
        return self.text if self.alignment is None else f"{self.text}\t{pharaoh(self.alignment)}"

    def as_table(self, line: int) -> str:
        """Return the n best as rows of line number, rank, log_prob and text, with tabs between; ranks begin at 1."""
        ranked = [Alternative(self.text, self.log_prob), *self.alternatives]
        return "\n".join(f"{line}\t{rank}\t{way.log_prob:.4f}\t{way.text}" for rank, way in enumerate(ranked, start=1))


def join_ways(line: str, pieces: Sequence[str], ways: Sequence[Sequence[Alternative]]) -> Translation:
    """Put the best ways of all pieces together, then the second best, and so on; leave out texts that come again."""
    found: dict[str, float] = {}
    for rank in range(max(map(len, ways))):
        chosen = [way[min(rank, len(way) - 1)] for way in ways]
        text = join_segments(pieces, [way.text for way in chosen])
        found.setdefault(text, sum(way.log_prob for way in chosen))
    best, *others = [Alternative(text, log_prob) for text, log_prob in found.items()]
    return Translation(line, best.text, best.log_prob, tuple(others), len(pieces))


def plain_json(content: dict[str, Any]) -> str:
    """Return one line of JSON in UTF-8."""
    plain = json.dumps(content, ensure_ascii=False)
    return _NOT_PLAIN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)
