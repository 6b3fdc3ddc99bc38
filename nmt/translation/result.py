"""The units of a line with their translations; the translation of the line, and its forms: text, a table, JSON."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nmt.text.content import NO_DIFF, ContentDiff
from nmt.text.items import ITEM, NO_TEXT, Line, joined
from nmt.text.normalize import normalize
from nmt.text.words import Links, joined_links, pharaoh
from nmt.translation import placing
from nmt.translation.options import TranslateOptions

# valid in JSON strings, but read as line ends by some programs, or impossible in UTF-8
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Alternative(NamedTuple):
    """A possible translation and its log-probability."""

    text: str
    log_prob: float


@dataclass
class Unit:
    """A text between the items of a line, at most a sentence, and its translations."""

    before: Line  # items and spaces
    core: Line
    after: Line
    prefix: Line  # the required start of the translation
    text: str  # of the core, without its items: what is translated
    alternatives: list[Alternative] = field(default_factory=list)  # the translations of the text, best first
    lines: list[Line] = field(default_factory=list)  # the same with the items of the core
    links: Links | None = None  # between the words of the unit and of the best translation, if requested

    @property
    def begin(self) -> str:
        """The prefix without its items, as the model generates it."""
        return placing.text_and_places(self.prefix)[0] if self.prefix.text else ""

    @property
    def pair(self) -> tuple[str, str]:
        """The sentence and its best translation, with all items."""
        source, text = (normalize(f"{self.before}{core}{self.after}") for core in (self.core, self.lines[0]))
        return source, text

    @property
    def is_copied(self) -> bool:
        """Whether there is no letter to translate."""
        return not self.prefix.text and not any(map(str.isalpha, self.text))


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
        rows = (f"{line}\t{rank}\t{entry.log_prob:.4f}\t{entry.text}" for rank, entry in enumerate(ranked, start=1))
        return "\n".join(rows)


def plain_json(content: object) -> str:
    """Return one line of JSON in UTF-8."""
    return _ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(content, ensure_ascii=False))


def begun_unit(part: Line, prefix: Line) -> Unit:
    """Return a unit whose translation begins with a prefix, which may have some of its items already."""
    core, after = part.cut([len(part.text.rstrip())])
    if prefix.text.endswith(ITEM) and (last := prefix.items[-1]) in core.items:
        following = core.text.split(ITEM)[core.items.index(last) + 1][:1]
        prefix = prefix._replace(text=prefix.text + " " * (last.role != "opening" and not following.isalnum()))
    for item in prefix.items:
        core = core.without(item)
    return Unit(NO_TEXT, core, after, prefix, placing.text_and_places(core)[0])


def behind_prefix(unit: Unit, line: Line) -> Line:
    """Return a translation of a unit that begins with its prefix, with the items of the prefix."""
    if not unit.prefix.items:
        return line
    end, before = len(unit.begin), unit.prefix
    _, rest = line.cut([end - line.text[:end].count(ITEM)])
    if not rest.text[:1].isalnum():  # the space that a prefix which ends with an item may have
        before = before._replace(text=before.text.rstrip())
    return joined([before, rest])


def joined_units(source: str | Line, units: Sequence[Unit], options: TranslateOptions) -> Translation:
    """Join the best alternatives of all units, then the second best, and so on; equal texts are left out."""
    for unit in units:
        if len(units) > 1 and unit.is_copied and (unit.after.text or unit is units[-1]):
            unit.lines = [unit.core._replace(text=options.final_mark(unit.core.text))]
    ranked: dict[str, tuple[Line, float]] = {}
    for rank in range(max(len(unit.lines) for unit in units)):
        indices = [min(rank, len(unit.lines) - 1) for unit in units]
        line = _with_gaps(units, [unit.lines[i] for unit, i in zip(units, indices, strict=True)])
        if len(units) > 1 or (line.items and not units[0].is_copied):
            line = options.typeset(str(source), line, units[0].prefix)
        log_prob = sum(unit.alternatives[i].log_prob for unit, i in zip(units, indices, strict=True))
        ranked.setdefault(str(line), (line, log_prob))
    (text, (line, log_prob)), *others = ranked.items()
    alternatives = tuple(Alternative(text, log_prob) for text, (_, log_prob) in others)
    links = [(*unit.pair, unit.links) for unit in units if unit.links is not None]
    alignment = joined_links(links, str(source), text) if options.alignment else None
    diff = options.diff(joined(part for unit in units for part in (unit.before, unit.core, unit.after)), line)
    return Translation(str(source), text, log_prob, alternatives, len(units), line, diff, alignment)


def _with_gaps(units: Sequence[Unit], lines: Sequence[Line]) -> Line:
    """Join translations of units with the items between them, and with spaces if the target language has them."""
    if len(units) == 1 and not units[0].before.text and not units[0].after.text:  # most lines
        return lines[0]._replace(text=lines[0].text.strip())
    parts, gap, before = list[Line](), list[Line](), ("", "")
    for unit, line in zip(units, lines, strict=True):
        gap.append(unit.before)
        if line.text:
            parts += [placing.gap(joined(gap), before, (unit.core.text[:1], line.text[0])), line]
            gap, before = [], (unit.core.text[-1:], line.text[-1])
        gap.append(unit.after)
    whole = joined([*parts, *gap])
    return whole._replace(text=whole.text.strip())
