"""Figures by matplotlib: style, palettes, heat-maps, and the files of a figure. No display is needed.

Figures are made without pyplot, so that no global state remains; `drawing_style` is the only setting.
"""

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from nmt.report.fonts import LabelFonts

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""The palette of Okabe & Ito (2008), which people with any colour vision can distinguish."""
_WIDTH = 8.0
"""Inches. Text is chosen to be readable where a figure is 800 pixels wide."""

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Drawing:
    """A figure, and what it shows in words."""

    name: str
    """The name of its files, without extension."""
    title: str
    caption: str
    code: str
    """The function or class whose results are drawn."""
    figure: Figure


@contextmanager
def drawing_style(fonts: LabelFonts | None = None) -> Iterator[None]:
    """Set the style of the figures that are made and written inside the block."""
    style: Any = {
        "font.family": list(fonts.families) if fonts else ["DejaVu Sans"],
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": "#d9d9d9",
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",
        "savefig.dpi": 150,
        "image.cmap": "cividis",  # equal steps of lightness for any colour vision; it also prints well in grey
        "svg.fonttype": "path",  # a viewer needs no font, and shows Chinese characters without one
        "svg.hashsalt": "nmt",  # the same figure is the same file
    }
    # bold titles make the log report that fonts with Chinese characters have no bold face
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with matplotlib.rc_context(style):
            yield
    finally:
        log.setLevel(level)


def new_figure(height: float = 4.2) -> Figure:
    """Return an empty figure of a height in inches."""
    return Figure(figsize=(_WIDTH, height), layout="constrained")


def write_drawing(drawing: Drawing, directory: Path) -> None:
    """Write NAME.png and NAME.svg."""
    pixels = io.BytesIO()
    drawing.figure.savefig(pixels, format="png")
    drawing.figure.set_layout_engine("none")  # keeps the layout, which takes most of the time
    with Image.open(pixels) as image:
        # 256 colours suffice for lines, text and one colour map, in a third of the bytes
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        palette.save(directory / f"{drawing.name}.png", optimize=True)
    metadata = {"Date": None, "Title": drawing.title, "Description": drawing.caption}
    drawing.figure.savefig(directory / f"{drawing.name}.svg", metadata=metadata)


def heat_map(axes: Axes, values: Matrix, rows: Sequence[str], columns: Sequence[str]) -> Any:
    """Draw values from 0 to 1 as cells with a label for each row and column; returns the image for a legend."""
    image = axes.imshow(values, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return image
