"""Figures of a sentence show the weights under their tokens, and the search whose result is the translation."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from nmt.config import DecodeSettings
from nmt.config.model_sections import Sampling
from nmt.decoding.options import SearchOptions
from nmt.errors import ConfigError
from nmt.model.transformer import attention_weights
from nmt.report.drawing import COLOURS
from nmt.report.sentence_figures import (
    BeamTree,
    Node,
    attention_drawings,
    chosen_sentence,
    head_drawing,
    head_numbers,
    number_label,
    search_drawing,
    sentence_drawings,
    steps_drawing,
)
from nmt.text.tokenizer import EOS
from nmt.translation.internals import Attention, Step
from nmt.translation.translator import Translator
from tests.builders import save_model, tiny_loaded_model, tiny_model

SOURCE = "the cat sleeps on the mat ."


def test_every_layer_and_head_is_drawn_with_its_tokens() -> None:
    draw = torch.Generator().manual_seed(1)
    encoder, decoder, cross = (
        torch.rand(layers, 3, *shape, generator=draw) for layers, shape in ((2, (4, 4)), (1, (3, 3)), (1, (3, 4)))
    )
    source = ["▁a", "▁b", "c", "</s>"]
    found = attention_drawings(Attention(encoder, decoder, cross, source, ["<s>", "▁x", "y", "</s>"]))
    drawings = {one.name.removeprefix("attention-"): one for one in found}
    layers = ["encoder-layer-1", "encoder-layer-2", "decoder-layer-1", "cross-layer-1"]
    assert list(drawings) == ["encoder-sheet", "decoder-sheet", "cross-sheet", *layers]
    expected = {
        "encoder-layer-2": (encoder[1], source, source),
        "decoder-layer-1": (decoder[0], ["<s>", "▁x", "y"], ["<s>", "▁x", "y"]),
        "cross-layer-1": (cross[0], ["▁x", "y", "</s>"], source),
    }
    for name, (weights, rows, columns) in expected.items():
        panels = [axes for axes in drawings[name].figure.axes if axes.get_title().startswith("head")]
        assert len(panels) == 3
        for head, axes in zip(weights, panels, strict=True):
            torch.testing.assert_close(torch.tensor(axes.images[0].get_array().data), head)
            assert [label.get_text() for label in axes.get_xticklabels()] == columns
        assert [label.get_text() for label in panels[0].get_yticklabels()] == rows
    sheet = [axes.images[0].get_array().data for axes in drawings["encoder-sheet"].figure.axes if axes.images]
    torch.testing.assert_close(torch.tensor(np.stack(sheet[:6])), encoder.flatten(0, 1))


def test_labels_of_a_long_sentence_do_not_overlap_in_the_figures_of_layers() -> None:
    encoder, decoder, cross = (torch.rand(1, *shape) for shape in ((4, 60, 60), (1, 2, 2), (1, 2, 60)))
    drawings = attention_drawings(Attention(encoder, decoder, cross, ["teacher"] * 60, ["<s>", "▁a", "</s>"]))
    (figure,) = [one.figure for one in drawings if one.name == "attention-encoder-layer-1"]
    figure.draw_without_rendering()
    lower_left = figure.axes[2]
    columns = [label.get_window_extent() for label in lower_left.get_xticklabels()]
    rows = [label.get_window_extent() for label in lower_left.get_yticklabels()]
    assert len(columns) == len(rows) == 60
    assert all(left.x1 < right.x0 for left, right in pairwise(columns))
    assert all(lower.y1 < upper.y0 or upper.y1 < lower.y0 for lower, upper in pairwise(rows))


@pytest.mark.parametrize(
    "variant", [{}, {"positions": "rotary"}, {"positions": "relative"}, {"attention_score": "dot"}]
)
def test_numbers_of_a_head_multiply_out(variant: dict[str, object]) -> None:
    model, ids = tiny_model(3, vocabulary=12, **variant), [4, 5, 6, EOS]
    numbers = head_numbers(model, ids)
    q, k, v, scores, weights, z = numbers.values()
    if "relative" not in variant.values():  # which adds vectors of distances
        torch.testing.assert_close(scores, q @ k.T / (1 if variant.get("attention_score") else q.size(1) ** 0.5))
        torch.testing.assert_close(z, weights @ v)
    torch.testing.assert_close(weights, scores.exp() / scores.exp().sum(1, keepdim=True))
    torch.testing.assert_close(weights, attention_weights(model, ids, [2]).encoder[0, 0])
    drawing = head_drawing(numbers, ["▁a", "b", "c", "</s>"])
    for axes, matrix in zip(drawing.figure.axes, numbers.values(), strict=True):
        written = [float(text.get_text()) for text in axes.texts]
        assert written == pytest.approx(matrix[:, :4].flatten().tolist(), abs=0.0051)


def test_large_numbers_of_a_head_fit_in_their_cells() -> None:
    """The scores of a model of post-norm with high rates have four digits before the point."""
    numbers = [0.4142, -2.1, 9.999, 31.1, -263.39, -1048.63]
    assert [*map(number_label, numbers)] == ["0.41", "-2.10", "10.0", "31.1", "-263", "-1049"]


def test_steps_of_a_greedy_search_are_columns_with_a_frame_around_what_is_generated() -> None:
    steps = [Step("▁a", [("▁a", 0.75), ("▁b", 0.2)]), Step("</s>", [("c", 0.5), ("</s>", 0.25)])]
    (axes,) = steps_drawing(steps).figure.axes
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.5], [0.2, 0.25]])
    assert [text.get_text() for text in axes.texts] == ["▁a\n75 %", "c\n50 %", "▁b\n20 %", "</s>\n25 %"]
    frames = [(patch.get_x(), patch.get_y()) for patch in axes.patches]
    assert [(round(x + 0.48), round(y + 0.46)) for x, y in frames] == [(0, 0), (1, 1)]


def test_tree_has_a_box_for_each_candidate_and_a_thick_path_to_the_best_one() -> None:
    tree = BeamTree(2)
    tree.nodes = [
        Node(-1, 1, 0, -0.1, -0.1, "active"),
        Node(-1, 1, 1, -2.0, -2.0, "active"),
        Node(-1, 1, 2, -3.0, -3.0, "pruned"),
        Node(1, 2, 3, -0.01, -2.01, "finished"),
        Node(0, 2, 3, -4.0, -4.1, "finished"),
    ]
    drawing = search_drawing(tree, ["▁a", "▁a piece that is too long", "c", "</s>"], SearchOptions(beam=2))
    (axes,) = drawing.figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert texts[:5] == ["<s>", "▁a", "90 %", "▁a piece …", "14 %"]
    thick = [patch.get_linewidth() > 2 for patch in axes.patches]
    assert thick == [False, True, False, True, False]
    assert [to_hex(patch.get_edgecolor()).upper() for patch in axes.patches[2:4]] == ["#888888", COLOURS[2]]
    assert "a probability of 13 %, the best of 2 finished" in drawing.caption


def test_drawn_search_is_that_of_the_translation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In fp32, as the probabilities that are drawn: a token of a search in bf16 may be the second best of these."""
    save_model(tmp_path / "model", tiny_loaded_model())
    translator = Translator.load(tmp_path / "model")
    monkeypatch.setattr("nmt.decoding.engine.prefers_bf16", lambda dim: pytest.fail("not fp32"))
    drawings = sentence_drawings(tmp_path / "model", SOURCE)
    found = {one.name: one for one in drawings}
    sheets_and_layers = {
        f"attention-{kind}-{of}" for kind in ("encoder", "decoder", "cross") for of in ("sheet", "layer-1")
    }
    assert found.keys() == {"one-head", *sheets_and_layers, "greedy-steps", "search-tree"}
    assert {one.subject for one in drawings} == {f"model: {SOURCE}"}
    (axes,) = found["search-tree"].figure.axes
    boxes = [patch for patch in axes.patches if patch.get_linewidth() > 2]
    ((best,),) = translator.engine.search([translator.tokenizers.source.encode(SOURCE)], translator.options().search)
    assert len(boxes) == len(best.tokens) + 1
    rows = [label.get_text() for label in found["attention-cross-layer-1"].figure.axes[0].get_yticklabels()]
    assert rows == [*(translator.tokenizers.target.pieces[token] for token in best.tokens), "</s>"]
    sampling = DecodeSettings(beam=2, sampling=Sampling(temperature=0.7))
    save_model(tmp_path / "model", replace(tiny_loaded_model(), decode=sampling))
    beam_search = sentence_drawings(tmp_path / "model", SOURCE, with_layers=False)[-1]
    assert beam_search.name == "search-tree", "of a beam search all the same"


@pytest.mark.parametrize(("text", "found"), [(" ", "0 tokens"), ("the cat " * 60, r"\d+ tokens")])
def test_empty_and_long_sentences_are_refused(tmp_path: Path, text: str, found: str) -> None:
    save_model(tmp_path / "model", tiny_loaded_model())
    with pytest.raises(ConfigError, match=f"^.{{,60}}: found {found}; figures are drawn of sentences of 1 to 60"):
        sentence_drawings(tmp_path / "model", text)


def test_sentence_of_readable_length_is_chosen_else_the_shortest() -> None:
    assert chosen_sentence(["", "Yes.", "a " * 30, "We like the cat.", "He likes the dog."]) == "We like the cat."
    assert chosen_sentence(["a " * 30, "No, no."]) == "No, no."
    assert chosen_sentence(["今天下雨。", "我们喜欢猫。"]) in ("今天下雨。", "我们喜欢猫。")
    assert chosen_sentence(["", " "]) is None
