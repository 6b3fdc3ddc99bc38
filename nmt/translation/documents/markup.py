"""Tags of a line: around the whole line they stay where they are, inside it they are placed in its translation.

1. Pairs such as `<b>…</b>` are taken out, since a model translates a line better without them.
2. Single tags such as `<br/>` are numbered: the line to translate has codes, `<x1/>` and so on, which are protected.
3. In the translation, pairs are placed around the words that are aligned with those inside (`tag_placement.py`).
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
from nmt.translation.documents.document import Edit, edited
from nmt.translation.documents.tag_placement import Tag, placed_by_links, placed_by_share

_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>[A-Za-z][\w-]*)(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>|<\d[\d:.]*>|\{\\[^{}]*\}"
)
"""A tag of XML, HTML or subtitles, a time within a cue (`<00:01.500>`), and a style override (`{\\an8}`)."""
_CODE = re.compile(r"<x\d+/>")
"""What represents a single tag in the line to translate."""


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
    def of(cls, line: str) -> "MarkedLine":
        """Separate what is around the line, take pairs out of it, and number single tags."""
        tags, start, end = _inside(line, _tags(line))
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
        pairs: Sequence[Tag] = self.pairs
        if translation != self.text:
            source, target = _masked(self.text), _masked(translation)
            linked = None if links is None else placed_by_links(source, pairs, target, links)
            pairs = linked or placed_by_share(source, pairs, target)
        raw_of = {code.raw: tag.raw for code, tag in zip(codes, self.singles, strict=True)}
        text = _CODE.sub(lambda code: raw_of[code[0]], _inserted(translation, pairs))
        return RestoredLine(f"{self.prefix}{text}{self.suffix}", lost)


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
    """Return a text in which the codes of single tags are no letters, so that they belong to no word."""
    return _CODE.sub(lambda code: "\0" * len(code[0]), text)


def _inserted(text: str, tags: Sequence[Tag]) -> str:
    """Insert tags, which are in order, at their positions."""
    return edited(text, [Edit(tag.position, tag.position, tag.raw) for tag in tags])
