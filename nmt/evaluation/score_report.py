"""The report of `nmt score`: scores of one or more systems, their comparison with a baseline, warnings."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from nmt.evaluation.findings import Finding
from nmt.evaluation.metrics import Comparison, Score
from nmt.text.languages import TargetLanguage

_WIDTH = 80
"""Wider rows are cut in two lines, the second one with the signature."""


@dataclass(frozen=True, slots=True)
class BucketScores:
    """The scores of the lines of one length, in the order of the metrics."""

    words: str
    lines: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SystemScores:
    """The scores of one system."""

    name: str
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...] = ()
    """With the baseline, one for each score; none for the baseline itself."""
    findings: tuple[Finding, ...] = ()
    by_length: tuple[BucketScores, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """The scores of the systems, the first one of which is HYP; the last one is the baseline, if there is one."""

    lines: int
    language: TargetLanguage
    systems: tuple[SystemScores, ...]
    warnings: tuple[str, ...] = ()
    """Reasons why the scores may not be meaningful."""
    length_of: str = "words of the reference"
    """What the buckets count."""

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores of HYP."""
        return self.systems[0].scores

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons of HYP with the baseline."""
        return self.systems[0].comparisons

    def as_json(self) -> str:
        """Return the report as one JSON object: the scores of HYP, then those of all systems."""
        systems = [_system_as_json(system) for system in self.systems]
        language = {name: getattr(self.language, name) for name in ("code", "found", "tokenizer")}
        own = {key: value for key, value in systems[0].items() if key != "name"}
        report = {"lines": self.lines, "language": language, **own, "warnings": self.warnings}
        if len(systems) > 1:
            report["systems"] = systems
        return json.dumps(report, ensure_ascii=False, indent=2)

    def as_text(self) -> str:
        """Return one line per score (name, value, interval, signature), for several systems one block per metric."""
        if len(self.systems) == 1:
            blocks = [_one_system(self.scores)]
        else:
            blocks = [self._metric_block(index) for index in range(len(self.scores))]
        return "\n\n".join([*blocks, *(f"{title}\n{align(rows, indent=2)}" for title, rows in self._by_length())])

    def _metric_block(self, index: int) -> str:
        """Return the values of one metric: its signature, then one line per system."""
        score = self.scores[index]
        notes = ["lower is better"] if score.lower_is_better else []
        notes += ["with 95 % intervals"] if score.confidence else []
        rows = [[system.name, *_value_and_verdict(system, index)] for system in self.systems]
        if self.comparisons:
            rows[-1][-1] = "baseline"
        return "\n".join([", ".join([score.name, *notes]), f"  {self._signature(index)}", align(rows, indent=2)])

    def _signature(self, index: int) -> str:
        return self.comparisons[index].signature if self.comparisons else self.scores[index].signature

    def _by_length(self) -> list[tuple[str, list[list[str]]]]:
        """Return tables with one column per length: one with a row per metric, for several systems one per metric."""
        parts = self.systems[0].by_length
        if not parts:
            return []
        head = [["", *(part.words for part in parts)], ["lines", *(f"{part.lines:,}" for part in parts)]]

        def row(name: str, system: SystemScores, index: int) -> list[str]:
            return [name, *(f"{part.values[index]:.2f}" for part in system.by_length)]

        metrics = list(enumerate(score.name for score in self.scores))
        if len(self.systems) == 1:
            return [(f"By {self.length_of}", [*head, *(row(name, self.systems[0], index) for index, name in metrics)])]
        return [
            (f"{name} by {self.length_of}", [*head, *(row(one.name, one, index) for one in self.systems)])
            for index, name in metrics
        ]


def align(rows: Iterable[Sequence[str]], indent: int = 0) -> str:
    """Return rows as lines with aligned columns."""
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows if i < len(row) - 1) for i in range(max(map(len, rows)) - 1)]
    lines = (
        " " * indent + "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]])
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _one_system(scores: Sequence[Score]) -> str:
    values = [[score.name, _value(score), *(["lower is better"] if score.lower_is_better else [])] for score in scores]
    rows = [[*row, score.signature] for row, score in zip(values, scores, strict=True)]
    text = align(rows)
    if max(map(len, text.split("\n"))) <= _WIDTH:
        return text
    lines = align([[*row, ""] for row in values]).split("\n")
    return "\n".join(f"{line}\n  {score.signature}" for line, score in zip(lines, scores, strict=True))


def _value(score: Score) -> str:
    return score.text + (" (95 %)" if score.confidence else "")


def _value_and_verdict(system: SystemScores, index: int) -> list[str]:
    value = system.scores[index].text
    if not system.comparisons:
        return [value, "", ""]
    comparison = system.comparisons[index]
    verdict = f"{comparison.verdict} (p = {comparison.p_value:.3f})"
    return [value, f"{comparison.difference:+.2f}", verdict]


def _system_as_json(system: SystemScores) -> dict[str, object]:
    comparisons = [
        asdict(comparison) | {"difference": comparison.difference, "verdict": comparison.verdict}
        for comparison in system.comparisons
    ]
    counts = Counter(finding.kind for finding in system.findings)
    report: dict[str, object] = {"name": system.name, "scores": [asdict(score) for score in system.scores]}
    report |= {"comparisons": comparisons, "findings": counts}
    if system.by_length:
        report["by_length"] = [asdict(part) for part in system.by_length]
    return report
