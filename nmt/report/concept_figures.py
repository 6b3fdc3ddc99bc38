"""Figures of the formulas of training, and of the batches of a prepared corpus: what needs no model.

Position encodings, learning rates, label smoothing, masks and padding are drawn from the results of the functions that
training calls, not from formulas.
"""

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from nmt.batching.batch import Indices, Rows, collate
from nmt.batching.batch_stream import EpochPlan, padding_share, plan_epoch
from nmt.config import TrainSettings
from nmt.kernels import Kernels
from nmt.model.attention import distances_between
from nmt.model.positions import sinusoids
from nmt.model.scores import Score
from nmt.report.drawing import WIDE, Drawing, Matrix, heat_map, new_figure
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.text.tokenizer import PAD
from nmt.training.optimizer import learning_rate

_DIM, _LENGTH = 128, 100
_STEPS = 20_000
# A logit whose probability is 0 in single precision.
_IMPOSSIBLE = -80.0


def formula_drawings() -> list[Drawing]:
    """Return the figures that need no text and no model."""
    return [positions(), schedules(), smoothed_loss()]


def positions() -> Drawing:
    """Draw the sinusoids of all positions and dimensions."""
    figure = new_figure(4.2, WIDE)
    axes = figure.subplots()
    axes.grid(visible=False)
    vectors: Matrix = sinusoids(torch.arange(_LENGTH), _LENGTH, torch.empty(0, _DIM)).numpy()
    image = axes.imshow(vectors, vmin=-1, vmax=1, aspect="auto")
    axes.set(xlabel="dimension of the embedding", ylabel="position (tokens)")
    figure.colorbar(image, ax=axes, label="value added to the embedding", ticks=(-1, 0, 1))
    caption = (
        f"Each row is the vector that is added to the embedding of the token at that position, here {_DIM} wide. "
        "Sine and cosine alternate; the wavelength grows from 2π tokens in the first dimensions to almost 20,000π."
    )
    return Drawing("positions", "Position encoding", caption, figure, "nmt.model.positions.sinusoids")


def schedules() -> Drawing:
    """Draw all schedules with the same highest rate, that of Noam with the settings of the paper."""
    noam = _rates({"name": "noam", "factor": 1.0, "warmup": 4000})
    shared = {"rate": float(noam.max()), "warmup": 4000}
    names = ("inverse_sqrt", "constant", "linear", "cosine")
    curves = {"noam": noam, **{name: _rates({"name": name, **shared}) for name in names}}
    curves["wsd"] = _rates({"name": "wsd", "decay": 0.3, **shared})
    figure = new_figure(3.8, WIDE)
    axes = figure.subplots()
    for number, (label, rates) in enumerate(curves.items()):
        # where curves coincide, the solid one shows between the dashes of the other
        axes.plot(np.arange(1, _STEPS + 1), rates, label=label, linestyle=(0, (4, 3)) if number % 2 else "-")
    axes.set(xlabel="step (updates)", ylabel="learning rate", xlim=(0, _STEPS), ylim=(0, None))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend()
    caption = (
        "All schedules of train.schedule with one warm-up and one highest rate, those of the paper; noam and "
        "inverse_sqrt coincide then. linear, cosine and wsd end at zero at the last step, here "
        f"{_STEPS:,}, which must be chosen beforehand."
    )
    return Drawing("schedules", "Learning rate", caption, figure, "nmt.training.optimizer.learning_rate")


def _rates(schedule: dict[str, Any]) -> Matrix:
    settings = TrainSettings.model_validate({"schedule": schedule, "stop": {"steps": _STEPS}})
    return np.array([learning_rate(settings, 512, step) for step in range(1, _STEPS + 1)], dtype=np.float32)


