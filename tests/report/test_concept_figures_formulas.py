"""The numbers in the figures of formulas, against the formulas of the papers."""

import math

import numpy as np
import pytest

from nmt.report.concept_figures import positions, schedules, smoothed_loss
from nmt.report.drawing import Drawing
from tests.model.reference_transformer import page


def curves(drawing: Drawing) -> dict[str, tuple[list[float], list[float]]]:
    """Return the points of the labelled lines of a figure."""
    (axes,) = drawing.figure.axes
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def test_position_encodings_equal_the_formula() -> None:
    expected = page.positional_encoding(100, 128).numpy()
    np.testing.assert_allclose(positions().figure.axes[0].images[0].get_array(), expected, atol=1e-5)


def test_schedules_have_one_highest_rate_at_the_end_of_the_warm_up() -> None:
    found = curves(schedules())
    assert found.keys() == {"noam", "inverse_sqrt", "constant", "linear", "cosine", "wsd"}
    for steps, rates in found.values():
        assert steps[int(np.argmax(rates))] == 4000
        assert max(rates) == pytest.approx(1 / math.sqrt(512 * 4000), rel=1e-5)
    assert found["noam"][1][-1] == pytest.approx(1 / math.sqrt(512 * 20_000), rel=1e-5)


def test_smoothed_loss_equals_the_cross_entropy_and_is_lowest_at_one_minus_smoothing() -> None:
    found = curves(smoothed_loss())
    for name, smoothing in (("ε = 0", 0.0), ("ε = 0.1", 0.1), ("ε = 0.4", 0.4)):
        chances, losses = found[name]
        for chance, loss in list(zip(chances, losses, strict=True))[::20]:
            expected = -(1 - smoothing) * math.log(chance) - smoothing * math.log((1 - chance) / 998)
            assert loss == pytest.approx(expected, abs=2e-3)
        lowest = chances[int(np.argmin(losses))]
        assert lowest == pytest.approx(1 - smoothing, abs=0.011)
