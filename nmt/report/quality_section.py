"""The section Quality: scores of translated texts, best and worst sentences, faults."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import accumulate, islice

from nmt.evaluation.findings import KINDS
from nmt.evaluation.metrics import RESAMPLES
from nmt.report.charts import Chart
from nmt.report.page import Section, definitions, folded, paragraphs, table
from nmt.report.translated_text import LEGEND, TranslatedText, length_chart, lines_html, signatures
from nmt.system.console import counted

_SHOWN = 10
"""Best and worst sentences."""
_EXAMPLES = 5
"""Sentences of each kind of fault."""
_MOST_LISTED = 300
"""Sentences in the list of all sentences."""
_MOST_CHARACTERS = 200_000
"""Characters in all these lists of a page, which takes about 10 bytes for one."""


def quality_section(texts: Sequence[TranslatedText], problems: Sequence[str] = ()) -> Section:
    """Return the section of all systems of each text; problems are shown first."""
    html = paragraphs(problems, "warning")
    if not texts and not problems:
        html = "<p>This run has no translated text: the recipe names neither a test nor a validation text.</p>"
    charts: dict[str, Chart] = {}
    systems = [(text, name, number) for text in texts for number, name in enumerate(text.systems, start=1)]
    for text, name, number in systems:
        id_ = f"{text.id}-length" if number == 1 else f"{text.id}-length-{number}"
        html += _system_html(text, name, id_, _MOST_CHARACTERS // len(systems))
        charts[id_] = length_chart(text, [name])
    return Section("quality", "Quality", html, charts, assets=("lines.css",))


def _system_html(text: TranslatedText, name: str, chart: str, most_characters: int) -> str:
    """Return the HTML of the translations of a text by one system, with a place for their chart."""
    scores = [one.score(RESAMPLES) for one in text.measured(name)]
    by_line = text.line_scores(name)
    findings = text.diagnosed(name)
    facts = [("lines", f"{len(by_line):,}", text.note)]
    for score in scores:
        assert score.confidence is not None
        facts.append((score.name, f"{score.value:.2f}", f"± {score.confidence.margin:.2f} (95 %)"))
    faulty = len({one.line for one in findings})
    facts.append(("lines with faults", f"{faulty:,}", f"{faulty / len(by_line):.1%}"))
    line_scores = [f"{scores[-1].name} {value:.1f}" for value in by_line]
    ordered = sorted(range(len(by_line)), key=lambda index: by_line[index])
    worst, best = ordered[:_SHOWN], ordered[_SHOWN:][-_SHOWN:][::-1]
    listed = _listed(text, name, most_characters)

    def show(indices: Iterable[int]) -> str:
        return lines_html(text, [name], indices, line_scores, findings)

    title = text.title if len(text.systems) == 1 else f"{text.title}: {name}"
    html = f"<h3>{escape(title)}</h3>{definitions(facts)}{signatures(scores)}"
    html += f'<div data-chart="{chart}"></div>'
    html += _findings_html(text, name, line_scores)
    html += f"<h4>Worst sentences</h4><p>The {counted(len(worst), 'line')} with the lowest {scores[-1].name}.</p>"
    html += f"{LEGEND}{show(worst)}"
    if best:
        html += folded(f"Best sentences ({len(best)})", show(best))
    count = f"{listed}" if listed == len(by_line) else f"the first {listed:,} of {len(by_line):,}"
    html += f'<details class="screen-only"><summary>All sentences in order ({count})</summary>'
    return f"{html}{show(range(listed))}</details>"


def _listed(text: TranslatedText, name: str, most_characters: int) -> int:
    """Return how many lines, at least one, are in the list of all sentences."""
    sides = [text.reference, text.systems[name], *([] if text.source is None else [text.source])]
    sizes = accumulate(sum(map(len, line)) for line in zip(*sides, strict=True))
    return max(1, sum(1 for size in islice(sizes, _MOST_LISTED) if size <= most_characters))


def _findings_html(text: TranslatedText, name: str, scores: Sequence[str]) -> str:
    """Return the counts of faults, and the sentences of each kind with the lowest scores."""
    findings, by_line = text.diagnosed(name), text.line_scores(name)
    if not findings:
        return "<h4>Faults</h4><p>No line has a fault of those that are searched for.</p>"
    rows, examples = [], ""
    for kind, meaning in KINDS.items():
        own = sorted((one for one in findings if one.kind == kind), key=lambda one: by_line[one.line - 1])
        if own:
            rows.append((kind, len(own), meaning))
            lines = [one.line - 1 for one in own[:_EXAMPLES]]
            title = f"{kind}: {len(lines)} of {len(own):,}" if len(own) > len(lines) else f"{kind}: {len(own)}"
            examples += folded(title, lines_html(text, [name], lines, scores, own))
    return f"<h4>Faults</h4>{table(('kind', 'lines', 'the line has'), rows)}{examples}"
