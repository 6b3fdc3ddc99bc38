"""The page: valid HTML, escaped text, and no script."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.report.drawing import HALF, QUARTER, WIDE, Drawing, drawing_style, new_figure
from nmt.report.page import (
    Html,
    bullets,
    element,
    figures,
    folded,
    joined,
    paragraphs,
    render_page,
    table,
)

HOSTILE = "</script><script>alert(1)</script></style><!-- <b \u2028 &amp; \" ' onload='x"
VOID = {"meta", "br", "img", "hr", "input", "link"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects elements and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len(dict(attributes)) == len(attributes), (tag, attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@given(st.text(), st.text())
def test_text_of_an_element_is_the_text_given(text: str, attribute: str) -> None:
    reader = read(element("p", text, element("b", text), lang=attribute))
    assert "".join(reader.text) == (text + text).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\0")
    assert [tag for tag, _ in reader.elements] == ["p", "b"]
    assert (reader.elements[0][1].get("lang") or "") == attribute


def test_everything_on_a_page_is_escaped_and_nothing_is_a_script() -> None:
    with drawing_style():
        figure = new_figure()
        figure.subplots().set_xlabel(HOSTILE)
        drawing = Drawing("name", HOSTILE, HOSTILE, figure)
        parts = [table([HOSTILE], [[HOSTILE]], HOSTILE)]
        parts += [paragraphs([HOSTILE], HOSTILE), bullets([HOSTILE]), figures([drawing])]
        parts += [folded(HOSTILE, element("pre", HOSTILE))]
        page = render_page(HOSTILE, {"One": joined(parts)})
    reader = read(page)
    names = {tag for tag, _ in reader.elements}
    assert not names & {"script", "b", "link", "img", "iframe", "object"}
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    addresses = [content.get("href") or content.get("src") for _, content in reader.elements]
    assert {address for address in addresses if address} == {"#one"}
    (policy,) = [one["content"] for _, one in reader.elements if one.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in str(policy)
    assert "script-src" not in str(policy)
    assert not re.search(r"@import|url\((?!#)", page)


def test_numbers_are_for_reading_and_aligned() -> None:
    html = table(["name", "count"], [["a", 1234], ["b", None], ["c", 0.00012345]])
    cells = re.findall(r'<td class="number">(.*?)</td>', html)
    assert cells == ["1,234", "", "0.0001234"]
    assert bullets([]) == ""


@pytest.mark.parametrize(("width", "style"), [(HALF, "half"), (QUARTER, "quarter"), (WIDE, "wide")])
def test_figures_fill_columns_by_their_width(width: float, style: str) -> None:
    figure = new_figure(width=width)
    figure.subplots()
    assert f'<figure class="{style}">' in figures([Drawing("name", "title", "caption", figure)])
    assert isinstance(figures([]), Html)
