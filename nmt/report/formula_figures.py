"""Figures of the formulas of training: position encodings, learning rates, label smoothing.

They are drawn from the results of the functions that training calls, not from the formulas.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import EngFormatter, PercentFormatter

from nmt.config import Recipe, TrainSettings
from nmt.model.positions import sinusoids
from nmt.report.plotting import COLOURS, Drawing, Matrix, heat_map, new_figure
from nmt.text.tokenizer import PAD
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.optimizer import learning_rate

_DIM, _LENGTH = 128, 100
_NOAM = ((512, 1.0, 4000), (512, 1.0, 8000), (256, 1.0, 4000), (512, 2.0, 8000))
"""Width, factor and warm-up steps."""
_STEPS = 20_000
_IMPOSSIBLE = -80.0
"""A logit whose probability is 0 in single precision."""


def formula_drawings(recipe: Recipe | None = None) -> list[Drawing]:
    """Return the figures that need no text and no model; with a recipe also its own schedule."""
    drawings = [positions_heat_map(), positions_curves(), noam_schedules(), other_schedules()]
    if recipe is not None and recipe.train.stop.steps is not None:
        drawings.append(schedule_of_recipe(recipe.train, recipe.model.dim))
    return [*drawings, smoothed_targets(), smoothed_loss()]


def sinusoidal_table() -> Matrix:
    """Return the vectors (positions, D) that an embedding layer adds."""
    vectors: Matrix = sinusoids(0, _LENGTH, torch.empty(0, _DIM)).numpy()
    return vectors


def positions_heat_map() -> Drawing:
    """Draw the sinusoids of all positions and dimensions."""
    figure = new_figure()
    axes = figure.subplots()
    axes.grid(visible=False)
    image = axes.imshow(sinusoidal_table(), vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axes.set(title="Sinusoidal position encoding", xlabel="dimension of the embedding", ylabel="position (tokens)")
    figure.colorbar(image, ax=axes, label="value added to the embedding", ticks=(-1, 0, 1))
    caption = (
        f"Each row is the vector that is added to the embedding of the token at that position, here {_DIM} wide. "
        "Sine and cosine alternate; the wavelength grows from 2π tokens in the first dimensions to almost 20,000π."
    )
    return Drawing("positions", "Position encoding", caption, "nmt.model.positions.sinusoids", figure)


def positions_curves() -> Drawing:
    """Draw single dimensions of the sinusoids over the positions."""
    table = sinusoidal_table()
    figure = new_figure(3.6)
    axes = figure.subplots()
    for colour, dimension in zip(COLOURS, (24, 25, 40, 41, 64), strict=False):
        name = f"{dimension} ({'cosine' if dimension % 2 else 'sine'})"
        axes.plot(table[:, dimension], color=colour, label=name, linestyle="--" if dimension % 2 else "-")
    axes.set(title="Sinusoidal position encoding, single dimensions", xlabel="position (tokens)", ylabel="value")
    axes.set(xlim=(0, _LENGTH - 1), ylim=(-1.1, 1.1))
    axes.legend(title=f"dimension of {_DIM}", loc="center left", bbox_to_anchor=(1, 0.5), title_fontsize=9)
    caption = (
        "A column of the heat-map is a sine or a cosine of the position; a pair 2i, 2i + 1 has one wavelength. The "
        "vector of position p + k is a rotation of that of p by an angle that depends on k only."
    )
    return Drawing("position-curves", "Position encoding", caption, "nmt.model.positions.sinusoids", figure)


def noam_schedules() -> Drawing:
    """Draw the learning rate of the paper for several widths, factors and warm-ups."""
    curves = {}
    for dim, factor, warmup in _NOAM:
        rates = _rates({"name": "noam", "factor": factor, "warmup": warmup}, dim)
        curves[f"dim {dim}, factor {factor:g}, warm-up {warmup:,}"] = rates
    caption = (
        "The rate rises linearly during the warm-up and then falls with the square root of the step. A wider model and "
        "a longer warm-up give a lower peak; the factor scales the whole curve."
    )
    return _rate_drawing("schedule-noam", "Noam: the learning rate of the paper", curves, caption)


def other_schedules() -> Drawing:
    """Draw all schedules with the same highest rate, that of Noam with the settings of the paper."""
    noam = _rates({"name": "noam", "factor": 1.0, "warmup": 4000}, 512)
    peak = float(noam.max())
    curves = {"noam": noam}
    for name in ("inverse_sqrt", "constant", "linear", "cosine", "wsd"):
        decay = {"decay": 0.3} if name == "wsd" else {}
        curves[name] = _rates({"name": name, "rate": peak, "warmup": 4000, **decay}, 512)
    caption = (
        "All schedules of `train.schedule` with one warm-up and one highest rate; noam and inverse_sqrt coincide then. "
        "linear, cosine and wsd end at zero at the last step, so the number of steps must be chosen beforehand."
    )
    return _rate_drawing("schedules", f"Schedules, {_STEPS:,} steps", curves, caption)


def schedule_of_recipe(train: TrainSettings, dim: int) -> Drawing:
    """Draw the learning rate of a recipe over its steps."""
    assert train.stop.steps is not None
    rates = _rates(train.schedule.model_dump(), dim, train.stop.steps)
    caption = f"The rate of each of the {train.stop.steps:,} updates of this recipe."
    return _rate_drawing("schedule-recipe", "Learning rate of the recipe", {train.schedule.name: rates}, caption)


def smoothed_targets() -> Drawing:
    """Draw the distributions that the loss compares predictions with, for the tokens of a sentence."""
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "▁il", "▁gatto", "▁dorme", "."]
    sentence = [4, 5, 6, 7, 3, PAD]
    figure = new_figure(3.4)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, smoothing in zip(panels, (0.0, 0.1), strict=True):
        table = target_distributions(sentence, len(pieces), smoothing)
        image = heat_map(axes, table, [pieces[token] for token in sentence], pieces)
        for (row, column), value in np.ndenumerate(table):
            colour = "white" if value < 0.5 else "black"
            axes.text(column, row, f"{value:.2f}" if value else "0", ha="center", va="center", color=colour, fontsize=8)
        axes.set(title=f"Target distribution q, ε = {smoothing:g}", xlabel="piece of the vocabulary")
    panels[0].set_ylabel("reference token")
    figure.colorbar(image, ax=panels, label="probability q")
    caption = (
        "The loss of a token is the cross-entropy of the prediction and a row of this table. With label smoothing the "
        "reference has 1 − ε, padding nothing, each other piece an equal share of ε; a padded position has no loss."
    )
    return Drawing("label-smoothing", "Label smoothing", caption, "nmt.training.loss.smoothed_cross_entropy", figure)


def target_distributions(targets: Sequence[int], vocabulary: int, smoothing: float) -> Matrix:
    """Return the target distribution q (T, V) of each token: the prediction p minus the gradient p - q of the loss."""
    logits = torch.zeros(len(targets), vocabulary, requires_grad=True)
    loss, _ = smoothed_cross_entropy(logits, torch.eye(vocabulary), torch.tensor(targets), smoothing)
    (gradient,) = torch.autograd.grad(loss, logits)
    kept = (torch.tensor(targets) != PAD).unsqueeze(1)
    distributions: Matrix = ((logits.softmax(1) - gradient) * kept).clamp_min(0).detach().numpy().round(6)
    return distributions


def smoothed_loss() -> Drawing:
    """Draw the loss of a token over the probability that the model gives to the reference."""
    vocabulary, reference = 8000, 4
    chances = np.concatenate([np.linspace(0.01, 0.99, 99), 1 - np.geomspace(0.009, 1e-5, 30)])
    figure = new_figure(3.8)
    axes = figure.subplots()
    for smoothing in (0.0, 0.1, 0.2, 0.4):
        losses = [_loss_at(chance, vocabulary, reference, smoothing) for chance in chances]
        (line,) = axes.plot(chances, losses, label=f"ε = {smoothing:g}")
        lowest = int(np.argmin(losses))
        axes.plot(chances[lowest], losses[lowest], "o", color=line.get_color(), markersize=5, clip_on=False)
    axes.set(title=f"Loss as a prediction grows confident ({vocabulary:,} pieces)", ylim=(0, 8), xlim=(0, 1))
    axes.set(xlabel="probability of the reference token", ylabel="loss (nats)")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="upper center", ncols=4)
    caption = (
        "The rest of the probability is shared equally among the other pieces; a dot marks the lowest loss. Without "
        "smoothing more confidence is always better, with it the lowest loss is at 1 − ε."
    )
    return Drawing("smoothed-loss", "Label smoothing", caption, "nmt.training.loss.smoothed_cross_entropy", figure)


def _loss_at(chance: float, vocabulary: int, reference: int, smoothing: float) -> float:
    # logits are the product of the hidden state and the output weights: (V, 3) mark the reference, padding, the others
    hidden = torch.tensor([[np.log(chance), _IMPOSSIBLE, np.log((1 - chance) / (vocabulary - 2))]]).float()
    weights = torch.tensor([[0.0, 0.0, 1.0]]).repeat(vocabulary, 1)
    weights[reference], weights[PAD] = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
    loss, _ = smoothed_cross_entropy(hidden, weights, torch.tensor([reference]), smoothing)
    return float(loss)


def _rates(schedule: dict[str, Any], dim: int, steps: int = _STEPS) -> Matrix:
    settings = TrainSettings.model_validate({"schedule": schedule, "stop": {"steps": steps}})
    return np.array([learning_rate(settings, dim, step) for step in range(1, steps + 1)], dtype=np.float32)


def _rate_drawing(name: str, title: str, curves: dict[str, Matrix], caption: str) -> Drawing:
    figure = new_figure(3.8)
    axes = figure.subplots()
    for number, (label, rates) in enumerate(curves.items()):
        # where curves coincide, the solid one shows between the dashes of the other
        axes.plot(np.arange(1, len(rates) + 1), rates, label=label, linestyle=(0, (4, 3)) if number % 2 else "-")
    steps = max(map(len, curves.values()))
    axes.set(title=title, xlabel="step (updates)", ylabel="learning rate", xlim=(0, steps), ylim=(0, None))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
    if len(curves) > 1:
        axes.legend()
    return Drawing(name, title, caption, "nmt.training.optimizer.learning_rate", figure)
