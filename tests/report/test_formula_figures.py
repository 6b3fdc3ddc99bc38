"""The numbers in the figures of formulas, against the formulas of the papers."""

import math

import numpy as np
import pytest

from nmt.config import TrainSettings
from nmt.report.formula_figures import (
    noam_schedules,
    other_schedules,
    schedule_of_recipe,
    sinusoidal_table,
    smoothed_loss,
    target_distributions,
)
from nmt.report.plotting import Drawing
from tests.model.reference_transformer import sinusoid


def curves(drawing: Drawing) -> dict[str, tuple[list[float], list[float]]]:
    """Return the points of the labelled lines of a figure."""
    (axes,) = drawing.figure.axes
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def test_position_encodings_equal_the_formula() -> None:
    expected = [sinusoid(position, 128).tolist() for position in range(100)]
    np.testing.assert_allclose(sinusoidal_table(), expected, atol=1e-5)


def test_noam_curves_have_their_highest_rate_at_the_end_of_the_warm_up() -> None:
    found = curves(noam_schedules())
    for dim, factor, warmup in ((512, 1, 4000), (512, 1, 8000), (256, 1, 4000), (512, 2, 8000)):
        steps, rates = found[f"dim {dim}, factor {factor}, warm-up {warmup:,}"]
        best = int(np.argmax(rates))
        assert steps[best] == warmup
        assert rates[best] == pytest.approx(factor / math.sqrt(dim * warmup), rel=1e-5)
        assert rates[-1] == pytest.approx(factor / math.sqrt(dim * 20_000), rel=1e-5)


def test_figure_of_schedules_has_all_with_one_highest_rate() -> None:
    found = curves(other_schedules())
    assert found.keys() == {"noam", "inverse_sqrt", "constant", "linear", "cosine", "wsd"}
    for _, rates in found.values():
        assert max(rates) == pytest.approx(1 / math.sqrt(512 * 4000), rel=1e-5)


def test_schedule_of_a_recipe_has_its_steps() -> None:
    settings = TrainSettings.model_validate(
        {"schedule": {"name": "linear", "rate": 0.1, "warmup": 2}, "stop": {"steps": 4}}
    )
    steps, rates = curves(schedule_of_recipe(settings, 8))["linear"]
    assert steps == [1, 2, 3, 4]
    assert rates == pytest.approx([0.05, 0.1, 0.05, 0.0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_target_distributions_equal_the_definition(smoothing: float) -> None:
    found = target_distributions([4, 3, 0], 6, smoothing)
    share = smoothing / 4  # padding and the reference have no share
    assert found[0].tolist() == pytest.approx([0, share, share, share, 1 - smoothing, share], abs=1e-6)
    assert found[1].tolist() == pytest.approx([0, share, share, 1 - smoothing, share, share], abs=1e-6)
    assert not found[2].any(), "a padded position has no loss"


def test_smoothed_loss_equals_the_cross_entropy_and_is_lowest_at_one_minus_smoothing() -> None:
    drawing = smoothed_loss()
    (axes,) = drawing.figure.axes
    for name, smoothing in (("ε = 0", 0.0), ("ε = 0.1", 0.1), ("ε = 0.4", 0.4)):
        chances, losses = curves(drawing)[name]
        for chance, loss in list(zip(chances, losses, strict=True))[::20]:
            expected = -(1 - smoothing) * math.log(chance) - smoothing * math.log((1 - chance) / 7998)
            assert loss == pytest.approx(expected, abs=2e-3)
        lowest = chances[int(np.argmin(losses))]
        assert lowest == pytest.approx(1 - smoothing, abs=0.011)
    assert axes.get_xlabel() == "probability of the reference token"
