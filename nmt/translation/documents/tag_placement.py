"""Where tags are placed in a translation: around linked words, or after the same share of the text."""

from collections.abc import Sequence
from typing import NamedTuple

from nmt.decoding.alignment import Links
from nmt.text.segment import word_spans


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
        run = _best_run(len(words), links, inside)
        if run is None:
            return None
        first, last = words[run[0]], words[run[1]]
        # punctuation beside a word is inside only if it is so in the source
        left = first if not source[start : start + 1].isalnum() else _bare(text, *first)
        right = last if not source[max(end - 1, 0) : end].isalnum() else _bare(text, *last)
        positions[tag.pair, True], positions[tag.pair, False] = left[0], right[1]
    placed = [tag._replace(position=positions[tag.pair, tag.opens]) for tag in tags]
    placed.sort(key=lambda tag: (tag.position, tag.opens))
    return placed if _is_nested(placed) else None


def placed_by_share(source: str, tags: Sequence[Tag], text: str) -> list[Tag]:
    """Place tags after the same share of the text as in the source, and in the order of the source.

    Opening and single tags stand before a word, closing ones after a word; no pair is empty where there is a word.
    """
    words = [_bare(text, *span) for span in word_spans(text)]
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


def _best_run(count: int, links: Links, inside: set[int]) -> tuple[int, int] | None:
    """Return the first and last target word of the run with most links to the words inside and fewest to others.

    It is the run with the greatest sum (Kadane), where a link inside counts 1 and another one -1; None if no sum is
    positive.
    """
    gain = [0] * count
    for i, j in links:
        if j < count:
            gain[j] += 1 if i in inside else -1
    best, run, total, first = 0, None, 0, 0
    for j in range(count):
        if total <= 0:
            total, first = 0, j
        total += gain[j]
        if total > best:
            best, run = total, (first, j)
    return run


def _is_nested(tags: Sequence[Tag]) -> bool:
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
