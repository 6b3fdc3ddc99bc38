"""The section Quality: scores of translated texts, best and worst sentences, faults."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate, islice

from nmt.evaluation.buckets import Bucket, length_buckets, length_unit
from nmt.evaluation.findings import KINDS, Finding, diagnose
from nmt.evaluation.metrics import RESAMPLES, Comparison, Measurement, Score, measure
from nmt.report.charts import Chart, bar_chart
from nmt.report.line_view import LEGEND, LineTexts, lines_html
from nmt.report.page import Section, bullets, definitions, folded, paragraphs, table
from nmt.system.console import Advance, counted
from nmt.text.languages import TargetLanguage

METRICS = ("bleu", "chrf")
_SHOWN = 10
"""Best and worst sentences."""
_EXAMPLES = 5
"""Sentences of each kind of fault."""
_MOST_LISTED = 300
"""Sentences in the list of all sentences."""
_MOST_CHARACTERS = 200_000
"""Characters in all these lists of a page, which takes about 10 bytes for one."""


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

    @property
    def measured_length(self) -> tuple[str, list[str]]:
        """The name and the lines of the text whose length makes the groups: the source, else the reference."""
        return ("reference", self.reference) if self.source is None else ("source", self.source)


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


def bucket_scores(
    text: TranslatedText, names: Iterable[str], buckets: Sequence[Bucket]
) -> list[tuple[str, dict[str, float]]]:
    """Return the chrF of each system in each bucket, by the name and the number of lines of the bucket."""
    measured = [(name, text.measured(name)[-1]) for name in names]
    return [
        (name, {f"{bucket.name} ({len(bucket.lines):,})": one.score_of(bucket.lines) for bucket in buckets})
        for name, one in measured
    ]


def length_chart(text: TranslatedText, names: Sequence[str]) -> Chart:
    """Return the chrF of systems by the length of lines."""
    side, lines = text.measured_length
    buckets = length_buckets(lines)
    series = bucket_scores(text, names, buckets)
    metric_name, unit = text.measured(names[0])[-1].name, length_unit(lines)
    labels = (f"{unit} of the {side} (lines)", metric_name)
    summary = f"By {unit} of the {side}; in brackets the number of lines."
    return bar_chart(f"{metric_name} by length", summary, labels, series)


def signatures(scores: Iterable[Score | Comparison]) -> str:
    """Return a list of metrics with their signatures."""
    return bullets(f"{escape(one.name)}: <code>{escape(one.signature)}</code>" for one in scores)


def shown_lines(
    text: TranslatedText,
    names: Sequence[str],
    indices: Iterable[int],
    scores: Sequence[str],
    findings: Sequence[Finding] = (),
) -> list[LineTexts]:
    """Return what is shown of the lines with these indices; `scores` has an entry for each line of the text."""
    return [
        LineTexts(
            index + 1,
            text.reference[index],
            tuple((name, text.systems[name][index]) for name in names),
            None if text.source is None else text.source[index],
            scores[index],
            [one for one in findings if one.line == index + 1],
        )
        for index in indices
    ]


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
        return lines_html(shown_lines(text, [name], indices, line_scores, findings), text.languages)

    title = text.title if len(text.systems) == 1 else f"{text.title}: {name}"
    html = f"<h3>{escape(title)}</h3>{definitions(facts)}{signatures(scores)}"
    html += f'<div data-chart="{chart}"></div>'
    html += _findings_html(text, name, findings, line_scores)
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


def _findings_html(text: TranslatedText, name: str, findings: Sequence[Finding], scores: Sequence[str]) -> str:
    """Return the counts of faults, and the sentences of each kind with the lowest scores."""
    by_line = text.line_scores(name)
    if not findings:
        return "<h4>Faults</h4><p>No line has a fault of those that are searched for.</p>"
    rows, examples = [], ""
    for kind, meaning in KINDS.items():
        own = sorted((one for one in findings if one.kind == kind), key=lambda one: by_line[one.line - 1])
        if own:
            rows.append((kind, len(own), meaning))
            lines = shown_lines(text, [name], [one.line - 1 for one in own[:_EXAMPLES]], scores, own)
            title = f"{kind}: {len(lines)} of {len(own):,}" if len(own) > len(lines) else f"{kind}: {len(own)}"
            examples += folded(title, lines_html(lines, text.languages))
    return f"<h4>Faults</h4>{table(('kind', 'lines', 'the line has'), rows)}{examples}"
