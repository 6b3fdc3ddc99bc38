"""`nmt score`: translations + references → scores.

>>> report = score(Path("test.out"), [Path("test.zh")])
>>> print(report.as_text())
BLEU   34.21  nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:2.6.0
chrF2  30.02  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from nmt.commands.requests import ScoreOptions
from nmt.errors import ConfigError, DataError
from nmt.evaluation.buckets import length_buckets, length_unit
from nmt.evaluation.diagnosis import empty_line_warnings, hypothesis_warnings, language_warnings
from nmt.evaluation.findings import Finding, diagnose, frequent_faults, summary
from nmt.evaluation.metrics import METRICS, RESAMPLES, Measurement, compare, measure
from nmt.evaluation.score_report import BucketScores, ScoreReport, SystemScores
from nmt.system.console import Console, counted
from nmt.system.files import check_output, write_output
from nmt.text.languages import detect_language, known_language
from nmt.text.readers.opening import STANDARD_INPUT, input_name, read_lines

_METRICS = ("bleu", "chrf")
_DEFAULTS, _SILENT = ScoreOptions(), Console(silent=True)


class _Texts:
    """The lines of all files, which are read after the names and the language are checked."""

    def __init__(self, hypothesis: Path, references: Sequence[Path], options: ScoreOptions) -> None:
        given = options.target_language
        language = None if given is None else known_language(given, "--target-lang")
        files = [*references, *options.others, *([] if options.source is None else [options.source])]
        if [hypothesis, *files].count(STANDARD_INPUT) > 1:
            raise ConfigError("standard input can be read only once, but - names two texts; name a file for one")
        if options.sentences is not None:
            check_output(options.sentences, [path for path in (hypothesis, *files) if path != STANDARD_INPUT])
        translations = read_text(hypothesis)
        lines = {path: read_parallel(path, hypothesis, translations) for path in dict.fromkeys(files)}
        lines[hypothesis] = translations
        self.hypotheses = {path: lines[path] for path in (hypothesis, *options.others)}
        """The texts of the systems and of the baseline."""
        self.references = [lines[path] for path in references]
        self.source = None if options.source is None else lines[options.source]
        self.language = language or detect_language(self.references[0])


def score(
    hypothesis: Path, references: Sequence[Path], options: ScoreOptions = _DEFAULTS, console: Console = _SILENT
) -> ScoreReport:
    """Score a file of translations, or standard input for the path `-`, against one or more references.

    The console shows the progress. Raises DataError for files that are empty or differ in length,
    ConfigError for an unknown metric or language, or for a tokenizer or model that is not installed.
    """
    metrics = _known_metrics(options.metrics or _METRICS)
    texts = _Texts(hypothesis, references, options)
    measured = _measure(texts, metrics, console)
    findings = {
        path: tuple(diagnose(own, texts.language, texts.references, texts.source))
        for path, own in texts.hypotheses.items()
    }
    systems = _scored_systems(hypothesis, options, texts, measured, findings)
    if options.sentences is not None:
        _write_lines(options.sentences, texts, measured, findings)
    warnings = _warnings(references, texts, findings, options.sentences)
    side, lines = ("reference", texts.references[0]) if texts.source is None else ("source", texts.source)
    length_of = f"{length_unit(lines)} of the {side}"
    return ScoreReport(len(lines), texts.language, tuple(systems), tuple(warnings), length_of)


def _scored_systems(
    hypothesis: Path,
    options: ScoreOptions,
    texts: _Texts,
    measured: Mapping[Path, Sequence[Measurement]],
    findings: Mapping[Path, tuple[Finding, ...]],
) -> list[SystemScores]:
    """Return the scores of all systems, the baseline last, and the comparisons of all others with it."""
    buckets = length_buckets(texts.source or texts.references[0]) if options.by == "length" else []
    baseline = None if options.baseline is None else measured[options.baseline]
    systems, names, paths = [], short_names(texts.hypotheses), (hypothesis, *options.others)
    for place, path in enumerate(paths):
        own, is_last = measured[path], place == len(paths) - 1
        total = tuple(measurement.score(RESAMPLES if options.confidence else 0) for measurement in own)
        by_length = tuple(
            BucketScores(bucket.name, len(bucket.lines), tuple(one.score_of(bucket.lines) for one in own))
            for bucket in buckets
        )
        comparisons = () if baseline is None or is_last else tuple(map(compare, own, baseline))
        systems.append(SystemScores(names[path], total, comparisons, findings[path], by_length))
    return systems


def _measure(texts: _Texts, metrics: Sequence[str], console: Console) -> dict[Path, list[Measurement]]:
    """Compute the statistics of all systems."""
    count = sum(map(len, texts.hypotheses.values())) * len(metrics)
    with console.progress("scoring", count, "lines") as advance:
        return {
            path: [measure(name, own, texts.references, texts.language, advance) for name in metrics]
            for path, own in texts.hypotheses.items()
        }


def _warnings(
    references: Sequence[Path],
    texts: _Texts,
    findings: Mapping[Path, Sequence[Finding]],
    listed: Path | None,
) -> Iterator[str]:
    """Yield why the scores may not be meaningful; `listed` is the file with the faults, None if there is none."""
    for path, reference in zip(references, texts.references, strict=True):
        yield from empty_line_warnings(str(path), reference)
    yield from language_warnings(str(references[0]), texts.references[0], texts.language)
    for path, own in texts.hypotheses.items():
        yield from hypothesis_warnings(input_name(path), own, texts.references, texts.source)
        yield from (f"{input_name(path)}: {fault}" for fault in frequent_faults(findings[path], len(own)))
        if counts := summary(findings[path]):
            place = f"see {listed}" if listed else "--sentences FILE lists them"
            yield f"{input_name(path)}: faults in {counts}; {place}"


def short_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the file names, with folders if two are equal."""
    names = {path: "standard input" if path == STANDARD_INPUT else path.name for path in paths}
    return names if len(set(names.values())) == len(names) else {path: input_name(path) for path in names}


