"""Place pairs of tags, items of words, and terms in a translation by its word alignment.

The items of a unit are taken out before it is translated. Those before and after its text stay there; inside are
pairs, such as `<b>` and `</b>`, which are put around the words that are aligned with those inside, and items of words,
such as `®`, which are put behind the words that are aligned with theirs.

>>> from nmt.text.items import read
>>> line = read("See <b>the page</b> now.")
>>> text, places = text_and_places(line)
>>> text
'See the page now.'
>>> str(place(line, "Ora vedi la pagina.", [(3, 0), (0, 1), (1, 2), (2, 3)]))
'Ora vedi <b>la pagina</b>.'
>>> place_terms("Un po' di vino.", [Term("vino rosso", 8, 12)], "Some of wine.", [(0, 0), (0, 1), (1, 2), (2, 3)])
"Un po' di vino rosso."
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from nmt.text.glossary import Term, whole_word
from nmt.text.items import ITEM, NO_TEXT, Line, pairs_of, read
from nmt.text.languages import FURTHER_UNSPACED, MARKS, UNSPACED_TEXT, WORD_LETTER
from nmt.text.typography import restored_case
from nmt.text.words import Links, word_spans

_LETTER, _ELISION = re.compile(WORD_LETTER), re.compile(r"[^\W_]+['’](?=[^\W_])")
_FINAL = re.compile(r"\s*[.!?…。！？:：,，;；]+[\"'”’»)）]*$")
_UNSPACED, _WITHOUT_SPACES = re.compile(f"[{UNSPACED_TEXT}]"), re.compile(f"[{UNSPACED_TEXT}{FURTHER_UNSPACED}]")
_CLOSING = "，。、：；！？）】」』》〉”’"  # signs of Chinese that follow a word without a space
# Items and spaces at the start of a unit, and marks between them.
_LEADING = re.compile(rf"\s*(?:{ITEM}(?:[\s:;,：；，、]|[–—-](?=\s))*)*")


def edges(line: Line) -> tuple[Line, Line, Line]:
    """Return the items and spaces before the text of a unit, its text, and the items and spaces after it.

    A pair is at the edges as a whole or not at all.
    """
    if not line.items and line.text == line.text.strip():
        return NO_TEXT, line, NO_TEXT
    start = _LEADING.match(line.text).end()  # type: ignore[union-attr]  # it matches every text
    end = max(start, len(line.text.rstrip(f" {ITEM}")))
    before, _, after = line.cut([start, end])
    first, last = len(before.items), len(line.items) - len(after.items)
    marks = [match.start() for match in re.finditer(ITEM, line.text)]
    for opening, closing in pairs_of(line.items).items():  # nested or disjoint: one that is extended divides no other
        if opening < first <= closing < last:
            start = min(start, marks[opening])
        elif first <= opening < last <= closing:
            end = max(end, marks[closing] + 1)
    before, core, after = line.cut([start, end])
    return before, core, after


def text_and_places(line: Line) -> tuple[str, list[int]]:
    """Return the text without items, and the position of each item in it."""
    text, *rest = line.text.split(ITEM)
    places = list[int]()
    for part in rest:
        part = part.removeprefix(" ") if not text or text[-1].isspace() else part
        places.append(len(text))
        text += part
    return text, places


class _Aligned:
    """A text and its translation, the spans of their words, and the links between these."""

    def __init__(self, source: str, text: str, links: Links) -> None:
        self.source, self.text, self.links = source, text, links
        self.words, self.targets = word_spans(source), word_spans(text)
        self.linked: dict[int, list[int]] = {}  # the target words of a source word
        for i, j in links:
            self.linked.setdefault(i, []).append(j)

    def inside(self, start: int, end: int) -> range:
        """Return the indices of the source words that are, at least in part, in a span."""
        first = bisect_right(self.words, start, key=lambda span: span[1])
        return range(first, max(first, bisect_left(self.words, end, key=lambda span: span[0])))

    def span(self, inside: range) -> tuple[int, int] | None:
        """Return the first and the last target word that are linked with source words inside, None without links."""
        linked = [j for i in inside for j in self.linked.get(i, ())]
        return (min(linked), max(linked)) if linked else None


def place(line: Line, text: str, links: Links, begin: int = 0) -> Line:
    """Return the translation of `text_and_places(line)` with the items of the line after its first `begin` characters.

    Links are between the words of both texts. A pair is placed around all words that are linked with the words inside
    it, or without links, around those at the same relative position. A single item is placed after the word that
    is linked with its left neighbour.
    """
    source, places = text_and_places(line)
    pairs = pairs_of(line.items)
    paired, aligned = {*pairs, *pairs.values()}, _Aligned(source, text, links)
    placed = dict[int, int]()  # the place of each item in the translation
    for index, start in enumerate(places):
        if index in pairs:
            placed[index], placed[pairs[index]] = _around(start, places[pairs[index]], aligned)
        elif index not in paired:
            placed[index] = _beside(start, aligned)
    # an item that the text contains, as in a term, is not divided
    ends = accumulate(len(piece if isinstance(piece, str) else piece.text) for piece in read(text).pieces())
    spans = list(pairwise(ends))[::2]
    placed = {i: next((a if i in pairs else b for a, b in spans if a < at < b), at) for i, at in placed.items()}
    # nor is the word that a prefix begins
    begin = next((max(begin, without_marks(text, a, b)[1]) for a, b in word_spans(text) if a < begin < b), begin)
    order, result, position = _nested(pairs, placed, (0, len(places)), (begin, len(text))), text[:begin], begin
    texts = line.text.split(ITEM)
    for index, start in order:
        result, position, item = result + text[position:start], start, ITEM
        if index not in paired:  # a single item keeps the spaces beside it
            left, right = texts[index][-1:], texts[index + 1][:1]
            before = " " * (left == " " and result[-1:].strip() != "")
            item = before + ITEM + " " * (left in ("", " ") and right == " " and text[start : start + 1].isalnum())
        result += item
    return Line(result + text[position:], tuple(line.items[index] for index, _ in order))


def _nested(
    pairs: dict[int, int], placed: dict[int, int], items: tuple[int, int], span: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return index and place of the items of a range in the order of the translation, within a span of it.

    Items that would overlap are moved to the right.
    """
    top, index = list[int](), items[0]
    while index < items[1]:  # the items that are not inside others of the range
        top.append(index)
        index = pairs.get(index, index) + 1
    order, position = list[tuple[int, int]](), span[0]
    for index in sorted(top, key=placed.__getitem__):
        start = position = min(max(position, placed[index]), span[1])
        order.append((index, start))
        if index in pairs:
            position = min(max(position, placed[pairs[index]]), span[1])
            order += _nested(pairs, placed, (index + 1, pairs[index]), (start, position))
            order.append((pairs[index], position))
    return order


