"""Tags of a line: around the whole line they stay where they are, inside it they are placed in its translation.

1. Pairs such as `<b>…</b>` are taken out, since a model translates a line better without them.
2. Single tags such as `<br/>` are numbered: the line to translate has codes, `<x1/>` and so on, which are protected.
3. In the translation, pairs are placed around the words that are aligned with those inside.
4. The codes are replaced by their tags. Those that the translation lost are placed after the same share of the text.

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
from nmt.text.protection import items
from nmt.text.segment import word_spans
from nmt.translation.documents.document import Edit, edited
from nmt.translation.placement import bare, best_run

_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>[A-Za-z][\w-]*)(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>|<\d[\d:.]*>|\{\\[^{}]*\}"
)
"""A tag of XML, HTML or subtitles, a time within a cue (`<00:01.500>`), and a style override (`{\\an8}`)."""
_CODE = re.compile(r"<x\d+/>")
"""What represents a single tag in the line to translate."""


class Tag(NamedTuple):
    """A tag, its place in a text without it, and the number of its pair, 0 for a single tag."""

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
    singles: tuple[Tag, ...] = ()
    """Those that the text has as `<x1/>`, `<x2/>`, …"""
    pairs: tuple[Tag, ...] = ()
    """The tags of pairs, in order."""

    @classmethod
    def of(cls, line: str, numbered: bool = True) -> "MarkedLine":
        """Separate what is around the line, take pairs out of it, and number single tags, or leave them in the text."""
        tags, start, end = _inside(line, [tag for tag in _tags(line) if numbered or tag.pair])
        text, position = "", start
        singles: list[Tag] = []
        pairs: list[Tag] = []
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
        codes = [tag._replace(raw=f"<x{number}/>") for number, tag in enumerate(self.singles, 1)]
        lost = sorted(_CODE.findall(translation)) != sorted(tag.raw for tag in codes)
        if lost:
            translation = normalize(_CODE.sub("", translation))
            translation = _inserted(translation, placed_by_share(_masked(self.text), codes, translation))
        raw_of = {code.raw: tag.raw for code, tag in zip(codes, self.singles, strict=True)}
        text = _CODE.sub(lambda code: raw_of[code[0]], self.with_pairs(translation, links))
        return RestoredLine(f"{self.prefix}{text}{self.suffix}", lost)

    def with_pairs(self, translation: str, links: Links | None = None) -> str:
        """Return the translation with the pairs inside, placed as by `restore`."""
        pairs: Sequence[Tag] = self.pairs
        if translation != self.text:
            source, target = _masked(self.text), _masked(translation)
            linked = None if links is None else placed_by_links(source, pairs, target, links)
            pairs = _outside_items(translation, linked or placed_by_share(source, pairs, target))
        return _inserted(translation, pairs)


def _tags(line: str) -> list[Tag]:
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
    return [Tag(tag[0], tag.start(), *pairs.get(index, ())) for index, tag in enumerate(found)]


def _inside(line: str, tags: list[Tag]) -> tuple[list[Tag], int, int]:
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


def _masked(text: str) -> str:
    """Return a text in which single tags and their codes are no letters, so that they belong to no word."""
    return _TAG.sub(lambda tag: re.sub(r"\S", "\0", tag[0]), text)


def _inserted(text: str, tags: Sequence[Tag]) -> str:
    """Insert tags, which are in order, at their positions."""
    return edited(text, [Edit(tag.position, tag.position, tag.raw) for tag in tags])


def placed_by_links(source: str, tags: Sequence[Tag], text: str, links: Links) -> list[Tag] | None:
    """Place pairs around the words that are linked with those inside; None if pairs would be broken or empty."""
    source_words, words = word_spans(source), word_spans(text)
    end_of = {tag.pair: tag.position for tag in tags if tag.closes}
    positions: dict[tuple[int, bool], int] = {}
    for tag in tags:
        if not tag.opens:
            continue
        start, end = tag.position, end_of[tag.pair]
        inside = {i for i, word in enumerate(source_words) if word[0] < end and word[1] > start}
        run = best_run(len(words), links, inside)
        if run is None:
            return None
        first, last = words[run[0]], words[run[1]]
        # punctuation beside a word is inside only if it is so in the source
        left = first if not source[start : start + 1].isalnum() else bare(text, *first)
        right = last if not source[max(end - 1, 0) : end].isalnum() else bare(text, *last)
        positions[tag.pair, True], positions[tag.pair, False] = left[0], right[1]
    placed = [tag._replace(position=positions[tag.pair, tag.opens]) for tag in tags]
    placed.sort(key=lambda tag: (tag.position, tag.opens))
    return placed if _is_nested(placed) else None


def placed_by_share(source: str, tags: Sequence[Tag], text: str) -> list[Tag]:
    """Place tags after the same share of the text as in the source, and in the order of the source.

    Opening and single tags stand before a word, closing ones after a word; no pair is empty where there is a word.
    """
    words = [bare(text, *span) for span in word_spans(text)]
    placed: list[Tag] = []
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


def _outside_items(text: str, tags: Sequence[Tag]) -> list[Tag]:
    """Move tags out of placeholders and other protected items: around them, or if that breaks pairs, before them."""
    spans = [(item.start, item.end) for item in items(text)]

    def moved(tag: Tag, around: bool) -> Tag:
        inside = ((start, end) for start, end in spans if start < tag.position < end)
        start, end = next(inside, (tag.position, tag.position))
        return tag._replace(position=end if tag.closes and around else start)

    placed = sorted((moved(tag, True) for tag in tags), key=lambda tag: (tag.position, tag.opens))
    return placed if _is_nested(placed) else [moved(tag, False) for tag in tags]


def _is_nested(tags: Sequence[Tag]) -> bool:
    opened: list[int] = []
    for tag in tags:
        if tag.opens:
            opened.append(tag.pair)
        elif not opened or opened.pop() != tag.pair:
            return False
    return True
