"""Figures of a prepared corpus: the masks of a real batch, and how much padding different batches have."""

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from nmt.batching.batch import Group, Indices, collate
from nmt.batching.batch_stream import EpochPlan, padding_share, plan_epoch
from nmt.model.attention import distances_between
from nmt.model.scores import Score
from nmt.report.fonts import LabelFonts
from nmt.report.plotting import COLOURS, Drawing, Matrix, heat_map, new_figure
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.text.tokenizer import PAD

_SENTENCES, _MOST_TOKENS = 8, 14
"""A batch small enough that its tokens can be read."""
_SEED = 1
_VISIBLE = ListedColormap(["#e4e4e4", COLOURS[0]])


def corpus_drawings(corpus: PreparedCorpus, budget: int, fonts: LabelFonts) -> list[Drawing]:
    """Return the figures of a corpus; `budget` is the number of padded target tokens in a length group."""
    batches = batches_of_short_pairs(corpus)
    drawings = [] if batches is None else [masks(corpus, batches, fonts)]
    return [*drawings, padding_of_batches(corpus.train, budget)]


def pieces_of_masks(corpus: PreparedCorpus) -> list[str]:
    """Return the pieces that the figure of the masks shows."""
    batches = batches_of_short_pairs(corpus) or ()
    sides = [(batch.source, corpus.tokenizers.source.pieces) for batch in batches]
    sides += [(batch.target_in, corpus.tokenizers.target.pieces) for batch in batches]
    return [pieces[token] for ids, pieces in sides for token in set(ids.flatten().tolist())]


def batches_of_short_pairs(corpus: PreparedCorpus) -> tuple[Group, Group] | None:
    """Return a few random short pairs and a few of a length group, padded as in training; None if there are too few."""
    source, target = corpus.train.lengths(np.arange(len(corpus.train)))
    short = np.flatnonzero(np.maximum(source, target) <= _MOST_TOKENS)
    if len(short) < _SENTENCES:
        return None
    chosen = np.random.default_rng(_SEED).choice(short, _SENTENCES, replace=False)
    longest = int(target[chosen].max())
    groups = plan_epoch(corpus.train, _SENTENCES * longest, _SEED, epoch=0)
    # one of the usual size, with targets as long as the longest of the others
    like = min(groups, key=lambda group: (abs(len(group) - _SENTENCES), -int(target[group].max())))
    one, other = (collate(corpus.train, [pairs]).groups[0] for pairs in (chosen, like))
    return one, other


def masks(corpus: PreparedCorpus, batches: tuple[Group, Group], fonts: LabelFonts) -> Drawing:
    """Draw which tokens of two batches are padding, and which target tokens each target token attends to."""
    source_pieces, target_pieces = corpus.tokenizers.source.pieces, corpus.tokenizers.target.pieces
    longest = max(batches[0].target_in.tolist(), key=lambda ids: sum(token != PAD for token in ids))
    pieces = [fonts.label(target_pieces[token]) for token in longest if token != PAD]
    figure = new_figure(7.2)
    panels = figure.subplot_mosaic([["random", "random"], ["group", "causal"]], width_ratios=(1.25, 1))
    for name, batch in zip(("random", "group"), batches, strict=True):
        visible = visible_source(batch)
        if name == "group" and visible.all():
            panels[name].set_axis_off()
            panels[name].set_title("A length group has no padding")
            text = f"{len(visible)} sentences of {visible.shape[1]} tokens"
            panels[name].text(0.5, 0.5, text, ha="center", transform=panels[name].transAxes)
            continue
        panels[name].imshow(visible, cmap=_VISIBLE, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        panels[name].grid(visible=False)
        panels[name].set(xlabel="position (source tokens)", ylabel="sentence")
        share = 1 - float(visible.mean())
        of_what = "random sentences" if name == "random" else "a length group"
        panels[name].set_title(f"Padding mask of {of_what}: {share:.0%} padding")
        panels[name].set_yticks(range(len(visible)), [str(number) for number in range(1, len(visible) + 1)])
        panels[name].xaxis.set_major_locator(MaxNLocator(integer=True))
    for row, sentence in enumerate(batches[0].source.tolist()):
        for column, token in enumerate(sentence):
            if token != PAD:
                label = fonts.label(source_pieces[token].replace("▁", ""))
                panels["random"].text(column, row, label, ha="center", va="center", color="white", fontsize=7)
    heat_map(panels["causal"], visible_target(len(pieces)), pieces, pieces).set_cmap(_VISIBLE)
    panels["causal"].set(title="Causal mask", xlabel="key: target token", ylabel="query: target token")
    figure.legend(
        handles=[Patch(color=_VISIBLE(1), label="attended to"), Patch(color=_VISIBLE(0), label="masked")],
        loc="outside lower center",
        ncols=2,
    )
    caption = (
        "A batch is padded to its longest sentence, and attention to the source skips the padding; length groups have "
        "little. A target token attends to itself and to those before it, so that all train in one pass."
    )
    return Drawing("masks", "Masks", caption, "nmt.model.scores.Score.weights", figure)


def visible_source(group: Group) -> Matrix:
    """Return (B, S), 1 at source tokens that attention reaches: where weights of equal scores are not 0."""
    sentences, length = group.source.shape
    mask = None if group.source_mask is None else group.source_mask[:, None, None, :]
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
    """Draw the share of padding and the sizes of batches that are cut in three ways."""
    plans = batch_plans(split, budget)
    shares = {name: padding_share(plan, split) for name, plan in plans.items()}
    sizes = [[int(split.lengths(group)[1].max()) * len(group) for group in plan] for plan in plans.values()]
    figure = new_figure(3.9)
    left, right = figure.subplots(1, 2)
    places = np.arange(len(plans))
    for side, (name, colour) in enumerate(zip(("source", "target"), COLOURS, strict=False)):
        heights = [share[side] for share in shares.values()]
        bars = left.bar(places + (side - 0.5) * 0.38, heights, 0.36, label=name, color=colour)
        left.bar_label(bars, [f"{height:.1%}" for height in heights], fontsize=8, padding=2)
    most = max(0.01, *map(max, shares.values()))
    left.set(title="Padding", ylabel="share of padded positions", ylim=(0, 1.25 * most))
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    left.legend()
    right.boxplot(sizes, whis=(0, 100), widths=0.5, medianprops={"color": COLOURS[1], "linewidth": 1.8})
    right.axhline(budget, color="#666666", linewidth=1, linestyle=":", label=f"budget of {budget:,} tokens")
    right.legend(loc="upper right")
    right.set(title="Size of a batch", ylabel="padded target tokens", ylim=(0, None))
    for axes, start in ((left, 0), (right, 1)):
        axes.set_xticks(places + start, list(plans))
    caption = (
        "Batches of random sentences and of as many sentences of similar length, beside the length groups of training, "
        "which have at most a number of padded tokens. Boxes show the quartiles, lines the smallest and the largest."
    )
    return Drawing("padding", "Padding", caption, "nmt.batching.batch_stream.plan_epoch", figure)


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
