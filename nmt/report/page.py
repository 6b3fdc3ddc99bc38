"""The page: one HTML file without scripts, which requests nothing from a network.

`element` is the one place where text becomes HTML: it escapes all that is not `Html` already.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from nmt.report.drawing import HALF, QUARTER, THIRD, Drawing, inline_svg

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_NUMBER = re.compile(r"[-+]?\d[\d.,]*[kMG%]?")
# What a figure fills of a row, by its width in inches.
_SPANS = {"quarter": QUARTER, "third": THIRD, "half": HALF, "wide": math.inf}


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


def element(name: str, *content: object, **attributes: str) -> Html:
    """Return an HTML element; attributes that are empty are left out, an underscore at the end of their names too.

    >>> element("p", "a < b, ", element("em", 2048), class_="note", lang="")
    '<p class="note">a &lt; b, <em>2,048</em></p>'
    """
    given = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items() if value)
    return Html(f"<{name}{given}>{joined(content)}</{name}>")


def joined(content: Iterable[object]) -> Html:
    """Return HTML and other content one after the other; all that is not HTML is escaped."""
    return Html("".join(one if isinstance(one, Html) else escape(shown(one)) for one in content))


def shown(value: object) -> str:
    """Return a value for reading; None is empty.

    >>> shown(0.0012345), shown(18725.93), shown(2048), shown(None)
    ('0.001234', '18,726', '2,048', '')
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> Html:
    """Return a table; a column of numbers is aligned to the right."""
    rows = list(rows)
    texts = [list(filter(None, map(shown, column))) for column in zip(*rows, strict=True)] or [[]] * len(columns)
    styles = ["number" if all(map(_NUMBER.fullmatch, column)) else "" for column in texts]
    head = [element("th", text, scope="col", class_=style) for text, style in zip(columns, styles, strict=True)]
    body = (
        element("tr", *(element("td", cell, class_=style) for cell, style in zip(row, styles, strict=True)))
        for row in rows
    )
    title = [element("caption", caption)] if caption else []
    content = element("table", *title, element("thead", element("tr", *head)), element("tbody", *body))
    return element("div", content, class_="scroll")


def paragraphs(texts: Iterable[str], style: str = "") -> Html:
    """Return paragraphs, in a style of the page such as `warning`."""
    return joined(element("p", text, class_=style) for text in texts)


def bullets(items: Iterable[object]) -> Html:
    """Return a list; nothing for no items."""
    entries = [element("li", item) for item in items]
    return element("ul", *entries) if entries else Html()


def folded(summary: str, *content: object) -> Html:
    """Return content that opens at a click."""
    return element("details", element("summary", summary), *content)


def figures(drawings: Iterable[Drawing], beside: Html | None = None) -> Html:
    """Return drawings with titles above and captions below, on a wide screen beside each other and other content."""
    entries = [_figure(drawing) for drawing in drawings]
    return element("div", *entries, *([element("div", beside, class_="half")] if beside else []), class_="figures")


def _figure(drawing: Drawing) -> Html:
    inches = drawing.figure.get_figwidth()
    span = next(name for name, width in _SPANS.items() if inches <= width)
    svg = inline_svg(drawing)
    if span == "wide":  # it is scrolled where the page is narrower
        svg = svg.replace("<svg", f'<svg style="min-width: {inches:.1f}in; max-width: {1.5 * inches:.1f}in"', 1)
    caption = [drawing.caption, *([element("small", f" Drawn by {drawing.code}.")] if drawing.code else [])]
    content = element("div", Html(svg), class_="scroll"), element("figcaption", *caption)
    return element("figure", element("strong", drawing.title), *content, class_=span)


def render_page(title: str, sections: Mapping[str, Html], intro: str = "", heading: str = "") -> str:
    """Return the page of sections by title, with a heading in place of its own title, and an introduction below it."""
    style = Html(files("nmt.report").joinpath("page.css").read_text(encoding="utf-8"))
    links = [element("a", name, href=f"#{name.lower()}") for name in sections]
    body = [element("section", element("h2", name), html, id=name.lower()) for name, html in sections.items()]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{element("title", title)}
{element("style", style)}
</head>
<body>
{element("header", element("h1", heading or title), intro, element("nav", *links))}
{element("main", *body)}
</body>
</html>
"""
