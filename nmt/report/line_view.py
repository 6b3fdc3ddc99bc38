"""Sentences of the page: source, reference and outputs below each other, with the differences of words marked."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from html import escape

from nmt.evaluation.findings import Finding
from nmt.report.translated_text import TranslatedText
from nmt.text.languages import UNSPACED
from nmt.text.readers import shortened

_TOKEN = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|.", re.DOTALL)
_LONGEST = 2000
"""Characters of a sentence that are shown and compared; the comparison takes quadratic time."""

LEGEND = (
    '<p class="muted">In the output, <del>words that the reference lacks</del>; in the reference, <ins>words that '
    "the output lacks</ins>. In Chinese and Japanese, single characters are compared.</p>"
)


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


def lines_html(
    text: TranslatedText,
    names: Sequence[str],
    indices: Iterable[int],
    scores: Sequence[str],
    findings: Sequence[Finding] = (),
) -> str:
    """Return the lines with these indices, one after the other, as one or two systems translated them.

    `scores` has an entry for each line of the text, such as `chrF 34.1`.
    """
    lines = (_line_html(text, names, index, scores[index], findings) for index in indices)
    return f'<div class="lines">{"".join(lines)}</div>'


def _line_html(text: TranslatedText, names: Sequence[str], index: int, score: str, findings: Sequence[Finding]) -> str:
    """Return one line. A single output is compared with the reference, two outputs with each other."""
    source, target = (f' lang="{escape(code)}"' if code else "" for code in text.languages)
    reference, outputs = text.reference[index], [text.systems[name][index] for name in names]
    rows = [] if text.source is None else [("source", source, escape(shortened(text.source[index], _LONGEST)))]
    if len(names) == 1:
        rows.append(("reference", target, marked(reference, outputs[0], "ins")))
        rows.append((names[0], target, marked(outputs[0], reference, "del")))
    else:
        rows.append(("reference", target, escape(shortened(reference, _LONGEST))))
        before, after = outputs
        rows += [(names[0], target, marked(before, after, "del")), (names[1], target, marked(after, before, "ins"))]
    facts = [f"line {index + 1:,}", score]
    facts += [f"{one.kind}: {one.detail}" if one.detail else one.kind for one in findings if one.line == index + 1]
    texts = "".join(f"<dt>{escape(name)}</dt><dd{code}>{html or '<em>empty</em>'}</dd>" for name, code, html in rows)
    return f'<div class="line"><p class="muted">{escape(" · ".join(facts))}</p><dl>{texts}</dl></div>'
