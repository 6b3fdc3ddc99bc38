"""Figures of attention and of a training show the given numbers under the right labels."""

import pytest
import torch

from nmt.decoding.alignment import Attention
from nmt.model.attention_weights import AttentionWeights
from nmt.report.fonts import fonts_for
from nmt.report.model_figures import attention_drawings, training_curves


def test_every_layer_and_head_is_drawn_with_its_tokens() -> None:
    draw = torch.Generator().manual_seed(1)
    encoder, decoder, cross = (
        torch.rand(layers, 3, *shape, generator=draw) for layers, shape in ((2, (4, 4)), (1, (3, 3)), (1, (3, 4)))
    )
    found = Attention(AttentionWeights(encoder, decoder, cross), ["▁a", "▁b", "c"], ["▁x", "y"])
    drawings = {one.name.removeprefix("attention-"): one for one in attention_drawings(found, fonts_for([]))}
    assert list(drawings) == ["encoder-layer-1", "encoder-layer-2", "decoder-layer-1", "cross-layer-1"]
    expected = {
        "encoder-layer-2": (encoder[1], ["▁a", "▁b", "c", "</s>"], ["▁a", "▁b", "c", "</s>"]),
        "decoder-layer-1": (decoder[0], ["<s>", "▁x", "y"], ["<s>", "▁x", "y"]),
        "cross-layer-1": (cross[0], ["▁x", "y", "</s>"], ["▁a", "▁b", "c", "</s>"]),
    }
    for name, (weights, rows, columns) in expected.items():
        panels = [axes for axes in drawings[name].figure.axes if axes.get_title().startswith("head")]
        assert len(panels) == 3
        for head, axes in zip(weights, panels, strict=True):
            torch.testing.assert_close(torch.tensor(axes.images[0].get_array().data), head)
            assert [label.get_text() for label in axes.get_xticklabels()] == columns
        assert [label.get_text() for label in panels[0].get_yticklabels()] == rows


def test_curves_show_the_unsmoothed_loss_of_both_texts_and_mark_the_best_score() -> None:
    train = [
        {"step": 10, "loss": 2.5, "objective": 3.0},
        {"step": 20, "loss": 1.5, "objective": 2.0},
    ]
    validations = [
        {"step": 20, "loss": 1.25, "bleu": 33.3},
        {"step": 40, "loss": 1.5, "bleu": 30.0},
    ]
    drawing = training_curves(train, validations)
    losses, scores = drawing.figure.axes
    found = {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in losses.lines}
    assert found["training"] == ([10, 20], pytest.approx([2.5, 1.5]))
    assert found["validation"] == ([20, 40], pytest.approx([1.25, 1.5]))
    assert [text.get_text() for text in scores.texts] == ["best 33.3"]


def test_run_without_validation_has_the_curve_of_training() -> None:
    losses, scores = training_curves([{"step": 10, "loss": 2.0}], []).figure.axes
    assert [str(line.get_label()) for line in losses.lines] == ["training"]
    assert not scores.lines