def smoothed_loss() -> Drawing:
    """Draw the loss of a token over the probability that the model gives to the reference."""
    chances = np.concatenate([np.linspace(0.01, 0.99, 99), 1 - np.geomspace(0.009, 1e-5, 30)])
    figure = new_figure(3.8, WIDE)
    axes = figure.subplots()
    for smoothing in (0.0, 0.1, 0.2, 0.4):
        losses = [token_loss(chance, smoothing) for chance in chances]
        (line,) = axes.plot(chances, losses, label=f"ε = {smoothing:g}")
        lowest = int(np.argmin(losses))
        axes.plot(chances[lowest], losses[lowest], "o", color=line.get_color(), markersize=5, clip_on=False)
    axes.set(xlabel="probability of the reference token", ylabel="loss (nats)", ylim=(0, 8), xlim=(0, 1))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="upper center", ncols=4)
    caption = (
        "The loss of one token while a prediction grows confident; the rest of the probability is shared equally among "
        "the other pieces, and a dot marks the lowest loss. Without smoothing more confidence is always better, with "
        "it the lowest loss is at 1 − ε."
    )
    return Drawing("smoothed-loss", "Label smoothing", caption, figure, "nmt.kernels.reference.Kernels.loss")


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
_SEED = 1
_VISIBLE = ListedColormap(["#b9bec4", "#2a6f9e"])


def corpus_drawings(corpus: PreparedCorpus, budget: int) -> list[Drawing]:
    """Return the figures of a corpus; `budget` is the number of padded target tokens in a length group.

    The masks are left out of a corpus that has not enough short sentences for them.
    """
    source, target = corpus.train.lengths(np.arange(len(corpus.train)))
    short = np.flatnonzero(np.maximum(source, target) <= _MOST_TOKENS)
    drawings = [] if len(short) < _SENTENCES else [masks(corpus, short)]
    return [*drawings, padding_of_batches(corpus.train, budget)]


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
            label = "" if token == PAD else pieces[token].replace("▁", "")
            panels["random"].text(column, row, label, ha="center", va="center", color="white", fontsize=7)
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
    return Drawing("masks", "Masks", caption, figure, "nmt.model.scores.Score.weights")


def _padding_mask(axes: Axes, name: str, rows: Rows) -> None:
    visible = visible_source(rows)
    axes.imshow(visible, cmap=_VISIBLE, vmin=0, vmax=1, aspect="auto")
    axes.grid(visible=False)
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


def padding_of_batches(split: PreparedSplit, budget: int) -> Drawing:
    """Draw the share of padding in batches that are cut in three ways."""
    plans = batch_plans(split, budget)
    shares = [padding_share(plan, split) for plan in plans.values()]
    figure = new_figure(3.6, WIDE)
    axes = figure.subplots()
    for side, name in enumerate(("source", "target")):
        heights = [share[side] for share in shares]
        bars = axes.bar(np.arange(len(plans)) + (side - 0.5) * 0.38, heights, 0.36, label=name)
        axes.bar_label(bars, [f"{height:.1%}" for height in heights], fontsize=9, padding=2)
    axes.set(ylabel="share of padded positions", ylim=(0, 1.2 * max(0.01, *map(max, shares))))
    axes.set_xticks(range(len(plans)), list(plans))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend()
    caption = (
        "Batches of random sentences waste a large part of the computation on padding, batches of sentences of similar "
        f"length little. Those of training have at most {budget:,} padded target tokens, so that all are of one size."
    )
    return Drawing("padding", "Padding", caption, figure, "nmt.batching.batch_stream.plan_epoch")


def batch_plans(split: PreparedSplit, budget: int) -> dict[str, EpochPlan]:
    """Return the batches of an epoch, cut in three ways, with about the same mean size."""
    ours = plan_epoch(split, budget, _SEED, epoch=0)
    order = np.random.default_rng(_SEED).permutation(len(split))
    by_length = order[np.lexsort(split.lengths(order))]
    count = max(1, round(len(split) / len(ours)))
    return {
        f"random,\n{count} sentences": _cut(order, count),
        f"by length,\n{count} sentences": _cut(by_length, count),
        "by length,\ntoken budget": ours,
    }


def _cut(order: Indices, count: int) -> list[Indices]:
    return [order[start : start + count] for start in range(0, len(order), count)]
