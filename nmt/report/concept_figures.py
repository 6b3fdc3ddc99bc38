"""Figures of the formulas of training, and of the batches of a prepared corpus: what needs no model.

The scale of scores, position encodings, learning rates, label smoothing, masks and padding are drawn from the results
of the functions that training calls, not from formulas.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter
from torch import Tensor

from nmt.batching.batch import Rows, assemble
from nmt.batching.batch_stream import EpochPlan, Indices, cut_into_groups, padding_share, plan_epoch
from nmt.config import Recipe
from nmt.config.model_sections import Schedule
from nmt.kernels.reference import Kernels
from nmt.model.attention import distances_between
from nmt.model.positions import sinusoids
from nmt.model.scores import Dot, Score
from nmt.report.drawing import COLOURS, WIDE, Drawing, Matrix, heat_map, new_figure, shortened_piece
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.text.tokenizer import PAD
from nmt.training.optimizer import learning_rate

_SEED = 1
_DASHES = (0, (4, 3))  # where curves coincide, the solid one shows between the dashes of the other
_SINUSOIDS, _LEARNING_RATE = "nmt.model.positions.sinusoids", "nmt.training.optimizer.learning_rate"
_LOSS = "nmt.kernels.reference.Kernels.loss"

# Two scores without weights to learn, so that their arguments have no effect.
_SCORES: dict[str, Score] = {"Q Kᵀ": Dot(1, 1), "Q Kᵀ / √d": Score()}
_WIDTHS, _QUERIES, _KEYS = (1, 16, 64, 512), 1000, 8  # of random queries and keys


def formula_drawings(recipe: Recipe | None = None) -> list[Drawing]:
    """Return the figures that need no text and no model; with a recipe, also its schedule is drawn."""
    return [scaling(), positions(), position_waves(), schedules(), noam(recipe), smoothed_target(), smoothed_loss()]


def scaling() -> Drawing:
    """Draw the softmax over the scores of random queries and keys, with and without the division by sqrt(d)."""
    figure = new_figure(5.6, WIDE)
    panels = figure.subplot_mosaic([list(_SCORES), ["largest", "gradient"]])
    largest, gradient = panels["largest"], panels["gradient"]
    for (name, score), line in zip(_SCORES.items(), ("-", _DASHES), strict=True):
        weights = [random_attention(score, width) for width in _WIDTHS]
        first = np.stack([width_weights[0].numpy() for width_weights in weights])  # of the first query
        rows, columns = [f"d = {width}" for width in _WIDTHS], [str(key) for key in range(1, _KEYS + 1)]
        heat_map(panels[name], first, rows, columns, labels=[[f"{weight:.2f}" for weight in row] for row in first])
        panels[name].set(title=f"weights of one query: softmax of {name}", xlabel="key")
        means = [of_width.amax(1).mean() for of_width in weights]
        slopes = [gradient_norms(of_width).mean() for of_width in weights]
        largest.plot(_WIDTHS, means, "o", linestyle=line, label=name)
        gradient.plot(_WIDTHS, slopes, "o", linestyle=line, label=name)
    largest.set(title=f"largest weight, mean of {_QUERIES:,} queries", ylim=(0, 1))
    gradient.set(title="norm of the gradient of the softmax, mean", ylim=(0, None))
    for panel in (largest, gradient):
        panel.set_xscale("log", base=2)
        panel.set_xticks(_WIDTHS, map(str, _WIDTHS))
        panel.set_xlabel("width d of queries and keys")
        panel.legend()
    caption = (
        "The product of a random query and a random key has the standard deviation √d: without the division, the "
        "softmax of wide heads gives nearly all weight to one key, and its gradient vanishes. Divided by √d, weights "
        f"and gradient are nearly the same for all widths from 16; {_KEYS} keys, numbers from a normal distribution."
    )
    return Drawing("scaling", "Why scores are divided by √d", caption, figure, "nmt.model.scores.Score", "attention")


def random_attention(score: Score, width: int) -> Tensor:
    """Return the weights (Q, K) of random queries, each with its own keys."""
    random = torch.Generator().manual_seed(_SEED)
    q, k = (torch.randn(_QUERIES, 1, count, width, generator=random) for count in (1, _KEYS))
    return score.weights(q, k, None, distances_between(q, k)).flatten(1)


def gradient_norms(weights: Tensor) -> Tensor:
    """Return the norm (Q) of the Jacobian matrix diag(w) - w wᵀ of the softmax for each row w of weights (Q, K)."""
    jacobians = weights.diag_embed() - weights.unsqueeze(2) * weights.unsqueeze(1)
    norms: Tensor = torch.linalg.matrix_norm(jacobians)
    return norms


_LENGTH, _DIM = 100, 128
_WAVES_DIM, _WAVES = 20, (4, 5, 6, 7)


def positions() -> Drawing:
    """Draw the sinusoids of all positions and dimensions."""
    figure = new_figure(4.2, WIDE)
    axes = figure.subplots()
    axes.grid(visible=False)
    image = axes.imshow(_vectors(_DIM), vmin=-1, vmax=1, aspect="auto")
    axes.set(xlabel="dimension of the embedding", ylabel="position (tokens)")
    figure.colorbar(image, ax=axes, label="value added to the embedding", ticks=(-1, 0, 1))
    caption = (
        f"Each row is the vector that is added to the embedding of the token at that position, here {_DIM} wide. "
        f"Sine and cosine alternate; the wavelength grows from 2π tokens to {2 * 10_000 ** (1 - 2 / _DIM):,.0f}π."
    )
    return Drawing("positions", "Position encoding", caption, figure, _SINUSOIDS, "positions")


def position_waves() -> Drawing:
    """Draw some dimensions of the sinusoids over the positions."""
    figure = new_figure(3.4, WIDE)
    axes = figure.subplots()
    for dimension, curve in zip(_WAVES, _vectors(_WAVES_DIM).T[list(_WAVES)], strict=True):
        kind, line = ("cosine", _DASHES) if dimension % 2 else ("sine", "-")
        axes.plot(curve, linestyle=line, label=f"dimension {dimension}: {kind}")
    axes.set(xlabel="position (tokens)", ylabel="value", xlim=(0, _LENGTH - 1), ylim=(-1.1, 1.1))
    figure.legend(loc="outside lower center", ncols=len(_WAVES))
    caption = (
        f"Four columns of the position encoding, of embeddings {_WAVES_DIM} wide. Neighbours are a sine and a cosine "
        "of one wavelength, the coordinates of a point on a circle; the next pair is slower, so that no two positions "
        "are alike."
    )
    return Drawing("position-waves", "Position encoding as waves", caption, figure, _SINUSOIDS, "positions")


def _vectors(dim: int) -> Matrix:
    vectors: Matrix = sinusoids(torch.arange(_LENGTH), _LENGTH, torch.empty(0, dim)).numpy()
    return vectors


_STEPS, _POINTS = 20_000, 1000  # of a curve of learning rates
_PAPER_DIM, _PAPER = 512, Schedule(name="noam", factor=1.0, warmup=4000)
_NOAM = ((512, 1, 4000), (512, 1, 8000), (256, 1, 4000), (512, 2, 8000))  # model width, factor and warm-up


def schedules() -> Drawing:
    """Draw all schedules with the same highest rate, that of Noam with the settings of the paper."""
    highest = learning_rate(_PAPER, _PAPER_DIM, _PAPER.warmup, _STEPS)
    shared = {"rate": highest, "warmup": _PAPER.warmup}
    others = ("inverse_sqrt", "constant", "linear", "cosine", "wsd")
    shown = [_PAPER, *(Schedule.model_validate({"name": name, **shared}) for name in others)]
    figure = new_figure(3.8, WIDE)
    _plot_rates(figure.subplots(), {schedule.name: (schedule, _PAPER_DIM) for schedule in shown})
    caption = (
        "All schedules of train.schedule with one warm-up and one highest rate, those of the paper; noam and "
        "inverse_sqrt coincide then. linear, cosine and wsd end at zero at the last step, here "
        f"{_STEPS:,}, which must be chosen beforehand."
    )
    return Drawing("schedules", "Learning rate: all schedules", caption, figure, _LEARNING_RATE)


def noam(recipe: Recipe | None) -> Drawing:
    """Draw the schedule of the paper for two widths, factors and warm-ups, and beside it that of a recipe."""
    figure = new_figure(3.8, WIDE)
    paper, *recipe_axes = figure.subplots(1, 1 if recipe is None else 2, squeeze=False)[0]
    curves = {
        f"{dim}:{factor}:{warmup}": (Schedule(name="noam", factor=factor, warmup=warmup), dim)
        for dim, factor, warmup in _NOAM
    }
    _plot_rates(paper, curves)
    caption = (
        "The schedule of the paper for width:factor:warm-up: the rate rises linearly until the warm-up ends, and falls "
        "with the inverse square root of the step. A wider model and a longer warm-up have a lower peak, and the "
        "factor multiplies the whole curve."
    )
    if recipe is not None:
        schedule = recipe.train.schedule
        _plot_rates(recipe_axes[0], {schedule.name: (schedule, recipe.model.dim)}, recipe.train.stop.steps or _STEPS)
        paper.set_title("the paper")
        recipe_axes[0].set_title(f"the recipe of {recipe.run.name}")
        caption += " On the right is that of the recipe, over its own steps."
    return Drawing("noam", "Learning rate: Noam", caption, figure, _LEARNING_RATE)


def _plot_rates(axes: Axes, curves: Mapping[str, tuple[Schedule, int]], last: int = _STEPS) -> None:
    """Plot the rates of schedules for models of a width, at the first step and at steps of equal distances from 0."""
    steps = sorted({1, *range(0, last + 1, max(1, last // _POINTS))} - {0})
    for number, (label, (schedule, dim)) in enumerate(curves.items()):
        rates = [learning_rate(schedule, dim, step, last) for step in steps]
        axes.plot(steps, rates, label=label, linestyle=_DASHES if number % 2 else "-")
    axes.set(xlabel="step (updates)", ylabel="learning rate", xlim=(0, last), ylim=(0, None))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend()


_SMALL_VOCABULARY = ("<pad>", "<unk>", "<s>", "</s>", "▁il", "▁gatto", "▁dorme", "▁cane")
_REFERENCE, _SMOOTHING = ("▁il", "▁gatto", "▁dorme", "</s>", "<pad>"), 0.4
_VOCABULARY = 1000
_IMPOSSIBLE = -80.0  # a logit whose probability is 0 in single precision


def smoothed_target() -> Drawing:
    """Draw the target distribution of a few tokens over a small vocabulary."""
    labels = torch.tensor([_SMALL_VOCABULARY.index(token) for token in _REFERENCE])
    targets = target_distribution(labels, _SMOOTHING, len(_SMALL_VOCABULARY))
    figure = new_figure(3.8)
    axes = figure.subplots()
    shares = [[f"{share:.2f}" if share else "0" for share in row] for row in targets]
    heat_map(axes, targets, _REFERENCE, _SMALL_VOCABULARY, labels=shares)
    axes.set(xlabel="vocabulary", ylabel="reference token")
    caption = (
        f"What a prediction is compared with, for ε = {_SMOOTHING:g}, more than the usual 0.1 so that it shows: 1 − ε "
        "for the reference token, and equal shares of ε for the others. Padding has none, in its column as in its row, "
        "which has no loss."
    )
    return Drawing("smoothed-target", "Label smoothing: the target", caption, figure, _LOSS)


def target_distribution(labels: Tensor, smoothing: float, vocabulary: int) -> Matrix:
    """Return the targets q (N, V) of labels (N), from the gradient p - q of the loss of equal logits."""
    logits = torch.zeros(len(labels), vocabulary, requires_grad=True)
    loss, _ = Kernels(logits.device).loss(logits, torch.eye(vocabulary), labels, smoothing, vocabulary)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    counted = (labels != PAD).unsqueeze(1)
    targets: Matrix = (torch.softmax(logits.detach(), dim=1) * counted - logits.grad).numpy()
    return targets.round(6)


def smoothed_loss() -> Drawing:
    """Draw the loss of a token over the probability that the model gives to the reference."""
    chances = np.concatenate([np.linspace(0.01, 0.99, 99), 1 - np.geomspace(0.009, 1e-5, 30)])
    figure = new_figure(3.8)
    axes = figure.subplots()
    for smoothing in (0.0, 0.1, 0.2, 0.4):
        losses = token_losses(chances.tolist(), smoothing)
        (line,) = axes.plot(chances, losses, label=f"ε = {smoothing:g}")
        lowest = int(np.argmin(losses))
        axes.plot(chances[lowest], losses[lowest], "o", color=line.get_color(), markersize=5, clip_on=False)
    axes.set(xlabel="probability of the reference token", ylabel="loss (nats)", ylim=(0, 8), xlim=(0, 1))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="upper center", ncols=2)
    caption = (
        "The loss of one token while a prediction grows confident; the rest of the probability is shared equally among "
        "the other pieces, and a dot marks the lowest loss. Without smoothing more confidence is always better, with "
        "it the lowest loss is at 1 − ε."
    )
    return Drawing("smoothed-loss", "Label smoothing: the loss", caption, figure, _LOSS)


def token_losses(chances: Sequence[float], smoothing: float) -> list[float]:
    """Return the loss of a token with each probability, when all others but padding share the rest equally."""
    kernels, label, output = Kernels(torch.device("cpu")), torch.tensor([_VOCABULARY - 1]), torch.eye(_VOCABULARY)
    losses = []
    for chance in chances:
        logits = torch.full((1, _VOCABULARY), np.log((1 - chance) / (_VOCABULARY - 2)))
        logits[0, label], logits[0, PAD] = np.log(chance), _IMPOSSIBLE
        losses.append(float(kernels.loss(logits, output, label, smoothing, _VOCABULARY)[0]))
    return losses


MASKED_SENTENCES, MOST_OF_MASKS = 8, 14  # sentences and tokens of a batch that can be read
_BUDGETS = (1500, 6000)  # the most target tokens of a batch, with padding
_VISIBLE = ListedColormap(["#b9bec4", "#2a6f9e"])


def corpus_drawings(corpus: PreparedCorpus) -> list[Drawing]:
    """Return the figures of a corpus; the masks only if it has enough short sentences for them."""
    source, target = corpus.train.lengths(np.arange(len(corpus.train)))
    short = np.flatnonzero(np.maximum(source, target) <= MOST_OF_MASKS)
    drawings = [] if len(short) < MASKED_SENTENCES else [masks(corpus, short)]
    return [*drawings, padding_of_batches(corpus.train)]


def masks(corpus: PreparedCorpus, short: Indices) -> Drawing:
    """Draw which tokens of random pairs and of a length group are padding, and what a target token attends to."""

    def longest_target(pairs: Indices) -> int:
        return int(corpus.train.lengths(pairs)[1].max())

    chosen = np.random.default_rng(_SEED).choice(short, MASKED_SENTENCES, replace=False)
    groups = plan_epoch(corpus.train, MASKED_SENTENCES * longest_target(chosen), _SEED, epoch=0)
    # as many sentences as were chosen, if there is such a group, and the longest ones
    like_chosen = min(groups, key=lambda group: (abs(len(group) - MASKED_SENTENCES), -longest_target(group)))
    random, group = (assemble([corpus.train.gather(pairs)]) for pairs in (chosen, like_chosen))
    source_pieces, target_pieces = corpus.tokenizers.source.pieces, corpus.tokenizers.target.pieces
    figure = new_figure(7.2, WIDE)
    panels = figure.subplot_mosaic([["random", "random"], ["group", "causal"]], width_ratios=(1.25, 1))
    _padding_mask(panels["random"], "random sentences", random.source)
    _padding_mask(panels["group"], "a length group", group.source)
    for row, column, token in zip(random.source.sentences, random.source.positions, random.source.ids, strict=True):
        style: Any = {"ha": "center", "va": "center", "color": "white", "fontsize": 6.5}
        panels["random"].text(column, row, shortened_piece(source_pieces[token]), **style)
    targets = np.split(random.target.ids.numpy(), random.target.offsets[1:-1])
    tokens = [target_pieces[token] for token in max(targets, key=len)]
    heat_map(panels["causal"], visible_target(len(tokens)), tokens, tokens).set_cmap(_VISIBLE)
    panels["causal"].set(title="Causal mask", xlabel="key: target token", ylabel="query: target token")
    handles = [Patch(color=_VISIBLE(1), label="attended to"), Patch(color=_VISIBLE(0), label="masked")]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    caption = (
        "In sentences side by side, attention to the source skips the padding, of which length groups have little; the "
        "batches of training have none. A target token attends to itself and to those before it: all train in one pass."
    )
    return Drawing("masks", "Masks", caption, figure, "nmt.batching.batch.Rows.mask", "attention")


def _padding_mask(axes: Axes, name: str, rows: Rows) -> None:
    visible = visible_source(rows)
    sentences, length = visible.shape
    cells: Any = {"cmap": _VISIBLE, "vmin": 0, "vmax": 1, "edgecolors": "white", "linewidth": 1}
    axes.pcolormesh(range(length), range(sentences), visible, **cells)
    axes.invert_yaxis()
    axes.set_title(f"Padding mask of {name}: {1 - float(visible.mean()):.0%} padding")
    axes.set(xlabel="position (source tokens)", ylabel="sentence")
    axes.set_yticks(range(sentences), [str(number) for number in range(1, sentences + 1)])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def visible_source(rows: Rows) -> Matrix:
    """Return (B, S), 1 at tokens, which attention reaches, and 0 at padding."""
    return np.ones(rows.shape, np.float32) if (mask := rows.mask()) is None else mask.float().numpy()


def visible_target(length: int) -> Matrix:
    """Return (T, T), 1 at target tokens that a target token attends to."""
    tokens = torch.empty(1, 1, length, 1)
    return (distances_between(tokens, tokens)[0] <= 0).float().numpy()


def padding_of_batches(split: PreparedSplit) -> Drawing:
    """Draw the share of padding in batches of random and of sorted sentences of two sizes, and their number."""
    plans = batch_plans(split)
    shares, numbers = [padding_share(plan, split) for plan in plans.values()], np.arange(len(plans))
    figure = new_figure(3.6, WIDE)
    padding, updates = figure.subplots(1, 2, width_ratios=(1.7, 1))
    for name, offset, heights in zip(("source", "target"), (-0.19, 0.19), zip(*shares, strict=True), strict=True):
        bars = padding.bar(numbers + offset, heights, 0.36, label=name)
        padding.bar_label(bars, [f"{height:.1%}" for height in heights], fontsize=8, padding=2)
    padding.set(title="share of padded positions", ylim=(0, 1.2 * max(0.01, *map(max, shares))))
    padding.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    padding.legend()
    counts = [len(plan) for plan in plans.values()]
    bars = updates.bar(numbers, counts, 0.7, color=COLOURS[2])
    updates.bar_label(bars, [f"{count:,}" for count in counts], fontsize=8, padding=2)
    updates.set(title="updates in an epoch", ylim=(0, 1.1 * max(counts)))
    for panel in (padding, updates):
        panel.set_xticks(numbers, [f"{order},\n{budget:,}" for order, budget in plans], fontsize=8)
    caption = (
        f"Batches of at most {_BUDGETS[0]:,} or {_BUDGETS[1]:,} target tokens, padding included, of sentences in "
        "random order and of sentences of similar length. Each sentence is filled up to the longest of its batch: in "
        "random order that wastes computation, the more the larger the batch, and the same text takes more updates."
    )
    return Drawing("padding", "Padding", caption, figure, "nmt.batching.batch_stream.plan_epoch")


def batch_plans(split: PreparedSplit) -> dict[tuple[str, int], EpochPlan]:
    """Return the batches of an epoch by order and by the number of their padded target tokens."""
    order, plans = np.random.default_rng(_SEED).permutation(len(split)), {}
    for budget in _BUDGETS:
        plans["random", budget] = cut_into_groups(order, split, budget)
        plans["by length", budget] = plan_epoch(split, budget, _SEED, epoch=0)
    return plans
