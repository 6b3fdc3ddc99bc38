"""Sentences of the page: source, reference and outputs below each other, with the differences of words marked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

from nmt.evaluation.findings import Finding
from nmt.text.languages import UNSPACED
from nmt.text.readers import shortened

_TOKEN = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|.", re.DOTALL)
_LONGEST = 2000
"""Characters of a sentence that are shown and compared; the comparison takes quadratic time."""

LEGEND = (
    '<p class="muted">In the output, <del>words that the reference lacks</del>; in the reference, <ins>words that '
    "the output lacks</ins>. In Chinese and Japanese, single characters are compared.</p>"
)


@dataclass(frozen=True)
class LineTexts:
    """What is shown of one line."""

    number: int
    """From 1."""
    reference: str
    outputs: tuple[tuple[str, str], ...]
    """The name of each system with its output."""
    source: str | None = None
    scores: str = ""
    """Such as `chrF 34.1`."""
    findings: Sequence[Finding] = ()


def marked(text: str, other: str, element: str) -> str:
    """Return the text as HTML; parts that the other text lacks are inside the element `ins` or `del`.

    >>> marked("the black cat", "the cat", "del")
    'the <del>black </del>cat'
    """
    tokens, others = _TOKEN.findall(text[:_LONGEST]), _TOKEN.findall(other[:_LONGEST])
    html = ""
    # in sentences of 200 words and more, frequent words are no anchors: otherwise repetitions take cubic time
    for operation, start, end, _, _ in SequenceMatcher(None, tokens, others).get_opcodes():
        part = escape("".join(tokens[start:end]))
        html += part if operation == "equal" or not part else f"<{element}>{part}</{element}>"
    return html + ("…" if len(text) > _LONGEST else "")


def line_html(line: LineTexts, languages: tuple[str, str]) -> str:
    """Return one line; `languages` are the codes of source and target.

    A single output is compared with the reference, two outputs with each other.
    """
    source, target = (f' lang="{escape(code)}"' if code else "" for code in languages)
    rows = [] if line.source is None else [("source", source, escape(shortened(line.source, _LONGEST)))]
    if len(line.outputs) == 1:
        ((name, output),) = line.outputs
        rows.append(("reference", target, marked(line.reference, output, "ins")))
        rows.append((name, target, marked(output, line.reference, "del")))
    else:
        (first, before), (second, after) = line.outputs
        rows.append(("reference", target, escape(shortened(line.reference, _LONGEST))))
        rows += [(first, target, marked(before, after, "del")), (second, target, marked(after, before, "ins"))]
    facts = [f"line {line.number:,}", *([line.scores] if line.scores else [])]
    facts += [f"{one.kind}: {one.detail}" if one.detail else one.kind for one in line.findings]
    texts = "".join(f"<dt>{escape(name)}</dt><dd{code}>{text or '<em>empty</em>'}</dd>" for name, code, text in rows)
    return f'<div class="line"><p class="muted">{escape(" · ".join(facts))}</p><dl>{texts}</dl></div>'


def lines_html(lines: Sequence[LineTexts], languages: tuple[str, str]) -> str:
    """Return lines one after the other."""
    return f'<div class="lines">{"".join(line_html(line, languages) for line in lines)}</div>'
