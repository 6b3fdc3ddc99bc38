"""The page: one HTML file without scripts, which requests nothing from a network.

Python gathers values, and the templates in `templates/` make HTML of them. They escape all that is not HTML already,
and show numbers by `shown`. Each section has a template; `page.html` surrounds them, `macros.html` has what they share.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nmt.evaluation.findings import KINDS
from nmt.report.drawing import HALF, QUARTER, THIRD, Drawing, inline_svg
from nmt.system.console import counted
from nmt.text.languages import UNSPACED_WORD, WORD_LETTER
from nmt.text.readers import shortened

_NUMBER = re.compile(r"[-+]?\d[\d.,]*[kMG%]?")
_TOKEN = re.compile(rf"\s+|{UNSPACED_WORD}|{WORD_LETTER}+|.", re.DOTALL)
LONGEST = 2000  # characters of a sentence that are shown and compared; the comparison takes quadratic time
# What a figure fills of a row of the page, by its largest width in inches.
_SPANS = {"quarter": QUARTER, "third": THIRD, "half": HALF}


def render(template: str, **values: object) -> Markup:
    """Return the HTML that a template makes of values."""
    return Markup(_ENVIRONMENT.get_template(template).render(values))


def render_page(title: str, sections: Mapping[str, Markup], heading: str = "", intro: str = "") -> str:
    """Return the page with its sections by title; `intro`, HTML or text, is below `heading`, by default the title."""
    return render("page.html", title=title, sections=sections, heading=heading or title, intro=intro)


def warning(text: str) -> Markup:
    """Return a paragraph on what is missing."""
    return Markup('<p class="warning">{}</p>').format(text)


def shown(value: object) -> str:
    """Return a value as text: numbers are rounded, None is empty, and HTML stays HTML.

    >>> shown(0.0012345), shown(18725.93), shown(2048), shown(None)
    ('0.001234', '18,726', '2,048', '')
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value)  # Markup is a kind of string


def number_columns(rows: Iterable[Sequence[object]]) -> list[bool]:
    """Return which columns of a table have numbers only.

    >>> number_columns([["a", 1234], ["2", None]])
    [False, True]
    """
    columns = (filter(None, map(shown, column)) for column in zip(*rows, strict=True))
    return [all(map(_NUMBER.fullmatch, column)) for column in columns]


def marked(text: str, other: str, name: str) -> Markup:
    """Return a text with the parts that the other text lacks inside elements `ins` or `del`.

    >>> str(marked("the black cat", "the cat", "del"))
    'the <del>black </del>cat'
    """
    tokens, others = _TOKEN.findall(text[:LONGEST]), _TOKEN.findall(other[:LONGEST])
    html = Markup()
    # in sentences of 200 words and more, frequent words are no anchors: otherwise repetitions take cubic time
    for operation, start, end, _, _ in SequenceMatcher(None, tokens, others).get_opcodes():
        part = "".join(tokens[start:end])
        html += part if operation == "equal" or not part else Markup("<{0}>{1}</{0}>").format(name, part)
    return html + ("…" if len(text) > LONGEST else "")


def span(drawing: Drawing) -> str:
    """Return the part of a row of the page that a drawing fills: the style of its element."""
    width = drawing.figure.get_figwidth()
    return next((name for name, largest in _SPANS.items() if width <= largest), "wide")


_ENVIRONMENT = Environment(
    loader=PackageLoader("nmt.report"), autoescape=True, undefined=StrictUndefined, finalize=shown,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
_FILTERS = counted, inline_svg, marked, number_columns, shortened, span
_ENVIRONMENT.filters |= {function.__name__: function for function in _FILTERS}
_ENVIRONMENT.globals |= {"KINDS": KINDS, "LONGEST": LONGEST, "zip": zip}
