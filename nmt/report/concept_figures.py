"""Figures of the formulas of training, and of the batches of a prepared corpus: what needs no model.

The scale of scores, position encodings, learning rates, label smoothing, masks and padding are drawn from the results
of the functions that training calls, not from formulas.
"""

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter
from torch import Tensor
from torch.func import jacrev, vmap

from nmt.batching.batch import Indices, Rows, collate
from nmt.batching.batch_stream import EpochPlan, padding_share, plan_epoch
from nmt.config import Recipe
from nmt.config.model_sections import Schedule
from nmt.kernels import Kernels
from nmt.model.attention import distances_between
from nmt.model.positions import sinusoids
from nmt.model.scores import Dot, Score
from nmt.report.drawing import COLOURS, WIDE, Drawing, Matrix, heat_map, label_cells, new_figure
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.text.tokenizer import PAD
from nmt.training.optimizer import learning_rate

_DIM, _LENGTH = 128, 100
_WAVES_DIM, _WAVES = 20, (4, 5, 6, 7)
_STEPS = 20_000
# Model width, factor and warm-up.
_NOAM = ((512, 1, 4000), (512, 1, 8000), (256, 1, 4000), (512, 2, 8000))
_WIDTHS, _QUERIES, _KEYS = (1, 16, 64, 512), 1000, 8  # of random queries and keys
_SEED = 1
_SINUSOIDS, _LEARNING_RATE = "nmt.model.positions.sinusoids", "nmt.training.optimizer.learning_rate"
# A logit whose probability is 0 in single precision.
_IMPOSSIBLE = -80.0


def formula_drawings(recipe: Recipe | None = None) -> list[Drawing]:
    """Return the figures that need no text and no model; with a recipe, also its schedule is drawn."""
    return [scaling(), positions(), position_waves(), schedules(), noam(recipe), smoothed_target(), smoothed_loss()]


def scaling() -> Drawing:
    """Draw the softmax over the scores of random queries and keys, with and without the division by sqrt(d)."""
    found = {name: [random_attention(score, width) for width in _WIDTHS] for name, score in _SCORES.items()}
    figure = new_figure(5.6, WIDE)
    panels = figure.subplot_mosaic([list(found), ["largest", "gradient"]])
    for number, (name, of_widths) in enumerate(found.items()):
        weights = [one[0][0].numpy() for one in of_widths]  # of the first query
        keys = [str(key) for key in range(1, _KEYS + 1)]
        heat_map([panels[name]], [np.stack(weights)], [f"d = {width}" for width in _WIDTHS], keys)
        label_cells(panels[name].images[0], [[f"{weight:.2f}" for weight in row] for row in weights])
        panels[name].set(title=f"weights of one query: softmax of {name}", xlabel="key")
        panels[name].tick_params(axis="x", labelrotation=0)
        line = (0, (4, 3)) if number else "-"
        largest, slope = ([float(one[of].mean()) for one in of_widths] for of in (1, 2))
        panels["largest"].plot(_WIDTHS, largest, "o", linestyle=line, label=name)
        panels["gradient"].plot(_WIDTHS, slope, "o", linestyle=line, label=name)
    panels["largest"].set(title=f"largest weight, mean of {_QUERIES:,} queries", ylim=(0, 1))
    panels["gradient"].set(title="norm of the gradient of the softmax, mean", ylim=(0, None))
    for panel in (panels["largest"], panels["gradient"]):
        panel.set_xscale("log", base=2)
        panel.set_xticks(_WIDTHS, map(str, _WIDTHS))
        panel.set_xlabel("width d of queries and keys")
        panel.legend()
    caption = (
        "The product of a random query and a random key has the standard deviation √d: without the division, the "
        "softmax of wide heads gives nearly all weight to one key, and its gradient vanishes. Divided by √d, weights "
        f"and gradient are the same for every width; {_KEYS} keys, numbers from a normal distribution."
    )
    return Drawing("scaling", "Why scores are divided by √d", caption, figure, "nmt.model.scores.Score", "attention")


