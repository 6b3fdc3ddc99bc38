"""Stage 4: translations + references → scores.

>>> report = score(Path("test.out"), [Path("test.zh")])
>>> print(render(report))
BLEU   34.21  nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:2.6.0
chrF2  30.02  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.errors import ConfigError, DataError
from nmt.evaluation.diagnosis import doubts_about_empty, doubts_about_hypotheses
from nmt.evaluation.metrics import METRICS, RESAMPLES, Score, compute
from nmt.evaluation.significance import Comparison, compare
from nmt.text.corpus import decode_line, open_text, read_lines
from nmt.text.languages import TargetLanguage, detect_language, target_language

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """What to compute, beside what goes without saying."""

    metrics: tuple[str, ...] = ("bleu", "chrf")
    """Which of `METRICS`, in the order of the report."""
    target_language: str | None = None
    """Code of the hypotheses' language; None looks at the references."""
    confidence: bool = False
    """Whether to estimate 95 % intervals."""
    source: Path | None = None
    """What was translated; looked at only to notice copies."""
    baseline: Path | None = None
    """Another system's hypotheses, to compare with."""


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """All that scoring found."""

    lines: int
    language: TargetLanguage
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...] = ()
    """One for each score, if there is a baseline."""
    warnings: tuple[str, ...] = ()
    """What makes the scores doubtful."""

    def as_json(self) -> str:
        """Return the report as one JSON object."""
        report = asdict(self)
        report["language"]["tokenizer"] = self.language.tokenizer
        for entry, comparison in zip(report["comparisons"], self.comparisons, strict=True):
            entry["difference"] = comparison.difference
        return json.dumps(report, ensure_ascii=False, indent=2)


_DEFAULTS = ScoreOptions()


def score(hypothesis: Path, references: Sequence[Path], options: ScoreOptions = _DEFAULTS) -> ScoreReport:
    """Score a file of translations, or standard input for the path `-`, against one or more references.

    Raises DataError for files that are empty or differ in length, ConfigError for an unknown metric or for a tokenizer
    that is not installed.
    """
    metrics = _known_metrics(options.metrics)
    files = [path for path in (*references, options.source, options.baseline) if path is not None]
    if [hypothesis, *files].count(STANDARD_INPUT) > 1:
        raise ConfigError("standard input can be read only once, but - names two texts; name a file for one")
    hypotheses = _read(hypothesis)
    lines = {path: _read_beside(path, hypothesis, hypotheses) for path in dict.fromkeys(files)}
    texts = [lines[path] for path in references]
    source = lines[options.source] if options.source is not None else None

    target = target_language(options.target_language) if options.target_language else detect_language(texts[0])
    scores = tuple(compute(name, hypotheses, texts, target, RESAMPLES if options.confidence else 0) for name in metrics)
    warnings = [*_doubts_about_references(lines, references, target)]
    warnings += doubts_about_hypotheses(_name(hypothesis), hypotheses, texts, source)
    if any(hypotheses) and any(score.name == "BLEU" and score.value == 0 for score in scores):
        warnings.append(
            f"BLEU is 0: no line of {_name(hypothesis)} has four words in a row, or no word is the reference's; BLEU "
            "counts runs of one to four words, so lines as short as that need chrF"
        )
    comparisons: tuple[Comparison, ...] = ()
    if options.baseline is not None:
        baseline = lines[options.baseline]
        warnings += doubts_about_hypotheses(_name(options.baseline), baseline, texts, source)
        comparisons = compare(metrics, hypotheses, baseline, texts, target)
    return ScoreReport(len(hypotheses), target, scores, comparisons, tuple(warnings))


def render(report: ScoreReport) -> str:
    """Lay the report out for people: one line a score (name, value, interval, signature), then the comparison."""
    rows = [_score_row(score) for score in report.scores]
    text = _align(rows)
    if report.comparisons:
        head = ["", "system", "baseline", "difference", "p", ""]
        rows = [head, *(_comparison_row(comparison) for comparison in report.comparisons)]
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


def _known_metrics(names: Sequence[str]) -> list[str]:
    for name in names:
        if name.lower() not in METRICS:
            raise ConfigError(f"--metric {name}: no such metric, expected one of {', '.join(METRICS)}")
    return list(dict.fromkeys(name.lower() for name in names))


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _read(path: Path) -> list[str]:
    """Read a text; in standard input and in pipes, bytes that are not UTF-8 become U+FFFD."""
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise DataError("standard input is closed; name a file")
        lines = [decode_line(raw) for raw in open_text(sys.stdin.buffer, _name(path))]
    elif path.is_fifo():  # what a shell makes of <(cut -f 2 test.tsv)
        with path.open("rb") as pipe:
            lines = [decode_line(raw) for raw in open_text(pipe, _name(path))]
    else:
        lines = list(read_lines(path))
    if not lines:
        raise DataError(f"{_name(path)}: empty, expected one sentence a line")
    return lines


def _read_beside(path: Path, hypothesis: Path, hypotheses: Sequence[str]) -> list[str]:
    """Read a file that must pair up with the hypotheses, line by line."""
    lines = _read(path)
    if len(lines) == len(hypotheses):
        return lines
    advice = "line n of one must belong to line n of the other"
    longer, surplus = max((len(hypotheses), _name(hypothesis), hypotheses), (len(lines), _name(path), lines))[1:]
    surplus = surplus[min(len(lines), len(hypotheses)) :]
    if not any(line.strip() for line in surplus):
        advice = f"the last {len(surplus)} of {longer} are empty: remove them"
    raise DataError(f"{_name(hypothesis)} has {len(hypotheses)} lines, but {_name(path)} has {len(lines)}; {advice}")


def _doubts_about_references(
    lines: dict[Path, list[str]], references: Sequence[Path], target: TargetLanguage
) -> list[str]:
    doubts = [doubt for path in references for doubt in doubts_about_empty(str(path), lines[path])]
    detected = detect_language(lines[references[0]])
    if detected.tokenizer != target.tokenizer:
        doubts.append(f"target language given as {target.code}, but {references[0]} {detected.looks}")
    return doubts
