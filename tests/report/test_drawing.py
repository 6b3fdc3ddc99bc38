"""Drawings: text in any script, colours that follow the page, and files that do not depend on the time."""

import html
import re
import warnings
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from nmt.report.drawing import (
    INK,
    Drawing,
    drawing_style,
    font_families,
    heat_map,
    inline_svg,
    new_figure,
    shortened_piece,
    write_drawing,
)

LABELS = ["▁我", "喜欢", "繁體", "$x_1$", "<b>"]


def drawing_of(labels: list[str]) -> Drawing:
    figure = new_figure()
    heat_map(figure.subplots(), np.eye(len(labels), dtype=np.float32), labels, labels)
    return Drawing("name", "A <title>", "A caption.", figure)


def test_every_character_of_labels_has_a_glyph_and_dollars_begin_no_formula(tmp_path: Path) -> None:
    with drawing_style(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawing = drawing_of(LABELS)
        write_drawing(drawing, tmp_path)
        assert caught == []
        write_drawing(drawing_of(["\U0001f99c"]), tmp_path)  # in no font that is installed with matplotlib
    assert (font_families()[0], len(set(font_families()))) == ("DejaVu Sans", len(font_families()))
    assert any("missing from font" in str(one.message) for one in caught)


def test_files_have_title_and_caption_and_are_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    with drawing_style():
        for folder in (tmp_path, tmp_path / "again"):
            write_drawing(replace(drawing_of(LABELS), subject="run: a\x07b"), folder)
    ElementTree.parse(tmp_path / "name.svg")  # which has no control characters
    svg = (tmp_path / "name.svg").read_text("utf-8")
    assert "A &lt;title&gt;" in svg
    assert "A caption." in svg
    assert svg == (tmp_path / "again" / "name.svg").read_text("utf-8")
    assert (tmp_path / "name.png").read_bytes().startswith(b"\x89PNG")


def test_inline_drawing_has_the_colours_and_the_font_of_the_page() -> None:
    with drawing_style():
        svg = inline_svg(drawing_of(LABELS))
    assert svg.startswith('<svg role="img" aria-label="A &lt;title&gt;. A caption."')
    assert "font-family" not in svg, "that of the page"
    assert all(f">{html.escape(label, quote=False)}</text>" in svg for label in LABELS)
    assert "currentColor" in svg
    assert INK not in svg
    assert re.findall(r' id="((?:figure|axes|text)_\d+)"', svg) == []
    for reference in re.findall(r'(?:xlink:href="|url\()#([^")]+)', svg):
        assert f'id="{reference}"' in svg


@pytest.mark.parametrize("size", [3, 7])
def test_cells_of_a_heat_map_are_the_pixels_of_an_image(size: int) -> None:
    """A page with 144 heads stays small."""
    with drawing_style():
        small, large = (inline_svg(drawing_of([str(i) for i in range(count)])) for count in (size, size + 20))
    images = [re.search(r'base64,([^"]+)"', svg) for svg in (small, large)]
    assert all(image and len(image[1]) < 1000 for image in images)


def test_pieces_fit_in_boxes() -> None:
    pieces = ["▁Australia", "▁embarrassed", "说普通话", "说普通话和英语"]
    assert [*map(shortened_piece, pieces)] == ["▁Australia", "▁embarras…", "说普通话", "说普通话 …"]
