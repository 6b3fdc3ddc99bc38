"""A text with its translations by one or two systems: scores, faults, charts of chrF by group, and its lines as HTML.

Of a line, source, reference and outputs are below each other, with the differences of words marked.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from html import escape

from nmt.evaluation.buckets import Bucket, length_buckets, length_unit
from nmt.evaluation.findings import Finding, diagnose
from nmt.evaluation.metrics import Comparison, Measurement, Score, measure
from nmt.report.charts import Chart, bar_chart
from nmt.report.page import bullets
from nmt.system.console import Advance
from nmt.text.languages import UNSPACED, TargetLanguage
from nmt.text.readers import shortened

METRICS = ("bleu", "chrf")
_TOKEN = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|.", re.DOTALL)
_LONGEST = 2000
"""Characters of a sentence that are shown and compared; the comparison takes quadratic time."""

LEGEND = (
    '<p class="muted">In the output, <del>words that the reference lacks</del>; in the reference, <ins>words that '
    "the output lacks</ins>. In Chinese and Japanese, single characters are compared.</p>"
)


@dataclass(frozen=True)
class TranslatedText:
    """A text with its translations by one or two systems."""

    id: str
    """A word, such as `test`."""
    title: str
    """Such as `Test text`."""
    languages: tuple[str, str]
    """The codes of source and target; empty if unknown."""
    language: TargetLanguage
    """That of the target, for the metrics."""
    reference: list[str]
    systems: dict[str, list[str]]
    source: list[str] | None = None
    note: str = ""
    """Which part of the text it is, and what translated it."""
    measurements: dict[str, list[Measurement]] = field(default_factory=dict, compare=False)
    """Of each system, in the order of `METRICS`; computed when they are needed."""
    findings: dict[str, list[Finding]] = field(default_factory=dict, compare=False)
    """The faults in the lines of each system; likewise."""

    def measured(self, name: str, advance: Advance = lambda lines: None) -> list[Measurement]:
        """Return the statistics of a system under all metrics, computed once; `advance` as in `measure`."""
        if name not in self.measurements:
            self.measurements[name] = [
                measure(metric, self.systems[name], [self.reference], self.language, advance=advance)
                for metric in METRICS
            ]
        return self.measurements[name]

    def line_scores(self, name: str) -> list[float]:
        """Return the chrF of each line of a system."""
        return list(self.measured(name)[-1].line_scores())

    def diagnosed(self, name: str) -> list[Finding]:
        """Return the faults in the lines of a system, computed once."""
        if name not in self.findings:
            self.findings[name] = diagnose(self.systems[name], self.language, [self.reference], self.source)
        return self.findings[name]


def bucket_chart(
    text: TranslatedText, names: Sequence[str], buckets: Sequence[Bucket], titles: tuple[str, str], label: str
) -> Chart:
    """Return the chrF of systems in each bucket; `titles` are the title and the summary, `label` is of the buckets."""
    measured = {name: text.measured(name)[-1] for name in names}
    series = [
        (name, {f"{bucket.name} ({len(bucket.lines):,})": one.score_of(bucket.lines) for bucket in buckets})
        for name, one in measured.items()
    ]
    return bar_chart(*titles, (f"{label} (lines)", measured[names[0]].name), series)


def length_chart(text: TranslatedText, names: Sequence[str]) -> Chart:
    """Return the chrF of systems by the length of lines."""
    side, lines = ("reference", text.reference) if text.source is None else ("source", text.source)
    metric, label = text.measured(names[0])[-1].name, f"{length_unit(lines)} of the {side}"
    titles = (f"{metric} by length", f"By {label}; in brackets the number of lines.")
    return bucket_chart(text, names, length_buckets(lines), titles, label)


def signatures(scores: Iterable[Score | Comparison]) -> str:
    """Return a list of metrics with their signatures."""
    return bullets(f"{escape(one.name)}: <code>{escape(one.signature)}</code>" for one in scores)


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
