"""Charts of the page: a specification for plotly.js, and the same numbers as a table for screen readers and print.

The specifications have no colours: the page adds those of the light or dark theme. The Python part of plotly is not
imported; the page contains the script from its package. plotly.js reads text as HTML, so that all text is escaped.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.errors import ConfigError

Number = int | float
Cell = str | Number | None

MOST_POINTS = 1000
"""Points of a series that are drawn; more cannot be distinguished on a screen."""
MOST_ROWS = 100
"""Rows in the table of a line chart."""
_DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Chart:
    """A chart, and its alternative as text."""

    title: str
    summary: str
    """One sentence: what the chart shows, in numbers."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    """The table of its numbers."""
    specification: Mapping[str, Any]
    """`data` and `layout` of plotly.js."""
    note: str = ""
    """What the table or the chart leaves out."""


@dataclass(frozen=True)
class Series:
    """A named sequence of points with increasing x; None and infinite values are gaps."""

    name: str
    x: Sequence[Number]
    y: Sequence[Number | None]
    is_best: bool = False
    """Whether its points are stars, without a line."""


def chart_script() -> str:
    """Return the chart library's script. Raises ConfigError if the extra `report` is not installed."""
    found = find_spec("plotly")
    folders = [] if found is None else found.submodule_search_locations or []
    scripts = [path for path in (Path(one, "package_data/plotly.min.js") for one in folders) if path.exists()]
    if not scripts:
        raise ConfigError("plotly, which draws the charts, is not installed; run: pip install matplotlib plotly")
    return scripts[0].read_text(encoding="utf-8")


def line_chart(
    title: str, summary: str, axes: tuple[str, str], series: Sequence[Series], logarithmic: bool = False
) -> Chart:
    """Return lines over a common horizontal axis.

    `axes` are the labels of the horizontal and the vertical axis; `logarithmic` concerns the vertical one. Series of
    more than `MOST_POINTS` points are thinned out: their extremes remain.
    """
    traces = []
    for index, one in enumerate(series):
        x, y = thinned(one.x, one.y)
        trace: dict[str, Any] = {"type": "scatter", "name": escape(one.name), "x": x, "y": y}
        if one.is_best:
            trace |= {"mode": "markers", "marker": {"symbol": "star", "size": 14}}
        else:
            # a single point has no line
            trace |= {"mode": "lines" if len(x) > 30 else "lines+markers", "line": {"dash": _DASHES[index % 4]}}
        traces.append(trace)
    layout = _layout(axes)
    layout["xaxis"]["rangemode"] = "tozero"
    if logarithmic:
        # plotly.js itself labels the places between powers of ten with one digit
        ticks = [digit * 10.0**power for power in range(-3, 10) for digit in (1, 2, 5)]
        layout["yaxis"] |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
    lines = [one for one in series if not one.is_best]
    steps = sorted({x for one in lines for x in one.x})
    shown = [steps[round(place)] for place in np.linspace(0, len(steps) - 1, min(len(steps), MOST_ROWS))]
    values = [dict(zip(one.x, one.y, strict=True)) for one in lines]
    rows = tuple((x, *(_finite(value.get(x)) for value in values)) for x in shown)
    note = f"The table has {len(shown):,} of {len(steps):,} points." if len(shown) < len(steps) else ""
    columns = (axes[0], *(one.name for one in lines))
    return Chart(title, summary, columns, rows, {"data": traces, "layout": layout}, note)


def bar_chart(
    title: str, summary: str, axes: tuple[str, str], series: Sequence[tuple[str, Mapping[str, Number | None]]]
) -> Chart:
    """Return horizontal bars, beside each other for several series; a series maps the names of bars to lengths."""
    names = list(dict.fromkeys(name for _, bars in series for name in bars))
    places = [escape(name) for name in names]
    traces = [
        {"type": "bar", "orientation": "h", "name": escape(label), "y": places,
         "x": [_finite(bars.get(name)) for name in names]}
        for label, bars in series
    ]  # fmt: skip
    layout = _layout((axes[1], ""))
    layout["yaxis"] |= {"autorange": "reversed", "type": "category"}
    layout["height"] = 110 + 26 * len(names) * max(1, len(series))
    layout["hovermode"] = "y unified"
    rows = tuple((name, *(_finite(bars.get(name)) for _, bars in series)) for name in names)
    columns = (axes[0], *(label or axes[1] for label, _ in series))
    return Chart(title, summary, columns, rows, {"data": traces, "layout": layout})


