"""Drawings by matplotlib: one style for the files of `nmt figures` and for the page of `nmt report`.

Figures are made without pyplot, so that no global state remains; `drawing_style` sets that of `drawing.mplstyle`.
"""

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt
from cycler import cycler
from markupsafe import Markup, escape
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import Bbox
from rich.cells import cell_len, set_cell_size

from nmt.system.console import printable

# The colour of text and axes; a page replaces it by the colour of its text, which depends on the theme.
INK = "#1b1f24"
# The palette of Okabe & Ito (2008), which people with any colour vision can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", INK, "#E69F00", "#56B4E9")
# Widths in inches: of figures with several panels, and of those that share a row of a page. Text has 9 points, so that
# it is as large as the text of the page.
WIDE, HALF, THIRD, QUARTER = 8.0, 4.6, 3.3, 2.3
# Inches around the axes of a chart: left, right, bottom, top. They are fixed, so that charts in a row are aligned.
MARGINS = (0.55, 0.1, 0.42, 0.12)
_HAN_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "WenQuanYi Micro Hei")
LEGEND_LINE = 0.17  # inches
_LONGEST_NAME = 45  # characters in a legend
_COLUMNS = 12  # letters of a title in an inch
_BOX_COLUMNS = 10  # letters of a piece in a box
_FILES = Path(__file__).parent
_GENERATED_ID = re.compile(r' id="[\w.]+_\d+"')
_FONT_FAMILY = re.compile(r" font-family: [^;\"]+;?")

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Drawing:
    """A figure, and what it shows in words."""

    name: str  # of its files, without extension
    title: str
    caption: str  # what to see in it
    figure: Figure
    code: str = ""  # the function or class whose results are drawn
    part: Literal["attention", "positions", "training", "search"] = "training"  # in a page in this order
    subject: str = ""  # the model and the sentence, or the runs, that it shows; empty if it shows none


@cache
def font_families() -> tuple[str, ...]:
    """Return the fonts of labels; matplotlib takes each character from the first one that has it.

    The last one is ours: the common Simplified and Traditional characters, for machines without a font that has them.
    """
    installed = {font.name for font in font_manager.fontManager.ttflist}
    shipped = _FILES / "common-han.ttf"
    font_manager.fontManager.addfont(shipped)
    han_fonts = [name for name in _HAN_FONTS if name in installed]
    return ("DejaVu Sans", *han_fonts[:1], font_manager.FontProperties(fname=shipped).get_name())


@contextmanager
def drawing_style() -> Iterator[None]:
    """Set the style of the figures that are made and written inside the block."""
    style: Any = {"font.family": list(font_families()), "axes.prop_cycle": cycler(color=COLOURS)}
    with matplotlib.rc_context(style, _FILES.joinpath("drawing.mplstyle")), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a box stands for it
        yield


def new_figure(height: float = 3.0, width: float = HALF) -> Figure:
    """Return an empty figure of a size in inches; two of the standard width are beside each other in a page."""
    return Figure(figsize=(width, height), layout="constrained")


def in_legend(name: str) -> str:
    """Return the end of a name for a legend; matplotlib leaves out names that begin with an underscore."""
    name = name if len(name) <= _LONGEST_NAME else f"…{name[-_LONGEST_NAME:]}"
    return f" {name}" if name.startswith("_") else name


def legend_below(figure: Figure, axes: Axes) -> None:
    """Draw a legend of all names of the axes, one a line of `LEGEND_LINE`, at the bottom of the figure."""
    names = axes.get_legend_handles_labels()
    figure.legend(*names, loc="lower left", fontsize=8, frameon=False, labelspacing=0.2, borderpad=0, handlelength=4)


