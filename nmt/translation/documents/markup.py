"""Tags of a line: around the whole line they stay where they are, inside it they are placed in its translation.

A model translates a line better without tags. Pairs such as `<b>…</b>` are therefore left out, and afterwards placed
around the words that are aligned with those inside. Single tags such as `<br/>` are protected items of the line.

>>> line = MarkedLine.of('<i>See <a href="x">the page</a>.</i>')
>>> line.prefix, line.text, line.suffix
('<i>', 'See the page.', '</i>')
>>> line.restore("Vedi la pagina.", links=[(0, 0), (1, 1), (2, 2)]).text
'<i>Vedi <a href="x">la pagina</a>.</i>'
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nmt.decoding.alignment import Links
from nmt.text.normalize import normalize
from nmt.text.words import word_spans
from nmt.translation.documents.document import Edit, edited

_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>[A-Za-z][\w-]*)(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>|<\d[\d:.]*>|\{\\[^{}]*\}"
)
"""A tag of XML, HTML or subtitles, a time within a cue (`<00:01.500>`), and a style override (`{\\an8}`)."""
_SINGLE = re.compile(r"<x(\d+)/>")
"""What represents a single tag in the line to translate."""


class _Tag(NamedTuple):
    """A tag, its place in the line to translate, and the number of its pair, 0 for a single tag."""

    raw: str
    position: int
    pair: int = 0
    opens: bool = False

    @property
    def closes(self) -> bool:
        """Whether it is the second of its pair."""
        return self.pair > 0 and not self.opens


class RestoredLine(NamedTuple):
    """A translation with the tags of its line, and whether tags were lost and placed by another rule."""

    text: str
    tags_lost: bool = False


@dataclass(frozen=True)
class MarkedLine:
    """A line without its tags and the spaces around it."""

    prefix: str
    text: str
    suffix: str
    singles: tuple[_Tag, ...] = ()
    """Those that the text has as `<x1/>`, `<x2/>`, …"""
    pairs: tuple[_Tag, ...] = ()
    """The tags of pairs, in order."""

    @classmethod
    def of(cls, line: str) -> "MarkedLine":
        """Separate what is around the line, and take pairs out of it."""
        tags, start, end = _inside(line, _tags(line))
        text, position = "", start
        singles: list[_Tag] = []
        pairs: list[_Tag] = []
        for tag in tags:
            text, position = text + line[position : tag.position], tag.position + len(tag.raw)
            if tag.pair:
                pairs.append(tag._replace(position=len(text)))
            else:
                singles.append(tag._replace(position=len(text)))
                text += f"<x{len(singles)}/>"
        return cls(line[:start], text + line[position:end], line[end:], tuple(singles), tuple(pairs))

    def restore(self, translation: str, links: Links | None = None) -> RestoredLine:
        """Return the translation with all tags; `links` are between the words of the text and of the translation.

        Without links, and where those would break the nesting of pairs, each tag is placed after the same share of the
        characters, at the nearest word.
        """
        found = sorted(int(one) for one in _SINGLE.findall(translation))
        lost = found != list(range(1, len(self.singles) + 1))
        if lost:
            translation = normalize(_SINGLE.sub("", translation))
            codes = [tag._replace(raw=f"<x{number}/>") for number, tag in enumerate(self.singles, 1)]
            translation = _inserted(translation, _by_share(_masked(self.text), codes, translation))
        if translation == self.text:
            text = _inserted(translation, self.pairs)
        else:
            # words are found in texts in which the codes of single tags are no letters
            masked = _masked(self.text), self.pairs, _masked(translation)
            linked = None if links is None else _by_links(*masked, links)
            text = _inserted(translation, linked or _by_share(*masked))
        return RestoredLine(
            f"{self.prefix}{_SINGLE.sub(lambda one: self.singles[int(one[1]) - 1].raw, text)}{self.suffix}", lost
        )


def _tags(line: str) -> list[_Tag]:
    """Return the tags of a line; opening ones are paired with the next closing one of their name."""
    found = list(_TAG.finditer(line))
    closing_of: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    for index, tag in enumerate(found):
        name = tag["name"]
        if name and not tag["closing"] and not tag[0].endswith("/>"):
            opened.append((name, index))
        elif tag["closing"] and name in [one for one, _ in opened]:
            while opened[-1][0] != name:
                opened.pop()
            closing_of[opened.pop()[1]] = index
    pairs = {opening: (number, True) for number, opening in enumerate(sorted(closing_of), 1)}
    pairs |= {closing_of[opening]: (number, False) for opening, (number, _) in pairs.items()}
    return [_Tag(tag[0], tag.start(), *pairs.get(index, ())) for index, tag in enumerate(found)]


def _inside(line: str, tags: list[_Tag]) -> tuple[list[_Tag], int, int]:
    """Return the tags, start and end of a line without the spaces, single tags and pairs around the whole of it."""
    start, end = 0, len(line)
    while True:
        start, end = end - len(line[start:end].lstrip()), start + len(line[start:end].rstrip())
        if start >= end:
            return [], end, end
        left = tags[0] if tags and tags[0].position == start else None
        right = tags[-1] if tags and tags[-1].position + len(tags[-1].raw) == end else None
        if left and not left.pair:
            tags, start = tags[1:], start + len(left.raw)
        elif right and not right.pair:
            tags, end = tags[:-1], right.position
        elif left and right and left.pair == right.pair:
            tags, start, end = tags[1:-1], start + len(left.raw), right.position
        else:
            return tags, start, end


def _by_share(source: str, tags: Sequence[_Tag], text: str) -> list[_Tag]:
    """Place tags after the same share of the text as in the source, and in the order of the source.

    Opening and single tags stand before a word, closing ones after a word; no pair is empty where there is a word.
    """
    words = [_bare(text, *span) for span in word_spans(text)]
    placed: list[_Tag] = []
    opened: dict[int, int] = {}
    count = 0  # words before the tag
    for tag in tags:
        share = tag.position / max(1, len(source)) * len(text)
        count = max(count, sum(start + end <= 2 * share for start, end in words))
        if tag.opens:
            count = opened[tag.pair] = max(0, min(count, len(words) - 1))
        elif tag.closes:
            count = min(len(words), max(count, opened[tag.pair] + 1))
        after = tag.closes or count == len(words)
        place = (words[count - 1][1] if count else len(text)) if after else words[count][0]
        placed.append(tag._replace(position=max([place, *(one.position for one in placed[-1:])])))
    return placed


def _by_links(source: str, tags: Sequence[_Tag], text: str, links: Links) -> list[_Tag] | None:
    """Place pairs around the words that are linked with those inside; None if pairs would be broken or empty."""
    source_words, words = word_spans(source), word_spans(text)
    placed = []
    for opening in tags:
        if not opening.opens:
            continue
        closing = next(tag for tag in tags if tag.closes and tag.pair == opening.pair)
        start, end = opening.position, closing.position
        inside = {i for i, word in enumerate(source_words) if word[0] < end and word[1] > start}
        run = _best_run(len(words), links, inside)
        if run is None:
            return None
        first, last = words[run[0]], words[run[1]]
        # punctuation beside a word is inside only if it is so in the source
        left = first if not source[start : start + 1].isalnum() else _bare(text, *first)
        right = last if not source[max(end - 1, 0) : end].isalnum() else _bare(text, *last)
        placed += [opening._replace(position=left[0]), closing._replace(position=right[1])]
    order = {tag[:1] + tag[2:]: index for index, tag in enumerate(tags)}
    placed.sort(key=lambda tag: (tag.position, tag.opens, order[tag[:1] + tag[2:]]))
    return placed if _is_nested(placed) else None


def _best_run(count: int, links: Links, inside: set[int]) -> tuple[int, int] | None:
    """Return the first and last target word of the run with most links to the words inside and fewest to others."""
    gain = [0.0] * count
    for i, j in links:
        if j < count:
            gain[j] += 1 if i in inside else -1
    best, run, total, first = 0.0, None, 0.0, 0
    for j in range(count):  # the maximal sum of a run (Kadane)
        if total <= 0:
            total, first = 0.0, j
        total += gain[j]
        if total > best and gain[j] > 0:
            best, run = total, (first, j)
    while run and gain[run[0]] <= 0:
        run = (run[0] + 1, run[1])
    return run


def _masked(text: str) -> str:
    return _SINGLE.sub(lambda code: "\0" * len(code[0]), text)


def _is_nested(tags: Sequence[_Tag]) -> bool:
    opened: list[int] = []
    for tag in tags:
        if tag.opens:
            opened.append(tag.pair)
        elif not opened or opened.pop() != tag.pair:
            return False
    return True


def _bare(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a word without the punctuation around it; all of it if there is nothing else."""
    letters = [position for position in range(start, end) if text[position].isalnum()]
    return (letters[0], letters[-1] + 1) if letters else (start, end)


def _inserted(text: str, tags: Sequence[_Tag]) -> str:
    """Insert tags, which are in order, at their positions."""
    return edited(text, [Edit(tag.position, tag.position, tag.raw) for tag in tags])
