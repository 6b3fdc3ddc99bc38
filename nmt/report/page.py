"""The page: one HTML file that requests nothing from a network.

Each section is a tab. All text that comes from users passes through `escape`, or through `json_for_script` where the
page's scripts read it.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from nmt.report import check_matplotlib
from nmt.report.charts import Chart, chart_script, short

_PLACE = re.compile(r'<div data-chart="([^"]*)"></div>')


@dataclass(frozen=True)
class Section:
    """A tab of the page."""

    id: str
    """A word: the fragment of its address, and the prefix of the ids in its html."""
    title: str
    html: str
    """With `<div data-chart="NAME"></div>` where the chart of that name is placed."""
    charts: Mapping[str, Chart] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON for the section's own script."""
    assets: tuple[str, ...] = ()
    """Names of the .css and .js files in nmt/report/ that this section needs, besides those of the page."""


def json_for_script(content: object) -> str:
    """Return JSON that cannot end the `<script>` element around it. Raises ValueError for NaN and infinity."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """Return an HTML table; all cells are escaped, and None is an empty cell.

    A column with a number in it is aligned to the right.
    """
    rows = [tuple(row) for row in rows]
    numeric = {index for row in rows for index, cell in enumerate(row) if isinstance(cell, int | float)}
    names = [' class="number"' if index in numeric else "" for index in range(len(columns))]
    head = "".join(f'<th scope="col"{name}>{escape(text)}</th>' for name, text in zip(names, columns, strict=True))
    lines = (zip(names, row, strict=True) for row in rows)
    body = "".join(f"<tr>{''.join(f'<td{name}>{_text(cell)}</td>' for name, cell in line)}</tr>" for line in lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    content = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    label = escape(f"Table: {caption or ', '.join(filter(None, columns))}")
    return f'<div class="scroll" role="group" aria-label="{label}" tabindex="0">{content}</div>'


def definitions(items: Sequence[tuple[str, str, str]]) -> str:
    """Return a list of short facts, each with its name, its value and a note; all are escaped."""
    entries = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}{f'<small>{escape(note)}</small>' if note else ''}</dd></div>"
        for name, value, note in items
    )
    return f'<dl class="cards">{entries}</dl>'


def paragraphs(texts: Iterable[object], style: str = "") -> str:
    """Return paragraphs, in a style of the page such as `warning`; all texts are escaped."""
    attribute = f' class="{style}"' if style else ""
    return "".join(f"<p{attribute}>{escape(str(text))}</p>" for text in texts)


def bullets(items: Iterable[str]) -> str:
    """Return HTML items as a list; no list for none."""
    entries = "".join(f"<li>{item}</li>" for item in items)
    return entries and f"<ul>{entries}</ul>"


def folded(summary: str, html: str, is_open: bool = False) -> str:
    """Return HTML that opens at a click."""
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>{html}</details>"


def chart_places(names: Iterable[str]) -> str:
    """Return the places of the charts of these names, beside each other on a wide screen."""
    places = "".join(f'<div data-chart="{name}"></div>' for name in names)
    return f'<div class="charts">{places}</div>'


def _text(value: object) -> str:
    if isinstance(value, float):
        return short(value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else escape(str(value))


def render_page(title: str, sections: Sequence[Section], warn: Callable[[str], None] | None = None) -> str:
    """Return the page as HTML. Raises ConfigError if the chart library is not installed.

    `warn` is called with a message if no font of this machine has some of the page's characters.
    """
    names = list(dict.fromkeys(["page.css", "page.js", *(name for section in sections for name in section.assets)]))
    styles = "\n".join(_asset(name) for name in names if name.endswith(".css"))
    library, scripts = chart_script(), [_asset(name) for name in names if name.endswith(".js")]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in (library, *scripts))
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    policy += "base-uri 'none'; form-action 'none'"
    tabs = "".join(f'<a href="#{section.id}">{escape(section.title)}</a>' for section in sections)
    body = "".join(_render_section(section) for section in sections)
    styles += _font_for(body + title, warn)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{styles}</style>
</head>
<body>
<header><div class="title"><h1>{escape(title)}</h1><button type="button" id="theme" hidden>Dark theme</button></div>
<nav aria-label="Sections"><div id="tabs">{tabs}</div></nav></header>
<main>{body}</main>
<script type="text/plain" id="library">{library}</script>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def _render_section(section: Section) -> str:
    def place(match: re.Match[str]) -> str:
        return _render_chart(match[1], section.charts[match[1]])

    html = _PLACE.sub(place, section.html)
    charts = {name: chart.specification for name, chart in section.charts.items()}
    content = json_for_script({"charts": charts, "data": section.data})
    return (
        f'<section id="{section.id}" aria-labelledby="{section.id}-title"><h2 id="{section.id}-title">'
        f'{escape(section.title)}</h2>{html}<script type="application/json">{content}</script></section>'
    )


def _render_chart(name: str, chart: Chart) -> str:
    label = escape(f"{chart.title}. {chart.summary}")
    return (
        f'<figure data-chart="{escape(name)}"><figcaption><strong>{escape(chart.title)}</strong> '
        f'{escape(chart.summary)}</figcaption><div class="chart" role="img" tabindex="0" aria-label="{label}"></div>'
        f'<details class="screen-only"><summary>Numbers</summary>{table(chart.columns, chart.rows, chart.note)}'
        "</details></figure>"
    )


def _font_for(text: str, warn: Callable[[str], None] | None) -> str:
    """Return a style sheet with a font for characters that the fonts of a machine often lack, such as Chinese."""
    beyond_latin = "".join({character for character in text if ord(character) >= 0x2E80})
    if not beyond_latin:
        return ""
    check_matplotlib()
    from nmt.report.fonts import embedded_font, fonts_for  # matplotlib is slow to import

    message = fonts_for([beyond_latin]).warning(": only browsers with a font of their own show them")
    if warn is not None and message is not None:
        warn(message)
    return embedded_font(beyond_latin)


def _asset(name: str) -> str:
    return files("nmt.report").joinpath(name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
