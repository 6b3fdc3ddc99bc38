"""Figures of the formulas of training: position encodings, learning rates, label smoothing.

They are drawn from the results of the functions that training calls, not from the formulas.
"""

from typing import Any

import numpy as np
import torch
from matplotlib.ticker import EngFormatter, PercentFormatter

from nmt.config import TrainSettings
from nmt.model.positions import sinusoids
from nmt.report.drawing import WIDE, Drawing, Matrix, new_figure
from nmt.text.tokenizer import PAD
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.optimizer import learning_rate

_DIM, _LENGTH = 128, 100
_STEPS = 20_000
_IMPOSSIBLE = -80.0
"""A logit whose probability is 0 in single precision."""


def formula_drawings() -> list[Drawing]:
    """Return the figures that need no text and no model."""
    return [positions(), schedules(), smoothed_loss()]


def positions() -> Drawing:
    """Draw the sinusoids of all positions and dimensions."""
    figure = new_figure(4.2, WIDE)
    axes = figure.subplots()
    axes.grid(visible=False)
    vectors: Matrix = sinusoids(0, _LENGTH, torch.empty(0, _DIM)).numpy()
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
    return Drawing("smoothed-loss", "Label smoothing", caption, figure, "nmt.training.loss.smoothed_cross_entropy")


def token_loss(chance: float, smoothing: float, vocabulary: int = 1000) -> float:
    """Return the loss of a token with this probability, when all others but padding share the rest equally."""
    reference = vocabulary - 1
    logits = torch.full((1, vocabulary), np.log((1 - chance) / (vocabulary - 2)))
    logits[0, reference], logits[0, PAD] = np.log(chance), _IMPOSSIBLE
    loss, _ = smoothed_cross_entropy(logits, torch.eye(vocabulary), torch.tensor([reference]), smoothing)
    return float(loss)
