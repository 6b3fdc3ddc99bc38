"""Drawings by matplotlib: one style for the files of `nmt figures` and for the page of `nmt report`.

Figures are made without pyplot, so that no global state remains; `drawing_style` is the only setting.
"""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt
from cycler import cycler
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

# The colour of text and axes; in a page that of its text, which depends on the theme.
INK = "#1b1f24"
# The palette of Okabe & Ito (2008), which people with any colour vision can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", INK, "#E69F00", "#56B4E9")
# Widths in inches: of figures with several panels, and of those that share a row of a page. Text has 9 points, so that
# it is as large as the text of the page.
WIDE, HALF, THIRD, QUARTER = 8.0, 4.6, 3.3, 2.3
# Inches around the axes of a chart: left, right, bottom, top. They are fixed, so that charts in a row are aligned.
Margins = tuple[float, float, float, float]
MARGINS: Margins = (0.5, 0.1, 0.42, 0.12)
_HAN_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "WenQuanYi Micro Hei")
_COLUMNS = 12  # letters of a title in an inch
# The common Simplified and Traditional characters, for machines without a font that has them.
_SHIPPED = "common-han.ttf"
_GENERATED_ID = re.compile(r' id="[\w.]+_\d+"')
_FONT_FAMILY = re.compile(r" font-family: [^;\"]+;?")

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Drawing:
    """A figure, and what it shows in words."""

    # The name of its files, without extension.
    name: str
    title: str
    # What to see in it.
    caption: str
    figure: Figure
    # The function or class whose results are drawn.
    code: str = ""
    part: Literal["attention", "positions", "training", "search"] = "training"
    # The model and the sentence, or the runs, if it is of some.
    subject: str = ""


@cache
def font_families() -> tuple[str, ...]:
    """Return the fonts of labels; matplotlib takes each character from the first one that has it."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    shipped = str(files("nmt.report").joinpath(_SHIPPED))
    font_manager.fontManager.addfont(shipped)
    found = [name for name in _HAN_FONTS if name in installed]
    return ("DejaVu Sans", *found[:1], font_manager.FontProperties(fname=shipped).get_name())


@contextmanager
def drawing_style() -> Iterator[None]:
    """Set the style of the figures that are made and written inside the block."""
    ink = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    style: Any = {
        **ink,
        "font.family": list(font_families()),
        "font.size": 9,
        "text.parse_math": False,  # a token may be a dollar sign
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": INK,
        "grid.alpha": 0.15,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "figure.facecolor": "white",
        "savefig.dpi": 150,
        "image.cmap": "cividis",  # equal steps of lightness for any colour vision; it also prints well in grey
        "image.interpolation": "none",  # in SVG: one pixel for each cell
        "svg.hashsalt": "nmt",  # the same figure is the same file
    }
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a box stands for it
        yield


def new_figure(height: float = 3.0, width: float = HALF) -> Figure:
    """Return an empty figure of a size in inches; two of the standard width are beside each other in a page."""
    return Figure(figsize=(width, height), layout="constrained")


def new_chart(
    height: float = 2.4, width: float = HALF, margins: Margins = MARGINS, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, one below the other and sharing x, inside fixed margins."""
    left, right, bottom, top = margins
    inside = {"left": left / width, "right": 1 - right / width, "bottom": bottom / height, "top": 1 - top / height}
    figure = Figure(figsize=(width, height))
    panels = figure.subplots(rows, 1, sharex=True, squeeze=False, gridspec_kw=inside)
    return figure, list(panels.flatten())


def set_logarithmic(axes: Axes, name: Literal["x", "y"]) -> None:
    """Give drawn lines a logarithmic axis with ticks that are plain numbers."""
    axes.set(**{f"{name}scale": "log"})
    axis: Any = getattr(axes, f"{name}axis")
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1,) if high > 1000 * low else (1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def label_ends(axes: Axes, size: float = 9) -> None:
    """Write the label of each line at its right end, without overlap; call it when the limits of the axes are set."""
    points, lowest = 72 / axes.figure.dpi, -np.inf
    ends: list[tuple[float, Any, Any]] = []
    for line in axes.lines:
        if not str(line.get_label()).startswith("_"):
            end = np.asarray(line.get_xydata())[-1]
            ends.append((points * axes.transData.transform(end)[1], end, line))
    for height, end, line in sorted(ends, key=lambda entry: entry[0]):
        lowest = max(height, lowest + 1.2 * size)
        place: Any = {"xytext": (9, lowest - height), "textcoords": "offset points", "va": "center"}
        axes.annotate(str(line.get_label()), end, **place, color=line.get_color(), fontsize=size)


def write_drawing(drawing: Drawing, directory: Path) -> None:
    """Write NAME.png and NAME.svg, with the title and the subject above the figure."""
    columns = _COLUMNS if max(drawing.subject, default="") < "\u2e80" else _COLUMNS // 2  # East Asian ones are wide
    lines = [drawing.title, fill(drawing.subject, int(columns * drawing.figure.get_figwidth()))]
    drawing.figure.suptitle("\n".join(filter(None, lines)), x=0.01, y=1, ha="left", va="bottom", fontsize=10)
    drawing.figure.savefig(directory / f"{drawing.name}.png", bbox_inches="tight")
    drawing.figure.set_layout_engine("none")  # keeps the layout, which takes most of the time
    metadata = {"Date": None, "Title": drawing.title, "Description": drawing.caption}
    svg = _svg(drawing.figure, metadata=metadata, bbox_inches="tight")
    (directory / f"{drawing.name}.svg").write_text(svg, encoding="utf-8")


def inline_svg(drawing: Drawing) -> str:
    """Return the figure as an SVG element: transparent, with the fonts, the ink and the blue of the page."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        svg = _svg(drawing.figure, transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = _FONT_FAMILY.sub("", svg)
    # generated ids are equal in all figures; those that are referred to are digests
    svg = _GENERATED_ID.sub("", svg[svg.index("<svg") :])
    svg = svg.replace(INK, "currentColor").replace(COLOURS[0].lower(), "var(--blue)")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(f"{drawing.title}. {drawing.caption}")}"', 1)


def _svg(figure: Figure, **options: Any) -> str:
    """Return a figure as SVG without indentation, which is a tenth of it."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", **options)
    return re.sub(r"\n +", "\n", stream.getvalue())


def label_cells(image: Any, labels: Sequence[Sequence[str]], size: float = 7) -> None:
    """Write a label into each cell of an image, black on light cells and white on dark ones."""
    for (row, column), shade in np.ndenumerate(image.norm(image.get_array())):
        colour = "#000000" if shade > 0.5 else "#ffffff"
        image.axes.text(column, row, labels[row][column], ha="center", va="center", color=colour, fontsize=size)


def heat_map(
    panels: Sequence[Axes],
    values: Iterable[Matrix],
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float] = (0.0, 1.0),
) -> Any:
    """Draw matrices of values within limits in panels that share their axes, with a label for each row and column.

    Returns the last image, for a legend.
    """
    image = None
    for axes, matrix in zip(panels, values, strict=True):
        image = axes.imshow(matrix, vmin=limits[0], vmax=limits[1], aspect="auto")
        axes.tick_params(length=0, labelsize=8)
        axes.tick_params(axis="x", labelrotation=90)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
    panels[0].set_xticks(range(len(columns)), columns)
    panels[0].set_yticks(range(len(rows)), rows)
    return image
