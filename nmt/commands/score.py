"""`nmt score`: translations + references → scores.

>>> report = score(Path("test.out"), [Path("test.zh")])
>>> print(report.as_text())
BLEU   34.21  nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:2.6.0
chrF2  30.02  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import ConfigError, DataError
from nmt.evaluation.diagnosis import empty_line_warnings, hypothesis_warnings, language_warnings
from nmt.evaluation.metrics import METRICS, RESAMPLES, compute
from nmt.evaluation.score_report import ScoreReport
from nmt.evaluation.significance import Comparison, compare
from nmt.text.corpus import decode_line, open_text, read_lines
from nmt.text.languages import detect_language, target_language

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """What to compute."""

    metrics: tuple[str, ...] = ("bleu", "chrf")
    """Which of `METRICS`, in the order of the report."""
    target_language: str | None = None
    """Code of the hypotheses' language; None detects it in the references."""
    confidence: bool = False
    """Whether to estimate 95 % intervals."""
    source: Path | None = None
    """The text that was translated; used only to find copies."""
    baseline: Path | None = None
    """Another system's hypotheses, to compare with."""


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
    lines = {path: _read_parallel(path, hypothesis, hypotheses) for path in dict.fromkeys(files)}
    texts = [lines[path] for path in references]
    source = lines[options.source] if options.source is not None else None

    target = target_language(options.target_language) if options.target_language else detect_language(texts[0])
    scores = tuple(compute(name, hypotheses, texts, target, RESAMPLES if options.confidence else 0) for name in metrics)
    warnings = [warning for path in references for warning in empty_line_warnings(str(path), lines[path])]
    warnings += language_warnings(str(references[0]), texts[0], target)
    warnings += hypothesis_warnings(_name(hypothesis), hypotheses, texts, source)
    if any(hypotheses) and any(score.name == "BLEU" and score.value == 0 for score in scores):
        warnings.append(
            f"BLEU is 0: no line of {_name(hypothesis)} has four words in a row, or no word is the reference's; BLEU "
            "counts runs of one to four words, so lines as short as that need chrF"
        )
    comparisons: tuple[Comparison, ...] = ()
    if options.baseline is not None:
        baseline = lines[options.baseline]
        warnings += hypothesis_warnings(_name(options.baseline), baseline, texts, source)
        comparisons = compare(metrics, hypotheses, baseline, texts, target)
    return ScoreReport(len(hypotheses), target, scores, comparisons, tuple(warnings))


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
    elif path.is_fifo():  # the shell's <(cut -f 2 test.tsv)
        with path.open("rb") as pipe:
            lines = [decode_line(raw) for raw in open_text(pipe, _name(path))]
    else:
        lines = list(read_lines(path))
    if not lines:
        raise DataError(f"{_name(path)}: empty, expected one sentence a line")
    return lines


def _read_parallel(path: Path, hypothesis: Path, hypotheses: Sequence[str]) -> list[str]:
    """Read a file that must have as many lines as there are hypotheses."""
    lines = _read(path)
    if len(lines) == len(hypotheses):
        return lines
    advice = "line n of one must belong to line n of the other"
    longer, surplus = max((len(hypotheses), _name(hypothesis), hypotheses), (len(lines), _name(path), lines))[1:]
    surplus = surplus[min(len(lines), len(hypotheses)) :]
    if not any(line.strip() for line in surplus):
        advice = f"the last {len(surplus)} of {longer} are empty: remove them"
    raise DataError(f"{_name(hypothesis)} has {len(hypotheses)} lines, but {_name(path)} has {len(lines)}; {advice}")
