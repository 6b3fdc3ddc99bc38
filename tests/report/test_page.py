"""The page: valid HTML, escaped text, no script, and numbers and differences for reading."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

from nmt.config import LanguagePair
from nmt.report.drawing import HALF, QUARTER, WIDE, Drawing, drawing_style, new_figure
from nmt.report.page import marked, render, render_page
from nmt.report.translations import System, Text, comparison_html, quality_html

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


def hostile_systems() -> list[System]:
    """Two systems and three lines, in which everything is hostile, with faults and differences."""
    lines = [f"{HOSTILE} {number}" for number in range(3)]
    text = Text(HOSTILE, LanguagePair("en", "it"), lines, [f"{line} 7" for line in lines], HOSTILE)
    return [System(HOSTILE, text, translations) for translations in (lines, ["x", "", lines[2]])]


def test_everything_on_a_page_is_escaped_and_nothing_is_a_script() -> None:
    systems = hostile_systems()
    text, alone = systems[0].text, Text(HOSTILE, LanguagePair("", "it"), None, ["a"])
    recipe = {"changes": [[HOSTILE] * 3], "environment": [[HOSTILE] * 2], "commands": HOSTILE, "recipe": HOSTILE}
    with drawing_style():
        figure = new_figure()
        figure.subplots().set_xlabel(HOSTILE)
        drawings = [Drawing("name", HOSTILE, HOSTILE, figure, HOSTILE)]
        sections = {
            "Samples": render("samples.html", system=systems[1]),
            "Quality": quality_html(systems, [HOSTILE]),
            "Comparison": comparison_html([*systems, System(HOSTILE, alone, ["b"])]),
            "Training": render("training.html", remarks=[HOSTILE], drawings=drawings),
            "Attention": render("attention.html", path=HOSTILE, text=text, sentence=text.source[0], drawings=[]),
            "Settings": render("settings.html", **recipe),
            "Runs": render("runs.html", columns={"name": [HOSTILE]}, settings=[[HOSTILE] * 2], remarks=[HOSTILE]),
        }
    page = render_page(HOSTILE, sections, HOSTILE, render("subject.html", subject=HOSTILE))
    reader = read(page)
    names = {tag for tag, _ in reader.elements}
    assert not names & {"script", "b", "link", "img", "iframe", "object"}
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    addresses = {content.get("href") or content.get("src") for _, content in reader.elements} - {None}
    assert addresses == {f"#{name.lower()}" for name in sections}
    (policy,) = [one["content"] for _, one in reader.elements if one.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in str(policy)
    assert "script-src" not in str(policy)
    assert not re.search(r"@import|url\((?!#)", page)
    assert "&amp;lt;" not in page, "nothing is escaped twice"


def test_numbers_are_for_reading_and_aligned() -> None:
    rows = [["a", 1234, "1"], ["b", None, "x"], ["c", 0.00012345, "2"]]
    html = render("runs.html", columns={"name": ["count", "text"]}, settings=rows, remarks=[])
    table = html.split("</h3>")[1]
    assert re.findall(r'<td class="number">(.*?)</td>', table) == ["1,234", "", "0.0001234"]
    assert re.findall(r'<th scope="col" class="number">(.*?)</th>', table) == ["count"]


@pytest.mark.parametrize(("width", "style"), [(HALF, "half"), (QUARTER, "quarter"), (WIDE, "wide")])
def test_figures_fill_columns_by_their_width(width: float, style: str) -> None:
    figure = new_figure(width=width)
    figure.subplots()
    html = render("figures.html", drawings=[Drawing("name", "title", "caption", figure)])
    assert f'<figure class="{style}"' in html


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("the black cat", "the cat", "the <del>black </del>cat"),
        ("the cat", "the black cat", "the cat"),
        ("我们去看电影", "我们看电影", "我们<del>去</del>看电影"),
        ("", "a", ""),
        ("<b> & c", "<b> c", "&lt;b&gt; <del>&amp; </del>c"),
    ],
)
def test_words_that_the_other_line_has_not_are_marked(text: str, other: str, expected: str) -> None:
    assert marked(text, other, "del") == expected


@given(st.text(max_size=30), st.text(max_size=30))
def test_marked_text_is_the_text_itself(text: str, other: str) -> None:
    html = marked(text, other, "ins")
    assert re.sub("</?ins>", "", html) == escape(text)
    assert isinstance(html, Markup)


def test_long_sentences_are_cut() -> None:
    assert marked("a" * 5000, "b", "del") == f"<del>{'a' * 2000}</del>…"
    html = marked("a b " * 5000, "b a a " * 5000, "del")
    assert re.sub("</?del>", "", html) == "a b " * 500 + "…"
