"""Figures of one sentence: the attention of every layer and head while it is translated, and the tree of its search.

The tree has every hypothesis that was considered, recorded while the search runs. B sentences, K beam, N rows, as in
`nmt.decoding.beam`.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from matplotlib.patches import Rectangle
from torch import Tensor

from nmt.decoding.beam import Beams, Candidates, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.errors import ConfigError
from nmt.model.checkpoint import resolve_model
from nmt.model.transformer import AttentionWeights, Transformer, attention_weights
from nmt.report.drawing import COLOURS, INK, WIDE, Drawing, heat_map, new_figure
from nmt.text.tokenizer import BOS, EOS
from nmt.text.words import words
from nmt.translation.translator import Translator

# What became of a candidate: extended in the next step; ended by `</s>`; not among the best; among them, but
# dropped, because no extension of it can be among the n best or because it is improbable.
Outcome = Literal["active", "finished", "pruned", "dropped"]


@dataclass(frozen=True)
class Node:
    """A candidate of a step: a hypothesis of the step before and one more token."""

    # The number of the node that it extends; -1 for `<s>`.
    parent: int
    # From 1: the length of the hypothesis, with `</s>`.
    step: int
    token: int
    # Log-probability of the token after its prefix.
    log_prob: float
    # Log-probability of the whole hypothesis: the sum of `log_prob` from `<s>` to here.
    total: float
    outcome: Outcome


@dataclass
class BeamTree:
    """The tree of one sentence, which `record` extends at each step; nodes in the order of steps, the best first."""

    beam: int
    nodes: list[Node] = field(default_factory=list)
    _row_nodes: list[int] = field(default_factory=lambda: [-1])  # the node of each active hypothesis

    def record(self, beams: Beams, candidates: Candidates, extended: Beams) -> None:
        """Add the candidates of a step."""
        step = int(beams.lengths[0])
        before = beams.log_probs[0].tolist()
        active = extended.log_probs[0] > -math.inf
        parents = extended.history[0, active, 1, step - 1]  # the place of a hypothesis in the step before
        chosen = list(zip(parents.tolist(), extended.tokens[0, active].tolist(), strict=True))
        new_nodes, unfinished = {}, 0
        columns = [of_sentence[0].tolist() for of_sentence in candidates]
        for rank, (total, row, token) in enumerate(zip(*columns, strict=True)):
            if total == float("-inf"):
                continue
            outcome: Outcome = "pruned"
            if (row, token) in chosen:
                outcome = "active"
                new_nodes[row, token] = len(self.nodes)
            elif token == EOS and rank < self.beam:
                outcome = "finished"
            elif token != EOS and unfinished < self.beam:  # the K best that do not end are extended, unless dropped
                outcome = "dropped"
            unfinished += token != EOS
            self.nodes.append(Node(self._row_nodes[row], step, token, total - before[row], total, outcome))
        self._row_nodes = [new_nodes[one] for one in chosen]

    def path(self, number: int) -> list[int]:
        """Return the numbers of the nodes from the first token to a node."""
        path: list[int] = []
        while number >= 0:
            path.append(number)
            number = self.nodes[number].parent
        return path[::-1]


def search_tree(model: Transformer, ids: Sequence[int], options: SearchOptions) -> tuple[BeamTree, list[Hypothesis]]:
    """Search the translation of one sentence, ids without `</s>`, and return the tree and the n best hypotheses."""
    tree = BeamTree(options.beam)
    (found,) = search([model], [[*ids, EOS]], options, observer=tree.record)
    return tree, found


# Tokens of a sentence; figures of longer ones cannot be read.
_LONGEST = 60
# Words in the sentence that is chosen.
_WORDS = range(4, 10)
# Title, label of the rows, label of the columns, and what to see in each kind of attention.
_KINDS = {
    "encoder": ("Self-attention of the encoder", "source token", "source token",
                "How much each source token (row) takes from each source token (column). Heads often attend to the "
                "token before or after, to the sentence end, or to related words."),
    "decoder": ("Self-attention of the decoder", "target token that is read", "target token",
                "How much each target token (row) takes from itself and those before it (columns). Nothing is to the "
                "right of the diagonal: later tokens do not exist yet."),
    "cross": ("Attention to the source", "target token that is predicted", "source token",
              "How much each prediction (row) takes from each source token (column). Some heads follow the word "
              "alignment."),
}  # fmt: skip
_OUTCOMES: dict[Outcome, tuple[str, str, str]] = {
    "active": ("extended in the next step", COLOURS[0], "-"),
    "finished": ("finished", COLOURS[2], "-"),
    "pruned": ("pruned: not among the best", "#888888", "--"),
    "dropped": ("dropped: cannot become the best", COLOURS[3], ":"),
}
_BOX_WIDTH, _BOX_HEIGHT = 0.68, 0.72  # of the distance between two nodes


def chosen_sentence(sources: Iterable[str]) -> str | None:
    """Return the first sentence whose figures are readable, else the shortest one."""
    lines = [line for line in sources if line.strip()]
    fitting = (line for line in lines if len(words(line)) in _WORDS)
    return next(fitting, min(lines, key=len, default=None))


def sentence_drawings(model: Path, text: str, to: str | None = None) -> list[Drawing]:
    """Translate a sentence, by default into the first target language, and return its attention and its search.

    Raises ModelError if there is no model, ConfigError for a sentence that is empty or too long.
    """
    translator = Translator.load(resolve_model(model))
    loaded = translator.models[0]
    options = translator.options(to=to or translator.languages.target[0])
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    ids = source.encode(text)
    if not 0 < len(ids) <= _LONGEST:
        raise ConfigError(f"{text!r}: found {len(ids)} tokens; figures are drawn of sentences of 1 to {_LONGEST}")
    source_ids = [*translator.tag_ids(options), *ids, EOS]
    target_ids = [BOS, *target.encode(translator.translate(text, options).text), EOS]
    weights = attention_weights(
        loaded.model,
        torch.tensor(source_ids, device=loaded.model.device),
        torch.tensor(target_ids[:-1], device=loaded.model.device),
    )
    # a tree that is read shows what a search that has to be fast drops
    search = options.search.model_copy(update={"sampling": None, "exact": True})
    tree, _ = search_tree(loaded.model, source_ids[:-1], search)
    pieces = [source.pieces[i] for i in source_ids], [target.pieces[i] for i in target_ids]
    return [*attention_drawings(weights, *pieces), search_drawing(tree, target.pieces, search)]


def attention_drawings(weights: AttentionWeights, source: Sequence[str], target: Sequence[str]) -> list[Drawing]:
    """Return a figure for each layer of encoder, decoder and cross-attention, with one heat map for each head.

    The source ends with `</s>`; the target begins with `<s>` and ends with `</s>`.
    """
    tokens = {"encoder": (source, source), "decoder": (target[:-1], target[:-1]), "cross": (target[1:], source)}
    return [
        _heads_of_layer(kind, layer, heads, tokens[kind])
        for kind in _KINDS
        for layer, heads in enumerate(getattr(weights, kind), start=1)
    ]


def _heads_of_layer(kind: str, layer: int, heads: Tensor, tokens: tuple[Sequence[str], Sequence[str]]) -> Drawing:
    """Draw the weights (H, rows, columns) of a layer."""
    title, row_label, column_label, caption = _KINDS[kind]
    rows, columns = tokens
    most = 2 if len(heads) <= 4 and len(columns) > 6 else 4
    across = max(count for count in range(1, most + 1) if len(heads) % count == 0)
    down = len(heads) // across
    figure = new_figure(min(14, down * max(1.6, 0.21 * len(rows) + 0.35) + 1.3), WIDE)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    image = heat_map(panels.flatten().tolist(), heads.numpy(), rows, columns)
    for head, panel in enumerate(panels.flat, start=1):
        panel.set_title(f"head {head}")
    figure.supylabel(f"query: {row_label}", fontsize=10)
    figure.supxlabel(f"key: {column_label}", fontsize=10)
    figure.colorbar(image, ax=panels, label="weight (each row adds up to 1)", aspect=30)
    code = "nmt.model.transformer.attention_weights"
    return Drawing(f"attention-{kind}-layer-{layer}", f"{title}, layer {layer}", caption, figure, code)


def search_drawing(tree: BeamTree, pieces: Sequence[str], options: SearchOptions) -> Drawing:
    """Draw the candidates of each step of a search as a column, the best at the top, below `<s>` all their paths."""
    finished = [number for number, node in enumerate(tree.nodes) if node.outcome == "finished"]
    best = max(finished, key=lambda number: tree.nodes[number].total / options.penalty(tree.nodes[number].step))
    path = tree.path(best)
    rank, places = Counter[int](), {-1: (0, 0)}
    for number, node in enumerate(tree.nodes):
        places[number] = (node.step, rank[node.step])
        rank[node.step] += 1
    steps, rows = max(rank), max(rank.values())
    figure = new_figure(0.5 * rows + 1, max(WIDE, 1.15 * (steps + 0.9)))
    axes = figure.subplots()
    axes.text(0, 0, "<s>", ha="center", va="center")
    for number, node in enumerate(tree.nodes):
        x, y = places[number]
        before, y0 = places[node.parent]
        _, colour, line = _OUTCOMES[node.outcome]
        style: Any = {"linewidth": 2.8 if number in path else 1, "linestyle": line}
        axes.plot([before + _BOX_WIDTH / 2, x - _BOX_WIDTH / 2], [y0, y], color=colour, **style)
        corner = (x - _BOX_WIDTH / 2, y - _BOX_HEIGHT / 2)
        axes.add_patch(Rectangle(corner, _BOX_WIDTH, _BOX_HEIGHT, fill=False, edgecolor=colour, **style))
        axes.text(x, y - 0.14, _shortened(pieces[node.token]), ha="center", va="center", fontsize=9)
        axes.text(x, y + 0.2, percent(node.log_prob), ha="center", va="center", fontsize=7)
    for name, colour, line in _OUTCOMES.values():
        axes.plot([], [], line, color=colour, label=name)
    axes.plot([], [], color=INK, linewidth=2.8, label="the translation")
    axes.set(xlim=(-0.4, steps + 0.5), ylim=(rows - 0.4, -0.9))
    axes.set_axis_off()
    for step in range(1, steps + 1):
        axes.text(step, -0.7, f"step {step}", ha="center", fontsize=8)
    figure.legend(loc="outside lower left", ncols=3)
    chosen = tree.nodes[best]
    caption = (
        f"Each column is a step of an exact search with a beam of {options.beam}: the best extensions of all "
        "hypotheses, the best on top, with the probability of the token after its prefix. The thick path is the "
        f"translation, with a probability of {percent(chosen.total)}, the best of {len(finished)} finished hypotheses."
    )
    return Drawing("search-tree", "Tree of the beam search", caption, figure, "nmt.decoding.beam.advance")


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
    """Return a piece that fits in its box, where East Asian characters take two columns."""
    widths = [2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in piece]
    kept = sum(1 for count in range(1, len(piece) + 1) if sum(widths[:count]) <= 10)
    return piece if kept == len(piece) else f"{piece[: kept - 1]}…"
