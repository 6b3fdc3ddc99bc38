"""`nmt score`: translations + references → scores.

>>> report = score(Path("test.out"), [Path("test.zh")])
>>> print(report.as_text())
BLEU   34.21  nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:2.6.0
chrF2  30.02  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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


class _System(NamedTuple):
    """Translations, and what was measured in them."""

    name: str
    lines: list[str]
    measured: list[Measurement]
    findings: tuple[Finding, ...]


def score(
    hypothesis: Path, references: Sequence[Path], options: ScoreOptions = _DEFAULTS, console: Console = _SILENT
) -> ScoreReport:
    """Score a file of translations, or standard input for the path `-`, against one or more references.

    The console shows the progress. Raises DataError for files that are empty or differ in length,
    ConfigError for an unknown metric or language, or for a tokenizer or model that is not installed.
    """
    metrics = _known_metrics(options.metrics or _METRICS)
    texts = _Texts(hypothesis, references, options)
    systems: dict[Path, _System] = {}
    with console.progress("scoring", sum(map(len, texts.hypotheses.values())) * len(metrics), "lines") as advance:
        for path, own in texts.hypotheses.items():
            measured = [measure(name, own, texts.references, texts.language, advance) for name in metrics]
            findings = tuple(diagnose(own, texts.language, texts.references, texts.source))
            systems[path] = _System(input_name(path), own, measured, findings)
    if options.sentences is not None:
        _write_lines(options.sentences, texts, list(systems.values()))
    warnings = tuple(_warnings(references, texts, systems.values(), options.sentences))
    side, lines = ("reference", texts.references[0]) if texts.source is None else ("source", texts.source)
    scores = tuple(_scores(systems, (hypothesis, *options.others), lines, options))
    return ScoreReport(len(lines), texts.language, scores, warnings, f"{length_unit(lines)} of the {side}")


def _scores(
    systems: Mapping[Path, _System], paths: Sequence[Path], lines: Sequence[str], options: ScoreOptions
) -> Iterator[SystemScores]:
    """Yield the scores of each system, and its comparisons with the baseline, which is the last one."""
    buckets = length_buckets(lines) if options.by == "length" else []
    names = short_names(systems)
    for number, path in enumerate(paths, start=1):
        own = systems[path].measured
        scores = tuple(measurement.score(RESAMPLES if options.confidence else 0) for measurement in own)
        compared = options.baseline is not None and number < len(paths)
        comparisons = tuple(map(compare, own, systems[paths[-1]].measured)) if compared else ()
        by_length = tuple(
            BucketScores(bucket.name, len(bucket.lines), tuple(one.score_of(bucket.lines) for one in own))
            for bucket in buckets
        )
        yield SystemScores(names[path], scores, comparisons, systems[path].findings, by_length)


def _warnings(
    references: Sequence[Path], texts: _Texts, systems: Iterable[_System], listed: Path | None
) -> Iterator[str]:
    """Yield why the scores may not be meaningful; `listed` is the file with the faults, None if there is none."""
    for path, reference in zip(references, texts.references, strict=True):
        yield from empty_line_warnings(str(path), reference)
    yield from language_warnings(str(references[0]), texts.references[0], texts.language)
    for name, lines, _, findings in systems:
        yield from hypothesis_warnings(name, lines, texts.references, texts.source)
        yield from (f"{name}: {fault}" for fault in frequent_faults(findings, len(lines)))
        if counts := summary(findings):
            yield f"{name}: faults in {counts}; {f'see {listed}' if listed else '--sentences FILE lists them'}"


def short_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the file names, with folders if two are equal."""
    names = {path: "standard input" if path == STANDARD_INPUT else path.name for path in paths}
    return names if len(set(names.values())) == len(names) else {path: input_name(path) for path in names}


def _write_lines(file: Path, texts: _Texts, systems: Sequence[_System]) -> None:
    """Write a row for each line and system: its scores, faults and texts.

    The rows are JSON lines for a name that ends with .json or .jsonl, else TSV with a head.
    """
    scores = [[one.line_scores() for one in system.measured] for system in systems]
    faults = defaultdict[tuple[str, int], list[str]](list)
    for system in systems:
        for one in system.findings:
            faults[system.name, one.line].append(f"{one.kind} {one.detail}".strip())
    sides = {"reference": texts.references[0]} | ({} if texts.source is None else {"source": texts.source})
    head: list[object] = ["line", "system", *(one.name for one in systems[0].measured), "faults", "hypothesis", *sides]
    rows: list[list[object]] = []
    for index, (number, system) in itertools.product(range(len(systems[0].lines)), enumerate(systems)):
        values = [round(of_metric[index], 4) for of_metric in scores[number]]
        lines = [side[index] for side in (system.lines, *sides.values())]
        rows.append([index + 1, system.name, *values, "; ".join(faults[system.name, index + 1]), *lines])
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
