"""Texts with their translations by one or more systems: read from a run, scored, and compared."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from typing import Any

import numpy as np
from markupsafe import Markup

from nmt.config import LanguagePair
from nmt.errors import DataError, NMTError
from nmt.evaluation.findings import KINDS, diagnose
from nmt.evaluation.metrics import RESAMPLES, Score, compare, length_buckets, length_unit, measure
from nmt.report.drawing import COLOURS, LEGEND_LINE, Drawing, in_legend, legend_below, new_chart
from nmt.report.page import render
from nmt.report.run_records import RunRecords
from nmt.system.console import counted
from nmt.text.corpus import read_pairs
from nmt.text.languages import TargetLanguage, target_language
from nmt.text.readers.opening import read_lines

# The texts of a run, by their key in the recipe: title, when translations are recorded, and what makes them.
_TEXTS = {
    "test": ("Test text", "when training ends", "by the best checkpoint"),
    "valid": ("Validation text", "at the best validation", "by the best checkpoint, greedy"),
}
EQUAL = 0.5  # points of chrF: with a smaller difference, translations of a line count as equally good


@dataclass(frozen=True)
class Text:
    """Sentences with a reference for each, in one target language. Systems with equal texts can be compared."""

    title: str = field(compare=False)  # such as `Test text`
    languages: LanguagePair = field(compare=False)  # their codes are empty if unknown
    source: list[str] | None
    reference: list[str]
    note: str = field(default="", compare=False)  # the checkpoint and the search that translated it

    @property
    def language(self) -> TargetLanguage:
        """The target language, for the metrics."""
        return target_language(self.languages.target)

    @cached_property
    def score_of_source(self) -> Score | None:
        """The BLEU of the source as if it were the translation."""
        source, reference = self.source, [self.reference]
        return None if source is None else measure("bleu", source, reference, self.language).score()


class System:
    """The translations of a text by one system, their scores and faults. Lines are numbered from 0."""

    def __init__(self, name: str, text: Text, lines: list[str]) -> None:
        self.name, self.text, self.lines = name, text, lines
        self.bleu, self.chrf = (measure(metric, lines, [text.reference], text.language) for metric in ("bleu", "chrf"))
        self.line_scores = self.chrf.line_scores()
        # lines in ascending order of their scores
        self.worst = sorted(range(len(lines)), key=self.line_scores.__getitem__)
        by_line = groupby(diagnose(lines, text.language, [text.reference], text.source), lambda fault: fault.line - 1)
        self.findings = {line: list(line_findings) for line, line_findings in by_line}

    @cached_property
    def scores(self) -> list[Score]:
        """BLEU and chrF with their intervals."""
        return [self.bleu.score(RESAMPLES), self.chrf.score(RESAMPLES)]

    @cached_property
    def faults(self) -> dict[str, list[int]]:
        """The lines with each kind of fault, of the lowest scores first."""
        faulty = [(line, {fault.kind for fault in self.findings[line]}) for line in self.worst if line in self.findings]
        return {kind: [line for line, kinds in faulty if kind in kinds] for kind in KINDS}

    def samples(self) -> dict[str, list[int]]:
        """Return six lines: two random but fixed ones, of those unlike the reference, two median and two worst ones."""
        differ = [line for line in self.worst if self.lines[line] != self.text.reference[line]]
        drawn = np.random.default_rng(0).permutation(len(self.lines)).tolist()
        groups = {"At random": drawn, "Typical differences": differ[len(differ) // 2 :], "Largest differences": differ}
        seen, chosen = set[int](), {}
        for title, lines in groups.items():
            chosen[title] = [line for line in lines if line not in seen][:2]
            seen.update(chosen[title])
        return {title: lines for title, lines in chosen.items() if lines}


def systems_of_run(run: RunRecords, name: str) -> tuple[list[System], list[str]]:
    """Return the translations that a run recorded of its test and validation texts, and why some are missing."""
    systems, missing = list[System](), list[str]()
    for part, (title, when, note) in _TEXTS.items():
        corpora, file = getattr(run.recipe.data, part), run.path / f"{part}.txt"
        if not corpora:
            continue
        languages = [run.recipe.languages_of(corpus) for corpus in corpora]
        try:
            if not file.exists():
                raise DataError(f"{file} does not exist yet; nmt train writes it {when}")
            if part == "valid":
                texts = run.corpus().valid_texts
            else:
                pairs_of = [list(read_pairs(*corpus)) for corpus in zip(corpora, languages, strict=True)]
                texts = [([pair.source for pair in pairs], [pair.target for pair in pairs]) for pairs in pairs_of]
            lines, expected = list(read_lines(file)), sum(len(source) for source, _ in texts)
            if len(lines) != expected:
                count = f"{file.name} has {counted(len(lines), 'line')}"
                raise DataError(f"{count}, but the text has {expected:,}: it has changed")
        except (NMTError, OSError) as error:
            missing.append(f"No translations of the {title.lower()}: {error}.")
            continue
        remaining = iter(lines)
        for pair, sides in zip(languages, texts, strict=True):
            full_title = f"{title} ({pair.target})" if len(run.recipe.languages.target) > 1 else title
            translations = list(islice(remaining, len(sides[0])))
            systems.append(System(name, Text(full_title, pair, *sides, note), translations))
    return systems, missing


def length_drawings(systems: Sequence[System]) -> list[Drawing]:
    """Return the chrF of systems by the length of lines, with intervals; nothing if all lines are of one length."""
    text = systems[0].text
    side, lines = ("reference", text.reference) if text.source is None else ("source", text.source)
    buckets, unit, count = length_buckets(lines), length_unit(lines), len(systems)
    if len(buckets) == 1:
        return []
    legend = LEGEND_LINE * count if count > 1 else 0
    figure, (axes,) = new_chart(2.6 + legend, margins=(0.5, 0.1, 0.62 + legend, 0.12))
    weakest = list[str]()
    for number, system in enumerate(systems):
        statistics = system.chrf.statistics
        parts = [replace(system.chrf, statistics=[statistics[line] for line in bucket.lines]) for bucket in buckets]
        scores = [part.score(RESAMPLES) for part in parts]
        values = [score.value for score in scores]
        margins = [score.confidence.margin if score.confidence else 0 for score in scores]
        x_positions = np.arange(len(buckets)) + (number - (count - 1) / 2) * 0.7 / count  # side by side
        cycles, colour = divmod(number, len(COLOURS))
        style: Any = {"fmt": "os^"[cycles % 3], "capsize": 3, "color": COLOURS[colour]}
        axes.errorbar(x_positions, values, margins, label=in_legend(system.name), **style)
        # a bucket of one line, which has no interval, counts only if there is no other
        lowest = min(range(len(values)), key=lambda index: (len(buckets[index].lines) == 1, values[index]))
        named = f", {system.name}" if count > 1 else ""
        weakest.append(f"{buckets[lowest].name} {unit} ({scores[lowest].text}{named})")
    axes.set_xticks(range(len(buckets)), [f"{bucket.name}\n({len(bucket.lines):,})" for bucket in buckets])
    axes.set(xlabel=f"{unit} of the {side} (lines)", xlim=(-0.6, len(buckets) - 0.4))
    axes.set_ylim(top=min(100.2, axes.get_ylim()[1]))
    if count > 1:
        legend_below(figure, axes)
    caption = f"With 95 % intervals. It is lowest for {', '.join(weakest)}."
    return [Drawing("length", "chrF by length", caption, figure)]


def won_lines(systems: Sequence[System]) -> list[list[int]]:
    """Return for each system the lines where it is better than all others, those of the largest difference first."""
    scores, won = np.array([system.line_scores for system in systems]), []
    for number, line_scores in enumerate(scores):
        ahead = line_scores - np.delete(scores, number, axis=0).max(axis=0)
        won.append([line for line in np.argsort(-ahead, kind="stable").tolist() if ahead[line] > EQUAL])
    return won


def ranking(systems: Sequence[System], metric: int) -> dict[str, Any]:
    """Return which system is best by BLEU (0) or chrF (1), those that are significantly worse, and the differences."""
    measured = [(system.bleu, system.chrf)[metric] for system in systems]
    best = int(np.argmax([system.scores[metric].value for system in systems]))
    comparisons = [compare(measured[best], system) for system in measured]
    differences = [f"{0 - comparison.difference:+.2f} (p = {comparison.p_value:.3f})" for comparison in comparisons]
    differences[best] = "best"
    worse = [system for system, comparison in zip(systems, comparisons, strict=True) if comparison.significant]
    return {"best": systems[best], "score": systems[best].scores[metric], "worse": worse, "differences": differences}


def quality_html(systems: Sequence[System], missing: Sequence[str] = ()) -> Markup:
    """Return the section of the systems, each with its text; what is missing is shown first."""
    return render("quality.html", systems=[(system, length_drawings([system])) for system in systems], missing=missing)


def comparison_html(systems: Sequence[System]) -> Markup:
    """Return the section of the texts that two or more systems have translated; texts of a single system come first."""
    groups = [[other for other in systems if other.text == system.text] for system in systems]
    groups = [group for system, group in zip(systems, groups, strict=True) if system is group[0]]  # each text once
    comparisons = [
        {
            "systems": group,
            "rankings": [ranking(group, metric) for metric in (0, 1)],
            "won": won_lines(group),
            "drawings": length_drawings(group),
        }
        for group in groups
        if len(group) > 1
    ]
    alone = [group[0] for group in groups if len(group) == 1]
    return render("comparison.html", comparisons=comparisons, alone=alone, EQUAL=EQUAL)
