"""Charts: thinning keeps extremes, histograms count every value, tables have the numbers, text is escaped."""

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError
from nmt.report.charts import (
    MOST_POINTS,
    MOST_ROWS,
    Series,
    bar_chart,
    chart_script,
    common_edges,
    histogram,
    line_chart,
    short,
    thinned,
)


@given(st.lists(st.none() | st.floats(-1e6, 1e6) | st.just(math.nan), max_size=300), st.integers(4, 60))
def test_thinned_series_keeps_ends_and_extremes(values: list[float | None], most: int) -> None:
    x, y = thinned(range(len(values)), values, most)
    assert len(x) == len(y) == min(len(values), len(x)) <= max(most, 4)
    assert x == sorted(set(x))
    finite = [value for value in values if value is not None and math.isfinite(value)]
    kept = [value for value in y if value is not None]
    if finite:
        assert min(kept) == pytest.approx(min(finite), rel=1e-5)
        assert max(kept) == pytest.approx(max(finite), rel=1e-5)
    if values:
        assert (x[0], x[-1]) == (0, len(values) - 1)
    for position, value in zip(x, y, strict=True):
        original = values[int(position)]
        assert value is None if original is None or math.isnan(original) else value == pytest.approx(original, rel=1e-5)


def test_long_series_is_thinned_and_its_table_is_short() -> None:
    y = [float(i % 7) for i in range(50_000)]
    y[12_345] = 99.0
    chart = line_chart("Loss", "Falls.", ("step", "nats"), [Series("training", range(50_000), y)])
    (trace,) = chart.specification["data"]
    assert len(trace["x"]) <= MOST_POINTS
    assert 99.0 in trace["y"]
    assert len(chart.rows) == MOST_ROWS
    assert (chart.rows[0][0], chart.rows[-1][0]) == (0, 49_999)
    assert chart.note == "The table has 100 of 50,000 points."


def test_table_of_lines_has_a_row_for_each_x_and_a_column_for_each_line() -> None:
    lines = [
        Series("a", [1, 3], [0.5, math.inf]),
        Series("b", [2, 3], [None, 4]),
        Series("best", [3], [4], is_best=True),
    ]
    chart = line_chart("t", "s", ("step", "loss"), lines)
    assert chart.columns == ("step", "a", "b")
    assert chart.rows == ((1, 0.5, None), (2, None, None), (3, None, 4))
    assert [trace["mode"] for trace in chart.specification["data"]] == ["lines+markers", "lines+markers", "markers"]


def test_bars_of_several_series_have_the_same_names() -> None:
    chart = bar_chart("t", "s", ("length", "BLEU"), [("A", {"0–9": 1, "10–19": 2.5}), ("B", {"10–19": 3})])
    assert chart.columns == ("length", "A", "B")
    assert chart.rows == (("0–9", 1, None), ("10–19", 2.5, 3))


@given(st.lists(st.integers(0, 500), min_size=1, max_size=200))
def test_histogram_counts_every_value_once(values: list[int]) -> None:
    edges = common_edges([np.array(values, dtype=np.float64)])
    assert len(edges) <= 45
    assert len(set(np.diff(edges))) == 1
    chart = histogram("t", "s", ("pieces", "%"), [("source", values)])
    for (low, high), (_, share) in zip(itertools.pairwise(edges), chart.rows, strict=True):
        last = high == edges[-1]
        expected = sum(low <= value and (value < high or last) for value in values)
        assert share == pytest.approx(100 * expected / len(values), rel=1e-4)


def test_histogram_of_nothing_and_of_equal_values() -> None:
    assert sum(share for _, share in histogram("t", "s", ("x", "%"), [("a", [])]).rows) == 0  # type: ignore[misc]
    assert sum(share for _, share in histogram("t", "s", ("x", "%"), [("a", [0.0, 0.0])]).rows) == 100  # type: ignore[misc]


def test_text_in_specifications_is_escaped() -> None:
    name = '<a href="http://example.org">x</a>'
    charts = [
        line_chart(name, name, (name, name), [Series(name, [1], [1])]),
        bar_chart(name, name, (name, name), [(name, {name: 1})]),
        histogram(name, name, (name, name), [(name, [1])]),
    ]
    for chart in charts:
        assert "<a" not in repr(chart.specification)


def test_numbers_are_short() -> None:
    assert [short(value) for value in (0.0012345, 18725.93, 0, 12.3456, -4321.9)] == [
        "0.001234", "18,726", "0", "12.35", "-4,322",
    ]  # fmt: skip


def test_missing_chart_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ConfigError, match=r"not installed; run: pip install matplotlib plotly"):
        chart_script()


def test_script_of_the_library_can_stand_in_a_page() -> None:
    script = chart_script()
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "\r" not in script
    assert script.startswith("/**\n* plotly.js")
