"""The section Comparison: two systems on the same text, and which is better on which lines."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape

import numpy as np
import numpy.typing as npt

from nmt.evaluation.findings import KINDS
from nmt.evaluation.metrics import RESAMPLES, Comparison, compare
from nmt.report.charts import Chart, histogram
from nmt.report.page import Section, chart_places, definitions, folded, paragraphs, table
from nmt.report.translated_text import TranslatedText, length_chart, lines_html, signatures
from nmt.text.glossary import Glossary, missing_terms
from nmt.text.normalize import normalize
from nmt.text.segment import words

_SHOWN = 10
_EQUAL = 0.5
"""Points of chrF: a line of a smaller difference is equally good."""


def comparison_section(
    texts: Sequence[TranslatedText],
    problems: Sequence[str] = (),
    glossary: Glossary | None = None,
) -> Section:
    """Return the section of texts with two systems each.

    A glossary adds how many of its terms each system translates as required; it needs the sources.
    """
    html = paragraphs(problems, "warning")
    charts: dict[str, Chart] = {}
    for text in texts:
        parts = {
            "lengths": length_chart(text, list(text.systems)),
            "differences": _difference_chart(text),
            "scores": _line_score_chart(text),
        }
        charts |= {f"{text.id}-{name}": chart for name, chart in parts.items()}
        html += f"<h3>{escape(text.title)}</h3>{_scores_html(text)}{_terms_html(text, glossary)}"
        html += f"{chart_places(f'{text.id}-{name}' for name in parts)}{_sentences_html(text)}"
    return Section("comparison", "Comparison", html, charts, assets=("lines.css",))


def _scores_html(text: TranslatedText) -> str:
    """Return the scores with their significance, the number of lines won, and the faults of both systems."""
    first, second = text.systems
    comparisons = list(map(compare, text.measured(first), text.measured(second)))
    scores = [[one.score(RESAMPLES).text for one in text.measured(name)] for name in text.systems]
    rows = [
        (one.name, *values, f"{one.difference:+.2f}", f"{one.p_value:.3f}")
        for one, *values in zip(comparisons, *scores, strict=True)
    ]
    head = ("metric", first, second, "difference", "p")
    differences = _line_differences(text)
    won, lost = (int((sign * differences > _EQUAL).sum()) for sign in (1, -1))
    facts = [
        ("lines", f"{len(differences):,}", text.note),
        (f"lines on which {first} is better", f"{won:,}", f"{won / len(differences):.1%}"),
        (f"lines on which {second} is better", f"{lost:,}", f"{lost / len(differences):.1%}"),
        ("equal lines", f"{len(differences) - won - lost:,}", f"within {_EQUAL} chrF"),
        ("identical lines", f"{sum(map(str.__eq__, *text.systems.values())):,}", ""),
    ]
    faults = [Counter(one.kind for one in text.diagnosed(name)) for name in text.systems]
    found = [(kind, *(one[kind] for one in faults), KINDS[kind]) for kind in KINDS if any(one[kind] for one in faults)]
    caption = "95 % intervals by bootstrap resampling; p by paired bootstrap resampling, below 0.05 significant."
    html = f"{_verdicts_html(comparisons, first, second)}{table(head, rows, caption)}"
    html += f"{signatures(comparisons)}{definitions(facts)}"
    if found:
        html += table(("fault", first, second, "the line has"), found, "Lines with faults.")
    return html


def _verdicts_html(comparisons: Sequence[Comparison], first: str, second: str) -> str:
    """Return who is better by which metrics, in words."""
    verdicts = {"better": f"{first} is significantly better", "worse": f"{second} is significantly better"}
    metrics: dict[str, list[str]] = {}
    for one in comparisons:
        metrics.setdefault(verdicts.get(one.verdict, "No significant difference"), []).append(one.name)
    sentences = (
        f"<strong>{escape(text)}</strong> in {escape(' and '.join(names))}." for text, names in metrics.items()
    )
    return f"<p>{' '.join(sentences)}</p>"


def _line_differences(text: TranslatedText) -> npt.NDArray[np.float64]:
    """Return chrF of the first system minus chrF of the second one for each line."""
    first, second = (np.array(text.line_scores(name), dtype=np.float64) for name in text.systems)
    return first - second


def _difference_chart(text: TranslatedText) -> Chart:
    first, second = text.systems
    differences = _line_differences(text)
    title = f"Lines by chrF of {first} minus chrF of {second}"
    mean = float(differences.mean())
    summary = (
        f"Right of 0, {first} is better; the bar at 0 has the lines that are about equal. The mean is {mean:+.2f}."
    )
    edges = np.arange(-102.5, 103, 5)  # equal lines are in the middle of a bar
    used = edges[(edges > differences.min() - 5) & (edges < differences.max() + 5)]
    return histogram(title, summary, ("difference of chrF", "% of lines"), [("lines", differences)], used)


def _line_score_chart(text: TranslatedText) -> Chart:
    scores = [(name, np.array(text.line_scores(name))) for name in text.systems]
    medians = ", ".join(f"{name} {np.median(values):.1f}" for name, values in scores)
    summary = f"The chrF of each line alone. Medians: {medians}."
    return histogram("Lines by chrF", summary, ("chrF", "% of lines"), scores, np.arange(0, 101, 5))


def _terms_html(text: TranslatedText, glossary: Glossary | None) -> str:
    """Return how many glossary terms each system translates as required, once for each occurrence."""
    if glossary is None or text.source is None:
        return ""
    required = [glossary.targets(normalize(line)) for line in text.source]
    count = sum(map(len, required))
    if not count:
        return "<p>No line of the source has a term of the glossary.</p>"
    rows = []
    for name, lines in {**text.systems, "reference": text.reference}.items():
        both = zip(required, lines, strict=True)
        missing = sum(len(missing_terms(targets, normalize(line))) for targets, line in both)
        rows.append((name, f"{count - missing:,}", f"{1 - missing / count:.1%}"))
    return table(("", "terms as required", "share"), rows, f"{count:,} occurrences of glossary terms in the source.")


def _sentences_html(text: TranslatedText) -> str:
    """Return the sentences that differ most in chrF, in both directions, and those that differ most in words."""
    first, second = text.systems
    differences = _line_differences(text)
    values = map(text.line_scores, text.systems)
    scores = [f"chrF {one:.1f} and {two:.1f}" for one, two in zip(*values, strict=True)]
    order = np.argsort(-differences, kind="stable").tolist()
    better = [index for index in order if differences[index] > _EQUAL]
    worse = [index for index in order[::-1] if differences[index] < -_EQUAL]
    changed = _most_changed(text)
    html = (
        f"<h4>Sentences that differ most</h4><p class='muted'><del>Words of {escape(first)} that {escape(second)} "
        f"lacks</del>, and <ins>the reverse</ins>.</p>"
    )
    for title, indices in ((f"{first} is better", better), (f"{second} is better", worse)):
        if indices:
            count = f"{_SHOWN} of {len(indices):,}" if len(indices) > _SHOWN else f"{len(indices)}"
            lines = lines_html(text, list(text.systems), indices[:_SHOWN], scores)
            html += folded(f"{title} ({count})", lines, is_open=True)
    if changed:
        lines = lines_html(text, list(text.systems), changed, scores)
        html += folded(f"Most changed words ({len(changed)})", lines)
    return html if better or worse or changed else f"{html}<p>The outputs are equally good.</p>"


def _most_changed(text: TranslatedText) -> list[int]:
    """Return the lines whose outputs share the smallest part of their words."""
    ratios = []
    for index, (one, two) in enumerate(zip(*text.systems.values(), strict=True)):
        if one != two:
            # an upper bound of the ratio that takes linear time
            ratios.append((SequenceMatcher(None, words(one), words(two), autojunk=False).quick_ratio(), index))
    return [index for _, index in sorted(ratios)[:_SHOWN]]