def _write_lines(
    file: Path,
    texts: _Texts,
    measured: Mapping[Path, Sequence[Measurement]],
    findings: Mapping[Path, Sequence[Finding]],
) -> None:
    """Write a row for each line and system: its scores, faults and texts.

    The rows are JSON lines for a name that ends with .json or .jsonl, else TSV with a head.
    """
    scores = {path: [one.line_scores() for one in own] for path, own in measured.items()}
    faults: dict[tuple[Path, int], list[str]] = {}
    for path, found in findings.items():
        for one in found:
            faults.setdefault((path, one.line), []).append(f"{one.kind} {one.detail}".strip())
    sides = {"reference": texts.references[0]} | ({} if texts.source is None else {"source": texts.source})
    names = [one.name for one in next(iter(measured.values()))]
    head: list[object] = ["line", "system", *names, "faults", "hypothesis", *sides]
    rows: list[list[object]] = []
    for index, path in itertools.product(range(len(texts.references[0])), texts.hypotheses):
        values = [round(of_metric[index], 4) for of_metric in scores[path]]
        lines = [side[index] for side in (texts.hypotheses[path], *sides.values())]
        rows.append([index + 1, input_name(path), *values, "; ".join(faults.get((path, index + 1), ())), *lines])
    if file.suffix in (".json", ".jsonl"):
        written = [json.dumps(dict(zip(head, row, strict=True)), ensure_ascii=False) for row in rows]
    else:
        written = ["\t".join(" ".join(str(cell).split()) for cell in row) for row in (head, *rows)]
    write_output(file, "".join(f"{line}\n" for line in written))


def _known_metrics(names: Sequence[str]) -> list[str]:
    for name in names:
        if name.lower() not in METRICS:
            raise ConfigError(f"--metric {name}: no such metric, expected one of {', '.join(METRICS)}")
    return list(dict.fromkeys(name.lower() for name in names))


def read_text(path: Path) -> list[str]:
    """Read a text, perhaps from a pipe, such as the shell's <(cut -f 2 test.tsv). Raises DataError if it is empty."""
    lines = list(read_lines(path, read_once=True))
    if not lines:
        raise DataError(f"{input_name(path)}: empty, expected one sentence per line")
    return lines


def read_parallel(path: Path, hypothesis: Path, hypotheses: Sequence[str]) -> list[str]:
    """Read a file that must have as many lines as there are hypotheses."""
    lines = read_text(path)
    if len(lines) == len(hypotheses):
        return lines
    advice = "line n of one must belong to line n of the other"
    names = input_name(hypothesis), input_name(path)
    longer, surplus = max((len(hypotheses), names[0], hypotheses), (len(lines), names[1], lines))[1:]
    surplus = surplus[min(len(lines), len(hypotheses)) :]
    if not any(line.strip() for line in surplus):
        advice = f"the last {len(surplus)} of {longer} are empty: remove them"
    found = f"{names[0]} has {counted(len(hypotheses), 'line')}, but {names[1]} has {len(lines):,}"
    raise DataError(f"{found}; {advice}")