def new_chart(
    height: float = 2.4, width: float = HALF, margins: tuple[float, float, float, float] = MARGINS, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, one below the other and sharing x, inside fixed margins."""
    left, right, bottom, top = margins
    inside = {"left": left / width, "right": 1 - right / width, "bottom": bottom / height, "top": 1 - top / height}
    figure = Figure(figsize=(width, height))
    panels = figure.subplots(rows, 1, sharex=True, squeeze=False, gridspec_kw=inside)
    for axis in (axis for axes in panels.flat for axis in (axes.xaxis, axes.yaxis)):
        axis.set_major_formatter(short_number)
    return figure, list(panels.flat)


def short_number(value: float, _: object = None) -> str:
    """Return a number as a short label, which fits into the margins of a chart.

    >>> [short_number(value) for value in (0, 0.00015, 0.01234, 54.62, 999.99, 12_500, 999_999, 1.25e6, math.nan)]
    ['0', '1.5e-4', '0.0123', '54.62', '1000', '12.5k', '1e6', '1.25e6', 'nan']
    """
    value = float(f"{value:.4g}")
    if 10_000 <= abs(value) < 1e6:
        return f"{value / 1000:g}k"
    if value == 0 or 0.01 <= abs(value) < 10_000 or not math.isfinite(value):
        return f"{round(value, 4):g}"
    mantissa, exponent = (f"{value:.2e}" if abs(value) > 1 else f"{value:.1e}").split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def set_logarithmic(axes: Axes, name: Literal["x", "y"]) -> None:
    """Give drawn lines a logarithmic axis with ticks that are plain numbers."""
    axes.set(**{f"{name}scale": "log"})
    axis: Any = getattr(axes, f"{name}axis")
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1,) if high > 1000 * low else (1, 2, 5)))
    axis.set_major_formatter(short_number)
    axis.set_minor_formatter(NullFormatter())


def label_ends(axes: Axes) -> None:
    """Write the labels of one or two lines at their right ends, that of the higher line above its end."""
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    lines.sort(key=lambda line: float(np.asarray(line.get_ydata())[-1]))
    for line, alignment in zip(lines, ("center",) if len(lines) == 1 else ("top", "bottom"), strict=True):
        style: Any = {"textcoords": "offset points", "va": alignment, "color": line.get_color()}
        axes.annotate(str(line.get_label()), np.asarray(line.get_xydata())[-1], (9, 0), **style)


def write_drawing(drawing: Drawing, directory: Path) -> None:
    """Write NAME.png and NAME.svg, with the title and the subject above the figure."""
    figure = drawing.figure
    columns = _COLUMNS if max(drawing.subject, default="") < "\u2e80" else _COLUMNS // 2  # East Asian ones are wide
    lines = [drawing.title, fill(printable(drawing.subject), int(columns * figure.get_figwidth()))]
    heading = figure.suptitle("\n".join(filter(None, lines)), x=0.01, y=1, ha="left", va="bottom", fontsize=10)
    box = Bbox.union([figure.bbox, heading.get_window_extent()]).transformed(figure.dpi_scale_trans.inverted())
    metadata = {"Date": None, "Title": drawing.title, "Description": drawing.caption}
    svg = _svg(figure, metadata=metadata, bbox_inches=box.padded(0.08))
    (directory / f"{drawing.name}.svg").write_text(svg, encoding="utf-8")
    figure.savefig(directory / f"{drawing.name}.png", bbox_inches=box.padded(0.08))


def inline_svg(drawing: Drawing) -> Markup:
    """Return the figure as an SVG element: transparent, with the fonts, the ink and the blue of the page."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        svg = _svg(drawing.figure, transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = _FONT_FAMILY.sub("", svg)
    # generated ids, equal in all figures, are not referred to; ids that are referred to are digests
    svg = _GENERATED_ID.sub("", svg[svg.index("<svg") :])
    svg = svg.replace(INK, "currentColor").replace(COLOURS[0].lower(), "var(--blue)")
    label = escape(f"{drawing.title}. {drawing.caption}")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1))


def _svg(figure: Figure, **options: Any) -> str:
    """Return a figure as SVG without indentation, a tenth of its size; the layout of the figure is fixed."""
    if engine := figure.get_layout_engine():  # with it, every file would be laid out anew and drawn twice
        engine.execute(figure)
        figure.set_layout_engine(None)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", **options)
    return re.sub(r"\n +", "\n", stream.getvalue())


def heat_map(
    axes: Axes,
    values: Matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float] = (0.0, 1.0),
    labels: Sequence[Sequence[str]] | None = None,
) -> Any:
    """Draw a matrix of values within limits, with a label for each row, each column and perhaps each cell.

    Returns the image, for a legend.
    """
    image = axes.imshow(values, vmin=limits[0], vmax=limits[1], aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=90 if max(map(len, columns)) > 2 else 0)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, labelsize=8)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for row, texts in enumerate(labels or ()):
        for column, text in enumerate(texts):
            colour = "#000000" if values[row, column] > sum(limits) / 2 else "#ffffff"  # on a light or a dark cell
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=7.5)
    return image


def shortened_piece(piece: str) -> str:
    """Return a piece that fits in its box, where East Asian characters take two columns."""
    return piece if cell_len(piece) <= _BOX_COLUMNS else f"{set_cell_size(piece, _BOX_COLUMNS - 1)}…"
