"""The numbers in the figures of formulas, against the formulas of the papers."""

import math

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from nmt.model.scores import Score
from nmt.report.concept_figures import (
    gradient_norms,
    noam,
    position_waves,
    positions,
    random_attention,
    scaling,
    schedules,
    smoothed_loss,
    smoothed_target,
    target_distribution,
)
from nmt.report.drawing import Drawing
from nmt.text.tokenizer import PAD
from nmt.training.optimizer import learning_rate
from tests.builders import tiny_recipe
from tests.model.reference_transformer import page


def lines_of(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """Return the points of the labelled lines of a panel."""
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def curves(drawing: Drawing) -> dict[str, tuple[list[float], list[float]]]:
    """Return the points of the labelled lines of a figure."""
    return lines_of(drawing.figure.axes[0])


def test_softmax_of_wide_heads_saturates_unless_scores_are_divided() -> None:
    without, scaled, largest, gradient = scaling().figure.axes
    for axes in (without, scaled):
        weights = np.asarray(axes.images[0].get_array())
        np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
        assert [text.get_text() for text in axes.texts] == [f"{weight:.2f}" for weight in weights.flatten()]
    (plain, divided), (plain_norm, divided_norm) = (
        [points for _, points in lines_of(axes).values()] for axes in (largest, gradient)
    )
    assert plain[0] == pytest.approx(divided[0]), "equal for d = 1"
    assert plain == sorted(plain)
    assert plain[-1] > 0.9
    assert plain_norm == sorted(plain_norm, reverse=True)
    assert max(divided) < 0.4
    assert min(divided_norm) > 0.9 * max(divided_norm)


def test_gradient_of_the_softmax_is_that_of_small_changes() -> None:
    weights = random_attention(Score(), 16)[:3].double()
    for row, norm in zip(weights.log(), gradient_norms(weights), strict=True):
        steps = torch.eye(len(row), dtype=torch.float64) * 1e-6
        changes = ((row + steps).softmax(-1) - (row - steps).softmax(-1)) / 2e-6
        assert float(norm) == pytest.approx(float(changes.norm()), rel=1e-4)


def test_position_encodings_equal_the_formula() -> None:
    expected = page.positional_encoding(100, 128).numpy()
    np.testing.assert_allclose(positions().figure.axes[0].images[0].get_array(), expected, atol=1e-5)


def test_waves_are_columns_of_the_formula() -> None:
    found = curves(position_waves())
    assert list(found) == ["dimension 4: sine", "dimension 5: cosine", "dimension 6: sine", "dimension 7: cosine"]
    expected = page.positional_encoding(100, 20).numpy()
    np.testing.assert_allclose([values for _, values in found.values()], expected.T[4:8], atol=1e-5)


def test_schedules_have_one_highest_rate_at_the_end_of_the_warm_up() -> None:
    found = curves(schedules())
    assert found.keys() == {"noam", "inverse_sqrt", "constant", "linear", "cosine", "wsd"}
    for steps, rates in found.values():
        assert steps[int(np.argmax(rates))] == 4000
        assert max(rates) == pytest.approx(1 / math.sqrt(512 * 4000), rel=1e-5)
    assert found["noam"][1][-1] == pytest.approx(1 / math.sqrt(512 * 20_000), rel=1e-5)


def test_noam_has_the_peaks_of_the_paper_and_the_schedule_of_a_recipe_beside_it() -> None:
    recipe = tiny_recipe()
    paper, own = noam(recipe).figure.axes
    for name, (steps, rates) in lines_of(paper).items():
        dim, factor, warmup = map(int, name.split(":"))
        assert steps[int(np.argmax(rates))] == warmup
        assert max(rates) == pytest.approx(factor / math.sqrt(dim * warmup), rel=1e-5)
        assert paper.get_ylim()[1] >= max(rates), "the whole curve shows"
    assert lines_of(paper).keys() == {"512:1:4000", "512:1:8000", "256:1:4000", "512:2:8000"}
    ((_, (steps, rates)),) = lines_of(own).items()
    schedule, last = recipe.train.schedule, recipe.train.stop.steps
    expected = [learning_rate(schedule, recipe.model.dim, step, last) for step in steps[::50]]
    assert rates[::50] == pytest.approx(expected)
    assert len(noam(None).figure.axes) == 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_target_distribution_is_that_of_the_definition(smoothing: float) -> None:
    labels = [4, 3, PAD, 7]
    expected = np.zeros((4, 8))
    for row, label in enumerate(labels):
        if label != PAD:
            expected[row] = smoothing / 6
            expected[row, label] = 1 - smoothing
            expected[row, PAD] = 0
    found = target_distribution(torch.tensor(labels), smoothing, 8)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_cells_of_the_smoothed_target_are_its_numbers() -> None:
    (axes,) = smoothed_target().figure.axes
    shares = np.asarray(axes.images[0].get_array())
    assert [float(text.get_text()) for text in axes.texts] == pytest.approx(shares.flatten().tolist(), abs=0.005)
    assert not shares[:, PAD].any()


def test_smoothed_loss_equals_the_cross_entropy_and_is_lowest_at_one_minus_smoothing() -> None:
    found = curves(smoothed_loss())
    for name, smoothing in (("ε = 0", 0.0), ("ε = 0.1", 0.1), ("ε = 0.4", 0.4)):
        chances, losses = found[name]
        for chance, loss in list(zip(chances, losses, strict=True))[::20]:
            expected = -(1 - smoothing) * math.log(chance) - smoothing * math.log((1 - chance) / 998)
            assert loss == pytest.approx(expected, abs=2e-3)
        lowest = chances[int(np.argmin(losses))]
        assert lowest == pytest.approx(1 - smoothing, abs=0.011)
