"""Figures of a model and of its run: attention of every layer and head, and the curves of training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from nmt.decoding.alignment import Attention
from nmt.report.attention_section import TITLES, tokens_of
from nmt.report.fonts import LabelFonts
from nmt.report.plotting import COLOURS, Drawing, heat_map, new_figure
from nmt.report.run_records import Record, number

_CAPTIONS = {
    "encoder": "Self-attention of the encoder: how much each source token (row) takes from each source token (column). "
    "Heads often attend to the token before or after, at the sentence end, or at related words.",
    "decoder": "Self-attention of the decoder: how much each target token (row) takes from those that are known "
    "(columns). Nothing is to the right of the diagonal: later tokens are not known yet.",
    "cross": "Attention of the decoder to the source: how much each prediction (row) takes from each source token "
    "(column). Some heads follow the word alignment.",
}
_LABELS = {
    "encoder": ("query: source token", "key: source token"),
    "decoder": ("query: target token that is read", "key: target token"),
    "cross": ("target token that is predicted", "key: source token"),
}


def attention_drawings(found: Attention, fonts: LabelFonts) -> list[Drawing]:
    """Return a figure for each layer of encoder, decoder and cross-attention, with one heat-map for each head."""
    drawings = []
    for kind in TITLES:
        rows, columns = (list(map(fonts.label, tokens)) for tokens in tokens_of(found, kind))
        weights: Tensor = getattr(found.weights, kind)
        drawings += [_heads_of_layer(kind, layer, heads, rows, columns) for layer, heads in enumerate(weights, start=1)]
    return drawings


def _heads_of_layer(kind: str, layer: int, heads: Tensor, rows: Sequence[str], columns: Sequence[str]) -> Drawing:
    """Draw the weights (H, rows, columns) of a layer."""
    most = 2 if len(heads) <= 4 and len(columns) > 6 else 4
    across = max(count for count in range(1, most + 1) if len(heads) % count == 0)
    down = len(heads) // across
    height = down * max(1.6, 0.21 * len(rows) + 0.35) + 1.3
    figure = new_figure(min(height, 14))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    image: Any = None
    for head, (panel, weights) in enumerate(zip(panels.flat, heads, strict=True), start=1):
        image = heat_map(panel, weights.numpy(), rows, columns)
        panel.set_title(f"head {head}", fontsize=10, fontweight="normal")
    figure.suptitle(f"{TITLES[kind]}, layer {layer}", x=0.01, ha="left", fontsize=11, fontweight="bold")
    figure.supylabel(_LABELS[kind][0], fontsize=10)
    figure.supxlabel(_LABELS[kind][1], fontsize=10)
    figure.colorbar(image, ax=panels, label="weight (each row adds up to 1)", aspect=30)
    code = "nmt.model.attention_weights.attention_weights"
    return Drawing(f"attention-{kind}-layer-{layer}", TITLES[kind], _CAPTIONS[kind], code, figure)


def training_curves(train: Sequence[Record], validations: Sequence[Record]) -> Drawing:
    """Draw loss and BLEU of the lines of metrics.jsonl."""
    figure = new_figure(3.9)
    left, right = figure.subplots(1, 2)
    for name, lines, marker in (("training", train, None), ("validation", validations, "o")):
        points = [(one["step"], loss) for one in lines if (loss := number(one, "loss")) is not None]
        if points:
            steps, losses = zip(*points, strict=True)
            left.plot(steps, losses, marker=marker, markersize=4, label=name)
    left.set(title="Loss", xlabel="step (updates)", ylabel="negative log-likelihood (nats per token)", ylim=(0, None))
    left.set_xlim(0, None)
    left.legend()
    scores = [(one["step"], bleu) for one in validations if (bleu := number(one, "bleu")) is not None]
    if scores:
        steps, values = zip(*scores, strict=True)
        best = int(np.argmax(values))
        right.plot(steps, values, marker="o", markersize=4, color=COLOURS[1])
        place = (steps[best], values[best])
        right.annotate(f"best {values[best]:.1f}", place, (0, 6), textcoords="offset points", ha="right")
    right.set(title="Validation BLEU (greedy)", xlabel="step (updates)", ylabel="BLEU", ylim=(0, 100))
    right.set_xlim(left.get_xlim())
    caption = (
        "Loss on the training and on the validation text, both without label smoothing, and BLEU of the validation "
        "text, translated greedily. When the validation loss rises while the training loss falls, the model overfits."
    )
    return Drawing("training", "Training", caption, "nmt.training.loss.Objective", figure)