def random_attention(score: Score, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights (Q, K), the largest of each query (Q), and the norm of the Jacobian matrix of its softmax (Q)."""
    random = torch.Generator().manual_seed(_SEED)
    q, k = (torch.randn(_QUERIES, 1, count, width, generator=random) for count in (1, _KEYS))
    distances = distances_between(q, k)
    weights = score.weights(q, k, None, distances).flatten(1)
    jacobians = vmap(jacrev(lambda scores: torch.softmax(scores, dim=-1)))(score(q, k, distances).flatten(1))
    return weights, weights.amax(1), jacobians.flatten(1).norm(dim=1)


# Two scores without weights to learn, so that their arguments have no effect.
_SCORES: dict[str, Score] = {"Q Kᵀ": Dot(1, 1), "Q Kᵀ / √d": Score()}


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
        "Sine and cosine alternate; the wavelength grows from 2π tokens in the first dimensions to almost 20,000π."
    )
    return Drawing("positions", "Position encoding", caption, figure, _SINUSOIDS, "positions")


def position_waves() -> Drawing:
    """Draw some dimensions of the sinusoids over the positions."""
    figure = new_figure(3.4, WIDE)
    axes = figure.subplots()
    for dimension, curve in zip(_WAVES, _vectors(_WAVES_DIM).T[list(_WAVES)], strict=True):
        kind, line = ("cosine", (0, (4, 3))) if dimension % 2 else ("sine", "-")
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


def schedules() -> Drawing:
    """Draw all schedules with the same highest rate, that of Noam with the settings of the paper."""
    curves = {"noam": _rates({"name": "noam", "factor": 1.0, "warmup": 4000})}
    shared = {"rate": float(curves["noam"].max()), "warmup": 4000}
    curves |= {name: _rates({"name": name, **shared}) for name in ("inverse_sqrt", "constant", "linear", "cosine")}
    curves["wsd"] = _rates({"name": "wsd", "decay": 0.3, **shared})
    figure = new_figure(3.8, WIDE)
    _plot_rates(figure.subplots(), curves)
    caption = (
        "All schedules of train.schedule with one warm-up and one highest rate, those of the paper; noam and "
        "inverse_sqrt coincide then. linear, cosine and wsd end at zero at the last step, here "
        f"{_STEPS:,}, which must be chosen beforehand."
    )
    return Drawing("schedules", "Learning rate: all schedules", caption, figure, _LEARNING_RATE)


def noam(recipe: Recipe | None) -> Drawing:
    """Draw the schedule of the paper for two widths, factors and warm-ups, and beside it that of a recipe."""
    curves = {
        f"{dim}:{factor}:{warmup}": _rates({"name": "noam", "factor": factor, "warmup": warmup}, dim)
        for dim, factor, warmup in _NOAM
    }
    figure = new_figure(3.8, WIDE)
    panels = figure.subplots(1, 1 if recipe is None else 2, squeeze=False)[0]
    _plot_rates(panels[0], curves)
    caption = (
        "The schedule of the paper for width:factor:warm-up: the rate rises linearly until the warm-up ends, and falls "
        "with the square root of the step. A wider model and a longer warm-up have a lower peak, and the factor "
        "multiplies the whole curve."
    )
    if recipe is not None:
        schedule, steps = recipe.train.schedule, recipe.train.stop.steps or _STEPS
        _plot_rates(panels[1], {schedule.name: _curve(schedule, recipe.model.dim, steps)})
        panels[0].set_title("the paper")
        panels[1].set_title(f"the recipe of {recipe.run.name}")
        caption += " On the right is that of the recipe, over its own steps."
    return Drawing("noam", "Learning rate: Noam", caption, figure, _LEARNING_RATE)


def _rates(schedule: dict[str, Any], dim: int = 512) -> Matrix:
    return _curve(Schedule.model_validate(schedule), dim, _STEPS)


def _curve(schedule: Schedule, dim: int, steps: int) -> Matrix:
    return np.array([learning_rate(schedule, dim, step, steps) for step in range(1, steps + 1)], dtype=np.float32)


def _plot_rates(axes: Axes, curves: dict[str, Matrix]) -> None:
    """Plot rates from step 1 on."""
    for number, (label, rates) in enumerate(curves.items()):
        # where curves coincide, the solid one shows between the dashes of the other
        axes.plot(np.arange(1, len(rates) + 1), rates, label=label, linestyle=(0, (4, 3)) if number % 2 else "-")
    axes.set(xlabel="step (updates)", ylabel="learning rate", xlim=(0, len(rates)), ylim=(0, None))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend()


_SMALL_VOCABULARY = ("<pad>", "<unk>", "<s>", "</s>", "▁il", "▁gatto", "▁dorme", "▁cane")
_REFERENCE, _SMOOTHING = ("▁il", "▁gatto", "▁dorme", "</s>", "<pad>"), 0.4


def smoothed_target() -> Drawing:
    """Draw the target distribution of a few tokens over a small vocabulary."""
    labels = torch.tensor([_SMALL_VOCABULARY.index(token) for token in _REFERENCE])
    targets = target_distribution(labels, _SMOOTHING, len(_SMALL_VOCABULARY))
    figure = new_figure(3.8)
    axes = figure.subplots()
    heat_map([axes], [targets], _REFERENCE, _SMALL_VOCABULARY)
    label_cells(axes.images[0], [[f"{share:.2f}" if share else "0" for share in row] for row in targets.tolist()])
    axes.set(xlabel="vocabulary", ylabel="reference token")
    caption = (
        f"What a prediction is compared with, for ε = {_SMOOTHING:g}, more than the usual 0.1 so that it shows: 1 − ε "
        "for the reference token, and equal shares of ε for the others. Padding has none, in its column as in its row, "
        "which has no loss."
    )
    code = "nmt.kernels.reference.Kernels.loss"
    return Drawing("smoothed-target", "Label smoothing: the target", caption, figure, code)


def target_distribution(labels: Tensor, smoothing: float, vocabulary: int) -> Matrix:
    """Return the targets q (N, V) of labels (N), from the gradient p - q of the loss where all pieces have one p."""
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
        losses = [token_loss(chance, smoothing) for chance in chances]
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
    code = "nmt.kernels.reference.Kernels.loss"
    return Drawing("smoothed-loss", "Label smoothing: the loss", caption, figure, code)


def token_loss(chance: float, smoothing: float, vocabulary: int = 1000) -> float:
    """Return the loss of a token with this probability, when all others but padding share the rest equally."""
    reference = vocabulary - 1
    logits = torch.full((1, vocabulary), np.log((1 - chance) / (vocabulary - 2)))
    logits[0, reference], logits[0, PAD] = np.log(chance), _IMPOSSIBLE
    labels = torch.tensor([reference])
    loss, _ = Kernels(logits.device).loss(logits, torch.eye(vocabulary), labels, smoothing, vocabulary)
    return float(loss)


# A batch small enough that its tokens can be read.
_SENTENCES, _MOST_TOKENS = 8, 14
# The most padded target tokens of a batch.
_BUDGETS = (1500, 6000)
_VISIBLE = ListedColormap(["#b9bec4", "#2a6f9e"])


def corpus_drawings(corpus: PreparedCorpus) -> list[Drawing]:
    """Return the figures of a corpus; the masks only if it has enough short sentences for them."""
    source, target = corpus.train.lengths(np.arange(len(corpus.train)))
    short = np.flatnonzero(np.maximum(source, target) <= _MOST_TOKENS)
    drawings = [] if len(short) < _SENTENCES else [masks(corpus, short)]
    return [*drawings, padding_of_batches(corpus.train)]


def masks(corpus: PreparedCorpus, short: Indices) -> Drawing:
    """Draw which tokens of random pairs and of a length group are padding, and what a target token attends to."""
    target = corpus.train.lengths(np.arange(len(corpus.train)))[1]
    chosen = np.random.default_rng(_SEED).choice(short, _SENTENCES, replace=False)
    # a group of the usual size, with targets as long as the longest of the others
    groups = plan_epoch(corpus.train, _SENTENCES * int(target[chosen].max()), _SEED, epoch=0)
    like = min(groups, key=lambda group: (abs(len(group) - _SENTENCES), -int(target[group].max())))
    random, group = (collate(corpus.train, [pairs]) for pairs in (chosen, like))
    figure = new_figure(7.2, WIDE)
    panels = figure.subplot_mosaic([["random", "random"], ["group", "causal"]], width_ratios=(1.25, 1))
    _padding_mask(panels["random"], "random sentences", random.source)
    _padding_mask(panels["group"], "a length group", group.source)
    pieces = corpus.tokenizers.source.pieces
    for row, sentence in enumerate(random.source.grid(random.source.ids).tolist()):
        for column, token in enumerate(sentence):
            label = "" if token == PAD else pieces[token]
            panels["random"].text(column, row, label, ha="center", va="center", color="white", fontsize=6.5)
    longest = max(random.target.grid(random.target.ids).tolist(), key=lambda ids: sum(token != PAD for token in ids))
    read = [corpus.tokenizers.target.pieces[token] for token in longest if token != PAD]
    heat_map([panels["causal"]], [visible_target(len(read))], read, read).set_cmap(_VISIBLE)
    panels["causal"].set(title="Causal mask", xlabel="key: target token", ylabel="query: target token")
    handles = [Patch(color=_VISIBLE(1), label="attended to"), Patch(color=_VISIBLE(0), label="masked")]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    caption = (
        "In sentences side by side, attention to the source skips the padding, of which length groups have little; the "
        "batches of training have none. A target token attends to itself and to those before it: all train in one pass."
    )
    return Drawing("masks", "Masks", caption, figure, "nmt.model.scores.Score.weights", "attention")


def _padding_mask(axes: Axes, name: str, rows: Rows) -> None:
    visible = visible_source(rows)
    axes.imshow(visible, cmap=_VISIBLE, vmin=0, vmax=1, aspect="auto")
    axes.grid(visible=False)
    # a cell for each token
    axes.vlines(np.arange(0.5, visible.shape[1] - 1), -0.5, len(visible) - 0.5, color="#ffffff", linewidth=1)
    axes.hlines(np.arange(0.5, len(visible) - 1), -0.5, visible.shape[1] - 0.5, color="#ffffff", linewidth=1)
    axes.set_title(f"Padding mask of {name}: {1 - float(visible.mean()):.0%} padding")
    axes.set(xlabel="position (source tokens)", ylabel="sentence")
    axes.set_yticks(range(len(visible)), [str(number) for number in range(1, len(visible) + 1)])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def visible_source(rows: Rows) -> Matrix:
    """Return (B, S), 1 at source tokens that attention reaches: where weights of equal scores are not 0."""
    sentences, length = rows.shape
    mask = rows.mask()
    mask = None if mask is None else mask[:, None, None, :]
    zeros = torch.zeros(sentences, 1, length, 2)
    weights = Score().weights(zeros[:, :, :1], zeros, mask, distances_between(zeros[:, :, :1], zeros))  # (B, 1, 1, S)
    visible: Matrix = (weights[:, 0, 0] > 0).float().numpy()
    return visible


def visible_target(length: int) -> Matrix:
    """Return (T, T), 1 at target tokens that a target token attends to."""
    zeros = torch.zeros(1, 1, length, 2)
    distances = distances_between(zeros, zeros)
    visible: Matrix = (Score().weights(zeros, zeros, distances <= 0, distances)[0, 0] > 0).float().numpy()
    return visible


def padding_of_batches(split: PreparedSplit) -> Drawing:
    """Draw the share of padding in batches of random and of sorted sentences of two sizes, and their number."""
    plans = batch_plans(split)
    shares = [padding_share(plan, split) for plan in plans.values()]
    figure = new_figure(3.6, WIDE)
    padding, updates = figure.subplots(1, 2, width_ratios=(1.7, 1))
    for side, name in enumerate(("source", "target")):
        heights = [share[side] for share in shares]
        bars = padding.bar(np.arange(len(plans)) + (side - 0.5) * 0.38, heights, 0.36, label=name)
        padding.bar_label(bars, [f"{height:.1%}" for height in heights], fontsize=8, padding=2)
    padding.set(title="share of padded positions", ylim=(0, 1.2 * max(0.01, *map(max, shares))))
    padding.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    padding.legend()
    bars = updates.bar(range(len(plans)), [len(plan) for plan in plans.values()], 0.7, color=COLOURS[2])
    updates.bar_label(bars, [f"{len(plan):,}" for plan in plans.values()], fontsize=8, padding=2)
    updates.set(title="updates in an epoch", ylim=(0, 1.1 * max(map(len, plans.values()))))
    for panel in (padding, updates):
        labels = [f"{order},\n{budget:,}" for order, budget in plans]
        panel.set_xticks(range(len(plans)), labels, fontsize=8)
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
        plans["random", budget] = _cut(order, split.lengths(order)[1], budget)
        plans["by length", budget] = plan_epoch(split, budget, _SEED, epoch=0)
    return plans


def _cut(order: Indices, lengths: Indices, budget: int) -> list[Indices]:
    """Divide pairs in any order into batches with sentences × longest ≤ budget; a longer pair is one by itself."""
    groups, start = [], 0
    while start < len(order):
        longest = np.maximum.accumulate(lengths[start : start + budget])
        count = max(1, int((longest * np.arange(1, len(longest) + 1) <= budget).sum()))
        groups.append(order[start : start + count])
        start += count
    return groups
