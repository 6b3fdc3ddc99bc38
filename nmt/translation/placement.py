"""Places in a translation, by its word alignment, of protected items, glossary terms and tags.

A term replaces the words that are aligned with its source words. Items are taken out of a line before it is translated;
each is inserted behind the word that is aligned with its left neighbour. Tags are taken out, and put back at the words
that are aligned with theirs.

>>> line, phrases = cut_items("Open {0} now.")
>>> line
'Open now.'
>>> place("Apri ora.", phrases, line, [(0, 0), (1, 1)])
'Apri {0} ora.'
>>> place("Un bicchiere di vino.", [Phrase("vino rosso", 11, 15)], "A glass of wine.", [(0, 0), (1, 1), (2, 2), (3, 3)])
'Un bicchiere di vino rosso.'
>>> text, tags = without_tags('See <a href="x">the page</a><br/>now.')
>>> text
'See the page now.'
>>> with_tags("Ora vedi la pagina.", tags, text, [(3, 0), (0, 1), (1, 2), (2, 3)])
'Ora vedi <a href="x">la pagina</a><br/>.'
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from nmt.decoding.alignment import Links
from nmt.text.protection import items
from nmt.text.words import word_spans

_BRACKETS = {"'": "'", '"': '"', "(": ")", "[": "]", "“": "”", "‘": "’", "«": "»", "`": "`"}
_OPENING = ("", "(", "[", "“", "‘", "«")
_ELISION = re.compile(r"[^\W_]+['’](?=[^\W_])")
_FINAL = re.compile(r"[.!?…。！？]+[\"'”’»)]*$")
_AFTER_FINAL = re.compile(r"[.!?…。！？]\W*$")


class Phrase(NamedTuple):
    """A phrase that a translation must contain, and the span of the source that it translates, empty for an item."""

    text: str
    start: int
    end: int
    joined_left: bool = False  # whether the source has no space before it
    joined_right: bool = False  # whether a letter or digit follows it in the source

    @property
    def begins_with_vowel(self) -> bool:
        """Whether it may follow an elision such as `l'`."""
        return unicodedata.normalize("NFD", self.text)[:1].lower() in tuple("aeiouh")


def cut_items(line: str) -> tuple[str, list[Phrase]]:
    """Return a normalized line without its protected items and the brackets around them, and these as phrases."""
    rest, position, phrases = "", 0, list[Phrase]()
    for item in items(line):
        start, end = item.start, item.end
        while position < start and end < len(line) and _BRACKETS.get(line[start - 1]) == line[end]:
            start, end = start - 1, end + 1
        joined = start > 0 and not line[start - 1].isspace(), line[end : end + 1].isalnum()
        rest += line[position:start]
        phrases.append(Phrase(line[start:end], len(rest), len(rest), *joined))
        one_space = line[end : end + 1] == " " and rest[-1:] in ("", " ")
        position = end + one_space
    return (rest + line[position:]).rstrip(), phrases


def place(text: str, phrases: Sequence[Phrase], source: str, links: Links, spaced: bool = True, begin: int = 0) -> str:
    """Return a translation with phrases at their places, behind its first `begin` characters.

    The phrases are in the order of the source; links are between its words and those of the text. `spaced` tells
    whether the language has spaces between words.
    """
    edits: list[tuple[int, int, Phrase]] = []
    for phrase in phrases:
        start, end = max(begin, _insertion(text, phrase, source, links)), 0
        inside = {i for i, (a, b) in enumerate(word_spans(source)) if a < phrase.end and b > phrase.start}
        words = word_spans(text)
        if phrase.start < phrase.end and (run := best_run(len(words), links, inside)):
            first, last = bare(text, *words[run[0]])[0], bare(text, *words[run[1]])[1]
            elision = _ELISION.match(text, first, last) if phrase.begins_with_vowel else None
            first = elision.end() if elision else first
            if first >= begin:
                start, end = first, last
                links = [(i, j) for i, j in links if not run[0] <= j <= run[1]]
        start = max([start, *(b for a, b, _ in edits if a < start < b)])
        edits.append((start, max(start, end), phrase))
    placed, position = "", 0
    for start, end, phrase in sorted(edits, key=lambda edit: edit[:2]):
        placed += text[position:start]
        if spaced and start == end:
            joined = phrase.joined_left and not placed[-1:].isalnum()
            placed += "" if joined or placed[-1:].isspace() or placed[-1:] in _OPENING else " "
        placed += phrase.text
        if spaced and text[end : end + 1].isalnum() and not phrase.joined_right:
            placed += " "
        position = end
    return placed + text[position:]


def _insertion(text: str, phrase: Phrase, source: str, links: Links) -> int:
    """Return where to insert a phrase: at the word aligned with its neighbour, and before the final punctuation."""
    source_words, words = word_spans(source), word_spans(text)
    lettered = [i for i, (a, b) in enumerate(source_words) if any(map(str.isalnum, source[a:b]))]
    left = [i for i in lettered if source_words[i][0] < phrase.start][::-1]
    right = [i for i in lettered if source_words[i][0] >= phrase.end]
    after = next((max(j for i, j in links if i == word) for word in left if any(i == word for i, _ in links)), None)
    before = next((min(j for i, j in links if i == word) for word in right if any(i == word for i, _ in links)), None)
    if before is not None and (after is None or (phrase.joined_right and not phrase.joined_left)):
        return words[before][0]
    if after is None:
        position = len(text) if left else 0
    else:
        follows_letter = source[: phrase.start].rstrip()[-1:].isalnum()
        position = bare(text, *words[after])[1] if follows_letter else words[after][1]
    final = _FINAL.search(text)
    if final and position > final.start() and not _AFTER_FINAL.search(source[: phrase.start]):
        return final.start()
    return position


def best_run(count: int, links: Links, inside: set[int]) -> tuple[int, int] | None:
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


def bare(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a word without the punctuation around it; all of it if there is nothing else."""
    letters = [position for position in range(start, end) if text[position].isalnum()]
    return (letters[0], letters[-1] + 1) if letters else (start, end)


# A tag of XML, HTML or subtitles, a time within a cue (`<00:01.500>`), and a style override (`{\an8}`).
# `<T>` in `List<Array<T>>` is none.
_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>[A-Za-z][\w-]*)(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>(?!>)|<\d[\d:.]*>|\{\\[^{}]*\}"
)
# The first character of the scripts without spaces between words.
_UNSPACED = "\u2e80"


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
