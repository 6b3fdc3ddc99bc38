"""Tags of a line: taken out before it is translated, and put back at the words that are aligned with theirs.

>>> text, tags = without_tags('See <a href="x">the page</a><br/>now.')
>>> text
'See the page now.'
>>> with_tags("Ora vedi la pagina.", tags, text, [(3, 0), (0, 1), (1, 2), (2, 3)])
'Ora vedi <a href="x">la pagina</a><br/>.'
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from nmt.decoding.alignment import Links
from nmt.text.protection import items
from nmt.text.segment import word_spans
from nmt.translation.placement import bare, best_run

_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>[A-Za-z][\w-]*)(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>(?!>)|<\d[\d:.]*>|\{\\[^{}]*\}"
)
"""A tag of XML, HTML or subtitles, a time within a cue (`<00:01.500>`), and a style override (`{\\an8}`).

`<T>` in `List<Array<T>>` is none."""
_UNSPACED = "\u2e80"
"""The first character of the scripts without spaces between words."""


class Tag(NamedTuple):
    """A tag and its place in the line without tags."""

    text: str
    position: int
    filler: int  # the characters that stand for it in the line without tags: a space between two words, or none
    joined: tuple[bool, bool]  # whether there is no space before it, and none after it
    pair: int = 0  # the number of its pair, 0 for a single tag
    opens: bool = False

    @property
    def closes(self) -> bool:
        """Whether it is the second of its pair."""
        return self.pair > 0 and not self.opens


def without_tags(line: str) -> tuple[str, list[Tag]]:
    """Return a line without its tags, and these in order. Opening ones are paired with the next closing one."""
    found = list(_TAG.finditer(line))
    pair_of: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    for index, tag in enumerate(found):
        name = tag["name"]
        if name and not tag["closing"] and not tag[0].endswith("/>"):
            opened.append((name, index))
        elif tag["closing"] and name in [one for one, _ in opened]:
            while opened[-1][0] != name:
                opened.pop()
            first = opened.pop()[1]
            pair_of[first] = pair_of[index] = first + 1
    text, position, tags = "", 0, list[Tag]()
    for index, tag in enumerate(found):
        text += line[position : tag.start()]
        start, position = tag.span()
        joined = start > 0 and not line[start - 1].isspace(), position < len(line) and not line[position].isspace()
        pair = pair_of.get(index, 0)
        between_words = not pair and text[-1:].isalnum() and line[position : position + 1].isalnum()
        tags.append(Tag(tag[0], len(text), int(between_words), joined, pair, pair == index + 1))
        text += " " * between_words
    return text + line[position:], tags


def part_of(tags: Sequence[Tag], start: int, end: int) -> list[Tag]:
    """Return the tags of the part of a line from `start` to `end`, with their places in this part."""
    return [tag._replace(position=tag.position - start) for tag in tags if start <= tag.position < end]


def original(text: str, tags: Sequence[Tag]) -> str:
    """Return a line with its own tags; it is the reverse of `without_tags`."""
    for tag in reversed(tags):
        text = f"{text[: tag.position]}{tag.text}{text[tag.position + tag.filler :]}"
    return text


def with_tags(text: str, tags: Sequence[Tag], source: str, links: Links) -> str:
    """Return a translation with all tags of its source; links are between the words of both texts.

    A pair is around the run of words with most links to the words in it, a single tag is behind the word that is
    linked with its left neighbour. A tag without a link is placed after the same share of the text; all are, in their
    order, where pairs would be broken otherwise.
    """
    places = _by_share(text, tags, source)
    linked = _by_links(text, tags, source, links, places)
    for item in items(text):
        beside = [item.start if tag.opens else item.end for tag in tags]
        linked = [b if item.start < a < item.end else a for a, b in zip(linked, beside, strict=True)]
    # at one place, tags that close come first and those that open last
    order = sorted(range(len(tags)), key=lambda index: (linked[index], 2 * tags[index].opens - tags[index].closes))
    if not _is_nested([tags[index] for index in order]):
        linked, order = places, list(range(len(tags)))
    result, position = "", 0
    for place, tag in ((linked[index], tags[index]) for index in order):
        result, position = result + text[position:place], place
        if tag.pair:
            result += tag.text
            continue
        before = "" if tag.joined[0] or not result or result[-1].isspace() or result[-1] >= _UNSPACED else " "
        after = "" if tag.joined[1] or not text[place : place + 1].isalnum() or text[place] >= _UNSPACED else " "
        result += f"{before}{tag.text}{after}"
        position += tag.joined[1] and place > 0 and text[place : place + 1] == " "
    return result + text[position:]


def _by_links(text: str, tags: Sequence[Tag], source: str, links: Links, places: Sequence[int]) -> list[int]:
    """Return the places of tags by word alignment, those in `places` where there are no links."""
    source_words, words, places = word_spans(source), word_spans(text), list(places)
    closing = {tag.pair: index for index, tag in enumerate(tags) if tag.closes}
    for index, tag in enumerate(tags):
        if tag.opens and tag.pair in closing:
            start, end = tag.position, tags[closing[tag.pair]].position
            inside = {i for i, (a, b) in enumerate(source_words) if a < end and b > start}
            run = best_run(len(words), links, inside)
            if run is not None and len(inside) < len(source_words):
                # punctuation beside a word is inside only if it is so in the source
                left = bare(text, *words[run[0]]) if source[start : start + 1].isalnum() else words[run[0]]
                right = bare(text, *words[run[1]]) if source[end - 1].isalnum() else words[run[1]]
                places[index], places[closing[tag.pair]] = left[0], right[1]
        elif not tag.pair and source[tag.position :].strip():
            before = {i for i, (a, _) in enumerate(source_words) if a < tag.position}
            nearest = max((i for i, _ in links if i in before), default=None)
            if nearest is not None:
                word = words[max(j for i, j in links if i == nearest)]
                places[index] = bare(text, *word)[1] if source[tag.position - 1].isalnum() else word[1]
    return places


def _by_share(text: str, tags: Sequence[Tag], source: str) -> list[int]:
    """Return places for tags after the same share of the text, in the order of the source, and not inside an item."""
    spans = [(item.start, item.end) for item in items(text)]
    words = [bare(text, *span) for span in word_spans(text)]
    words = sorted([*spans, *(one for one in words if not any(a < one[1] and one[0] < b for a, b in spans))])
    places: list[int] = [0]
    opened: dict[int, int] = {}
    count = 0  # words before the tag
    for tag in tags:
        share = tag.position / max(1, len(source)) * len(text)
        count = max(count, sum(start + end <= 2 * share for start, end in words))
        if tag.opens:
            count = opened[tag.pair] = max(0, min(count, len(words) - 1))
        elif tag.closes:
            count = min(len(words), max(count, opened.get(tag.pair, -1) + 1))
        place = words[count][0] if tag.opens and words else words[count - 1][1] if count else 0
        is_first, is_last = not source[: tag.position].strip(), not source[tag.position :].strip()
        places.append(max(places[-1], len(text) if is_last else 0 if is_first else place))
    return places[1:]


def _is_nested(tags: Sequence[Tag]) -> bool:
    opened: list[int] = []
    for tag in tags:
        if tag.opens:
            opened.append(tag.pair)
        elif tag.closes and (not opened or opened.pop() != tag.pair):
            return False
    return True
