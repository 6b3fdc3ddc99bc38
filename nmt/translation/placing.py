"""Items and terms at their places in a translation, by its word alignment.

The items of a sentence are taken out before it is translated. Each is in the result once, those without a name in the
order of the source, and pairs inside each other: places are chosen within these limits, not checked afterwards.

>>> from nmt.text.items import read
>>> line = read("See <b>the {0} page</b> now.")
>>> text, places = without_items(line)
>>> text
'See the page now.'
>>> str(place(line, "Ora vedi la pagina.", [(3, 0), (0, 1), (1, 2), (2, 3)], spaced=True))
'Ora vedi <b>la {0} pagina</b>.'
>>> place_terms("Un po' di vino.", [Term("vino rosso", 8, 12)], "Some of wine.", [(0, 0), (0, 1), (1, 2), (2, 3)])
"Un po' di vino rosso."
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.decoding.alignment import Links
from nmt.text.items import ITEM, Item, Line
from nmt.text.languages import UNSPACED_TEXT
from nmt.text.words import word_spans
from nmt.translation.options import Term

_ELISION = re.compile(r"[^\W_]+['’](?=[^\W_])")
_FINAL = re.compile(r"\s*[.!?…。！？:：,，;；]+[\"'”’»)）]*$")
_MARKS = tuple(".,;:!?)]}”’»%。，；：！？）、")
_UNSPACED = re.compile(f"[{UNSPACED_TEXT}]")
# Items and spaces at the start of a sentence, and marks between them.
_LEADING = re.compile(rf"\s*(?:{ITEM}(?:[\s:;,：；，、]|[–—-](?=\s))*)*")
_DEEPEST = 50  # pairs inside each other; items further inside are single


@dataclass
class _Node:
    """An item, or a pair of items with those between them."""

    index: int
    closing: int | None = None
    nodes: list["_Node"] = field(default_factory=list)
    start: int = 0  # in the translation
    end: int = 0

    def keeps_order(self, items: Sequence[Item]) -> bool:
        """Whether it has no name, or something in it has none."""
        alone = self.closing is None and not items[self.index].is_named
        return alone or any(node.keeps_order(items) for node in self.nodes)


def tree_of(items: Sequence[Item]) -> list[_Node]:
    """Return the items, in order, with pairs as nodes around what is between them."""
    levels: list[list[_Node]] = [[]]
    opened: list[_Node] = []
    for index, item in enumerate(items):
        names = [items[node.index].name for node in opened]
        if item.role == "closing" and item.name in names:
            while True:  # an opening item without a closing one is single
                node, inside = opened.pop(), levels.pop()
                if items[node.index].name == item.name:
                    node.closing, node.nodes = index, inside
                    break
                levels[-1] += inside
            continue
        levels[-1].append(_Node(index))
        if item.role == "opening" and len(opened) < _DEEPEST:
            opened.append(levels[-1][-1])
            levels.append([])
    return [node for level in levels for node in level]


def edges(line: Line) -> tuple[Line, Line, Line]:
    """Return the items and spaces before the text of a sentence, its text, and the items and spaces after it.

    A pair is at the edges as a whole or not at all.
    """
    start = _LEADING.match(line.text).end()  # type: ignore[union-attr]  # it matches every text
    end = max(start, len(line.text.rstrip(f" {ITEM}")))
    before, core, after = line.cut([start, end])
    first, last = len(before.items), len(line.items) - len(after.items)
    marks = [found.start() for found in re.finditer(ITEM, line.text)]
    pairs = [(node.index, node.closing) for node in _flat(tree_of(line.items)) if node.closing is not None]
    while True:
        opening = min((one for one, other in pairs if one < first <= other < last), default=first)
        closing = max((other + 1 for one, other in pairs if first <= one < last <= other), default=last)
        if (opening, closing) == (first, last):
            return before, core, after
        start = marks[opening] if opening < first else start
        end = marks[closing - 1] + 1 if closing > last else end
        first, last = opening, closing
        before, core, after = line.cut([start, end])


def _flat(nodes: Sequence[_Node]) -> list[_Node]:
    return [inner for node in nodes for inner in (node, *_flat(node.nodes))]


def without_items(line: Line) -> tuple[str, list[int]]:
    """Return the text without items, and the place of each in it."""
    text, *rest = line.text.split(ITEM)
    places = list[int]()
    for item, part in zip(line.items, rest, strict=True):
        if not text or text[-1].isspace():
            part = part.removeprefix(" ")
        elif item.role not in ("opening", "closing") and text[-1].isalnum() and part[:1].isalnum():
            part = part if _UNSPACED.match(part) or _UNSPACED.match(text[-1]) else f" {part}"
        if part.startswith(_MARKS):
            text = text.rstrip()
            places = [min(place, len(text)) for place in places]
        places.append(len(text))
        text += part
    return text, places


def place(line: Line, text: str, links: Links, spaced: bool, begin: int = 0) -> Line:
    """Return the translation of `without_items(line)` with the items of the line behind its first `begin` characters.

    Links are between the words of both texts; `spaced` tells whether the language has spaces between words. A pair is
    around the run of words with most links to those inside it; a single item is behind the word that is linked with its
    left neighbour, else before that of its right one.
    """
    source, places = without_items(line)
    nodes, paired = tree_of(line.items), set[int]()
    for node in _flat(nodes):
        if node.closing is not None:
            paired |= {node.index, node.closing}
            node.start, node.end = _around(places[node.index], places[node.closing], source, text, links)
        else:
            node.start = node.end = _beside(places[node.index], source, text, links)
    order = _arranged(nodes, line.items, (begin, len(text)))
    gaps, result, position = line.text.split(ITEM), text[:begin], begin
    for index, start in order:
        result += text[position:start]
        position = start
        left, right, after = gaps[index][-1:], gaps[index + 1][:1], text[start : start + 1]
        single = index not in paired
        apart = result[-1:].isalnum() and single and not (left.isalnum() and not _UNSPACED.match(left))
        if spaced and result and not result[-1].isspace() and ((left == " " and single) or apart):
            result += " "
        result += ITEM
        apart = after.isalnum() and single and not (right.isalnum() and not _UNSPACED.match(right))
        if spaced and ((right == " " and single and after and not after.startswith(_MARKS)) or apart):
            result += "" if after.isspace() else " "
    return Line(result + text[position:], tuple(line.items[index] for index, _ in order))


def _arranged(nodes: list[_Node], items: Sequence[Item], span: tuple[int, int]) -> list[tuple[int, int]]:
    """Return index and place of all items of the nodes in the order of the translation, within a span of it.

    Nodes that keep their order are moved to the right where the alignment would have it otherwise, and so are nodes
    that would overlap.
    """
    position = span[0]
    for node in nodes:
        if node.keeps_order(items):
            node.start = position = max(position, node.start)
    order, position = list[tuple[int, int]](), span[0]
    for node in sorted(nodes, key=lambda node: node.start):
        node.start = min(max(node.start, position), span[1])
        node.end = position = min(max(node.end, node.start), span[1])
        order.append((node.index, node.start))
        if node.closing is not None:
            order += _arranged(node.nodes, items, (node.start, node.end))
            order.append((node.closing, node.end))
    return order


def _around(start: int, end: int, source: str, text: str, links: Links) -> tuple[int, int]:
    """Return the span of the words that are linked with those of a span of the source."""
    words, targets = word_spans(source), word_spans(text)
    inside = {i for i, (a, b) in enumerate(words) if a < end and b > start}
    if not inside or not targets:
        return (_beside(start, source, text, links),) * 2
    if len(inside) == len(words):
        run = (0, len(targets) - 1)
    else:  # without links at the same share of the words
        share = min(len(targets) - 1, min(inside) * len(targets) // len(words))
        run = best_run(len(targets), links, inside) or (share, share)
    # punctuation beside a word is inside only if it is so in the source
    left = without_marks(text, *targets[run[0]]) if source[start].isalnum() else targets[run[0]]
    right = without_marks(text, *targets[run[1]]) if source[end - 1].isalnum() else targets[run[1]]
    return left[0], right[1]


def _beside(place: int, source: str, text: str, links: Links) -> int:
    """Return the place of a single item, which is not behind the final punctuation."""
    words, targets = word_spans(source), word_spans(text)
    final = _FINAL.search(text)
    last = final.start() if final and source[place:].strip() else len(text)
    before = [i for i, (a, b) in enumerate(words) if a < place and any(map(str.isalnum, source[a:b]))]
    after = [i for i, (a, b) in enumerate(words) if a >= place and any(map(str.isalnum, source[a:b]))]
    linked = dict[int, list[int]]()
    for i, j in links:
        linked.setdefault(i, []).append(j)
    if (word := next((i for i in reversed(before) if i in linked), None)) is not None:
        start, end = targets[max(linked[word])]
    elif (word := next((i for i in after if i in linked), None)) is not None:
        return min(last, targets[min(linked[word])][0])
    else:
        return last if before else 0
    is_within = source[:place].rstrip()[-1:].isalnum()
    return min(last, without_marks(text, start, end)[1] if is_within else end)


def place_terms(text: str, terms: Sequence[Term], source: str, links: Links, begin: int = 0) -> str:
    """Return a translation with terms in place of the words that are aligned with theirs, behind `begin` characters.

    A term without links is inserted beside the words that are linked with its neighbours.
    """
    edits, words = list[tuple[int, int, str]](), word_spans(text)
    for term in terms:
        inside = {i for i, (a, b) in enumerate(word_spans(source)) if a < term.end and b > term.start}
        start = end = max(begin, _beside(term.start, source, text, links))
        if run := best_run(len(words), links, inside):
            first, last = without_marks(text, *words[run[0]])[0], without_marks(text, *words[run[1]])[1]
            # an article such as `l'` stays before a vowel
            begins = unicodedata.normalize("NFD", term.text)[:1].lower()
            elision = _ELISION.match(text, first, last) if begins in tuple("aeiouh") else None
            first = elision.end() if elision else first
            if first >= begin:
                start, end = first, last
                links = [(i, j) for i, j in links if not run[0] <= j <= run[1]]
        start = max([start, *(b for a, b, _ in edits if a < start < b)])
        edits.append((start, max(start, end), term.text))
    placed, position = "", 0
    for start, end, term_text in sorted(edits, key=lambda edit: edit[:2]):
        placed += text[position:start]
        placed += " " * (_is_letter(placed[-1:]) and _is_letter(term_text[0]) and start == end)
        placed += term_text
        placed += " " * (_is_letter(term_text[-1]) and _is_letter(text[end : end + 1]))
        position = end
    return placed + text[position:]


def _is_letter(character: str) -> bool:
    """Whether a character is a letter or digit of a script with spaces."""
    return character.isalnum() and not _UNSPACED.match(character)


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


def without_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a word without the punctuation around it; all of it if there is nothing else."""
    letters = [position for position in range(start, end) if text[position].isalnum()]
    return (letters[0], letters[-1] + 1) if letters else (start, end)
