"""`nmt score`: translations + references → scores.

>>> report = score(Path("test.out"), [Path("test.zh")])
>>> print(report.as_text())
BLEU   34.21  nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:2.6.0
chrF2  30.02  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.errors import ConfigError, DataError
from nmt.evaluation.buckets import length_buckets, length_unit
from nmt.evaluation.diagnosis import empty_line_warnings, hypothesis_warnings, language_warnings
from nmt.evaluation.findings import Finding, diagnose, frequent_faults, summary
from nmt.evaluation.metrics import METRICS, RESAMPLES, Measurement, measure
from nmt.evaluation.score_report import BucketScores, ScoreReport, SystemScores
from nmt.evaluation.significance import compare
from nmt.system.console import Advance, Console, counted
from nmt.system.ownership import check_output, write_output
from nmt.text.languages import TargetLanguage, detect_language, known_language
from nmt.text.readers.opening import decode_line, open_text, read_lines

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
    """The text that was translated: for COMET, buckets by its length, and to find copies and lost numbers."""
    systems: tuple[Path, ...] = ()
    """Hypotheses of other systems, scored in the same table."""
    baseline: Path | None = None
    """Hypotheses to compare all others with."""
    by_length: bool = False
    """Whether to score lines of similar length separately."""
    sentences: Path | None = None
    """The file to write the scores of each line to; JSON lines if its name ends with .json or .jsonl, else TSV."""
    findings: Path | None = None
    """The file to write the findings of each line to, in the same formats."""


_DEFAULTS = ScoreOptions()


@dataclass(frozen=True, slots=True)
class _Texts:
    """The lines of all files."""

    hypotheses: dict[Path, list[str]]
    """The texts of the systems and of the baseline."""
    references: list[list[str]]
    source: list[str] | None
    language: TargetLanguage


def score(
    hypothesis: Path,
    references: Sequence[Path],
    options: ScoreOptions = _DEFAULTS,
    console: Console | None = None,
) -> ScoreReport:
    """Score a file of translations, or standard input for the path `-`, against one or more references.

    The console shows the progress if it is a terminal. Raises DataError for files that are empty or differ in length,
    ConfigError for an unknown metric or language, or for a tokenizer or model that is not installed.
    """
    metrics = _known_metrics(options.metrics)
    lines, texts = _read_texts(hypothesis, references, options)
    measured = _measure(texts, metrics, console)
    findings = {
        path: tuple(diagnose(own, texts.language, texts.references, texts.source))
        for path, own in texts.hypotheses.items()
    }
    buckets = length_buckets(texts.source or texts.references[0]) if options.by_length else []
    systems, names = [], _short_names(texts.hypotheses)
    for path in (hypothesis, *options.systems, *([] if options.baseline is None else [options.baseline])):
        own = measured[path]
        scores = tuple(measurement.score(RESAMPLES if options.confidence else 0) for measurement in own)
        by_length = tuple(
            BucketScores(bucket.name, len(bucket.lines), tuple(one.score_of(bucket.lines) for one in own))
            for bucket in buckets
        )
        systems.append(SystemScores(names[path], scores, (), findings[path], by_length))
    if options.baseline is not None:
        base = measured[options.baseline]
        for place, path in enumerate((hypothesis, *options.systems)):
            systems[place] = replace(systems[place], comparisons=tuple(map(compare, measured[path], base)))
    if options.sentences is not None:
        columns = ["line", "system", *(one.name for one in measured[hypothesis])]
        columns += _line_texts(texts, lines[hypothesis], 0)
        _write_rows(options.sentences, columns, _sentence_rows(texts, measured))
    if options.findings is not None:
        columns = ["line", "system", "kind", "detail", *_line_texts(texts, lines[hypothesis], 0)]
        _write_rows(options.findings, columns, _finding_rows(texts, findings))
    warnings = [warning for path in references for warning in empty_line_warnings(str(path), lines[path])]
    warnings += language_warnings(str(references[0]), texts.references[0], texts.language)
    warnings += _hypothesis_warnings(texts, findings, options.findings)
    if any(lines[hypothesis]) and any(score.name == "BLEU" and score.value == 0 for score in systems[0].scores):
        warnings.append(
            f"BLEU is 0: no line of {_name(hypothesis)} has four words in a row, or no word is the reference's; BLEU "
            "counts runs of one to four words, so lines as short as that need chrF"
        )
    side, measured_lines = ("reference", texts.references[0]) if texts.source is None else ("source", texts.source)
    length_of = f"{length_unit(measured_lines)} of the {side}"
    return ScoreReport(len(lines[hypothesis]), texts.language, tuple(systems), tuple(warnings), length_of)


def _read_texts(
    hypothesis: Path, references: Sequence[Path], options: ScoreOptions
) -> tuple[dict[Path, list[str]], _Texts]:
    """Read all files after the names and the language are checked; also return their lines by path."""
    language = None if options.target_language is None else known_language(options.target_language, "--target-lang")
    others = [*options.systems, *([] if options.baseline is None else [options.baseline])]
    files = [*references, *others, *([] if options.source is None else [options.source])]
    if [hypothesis, *files].count(STANDARD_INPUT) > 1:
        raise ConfigError("standard input can be read only once, but - names two texts; name a file for one")
    for output in (options.sentences, options.findings):
        if output is not None:
            check_output(output, [path for path in (hypothesis, *files) if path != STANDARD_INPUT])
    hypotheses = read_text(hypothesis)
    lines = {path: read_parallel(path, hypothesis, hypotheses) for path in dict.fromkeys(files)}
    lines[hypothesis] = hypotheses
    return lines, _Texts(
        {path: lines[path] for path in dict.fromkeys((hypothesis, *others))},
        [lines[path] for path in references],
        None if options.source is None else lines[options.source],
        language or detect_language(lines[references[0]]),
    )


def _measure(texts: _Texts, metrics: Sequence[str], console: Console | None) -> dict[Path, list[Measurement]]:
    """Compute the statistics of all systems; the progress is shown on terminals only."""
    with ExitStack() as stack:
        advance: Advance = lambda lines: None  # noqa: E731
        if console is not None and console.live:
            count = sum(map(len, texts.hypotheses.values())) * len(metrics)
            advance = stack.enter_context(console.progress("scoring", count, "lines"))
        return {
            path: [measure(name, own, texts.references, texts.language, texts.source, advance) for name in metrics]
            for path, own in texts.hypotheses.items()
        }


def _hypothesis_warnings(
    texts: _Texts, findings: Mapping[Path, Sequence[Finding]], listed: Path | None
) -> Iterator[str]:
    for path, own in texts.hypotheses.items():
        yield from hypothesis_warnings(_name(path), own, texts.references, texts.source)
        yield from (f"{_name(path)}: {fault}" for fault in frequent_faults(findings[path], len(own)))
        if counts := summary(findings[path]):
            place = f"see {listed}" if listed else "--diagnose FILE lists them"
            yield f"{_name(path)}: faults in {counts}; {place}"


def _short_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the file names, with folders if two are equal."""
    names = {path: "standard input" if path == STANDARD_INPUT else path.name for path in paths}
    return names if len(set(names.values())) == len(names) else {path: _name(path) for path in names}


