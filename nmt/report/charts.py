"""Charts of the page: a specification for the chart library, and the same numbers as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Number = int | float


@dataclass(frozen=True)
class Chart:
    """A chart, and its alternative as text for screen readers and print."""

    title: str
    summary: str
    """One sentence: what the chart shows, in numbers."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Number | None, ...], ...]
    """The table of its numbers."""
    specification: Mapping[str, Any]
    """For the chart library, without colours: the page sets those of the light or dark theme."""


@dataclass(frozen=True)
class Series:
    """A named sequence of points; None is a gap."""

    name: str
    x: Sequence[Number]
    y: Sequence[Number | None]


def line_chart(title: str, summary: str, axes: tuple[str, str], series: Sequence[Series]) -> Chart:
    """Return lines over a common horizontal axis; `axes` are the labels of the horizontal and the vertical one."""
    rows = tuple((one.name, x, y) for one in series for x, y in zip(one.x, one.y, strict=True))
    return Chart(title, summary, ("series", *axes), rows, {})


def bar_chart(
    title: str, summary: str, axes: tuple[str, str], series: Sequence[tuple[str, Mapping[str, Number]]]
) -> Chart:
    """Return bars, side by side for several series; each series maps the name of a bar to its length."""
    rows = tuple((name, bar, value) for name, bars in series for bar, value in bars.items())
    return Chart(title, summary, ("series", *axes), rows, {})


def histogram(title: str, summary: str, axes: tuple[str, str], series: Sequence[tuple[str, Sequence[Number]]]) -> Chart:
    """Return the distributions of values over common intervals; each series is a name and its values."""
    rows = tuple((name, "values", len(values)) for name, values in series)
    return Chart(title, summary, ("series", *axes), rows, {})
