"""The section Search: the tree of the beam search of a few sentences, as a drawing and as nested text.

The drawing is an SVG; `beam_tree.js` only shows the path to the node at the pointer or the keyboard.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from itertools import count

from nmt.report.attention_section import text_width
from nmt.report.beam_tree import BeamTree
from nmt.report.page import Section, paragraphs, table
from nmt.report.sentences import DrawnSentence

_COLUMN, _ROW, _BOX_WIDTH, _BOX_HEIGHT, _TOP = 122, 46, 98, 36, 26
"""Pixels from step to step and from rank to rank, the size of a node, and the space for the numbers of the steps."""
_OUTCOMES = {
    "active": "extended in the next step",
    "finished": "finished",
    "pruned": "pruned: not among the best",
    "dropped": "dropped: no extension can still become the best",
}


def beam_tree_section(sentences: Sequence[DrawnSentence], remarks: Sequence[str] = ()) -> Section:
    """Return the section for these sentences."""
    html = (
        "<p>Each column is a step of the search: the best extensions of all hypotheses, the best at the top, with the "
        "probability of the token after its prefix. Solid boxes are extended in the next step; double ones are "
        "finished; dashed ones are pruned; dotted ones are dropped, because no extension of them can become the best. "
        "The thick path is the translation. Point at a node, or move with the arrow keys, to see its hypothesis.</p>"
    )
    html += paragraphs(remarks)
    html += "".join(_sentence(one) for one in sentences)
    return Section("search", "Search", html, assets=("attention.css", "beam_tree.css", "beam_tree.js"))


def _sentence(one: DrawnSentence) -> str:
    """Return the html of a sentence: the drawing of its tree, the tree as text, and the ranking."""
    head = f"<h3>Line {one.line}</h3><p>{escape(one.source)}</p>"
    if not one.tree.nodes:
        return f"{head}<p>The recipe sets decode.sampling: translations are drawn at random, without a beam.</p>"
    ranking = ranked(one)
    rows = [
        (rank, _text_of(one, number), round(one.tree.nodes[number].total, 4), round(normalized, 4))
        for rank, (number, normalized) in enumerate(ranking, start=1)
    ]
    note = "log-probabilities are natural logarithms; the ranking is by the one divided by the length penalty"
    columns = ("rank", "pieces", "log-probability", "normalized")
    return (
        f'{head}{tree_drawing(one, ranking[0][0])}<details class="screen-only"><summary>The tree as text</summary>'
        f'<div class="tree-text">{nested_text(one)}</div></details>'
        f"<h4>Finished hypotheses</h4>{table(columns, rows, note)}"
    )


def ranked(one: DrawnSentence) -> list[tuple[int, float]]:
    """Return the numbers of the finished nodes with their normalized log-probabilities, best first."""
    finished = [
        (number, node.total / one.options.penalty(node.step))
        for number, node in enumerate(one.tree.nodes)
        if node.outcome == "finished"
    ]
    return sorted(finished, key=lambda entry: -entry[1])


def tree_drawing(one: DrawnSentence, best: int) -> str:
    """Return the tree as SVG; the path to the node `best` is marked."""
    tree = one.tree
    places = _places(tree)
    chosen = set(tree.path(best))
    width = max(x for x, _ in places) + _BOX_WIDTH + 16
    height = max(y for _, y in places) + _BOX_HEIGHT + 10
    edges, boxes = [], []
    for number, (node, (x, y)) in enumerate(zip(tree.nodes, places, strict=True)):
        x0, y0 = (places[node.parent][0] + _BOX_WIDTH, places[node.parent][1]) if node.parent >= 0 else (0, _TOP)
        from_y, to_y, middle = y0 + _BOX_HEIGHT / 2, y + _BOX_HEIGHT / 2, (x0 + x) / 2
        style = f"{node.outcome}{' chosen' if number in chosen else ''}"
        edges.append(
            f'<path class="edge {style}" data-node="{number}" '
            f'd="M{x0} {from_y:g}C{middle:g} {from_y:g} {middle:g} {to_y:g} {x} {to_y:g}"/>'
        )
        boxes.append(_box(one, number, (x, y), style))
    steps = "".join(
        f'<text class="step" x="{16 + (step - 1) * _COLUMN + _BOX_WIDTH / 2:g}" y="16">step {step}</text>'
        for step in range(1, max(node.step for node in tree.nodes) + 1)
    )
    label = f"Tree of the beam search with {len(tree.nodes)} nodes; below it as text"
    return (
        f'<output class="hypothesis" aria-live="polite"></output><div class="scroll"><svg class="beam-tree" '
        f'role="group" aria-label="{label}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"{steps}{''.join(edges)}{''.join(boxes)}</svg></div>"
    )


def _places(tree: BeamTree) -> list[tuple[int, int]]:
    """Return the left upper corner of each node: columns are steps, rows are ranks."""
    ranks: defaultdict[int, Iterator[int]] = defaultdict(count)  # of the next node of each step
    return [(16 + (node.step - 1) * _COLUMN, _TOP + next(ranks[node.step]) * _ROW) for node in tree.nodes]


def _box(one: DrawnSentence, number: int, place: tuple[int, int], style: str) -> str:
    node, (x, y) = one.tree.nodes[number], place
    numbers = f"token {percent(node.log_prob)}, hypothesis {percent(node.total)} (log-probability {node.total:.2f})"
    description = f"{_text_of(one, number)}: {numbers}; {_OUTCOMES[node.outcome]}"
    inner = f'<rect x="3" y="3" width="{_BOX_WIDTH - 6}" height="{_BOX_HEIGHT - 6}" rx="3"/>'
    return (
        f'<g class="node {style}" role="img" data-node="{number}" data-parent="{node.parent}" data-step="{node.step}" '
        f'aria-label="{escape(description)}" transform="translate({x} {y})">'
        f'<rect width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="5"/>{inner if node.outcome == "finished" else ""}'
        f'<text x="{_BOX_WIDTH / 2:g}" y="16">{escape(_shortened(one.pieces[node.token]))}</text>'
        f'<text class="probability" x="{_BOX_WIDTH / 2:g}" y="30">{percent(node.log_prob)}</text></g>'
    )


def nested_text(one: DrawnSentence) -> str:
    """Return the tree as nested lists; tokens without another branch that continues share a line."""
    tree = one.tree
    continued, ended = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)  # children by their parent
    for number, node in enumerate(tree.nodes):
        (continued if node.outcome in ("active", "finished") else ended)[node.parent].append(number)
    ranks = {number: rank for rank, (number, _) in enumerate(ranked(one), start=1)}

    def piece(number: int) -> str:
        node = tree.nodes[number]
        return f"{escape(one.pieces[node.token])} <small>{percent(node.log_prob)}</small>"

    def ends(parent: int) -> str:
        """Return the children that are not extended, in brackets."""
        texts = [f"{tree.nodes[number].outcome}: {piece(number)}" for number in ended[parent]]
        return f" <span>[{'; '.join(texts)}]</span>" if texts else ""

    def branches(parent: int) -> str:
        """Return a list with an entry for each child that is extended or finished."""
        entries = []
        for number in continued[parent]:
            line = f"{piece(number)}{ends(number)}"
            while len(continued[number]) == 1:
                (number,) = continued[number]
                line += f" {piece(number)}{ends(number)}"
            if number in ranks:
                line += f" <strong>rank {ranks[number]}, {tree.nodes[number].total:.2f}</strong>"
            entries.append(f"<li>{line}{branches(number)}</li>")
        return f"<ul>{''.join(entries)}</ul>" if entries else ""

    return f"{branches(-1)}<p>{ends(-1)}</p>"


def _text_of(one: DrawnSentence, number: int) -> str:
    """Return the pieces of the hypothesis at a node."""
    return " ".join(one.pieces[one.tree.nodes[other].token] for other in one.tree.path(number))


def percent(log_prob: float) -> str:
    """Return a probability in percent, with as many digits as are of interest.

    >>> [percent(math.log(p)) for p in (1, 0.975, 0.0312, 0.00021)]
    ['100 %', '98 %', '3.1 %', '0.02 %']
    """
    value = 100 * math.exp(log_prob)
    if value >= 9.95:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.95 else f"{value:.2f} %" if value >= 0.005 else "< 0.01 %"


def _shortened(piece: str) -> str:
    """Return a piece that fits in its box."""
    while text_width(piece, 14) > _BOX_WIDTH - 8:
        piece = piece.removesuffix("…")[:-1] + "…"
    return piece
