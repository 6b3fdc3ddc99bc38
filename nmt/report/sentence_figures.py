"""Figures of one sentence: the attention of every layer and head while it is translated, and its search.

The tree has every hypothesis that was considered, recorded while the search runs. B sentences, K beam, N rows, as in
`nmt.decoding.beam`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.decoding.beam import Beams, Candidates
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.errors import ConfigError
from nmt.kernels.reference import split_heads
from nmt.model.attention import distances_between
from nmt.model.stored import resolve_model
from nmt.model.transformer import Transformer
from nmt.report.drawing import COLOURS, INK, WIDE, Drawing, heat_map, new_figure, shortened_piece
from nmt.text.readers import shortened
from nmt.text.tokenizer import EOS
from nmt.text.words import words
from nmt.translation.internals import Attention, Step
from nmt.translation.translator import Translator

# What became of a candidate: extended in the next step; ended by `</s>`; not among the best; among them, but
# dropped, because no extension of it can be among the n best or because it is improbable.
Outcome = Literal["active", "finished", "pruned", "dropped"]


@dataclass(frozen=True)
class Node:
    """A candidate of a step: a hypothesis of the step before and one more token."""

    parent: int  # the number of the node that it extends; -1 for `<s>`
    step: int  # from 1: the length of the hypothesis, with `</s>`
    token: int
    log_prob: float  # of the token after its prefix
    total: float  # log-probability of the whole hypothesis: the sum of `log_prob` from `<s>` to here
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
        parent_log_probs = beams.log_probs[0].tolist()
        active = extended.log_probs[0] > -math.inf
        parents = extended.history[0, active, 1, step - 1]  # the place of a hypothesis in the step before
        chosen = list(zip(parents.tolist(), extended.tokens[0, active].tolist(), strict=True))
        nodes_of, unfinished = {}, 0
        for rank, (total, row, token) in enumerate(zip(*(column[0].tolist() for column in candidates), strict=True)):
            if total == -math.inf:
                continue
            outcome: Outcome = "pruned"
            if (row, token) in chosen:
                outcome = "active"
            elif token == EOS and rank < self.beam:
                outcome = "finished"
            elif token != EOS and unfinished < self.beam:  # the K best that do not end are extended, unless dropped
                outcome = "dropped"
            unfinished += token != EOS
            nodes_of[row, token] = len(self.nodes)
            self.nodes.append(Node(self._row_nodes[row], step, token, total - parent_log_probs[row], total, outcome))
        self._row_nodes = [nodes_of[row] for row in chosen]

    def path(self, number: int) -> list[int]:
        """Return the numbers of the nodes from the first token to a node."""
        path: list[int] = []
        while number >= 0:
            path.append(number)
            number = self.nodes[number].parent
        return path[::-1]


def search_tree(model: Transformer, ids: Sequence[int], options: SearchOptions) -> BeamTree:
    """Search the translation of one sentence, ids without `</s>`, and return the tree."""
    tree = BeamTree(options.beam)
    search([model], [[*ids, EOS]], options, observer=tree.record)
    return tree


_LONGEST = 60  # tokens of a sentence; figures of longer ones cannot be read
_WORDS = range(4, 10)  # in the sentence that is chosen
MOST_OF_HEAD, _DIMENSIONS = 16, 4  # pieces of a sentence whose numbers are drawn, and dimensions of its vectors
_BEST = 5  # pieces of a step of a greedy search
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
_WEIGHTS = "nmt.model.transformer.attention_weights"
Tokens = tuple[Sequence[str], Sequence[str]]  # labels of rows and columns
_BOX_WIDTH, _BOX_HEIGHT = 0.68, 0.72  # of the distance between two nodes


def chosen_sentence(sources: Iterable[str]) -> str | None:
    """Return the first sentence whose figures are readable, else the shortest one."""
    lines = [line for line in sources if line.strip()]
    fitting = (line for line in lines if len(words(line)) in _WORDS)
    return next(fitting, min(lines, key=len, default=None))


def sentence_drawings(model: Path, text: str, to: str | None = None, with_layers: bool = True) -> list[Drawing]:
    """Translate a sentence, by default into the first target language, and return its attention and its search.

    Raises ModelError if there is no model, ConfigError for a sentence that is empty or too long.
    """
    # in fp32 as its attention and its probabilities, so that the framed token of a step is the most probable one
    translator = Translator.load(resolve_model(model), device="cpu", precision="fp32")
    to = to or translator.languages.target[0]
    options, loaded = translator.options(to=to), translator.models[0]
    ids = translator.tokenizers.source.encode(text)
    if not 0 < len(ids) <= _LONGEST:
        problem = f"{shortened(text, 50)!r}: found {len(ids)} tokens"
        raise ConfigError(f"{problem}; figures are drawn of sentences of 1 to {_LONGEST}")
    attention, source_ids = translator.attention(text, to=to), [*translator.tag_ids(options), *ids]
    # an exact search, so that the tree also shows hypotheses that a fast search drops
    search = options.search.model_copy(update={"sampling": None, "exact": True})
    tree = search_tree(loaded.model, source_ids, search)
    drawings = [*attention_drawings(attention, with_layers), steps_drawing(translator.steps(text, _BEST, to))]
    drawings.append(search_drawing(tree, translator.tokenizers.target.pieces, search))
    if len(attention.source) <= MOST_OF_HEAD:
        drawings.insert(0, head_drawing(head_numbers(loaded.model, [*source_ids, EOS]), attention.source))
    return [replace(drawing, subject=f"{model.resolve().name}: {text}") for drawing in drawings]


@torch.inference_mode()
def head_numbers(model: Transformer, source: Sequence[int]) -> dict[str, Tensor]:
    """Return what the first head of the encoder's first layer computes for source ids (S): Q, K, V to Z, by name.

    Q, K, V and Z are (S, d), scores and weights (S, S).
    """
    layer, rows = model.encoder[0], Rows.of([source]).to(model.device)
    attention = layer.attention
    layer_input = layer.attention_sublayer.normalized_before((model.source_embedding(rows), None))
    q, k, v = split_heads(rows.grid(attention.project(layer_input, rows.positions)), 3, attention.heads)
    score, distances = attention.score, distances_between(q, k)
    weights = score.weights(q, k, None, distances)
    names = "Q", "K", "V", "Q Kᵀ / √d" if score.has_kernels else "scores", "softmax", "Z"
    matrices = q, k, v, score(q, k, distances), weights, score.average(weights, v, distances)
    return {name: matrix[0, 0].float().cpu() for name, matrix in zip(names, matrices, strict=True)}


def head_drawing(numbers: dict[str, Tensor], source: Sequence[str]) -> Drawing:
    """Draw the matrices of `head_numbers` with their numbers; of d columns, only the first few."""
    count, width = len(source), numbers["Q"].size(1)
    shown = [str(column) for column in range(1, min(_DIMENSIONS, width) + 1)]
    figure = new_figure(2 * (0.27 * count + 1), 3 * 0.36 * (max(count, len(shown)) + 2.2))
    for axes, (name, matrix) in zip(figure.subplots(2, 3).flat, numbers.items(), strict=True):
        is_vector = name in ("Q", "K", "V", "Z")  # others are scores and weights
        columns = shown if is_vector else source
        cells = matrix[:, : len(columns)].numpy()
        largest = float(abs(cells).max())
        limits = (0.0, 1.0) if name == "softmax" else (-largest, largest)
        heat_map(axes, cells, source, columns, limits, [[number_label(cell) for cell in row] for row in cells])
        axes.set_title(f"{name}: {len(shown)} of {width} columns" if is_vector else name)
    caption = (
        f"A row for each source token: its query (Q) and the keys of all tokens (K), in all {width} columns, give a "
        "row of scores, whose softmax is a row of weights that adds up to 1. The mean of the values (V) with these "
        "weights is the output Z of the head."
    )
    if "scores" in numbers:
        caption += (
            " This model computes its scores by another formula than Q Kᵀ / √d; with relative positions, vectors of "
            "distances are added to keys and values."
        )
    code = "nmt.model.attention.SelfAttention.project"
    return Drawing("one-head", "One head in numbers: encoder, layer 1, head 1", caption, figure, code, "attention")


def attention_drawings(attention: Attention, with_layers: bool = True) -> list[Drawing]:
    """Return a sheet for each of encoder, decoder and cross-attention, then a figure for each of their layers."""
    source, target_input, target_output = attention.source, attention.target[:-1], attention.target[1:]
    tokens = {"encoder": (source, source), "decoder": (target_input, target_input), "cross": (target_output, source)}
    sheets, layers = list[Drawing](), list[Drawing]()
    for kind, (title, *_, caption) in _KINDS.items():
        weights: Tensor = getattr(attention, kind)
        sheets.append(Drawing(f"attention-{kind}-sheet", f"{title}, all layers and heads",
                              f"All heads of all layers, a row of them for each layer. {caption}",
                              _sheet(weights, kind, tokens[kind]), _WEIGHTS, "attention"))  # fmt: skip
        for layer, heads in enumerate(weights if with_layers else (), start=1):
            name, figure = f"attention-{kind}-layer-{layer}", _heads_of_layer(heads, kind, tokens[kind])
            layers.append(Drawing(name, f"{title}, layer {layer}", caption, figure, _WEIGHTS, "attention"))
    return [*sheets, *layers]


def _sheet(weights: Tensor, kind: str, tokens: Tokens) -> Figure:
    """Draw the weights (L, H, rows, columns) of all layers, a row of heads for each."""
    heads, most = weights.size(1), max(map(len, tokens))
    width = max(6.4 / heads, min(2.0, 0.13 * most))  # inches of a panel
    height = min(1.9, width)
    figure, panels = _draw_heads(weights, kind, tokens, (height, width))
    for (layer, head), panel in np.ndenumerate(panels):
        panel.tick_params(labelsize=min(8.0, 60 * height / most))
        panel.set_title(f"head {head + 1}" if layer == 0 else "")
        panel.set_ylabel(f"layer {layer + 1}" if head + 1 == heads else "")
        panel.yaxis.set_label_position("right")
    return figure


def _heads_of_layer(heads: Tensor, kind: str, tokens: Tokens) -> Figure:
    """Draw the weights (H, rows, columns) of a layer."""
    rows, columns = map(len, tokens)
    most = 2 if len(heads) <= 4 and columns > 6 else 4
    across = max(count for count in range(1, most + 1) if len(heads) % count == 0)
    weights = heads.view(-1, across, rows, columns)
    inches = max(1.6, 0.21 * rows + 0.35), max(6.4 / across, 0.18 * columns)
    figure, panels = _draw_heads(weights, kind, tokens, inches)
    for head, panel in enumerate(panels.flat, start=1):
        panel.set_title(f"head {head}")
    return figure


def _draw_heads(weights: Tensor, kind: str, tokens: Tokens, inches: tuple[float, float]) -> tuple[Figure, Any]:
    """Draw weights (down, across, rows, columns) in panels (down, across) of this height and width."""
    _, row_label, column_label, _ = _KINDS[kind]
    down, across = weights.shape[:2]
    figure = new_figure(max(3.6, down * inches[0] + 1.6), across * inches[1] + 1.6)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for panel, matrix in zip(panels.flat, weights.flatten(0, 1).numpy(), strict=True):
        image = heat_map(panel, matrix, *tokens)
    figure.supylabel(f"query: {row_label}", fontsize=10)
    figure.supxlabel(f"key: {column_label}", fontsize=10)
    figure.colorbar(image, ax=panels, label="weight", aspect=30)
    return figure, panels


def steps_drawing(steps: Sequence[Step]) -> Drawing:
    """Draw the most probable pieces of each step of a greedy search, a column a step, and a frame around its choice."""
    count = len(steps[0].best)
    figure = new_figure(0.5 * count + 1.3, max(WIDE, 1.15 * len(steps) + 0.7))
    axes = figure.subplots()
    cells = list(zip(*(step.best for step in steps), strict=True))  # a row for each rank
    shares = np.array([[share for _, share in row] for row in cells], dtype=np.float32)
    labels = [[f"{shortened_piece(piece)}\n{percent(share)}" for piece, share in row] for row in cells]
    ranks, columns = range(1, count + 1), range(1, len(steps) + 1)
    heat_map(axes, shares, [*map(str, ranks)], [f"step {number}" for number in columns], labels=labels)
    for rank, row in enumerate(cells):
        for number, (piece, _) in enumerate(row):
            if piece == steps[number].piece:
                corner = number - 0.48, rank - 0.46
                axes.add_patch(Rectangle(corner, 0.96, 0.92, fill=False, edgecolor=COLOURS[1], linewidth=2.5))
    axes.tick_params(axis="x", labelrotation=0)
    axes.set_ylabel("rank")
    caption = (
        f"Each column has the {count} most probable pieces after those that are generated so far, the best on top. A "
        "greedy search takes the best one, which is framed, appends it, and predicts again until that is </s>."
    )
    code = "nmt.translation.translator.Translator.steps"
    return Drawing("greedy-steps", "Greedy search, step by step", caption, figure, code, "search")


def search_drawing(tree: BeamTree, pieces: Sequence[str], options: SearchOptions) -> Drawing:
    """Draw the candidates of each step of a search in a column, the best at the top, and their paths from `<s>`."""
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
        parent_x, parent_y = places[node.parent]
        _, colour, line = _OUTCOMES[node.outcome]
        style: Any = {"linewidth": 2.8 if number in path else 1, "linestyle": line}
        axes.plot([parent_x + _BOX_WIDTH / 2, x - _BOX_WIDTH / 2], [parent_y, y], color=colour, **style)
        corner = (x - _BOX_WIDTH / 2, y - _BOX_HEIGHT / 2)
        axes.add_patch(Rectangle(corner, _BOX_WIDTH, _BOX_HEIGHT, fill=False, edgecolor=colour, **style))
        axes.text(x, y - 0.14, shortened_piece(pieces[node.token]), ha="center", va="center", fontsize=9)
        axes.text(x, y + 0.2, percent(math.exp(node.log_prob)), ha="center", va="center", fontsize=7)
    for name, colour, line in _OUTCOMES.values():
        axes.plot([], [], line, color=colour, label=name)
    axes.plot([], [], color=INK, linewidth=2.8, label="the translation")
    axes.set(xlim=(-0.4, steps + 0.5), ylim=(rows - 0.4, -0.9))
    axes.set_axis_off()
    for step in range(1, steps + 1):
        axes.text(step, -0.7, f"step {step}", ha="center", fontsize=8)
    figure.legend(loc="outside lower left", ncols=3)
    share = percent(math.exp(tree.nodes[best].total))
    caption = (
        f"Each column is a step of an exact search with a beam of {options.beam}: the best extensions of all "
        "hypotheses, the best on top, with the probability of the token after its prefix. The thick path is the "
        f"translation, with a probability of {share}, the best of {len(finished)} finished hypotheses."
    )
    return Drawing("search-tree", "Tree of the beam search", caption, figure, "nmt.decoding.beam.advance", "search")


def number_label(number: float) -> str:
    """Return a number with at least three digits and at most two decimals, which fits in a cell."""
    return f"{number:.{max(0, 3 - len(f'{abs(number):.0f}'))}f}"


def percent(share: float) -> str:
    """Return a probability in percent, with as many digits as are of interest.

    >>> [percent(p) for p in (1, 0.975, 0.0312, 0.00021)]
    ['100 %', '98 %', '3.1 %', '0.02 %']
    """
    value = 100 * share
    if value >= 9.95:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.95 else f"{value:.2f} %" if value >= 0.005 else "< 0.01 %"