def _sentence_rows(texts: _Texts, measured: Mapping[Path, Sequence[Measurement]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each line and system: its scores and its texts."""
    scores = {path: [(one.name, one.line_scores()) for one in own] for path, own in measured.items()}
    for index in range(len(texts.references[0])):
        for path, own in texts.hypotheses.items():
            row: dict[str, Any] = {"line": index + 1, "system": _name(path)}
            row |= {name: round(values[index], 4) for name, values in scores[path]}
            yield row | _line_texts(texts, own, index)


def _finding_rows(texts: _Texts, findings: Mapping[Path, Sequence[Finding]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each finding."""
    for path, own in findings.items():
        for one in own:
            row = {"line": one.line, "system": _name(path), "kind": one.kind, "detail": one.detail}
            yield row | _line_texts(texts, texts.hypotheses[path], one.line - 1)


def _line_texts(texts: _Texts, hypotheses: Sequence[str], index: int) -> dict[str, str]:
    source = {} if texts.source is None else {"source": texts.source[index]}
    return {"hypothesis": hypotheses[index], "reference": texts.references[0][index], **source}


def _write_rows(file: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of these columns: as JSON lines for a name that ends with .json or .jsonl, else as TSV with a head."""
    if file.suffix in (".json", ".jsonl"):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    else:
        table = [columns, *([" ".join(str(row[column]).split()) for column in columns] for row in rows)]
        lines = ["\t".join(row) for row in table]
    write_output(file, "".join(f"{line}\n" for line in lines))


def _known_metrics(names: Sequence[str]) -> list[str]:
    for name in names:
        if name.lower() not in METRICS and not name.lower().startswith("comet:"):
            raise ConfigError(f"--metric {name}: no such metric, expected one of {', '.join(METRICS)}")
    return list(dict.fromkeys(name if ":" in name else name.lower() for name in names))


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def read_text(path: Path) -> list[str]:
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


def read_parallel(path: Path, hypothesis: Path, hypotheses: Sequence[str]) -> list[str]:
    """Read a file that must have as many lines as there are hypotheses."""
    lines = read_text(path)
    if len(lines) == len(hypotheses):
        return lines
    advice = "line n of one must belong to line n of the other"
    longer, surplus = max((len(hypotheses), _name(hypothesis), hypotheses), (len(lines), _name(path), lines))[1:]
    surplus = surplus[min(len(lines), len(hypotheses)) :]
    if not any(line.strip() for line in surplus):
        advice = f"the last {len(surplus)} of {longer} are empty: remove them"
    found = f"{_name(hypothesis)} has {counted(len(hypotheses), 'line')}, but {_name(path)} has {len(lines):,}"
    raise DataError(f"{found}; {advice}")
