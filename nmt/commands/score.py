"""`nmt score`: translations + references → scores.

>>> report = score(Path("test.out"), [Path("test.zh")])
>>> print(report.as_text())
BLEU   34.21
chrF2  30.02

BLEU   nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp|version:2.6.0
chrF2  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.commands.requests import ScoreOptions
from nmt.errors import ConfigError, DataError
from nmt.evaluation.findings import Finding, diagnose, summary
from nmt.evaluation.metrics import RESAMPLES, Measurement, compare, length_buckets, length_unit, measure
from nmt.evaluation.score_report import (
    ScoreReport,
    SystemScores,
    hypothesis_warnings,
    reference_warnings,
    table_warnings,
)
from nmt.system.console import Console, counted
from nmt.system.files import check_output, write_output
from nmt.text.languages import LANGUAGES, detect_language, is_language, target_language
from nmt.text.readers.opening import STANDARD_INPUT, input_name, read_lines

_DEFAULTS, _SILENT = ScoreOptions(), Console(silent=True)


class _System(NamedTuple):
    """Translations, and what was measured in them."""

    lines: list[str]
    measured: list[Measurement]
    findings: tuple[Finding, ...]


def score(
    hypothesis: Path, references: Sequence[Path], options: ScoreOptions = _DEFAULTS, console: Console = _SILENT
) -> ScoreReport:
    """Score a file of translations, or standard input for the path `-`, against one or more references.

    Without references, faults are searched with the source alone. The console shows the progress. Raises DataError for
    files that are empty or differ in length, or a test set that cannot be fetched, ConfigError for an unknown metric or
    language, or for a tokenizer that is not installed.
    """
    if options.test_set is not None:
        references, options = _with_test_set(references, options, options.test_set)
    metrics = list(dict.fromkeys(name.lower() for name in options.metrics or ("bleu", "chrf") if references))
    has_scores = options.metrics or options.confidence or options.by_length
    if not references and (options.source is None or has_scores):
        without = "--metric, --confidence and --by-length"
        raise ConfigError(f"expected references to score against, or --source without {without} to search for faults")
    if (code := options.target_language) is not None and not is_language(code):
        known = " ".join(sorted(LANGUAGES))
        raise ConfigError(f"--target-lang {code}: unknown language code, expected one of {known}")
    texts = _read(hypothesis, [*references, *options.others, *([options.source] if options.source else [])], options)
    first = references[0] if references else hypothesis
    language = detect_language(texts[first]) if code is None else target_language(code)
    compared, source = [texts[path] for path in references], texts[options.source] if options.source else None
    paths = (hypothesis, *options.others)
    systems: dict[Path, _System] = {}
    with console.progress("scoring", sum(len(texts[path]) for path in set(paths)) * len(metrics), "lines") as advance:
        for path in dict.fromkeys(paths):
            measured = [measure(name, texts[path], compared, language, advance) for name in metrics]
            systems[path] = _System(texts[path], measured, tuple(diagnose(texts[path], language, compared, source)))
    if options.sentences is not None:
        sides = ({"reference": compared[0]} if compared else {}) | ({"source": source} if source else {})
        _write_lines(options.sentences, systems, sides)
    warnings = [warning for path, lines in texts.items() for warning in table_warnings(input_name(path), lines)]
    warnings += [warning for path in references for warning in reference_warnings(str(path), texts[path], language)]
    for path, system in systems.items():
        warnings += hypothesis_warnings(input_name(path), system.lines, compared, system.findings)
        if counts := summary(system.findings):
            place = f"see {options.sentences}" if options.sentences else "--sentences FILE lists them"
            warnings.append(f"{input_name(path)}: faults in {counts}; {place}")
    side, lines = ("reference", compared[0]) if source is None else ("source", source)
    buckets = tuple(length_buckets(lines)) if options.by_length else ()
    scores = tuple(_scores(systems, paths, [bucket.lines for bucket in buckets], options))
    return ScoreReport(len(lines), language, scores, tuple(warnings), buckets, f"{length_unit(lines)} of the {side}")


def _with_test_set(references: Sequence[Path], options: ScoreOptions, name: str) -> tuple[list[Path], ScoreOptions]:
    """Return the references of a test set of sacreBLEU, and the options with its source and language.

    sacreBLEU fetches it when it is used first. Raises DataError for an unknown name, and without a network.
    """
    from sacrebleu import utils

    if references or options.source:
        raise ConfigError(f"--test-set {name}: it has references and a source; leave out REF and --source")
    test_set, _, pair = name.rpartition("/")
    try:
        files = [utils.get_source_file(test_set, pair), *utils.get_reference_files(test_set, pair)]
    except (Exception, SystemExit) as error:  # sacreBLEU has no classes of its own
        advice = "sacrebleu --list shows the names, as wmt22/en-zh; the first use needs a network"
        raise DataError(f"--test-set {name}: sacreBLEU: {error or 'it cannot be fetched'}; {advice}") from error
    source, *fetched = map(Path, files)
    target = pair.partition("-")[2]
    language = options.target_language or (target if is_language(target) else None)
    return fetched, options._replace(source=source, target_language=language)


def _scores(
    systems: Mapping[Path, _System], paths: Sequence[Path], groups: Sequence[Sequence[int]], options: ScoreOptions
) -> Iterator[SystemScores]:
    """Yield the scores of each system, and its comparisons with the baseline, which is the last one."""
    names = short_names(systems)
    for number, path in enumerate(paths, start=1):
        measured = systems[path].measured
        compared = options.baseline is not None and number < len(paths)
        yield SystemScores(
            names[path],
            tuple(metric.score(RESAMPLES if options.confidence else 0) for metric in measured),
            tuple(map(compare, measured, systems[paths[-1]].measured)) if compared else (),
            systems[path].findings,
            tuple(tuple(map(metric.score_of, groups)) for metric in measured),
        )


def short_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the file names, with folders if two are equal."""
    names = {path: "standard input" if path == STANDARD_INPUT else path.name for path in paths}
    return names if len(set(names.values())) == len(names) else {path: input_name(path) for path in names}


