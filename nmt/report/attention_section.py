"""The section Attention: alignments, and the attention of every layer and head, for a few sentences.

The weights are quantized to bytes; `attention.js` draws them. Without a script, a table has the strongest key of each
query.
"""

import base64
import unicodedata
from collections.abc import Sequence
from html import escape
from itertools import accumulate
from typing import Any

import numpy as np

from nmt.decoding.alignment import Attention
from nmt.report.page import Section, paragraphs, table
from nmt.report.sentences import DrawnSentence
from nmt.text.normalize import normalize
from nmt.text.segment import words

TITLES = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Attention to the source"}
_MEANINGS = {
    "encoder": "each source token (row) to the source tokens (columns)",
    "decoder": "each target token that is read (row) to itself and those before it (columns)",
    "cross": "each target token that is predicted (row) to the source tokens (columns)",
}
_ORDER = "One picture for each head, layer after layer."
_LEVELS = 255
_SIZE, _GAP, _HEIGHT = 16, 18, 130
"""Font size, space between words and height of the drawing of an alignment, in pixels."""


def attention_section(sentences: Sequence[DrawnSentence], remarks: Sequence[str] = ()) -> Section:
    """Return the section for these sentences."""
    html = "<p>Each picture is a head; a darker cell is a larger weight (in the dark theme a lighter one). The pointer "
    html += "gives the weight of a cell. Choose a head to enlarge it: then arrow keys give it too.</p>"
    html += paragraphs(remarks)
    html += "".join(_sentence(number, one) for number, one in enumerate(sentences))
    html += '<dialog id="attention-dialog"></dialog>'
    data = {"sentences": [_data(one) for one in sentences]}
    return Section("attention", "Attention", html, data=data, assets=("attention.css", "attention.js"))


def _sentence(number: int, one: DrawnSentence) -> str:
    """Return the html of a sentence: its translation, its alignment, and a place for the heads of each kind."""
    html = f"<h3>Line {one.line}</h3>{alignment_drawing(one)}"
    for kind, title in TITLES.items():
        html += (
            f"<h4>{title}</h4>{paragraphs([f'From {_MEANINGS[kind]}. {_ORDER}'], 'muted')}"
            f'<div class="heads" data-sentence="{number}" data-kind="{kind}"><output></output></div>'
            f'<details class="screen-only"><summary>Strongest weights</summary>{_strongest(one, kind)}</details>'
        )
    return html


def tokens_of(attention: Attention, kind: str) -> tuple[list[str], list[str]]:
    """Return the queries and the keys of a kind of attention, with the special symbols."""
    source, read, predicted = [*attention.source, "</s>"], ["<s>", *attention.target], [*attention.target, "</s>"]
    return {"encoder": (source, source), "decoder": (read, read), "cross": (predicted, source)}[kind]


def _data(one: DrawnSentence) -> dict[str, Any]:
    """Return tokens, and for each kind the weights as base64 of bytes, layer by layer, head by head, row by row."""
    content: dict[str, Any] = {}
    for kind, title in TITLES.items():
        weights = getattr(one.attention.weights, kind).numpy()
        rows, columns = tokens_of(one.attention, kind)
        quantized = np.rint(weights * _LEVELS).astype(np.uint8)
        content[kind] = {
            "title": title, "rows": rows, "columns": columns, "layers": len(weights), "heads": weights.shape[1],
            "weights": base64.b64encode(quantized.tobytes()).decode(),
        }  # fmt: skip
    return content


def _strongest(one: DrawnSentence, kind: str) -> str:
    """Return a table with a row for each head and a column for each query: its strongest key and that weight."""
    rows, columns = tokens_of(one.attention, kind)
    weights = getattr(one.attention.weights, kind)
    body = [
        (f"{layer}, {head}", *(f"{columns[int(row.argmax())]} {float(row.max()):.2f}" for row in of_head))
        for layer, of_layer in enumerate(weights, start=1)
        for head, of_head in enumerate(of_layer, start=1)
    ]
    return table(("layer, head", *rows), body)


def alignment_drawing(one: DrawnSentence) -> str:
    """Return an SVG with the words of both sides and lines between those that are aligned, and the same as text."""
    source, target = words(normalize(one.source)), words(normalize(one.translation))
    (centres, width), (target_centres, target_width) = map(_centres, (source, target))
    width, middle, above, below = round(max(width, target_width)), f"{_HEIGHT / 2:.0f}", 24, _HEIGHT - 14
    lines = "".join(
        f'<path d="M{centres[i]:.0f} {above + 8}C{centres[i]:.0f} {middle} '
        f'{target_centres[j]:.0f} {middle} {target_centres[j]:.0f} {below - _SIZE - 2}"/>'
        for i, j in one.links
    )
    text = "".join(
        f'<text x="{x:.0f}" y="{y}">{escape(word)}</text>'
        for y, side, places in ((above, source, centres), (below, target, target_centres))
        for word, x in zip(side, places, strict=True)
    )
    pairs = ", ".join(f"{source[i]} – {target[j]}" for i, j in one.links) or "none"
    return (
        f'<div class="scroll" tabindex="0"><svg class="alignment" role="img" width="{width}" height="{_HEIGHT}" '
        f'viewBox="0 0 {width} {_HEIGHT}" aria-label="{escape(f"Aligned words: {pairs}")}">{lines}{text}</svg></div>'
        f"<details><summary>Aligned words</summary><p>{escape(pairs)}</p></details>"
    )


def _centres(side: Sequence[str]) -> tuple[list[float], float]:
    """Return the horizontal centre of each word, and the width of all."""
    widths = [text_width(word, _SIZE) for word in side]
    *starts, end = accumulate((width + _GAP for width in widths), initial=float(_GAP))
    return [start + width / 2 for start, width in zip(starts, widths, strict=True)], end


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is in a sans-serif font: East Asian characters are as wide as high."""
    return size * sum(1.0 if unicodedata.east_asian_width(character) in "WF" else 0.56 for character in text)