def histogram(
    title: str,
    summary: str,
    axes: tuple[str, str],
    series: Sequence[tuple[str, npt.ArrayLike]],
    edges: npt.ArrayLike | None = None,
) -> Chart:
    """Return the share of values in each interval, in percent, for one or more series of values.

    Without `edges`, the intervals are equal and end at the 99.5th percentile; the last one also holds all above. An
    interval holds its lower edge, and not its upper one.
    """
    arrays = [(name, np.asarray(values, dtype=np.float64)) for name, values in series]
    bounds = common_edges([values for _, values in arrays]) if edges is None else np.asarray(edges, dtype=np.float64)
    names = [f"{low:g}–{high:g}" for low, high in itertools.pairwise(bounds.tolist())]
    names[-1] = f"≥ {bounds[-2]:g}"
    shares = {}
    for name, values in arrays:
        counts = np.histogram(np.clip(values, bounds[0], bounds[-1]), bounds)[0]
        shares[name] = [rounded(100 * float(count) / max(1, len(values))) for count in counts]
    traces = [
        {"type": "bar", "name": escape(name), "x": bounds[:-1].tolist(), "y": share, "width": np.diff(bounds).tolist(),
         "offset": 0, "customdata": names, "opacity": 1 if len(arrays) == 1 else 0.6,
         "hovertemplate": "%{customdata}: %{y:.2f} %"}
        for name, share in shares.items()
    ]  # fmt: skip
    layout = _layout(axes) | {"barmode": "overlay", "hovermode": "closest"}
    rows = tuple(zip(names, *shares.values(), strict=True))
    return Chart(title, summary, (axes[0], *shares), rows, {"data": traces, "layout": layout})


def common_edges(arrays: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Return the edges of at most 40 equal intervals of a round width, from 0 or below to the 99.5th percentile."""
    values = np.concatenate([array[np.isfinite(array)] for array in arrays] or [np.zeros(1)])
    low, high = (0.0, 1.0) if not len(values) else (min(0.0, float(values.min())), float(np.quantile(values, 0.995)))
    width = max(high - low, 1e-9) / 40
    unit = 10.0 ** math.floor(math.log10(width))
    width = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= width * (1 - 1e-9))
    if all(np.array_equal(array, np.floor(array)) for array in arrays):
        width = max(1.0, math.ceil(width))
    first, last = math.floor(low / width), math.floor(high / width) + 1
    return np.round(np.arange(first, max(last, first + 1) + 1) * width, 9)


def thinned(
    x: Sequence[Number], y: Sequence[Number | None], most: int = MOST_POINTS
) -> tuple[list[Number], list[Number | None]]:
    """Return at most `most` points, with the first, the last, and the lowest and highest of each part."""
    if len(x) <= most:
        return list(x), [_finite(value) for value in y]
    values = np.array([math.nan if value is None else value for value in y], dtype=np.float64)
    kept = {0, len(x) - 1}
    for part in np.array_split(np.arange(len(x)), (most - 2) // 2):
        usable = part[np.isfinite(values[part])]
        if len(usable):
            kept |= {int(usable[values[usable].argmin()]), int(usable[values[usable].argmax()])}
    indices = sorted(kept)
    return [x[i] for i in indices], [_finite(y[i]) for i in indices]


def rounded(value: float, digits: int = 6) -> float:
    """Return a number with a few significant digits, which shortens the page."""
    return float(f"{value:.{digits}g}")


def short(value: float) -> str:
    """Return a number for reading.

    >>> short(0.0012345), short(18725.93)
    ('0.001234', '18,726')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def sentence(parts: Iterable[str]) -> str:
    """Return parts of a summary as one sentence; "" for none."""
    text = "; ".join(parts)
    return text and f"{text[0].upper()}{text[1:]}."


def _finite(value: Number | None) -> Number | None:
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else rounded(value)


def _layout(axes: tuple[str, str]) -> dict[str, Any]:
    x, y = ({"title": {"text": escape(label)}, "automargin": True} for label in axes)
    return {"xaxis": x, "yaxis": y, "hovermode": "x unified"}