def _around(start: int, end: int, aligned: _Aligned) -> tuple[int, int]:
    """Return the span of the target words that are linked with the words in a span of the source."""
    source, text, words, targets = aligned.source, aligned.text, aligned.words, aligned.targets
    inside = aligned.inside(start, end)
    if not inside or not targets:
        return (_beside(start, aligned),) * 2
    same_place = min(len(targets) - 1, inside[0] * len(targets) // len(words))  # for words without links
    first_word, last_word = aligned.span(inside) or (same_place, same_place)
    # punctuation beside a word is inside only if it is so in the source
    left, right = targets[first_word][0], targets[last_word][1]
    first, last = without_marks(text, left, right)
    left, right = first if source[start].isalnum() else left, last if source[end - 1].isalnum() else right
    part, around = source[start:end], source[max(0, start - 1) : end + 1].strip()
    if part != around and part in text[left:right] and (part.isdecimal() or text[left:right] in source):  # 2 of H2O
        left = text.index(part, left)
        right = left + len(part)
    return left, right


def _beside(place: int, aligned: _Aligned) -> int:
    """Return the place of a single item: behind the word that is linked with the nearest one before it, else 0.

    It is not behind the final punctuation.
    """
    source, text = aligned.source, aligned.text
    before = [i for i, (start, _) in enumerate(aligned.words) if start < place and i in aligned.linked]
    if not before:
        return 0
    final = _FINAL.search(text)
    last = final.start() if final and source[place:].strip() else len(text)
    start, end = aligned.targets[max(aligned.linked[before[-1]])]
    end = without_marks(text, start, end)[1] if source[:place].rstrip()[-1:].isalnum() else end
    return min(last, end + (source[:place][-1:] == " " == text[end : end + 1]))


def place_terms(text: str, terms: Sequence[Term], source: str, links: Links, begin: int = 0) -> str:
    """Return a translation in which terms replace the words aligned with their sources, after `begin` characters.

    A term without links is inserted beside the words that are linked with its neighbours.
    """
    edits, aligned = list[tuple[int, int, str]](), _Aligned(source, text, links)
    for term in terms:
        start = end = max(begin, _beside(term.start, aligned))
        if span := aligned.span(aligned.inside(term.start, term.end)):
            first, last = without_marks(text, aligned.targets[span[0]][0], aligned.targets[span[1]][1])
            # an article such as `l'` stays before a vowel
            begins = unicodedata.normalize("NFD", term.text)[:1].lower()
            elision = _ELISION.match(text, first, last) if begins in tuple("aeiouh") else None
            first = elision.end() if elision else first
            if first >= begin:
                start, end = first, last
                links = [(i, j) for i, j in aligned.links if not span[0] <= j <= span[1]]
                aligned = _Aligned(source, text, links)
        start = max([start, *(b for a, b, _ in edits if a < start < b)])
        edits.append((start, max(start, end), term.text))
    placed, position = "", 0
    for start, end, term_text in sorted(edits, key=lambda edit: edit[:2]):
        placed += text[position:start]
        placed += " " * bool(_LETTER.match(placed[-1:]) and _LETTER.match(term_text))
        placed += term_text
        placed += " " * bool(_LETTER.match(term_text[-1]) and _LETTER.match(text, end))
        position = end
    return placed + text[position:]


def without_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a word without the punctuation around it; all of it if there is nothing else."""
    letters = [position for position in range(start, end) if text[position].isalnum() or text[position] in MARKS]
    return (letters[0], letters[-1] + 1) if letters else (start, end)


def recased(line: Line, source: str, terms: Sequence[str], language: str) -> Line:
    """Return a translation in the letter case of its source, except for its terms."""
    spans = [match.span() for term in terms for match in whole_word(term).finditer(line.text)]
    cuts = [0]
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):  # the longest of those that overlap
        if start >= cuts[-1]:
            cuts += [start, end]
    pieces = [line.text[start:end] for start, end in pairwise([*cuts, len(line.text)])]
    cased = [piece if index % 2 else restored_case(piece, source, language) for index, piece in enumerate(pieces)]
    return line._replace(text="".join(cased))


def gap(between: Line, before: tuple[str, str], after: tuple[str, str]) -> Line:
    """Return the line between two units; `before` and `after` are the adjacent characters of source and translation.

    Scripts such as Chinese and Thai have no spaces there; their translations into other languages need them, and the
    reverse.
    """
    from_unspaced = [bool(_WITHOUT_SPACES.match(source)) for source, _ in (before, after)]
    spaced = [text.isalnum() and not _UNSPACED.match(text) for _, text in (before, after)]
    if not between.items:
        to_unspaced = [bool(_UNSPACED.match(text)) for _, text in (before, after)]
        if any(to_unspaced):  # the space beside a Chinese name in another text stays
            is_copied = any(from_unspaced) and not all(to_unspaced)
            return Line(" " if between.text and is_copied else "")
        return Line(" " if before[1] and (between.text or any(from_unspaced)) else "")
    first, last = between.items[0], between.items[-1]
    is_closing = first.role == "closing" or first.text[0] in _CLOSING
    is_opening = last.role == "opening" or unicodedata.category(last.text[-1]) in ("Ps", "Pi")
    is_spaced = spaced[0] or before[1] in tuple(".,;:!?…)")
    left = " " * (from_unspaced[0] and is_spaced and between.text[0] == ITEM and not is_closing)
    right = " " * (from_unspaced[1] and spaced[1] and between.text[-1] == ITEM and not is_opening)
    return between._replace(text=f"{left}{between.text}{right}")
