"""A text with its translations by one or two systems: scores, faults, and the chart of chrF by length."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from nmt.evaluation.buckets import Bucket, length_buckets, length_unit
from nmt.evaluation.findings import Finding, diagnose
from nmt.evaluation.metrics import Comparison, Measurement, Score, measure
from nmt.report.charts import Chart, bar_chart
from nmt.report.page import bullets
from nmt.system.console import Advance
from nmt.text.languages import TargetLanguage

METRICS = ("bleu", "chrf")


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