def _write_lines(file: Path, systems: Mapping[Path, _System], sides: Mapping[str, Sequence[str]]) -> None:
    """Write a tab-separated table with a header: scores, faults and texts of each line by each system."""
    metrics = [metric.name for metric in next(iter(systems.values())).measured]
    rows: list[list[object]] = []
    for path, system in systems.items():
        faults = defaultdict[int, list[str]](list)
        for finding in system.findings:
            faults[finding.line].append(f"{finding.kind} {finding.detail}".strip())
        scores = list(zip(*(metric.line_scores() for metric in system.measured), strict=True))
        scores = scores or [()] * len(system.lines)
        texts = zip(system.lines, *sides.values(), strict=True)
        for line, (values, row) in enumerate(zip(scores, texts, strict=True), start=1):
            shown = [f"{value:.4f}" for value in values]
            rows.append([line, input_name(path), *shown, "; ".join(faults[line]), *row])
    rows.sort(key=lambda row: int(str(row[0])))  # the systems of a line one after the other
    rows.insert(0, ["line", "system", *metrics, "faults", "hypothesis", *sides])
    write_output(file, "".join("\t".join(" ".join(str(cell).split()) for cell in row) + "\n" for row in rows))


def _read(hypothesis: Path, others: Sequence[Path], options: ScoreOptions) -> dict[Path, list[str]]:
    """Read all files, whose lines correspond. Raises ConfigError if two are standard input, or one is an output."""
    if [hypothesis, *others].count(STANDARD_INPUT) > 1:
        raise ConfigError("standard input can be read only once, but - names two texts; name a file for one")
    if options.sentences is not None:
        check_output(options.sentences, [path for path in (hypothesis, *others) if path != STANDARD_INPUT])
    texts = {hypothesis: read_text(hypothesis)}
    return texts | {path: read_parallel(path, hypothesis, texts[hypothesis]) for path in others if path not in texts}


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
    names, shorter = (input_name(hypothesis), input_name(path)), min(len(hypotheses), len(lines))
    longer, surplus = (names[1], lines[shorter:]) if len(lines) > shorter else (names[0], hypotheses[shorter:])
    advice = "line n of one must belong to line n of the other"
    if not any(line.strip() for line in surplus):
        advice = f"the last {len(surplus)} of {longer} are empty: remove them"
    counts = f"{names[0]} has {counted(len(hypotheses), 'line')}, but {names[1]} has {len(lines):,}"
    raise DataError(f"{counts}; {advice}")
