"""The report of `nmt score`: scores of one or more systems, their comparison with a baseline, and warnings.

Scores mean little for tokenized text, for another language, or with faults in many lines: these cause warnings.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from nmt.evaluation.findings import KINDS, Finding
from nmt.evaluation.metrics import Bucket, Comparison, Score
from nmt.system.console import counted
from nmt.text.languages import HAN, TargetLanguage, detect_language
from nmt.text.normalize import PIECES, normalize
from nmt.text.words import words


@dataclass(frozen=True, slots=True)
class SystemScores:
    """The scores of one system."""

    name: str
    scores: tuple[Score, ...]
    # With the baseline, one for each score; none for the baseline itself.
    comparisons: tuple[Comparison, ...] = ()
    findings: tuple[Finding, ...] = ()
    by_length: tuple[tuple[float, ...], ...] = ()  # for each score its values in the buckets


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """The scores of the systems, the first one of which is HYP; the last one is the baseline, if there is one."""

    lines: int
    language: TargetLanguage
    systems: tuple[SystemScores, ...]
    warnings: tuple[str, ...] = ()  # reasons why the scores may not be meaningful
    buckets: tuple[Bucket, ...] = ()
    length_of: str = ""  # what the buckets count, such as words of the reference

    def as_json(self) -> str:
        """Return the report as one JSON object: the scores of HYP, then those of all systems if there are several."""
        language = {"code": self.language.code, "found": self.language.origin, "tokenizer": self.language.tokenizer}
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
        return {"name": system.name, "scores": scores, "findings": Counter(finding.kind for finding in system.findings)}

    def as_text(self) -> str:
        """Return a table of the scores, one of the scores by length if asked for, and the signatures."""
        signatures = [[score.name, score.signature] for score in self.systems[0].comparisons or self.systems[0].scores]
        tables = [list(self._scores() if self.systems[0].scores else self._faults())]
        tables += [list(self._scores_by_length())] if self.buckets else []
        return "\n\n".join(map(_aligned, [*tables, signatures] if signatures else tables))

    def _faults(self) -> Iterator[list[str]]:
        for system in self.systems:
            counts = Counter(finding.kind for finding in system.findings)
            for kind in filter(counts.__getitem__, KINDS):
                yield [self._shown_name(system), kind, f"{counts[kind]:,}"]
            if not counts:
                yield [self._shown_name(system), "no faults", ""]

    def _scores(self) -> Iterator[list[str]]:
        for index, metric in enumerate(self.systems[0].scores):
            name = f"{metric.name} (lower is better)" if metric.lower_is_better else metric.name
            for system in self.systems:
                row = [name, self._shown_name(system), system.scores[index].text, "", ""]
                if system.comparisons:
                    comparison = system.comparisons[index]
                    row[-2:] = f"{comparison.difference:+.2f}", f"{comparison.verdict} (p = {comparison.p_value:.3f})"
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
                yield [name, self._shown_name(system), *(f"{score:.2f}" for score in system.by_length[index])]
                name = ""

    def _shown_name(self, system: SystemScores) -> str:
        return system.name if len(self.systems) > 1 else ""


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns, without empty columns."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*padded, strict=True))


# Faults of which there is a warning if at least this share of the lines, and at least `_AT_LEAST` lines, have them.
_FREQUENT_FAULTS = {"empty": 0.05, "copy": 0.05, "repetition": 0.2, "script": 0.2, "variant": 0.2}
_AT_LEAST = 5
# Text is tokenized if this share of its lines looks so, and three times the share in the references: French has a
# space before `?`, and a test set may itself be tokenized.
_TOKENIZED_SHARE, _TOKENIZED_FACTOR = 0.2, 3.0
# The most frequent words, mostly articles, pronouns and prepositions, are a third of the words of many texts.
_FREQUENT_WORDS = 30
_LANGUAGE_FACTOR, _LEAST_LINES = 0.3, 20
_TOKENIZED = re.compile(
    r"\s[.,!?;:。，！？；：、](\s|$)"  # He said : yes .
    rf"|{PIECES.pattern}"
    rf"|[{HAN}] [{HAN}]"  # Chinese cut into words
)


def hypothesis_warnings(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], findings: Sequence[Finding]
) -> Iterator[str]:
    """Yield one sentence for each unusual property of the file `name`; the findings are those of its lines."""
    tokenized, usual = _share_tokenized(hypotheses), max(map(_share_tokenized, references), default=1.0)
    if tokenized >= _TOKENIZED_SHARE and tokenized >= _TOKENIZED_FACTOR * usual:
        yield (
            f"{name} looks tokenized: {tokenized:.0%} of its lines, but {usual:.0%} of the references' "
            "(spaces before punctuation or inside words); scores are meant for plain text, so detokenize it first"
        )
    count = Counter(finding.kind for finding in findings)
    of_system, common = _count_words(hypotheses), _count_words(line for lines in references for line in lines)
    frequent = [word for word, _ in common.most_common(_FREQUENT_WORDS)]
    share, usual = (sum(counts[word] for word in frequent) / max(1, counts.total()) for counts in (of_system, common))
    lines = sum(map(bool, hypotheses))
    if lines >= _LEAST_LINES and share < _LANGUAGE_FACTOR * usual and count["copy"] < lines / 2:
        yield (
            f"{name} looks like another language: {share:.0%} of its words are frequent words of the references, where "
            f"{usual:.0%} are"
        )
    if broken := sum("\ufffd" in line for line in hypotheses):
        yield f"{name} has {counted(broken, 'line')} with U+FFFD, which replaces bytes that are not UTF-8"
    if any(list(hypotheses) == list(lines) for lines in references):
        yield f"{name} is the reference, word for word"
    for kind, least in _FREQUENT_FAULTS.items():
        if count[kind] >= max(_AT_LEAST, least * len(hypotheses)):
            yield f"{name}: {count[kind] / len(hypotheses):.0%} of its lines have the fault {kind}: {KINDS[kind]}"


def table_warnings(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if the file `name` is a table: at least half of its lines have a tab."""
    if 2 * (tabs := sum("\t" in line for line in lines)) >= len(lines):
        yield f"{name}: {counted(tabs, 'line')} with tabs, as in a table; give one column: cut -f 2 FILE > NEWFILE"


def reference_warnings(name: str, references: Sequence[str], target: TargetLanguage) -> Iterator[str]:
    """Yield a sentence if many references in the file `name` are empty, or if they are in another language."""
    empty = sum(not line.strip() for line in references)
    if empty > 0.05 * len(references):
        yield f"{name}: {empty:,} of {counted(len(references), 'line')} {'is' if empty == 1 else 'are'} empty"
    detected = detect_language(references)
    if detected.tokenizer != target.tokenizer:
        stated = f"given as {target.code}"
        if target.origin == "detected":
            stated = f"not given; the first reference {target.looks}"
        yield f"target language {stated}, but {name} {detected.looks}"


def _share_tokenized(lines: Sequence[str]) -> float:
    nonempty = [line for line in lines if line.strip()]
    return sum(_TOKENIZED.search(line) is not None for line in nonempty) / max(1, len(nonempty))


def _count_words(lines: Iterable[str]) -> Counter[str]:
    return Counter(word for line in lines for word in words(normalize(line).lower()))
