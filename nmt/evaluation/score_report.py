"""The report of `nmt score`: scores, comparison with a baseline, warnings; as JSON or as text."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from nmt.evaluation.metrics import RESAMPLES, Score
from nmt.evaluation.significance import Comparison
from nmt.text.languages import TargetLanguage


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """The scores of one system."""

    lines: int
    language: TargetLanguage
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...] = ()
    """One for each score, if there is a baseline."""
    warnings: tuple[str, ...] = ()
    """Reasons to distrust the scores."""

    def as_json(self) -> str:
        """Return the report as one JSON object."""
        report = asdict(self)
        report["language"]["tokenizer"] = self.language.tokenizer
        for entry, comparison in zip(report["comparisons"], self.comparisons, strict=True):
            entry["difference"] = comparison.difference
        return json.dumps(report, ensure_ascii=False, indent=2)

    def as_text(self) -> str:
        """Return one line a score (name, value, interval, signature), then the comparison."""
        text = _align([_score_row(score) for score in self.scores])
        if self.comparisons:
            head = ["", "system", "baseline", "difference", "p", ""]
            rows = [head, *(_comparison_row(comparison) for comparison in self.comparisons)]
            text += f"\n\npaired bootstrap, {RESAMPLES} samples\n" + _align(rows)
        return text


def _score_row(score: Score) -> list[str]:
    row = [score.name, f"{score.value:.2f}"]
    if score.confidence is not None:
        row.append(f"± {score.confidence.margin:.2f} (95 %)")
    if score.lower_is_better:
        row.append("lower is better")
    return [*row, score.signature]


def _comparison_row(comparison: Comparison) -> list[str]:
    verdict = "significant" if comparison.significant else "may be chance"
    numbers = [f"{comparison.value:.2f}", f"{comparison.baseline:.2f}", f"{comparison.difference:+.2f}"]
    return [comparison.name, *numbers, f"{comparison.p_value:.3f}", verdict]


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows if i < len(row) - 1) for i in range(max(map(len, rows)) - 1)]
    lines = (
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]])
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
