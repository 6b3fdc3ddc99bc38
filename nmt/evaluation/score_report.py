"""The report of `nmt score`: scores of one or more systems, their comparison with a baseline, warnings."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from nmt.evaluation.findings import Finding
from nmt.evaluation.metrics import Bucket, Comparison, Score
from nmt.text.languages import TargetLanguage


@dataclass(frozen=True, slots=True)
class SystemScores:
    """The scores of one system."""

    name: str
    scores: tuple[Score, ...]
    # With the baseline, one for each score; none for the baseline itself.
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    # For each score its values in the buckets.
    by_length: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """The scores of the systems, the first one of which is HYP; the last one is the baseline, if there is one."""

    lines: int
    language: TargetLanguage
    systems: tuple[SystemScores, ...]
    # Reasons why the scores may not be meaningful.
    warnings: tuple[str, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    # What the buckets count, such as words of the reference.
    length_of: str = ""

    def as_json(self) -> str:
        """Return the report as one JSON object: the scores of HYP, then those of all systems if there are several."""
        language = {name: getattr(self.language, name) for name in ("code", "found", "tokenizer")}
        systems = list(map(self._system_as_json, self.systems))
        report = {"lines": self.lines, "language": language, **systems[0], "warnings": self.warnings}
        if len(systems) > 1:
            report["systems"] = systems
        return json.dumps(report, ensure_ascii=False, indent=2)

    def _system_as_json(self, system: SystemScores) -> dict[str, object]:
        scores = [asdict(score) for score in system.scores]
        for entry, comparison in zip(scores, system.comparisons, strict=False):
            entry["comparison"] = asdict(comparison)
            entry["comparison"] |= {"difference": comparison.difference, "verdict": comparison.verdict}
        for entry, values in zip(scores, system.by_length, strict=False):
            entry["by_length"] = [
                {self.length_of: bucket.name, "lines": len(bucket.lines), "value": value}
                for bucket, value in zip(self.buckets, values, strict=True)
            ]
        return {"name": system.name, "scores": scores, "findings": Counter(one.kind for one in system.findings)}

    def as_text(self) -> str:
        """Return a table of the scores, one of the scores by length if asked for, and the signatures."""
        signatures = [[one.name, one.signature] for one in self.systems[0].comparisons or self.systems[0].scores]
        tables = [list(self._scores()), *([list(self._scores_by_length())] if self.buckets else []), signatures]
        return "\n\n".join(map(_aligned, tables))

    def _scores(self) -> Iterator[list[str]]:
        for index, metric in enumerate(self.systems[0].scores):
            name = f"{metric.name} (lower is better)" if metric.lower_is_better else metric.name
            for system in self.systems:
                row = [name, self._shown_name(system), system.scores[index].text, "", ""]
                if system.comparisons:
                    one = system.comparisons[index]
                    row[-2:] = f"{one.difference:+.2f}", f"{one.verdict} (p = {one.p_value:.3f})"
                elif self.systems[0].comparisons:
                    row[-1] = "baseline"
                yield row
                name = ""

    def _scores_by_length(self) -> Iterator[list[str]]:
        yield [f"by {self.length_of}", "", *(bucket.name for bucket in self.buckets)]
        yield ["lines", "", *(f"{len(bucket.lines):,}" for bucket in self.buckets)]
        for index, metric in enumerate(self.systems[0].scores):
            name = metric.name
            for system in self.systems:
                yield [name, self._shown_name(system), *(f"{one:.2f}" for one in system.by_length[index])]
                name = ""

    def _shown_name(self, system: SystemScores) -> str:
        return system.name if len(self.systems) > 1 else ""


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns, without empty columns."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*padded, strict=True))
