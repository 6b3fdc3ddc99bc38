"""Texts with their translations by one or more systems: read from a run, scored, compared, and shown line by line."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

import numpy as np

from nmt.config import LanguagePair
from nmt.errors import DataError, NMTError
from nmt.evaluation.findings import KINDS, diagnose
from nmt.evaluation.metrics import RESAMPLES, Score, compare, length_buckets, length_unit, measure
from nmt.report.drawing import COLOURS, Drawing, new_chart
from nmt.report.page import Html, bullets, element, figures, folded, joined, paragraphs, table
from nmt.report.run_records import RunRecords
from nmt.system.console import counted
from nmt.text.corpus import read_pairs
from nmt.text.languages import UNSPACED, TargetLanguage, target_language
from nmt.text.prepared import PreparedCorpus
from nmt.text.readers import shortened
from nmt.text.readers.opening import read_lines

_TOKEN = re.compile(rf"\s+|[{UNSPACED}]|[^\W{UNSPACED}]+|.", re.DOTALL)
# Characters of a sentence that are shown and compared; the comparison takes quadratic time.
_LONGEST = 2000
# The texts of a run, by their key in the recipe: title, when translations are recorded, and what makes them.
_TEXTS = {
    "test": ("Test text", "when training ends", "by the best checkpoint"),
    "valid": ("Validation text", "at the best validation", "by the best checkpoint, greedy"),
}

# Worst sentences, and sentences of each kind of fault.
_WORST, _EXAMPLES = 10, 5
# Sentences that differ most, of each system: shown at once, and at most.
_OPEN, _SHOWN = 3, 10
# Points of chrF: a line of a smaller difference is equally good.
_EQUAL = 0.5


@dataclass(frozen=True)
class Text:
    """Sentences with a reference for each, in one target language."""

    # Such as `Test text`.
    title: str
    # Their codes are empty if unknown.
    languages: LanguagePair
    source: list[str] | None
    reference: list[str]
    # What translated it.
    note: str = ""

    @property
    def language(self) -> TargetLanguage:
        """The target language, for the metrics."""
        return target_language(self.languages.target)

    @property
    def pairs(self) -> tuple[list[str] | None, list[str]]:
        """Sources and references: systems with the same ones can be compared."""
        return self.source, self.reference


class System:
    """The translations of a text by one system, their scores and faults."""

    def __init__(self, name: str, text: Text, lines: list[str]) -> None:
        self.name, self.text, self.lines = name, text, lines
        self.bleu, self.chrf = (measure(one, lines, [text.reference], text.language) for one in ("bleu", "chrf"))
        self.line_scores = self.chrf.line_scores()
        self.worst = sorted(range(len(lines)), key=self.line_scores.__getitem__)  # indices of lines
        self.findings = diagnose(lines, text.language, [text.reference], text.source)

    def faulty_lines(self, kind: str) -> list[int]:
        """Return the indices of the lines with a fault of a kind, those of the lowest scores first."""
        return sorted((one.line - 1 for one in self.findings if one.kind == kind), key=self.line_scores.__getitem__)


def systems_of_run(run: RunRecords, name: str) -> tuple[list[System], list[str]]:
    """Return the translations that a run recorded of its test and validation texts, and why one is missing."""
    systems, missing = list[System](), list[str]()
    for part, (title, when, note) in _TEXTS.items():
        corpora, file = getattr(run.recipe.data, part), run.path / f"{part}.txt"
        languages = [run.recipe.languages_of(corpus) for corpus in corpora]
        if not corpora:
            continue
        try:
            if not file.exists():
                raise DataError(f"{file} does not exist yet; nmt train writes it {when}")
            if part == "valid":
                texts = PreparedCorpus.open(run.prepared).valid_texts
            else:
                pairs_of = [list(read_pairs(*one)) for one in zip(corpora, languages, strict=True)]
                texts = [([pair.source for pair in pairs], [pair.target for pair in pairs]) for pairs in pairs_of]
            lines, expected = list(read_lines(file)), sum(len(source) for source, _ in texts)
            if len(lines) != expected:
                found = f"{file.name} has {counted(len(lines), 'line')}"
                raise DataError(f"{found}, but the text {expected:,}: it has changed")
        except (NMTError, OSError) as error:
            missing.append(f"No translations of the {title.lower()}: {error}.")
            continue
        remaining = iter(lines)
        for pair, sides in zip(languages, texts, strict=True):
            full_title = f"{title} ({pair.target})" if len(run.recipe.languages.target) > 1 else title
            own = list(islice(remaining, len(sides[0])))
            systems.append(System(name, Text(full_title, pair, *sides, note), own))
    return systems, missing


def length_drawings(systems: Sequence[System]) -> list[Drawing]:
    """Return the chrF of systems by the length of lines, with intervals; nothing if all lines are of one length."""
    text = systems[0].text
    side, lines = ("reference", text.reference) if text.source is None else ("source", text.source)
    buckets, unit, count = length_buckets(lines), length_unit(lines), len(systems)
    if len(buckets) == 1:
        return []
    (figure, (axes,)), weakest = new_chart(2.6, margins=(0.5, 0.1, 0.62, 0.12)), []
    for number, system in enumerate(systems):
        parts = [replace(system.chrf, statistics=[system.chrf.statistics[i] for i in one.lines]) for one in buckets]
        scores = [part.score(RESAMPLES) for part in parts]
        places = np.arange(len(buckets)) + (number - (count - 1) / 2) * 0.7 / count
        margins = [score.confidence.margin if score.confidence else 0 for score in scores]
        values, colour = [score.value for score in scores], COLOURS[number % len(COLOURS)]
        axes.errorbar(places, values, margins, fmt="o", capsize=3, label=system.name, color=colour)
        lowest = int(np.argmin(values))
        named = f", {system.name}" if count > 1 else ""
        weakest.append(f"{buckets[lowest].name} {unit} ({scores[lowest].text}{named})")
    axes.set_xticks(range(len(buckets)), [f"{bucket.name}\n({len(bucket.lines):,})" for bucket in buckets])
    axes.set(xlabel=f"{unit} of the {side} (lines)", xlim=(-0.6, len(buckets) - 0.4))
    axes.set_ylim(top=min(100.2, axes.get_ylim()[1]))
    if count > 1:
        axes.legend()
    caption = f"With 95 % intervals. It is lowest for {', '.join(weakest)}."
    return [Drawing("length", "chrF by length", caption, figure)]


def marked(text: str, other: str, name: str) -> Html:
    """Return a text with the parts that the other text lacks inside elements `ins` or `del`.

    >>> marked("the black cat", "the cat", "del")
    'the <del>black </del>cat'
    """
    tokens, others = _TOKEN.findall(text[:_LONGEST]), _TOKEN.findall(other[:_LONGEST])
    parts: list[object] = []
    # in sentences of 200 words and more, frequent words are no anchors: otherwise repetitions take cubic time
    for operation, start, end, _, _ in SequenceMatcher(None, tokens, others).get_opcodes():
        part = "".join(tokens[start:end])
        parts.append(part if operation == "equal" or not part else element(name, part))
    return joined([*parts, "…" if len(text) > _LONGEST else ""])


def lines_html(systems: Sequence[System], indices: Iterable[int], kind: str = "") -> Html:
    """Return lines of a text as one or more systems translated them, with their chrF; of one, with faults of a kind.

    Each output is compared with the reference.
    """
    return joined(_line(systems, index, kind) for index in indices)


def _line(systems: Sequence[System], index: int, kind: str) -> Html:
    text, is_single = systems[0].text, len(systems) == 1
    reference, output = text.reference[index], systems[0].lines[index]
    shown_reference = marked(reference, output, "ins") if is_single else shortened(reference, _LONGEST)
    rows: list[tuple[str, str, object]] = [("reference", text.languages.target, shown_reference)]
    if text.source is not None:
        rows.insert(0, ("source", text.languages.source, shortened(text.source[index], _LONGEST)))
    for system in systems:
        name = "output" if is_single else system.name
        rows.append((name, text.languages.target, marked(system.lines[index], reference, "del")))
    notes = [f"line {index + 1:,}", "chrF " + ", ".join(f"{one.line_scores[index]:.1f}" for one in systems)]
    faults = [one for one in systems[0].findings if one.line == index + 1 and kind in ("", one.kind)]
    notes += [f"{one.kind}: {one.detail}" if one.detail else one.kind for one in faults if is_single]
    entries = [
        joined([element("dt", name), element("dd", content or element("em", "empty"), lang=code)])
        for name, code, content in rows
    ]
    return element("div", element("p", " · ".join(notes), class_="muted"), element("dl", *entries), class_="line")


def samples_html(system: System) -> Html:
    """Return six lines: two at random, always the same ones; of those that differ two of median and of lowest chrF."""
    legend = [
        f"{system.text.title} {system.text.note}. In the output, ", element("del", "words that the reference lacks"),
        "; in the reference, ", element("ins", "words that the output lacks"), ".",
    ]  # fmt: skip
    differ = [index for index in system.worst if system.lines[index] != system.text.reference[index]]
    drawn = np.random.default_rng(0).permutation(len(system.lines)).tolist()
    columns, seen, typical = [], set[int](), differ[len(differ) // 2 :]
    groups = {"At random": drawn, "Typical differences": typical, "Largest differences": differ}
    for title, indices in groups.items():
        chosen = [index for index in indices if index not in seen][:2]
        seen |= set(chosen)
        columns += [element("div", element("h3", title), lines_html([system], chosen))] if chosen else []
    return joined([element("p", *legend, class_="muted"), element("div", *columns, class_="columns samples")])


def quality_html(systems: Sequence[System], missing: Sequence[str] = ()) -> Html:
    """Return the section of the systems, each with its text; what is missing is shown first."""
    if not systems and not missing:
        missing = ["This run has no translated text: the recipe names neither a test nor a validation text."]
    parts = map(_quality, systems[:1]), (folded(one.text.title, _quality(one)) for one in systems[1:])
    return joined([paragraphs(missing, "warning"), *map(joined, parts)])


def _quality(system: System) -> Html:
    """Return scores, faults, chrF by length, and the worst sentences of a system."""
    text, scores = system.text, [one.score(RESAMPLES) for one in (system.bleu, system.chrf)]
    facts = [("lines", f"{len(system.lines):,}", text.note)]
    facts += [(score.name, score.text, "95 % interval") for score in scores]
    if text.source is not None:
        copied = measure("bleu", text.source, [text.reference], text.language).score()
        facts.append(("BLEU of the source", f"{copied.value:.2f}", "as if it were the translation"))
    boxes = (
        element("div", element("dt", name), element("dd", value, element("small", note))) for name, value, note in facts
    )
    faults: list[Html] = [_fault_table([system])]
    if faulty := len({one.line for one in system.findings}):
        head = f"Faults in {counted(faulty, 'line')} ({faulty / len(system.lines):.1%})"
        faults.insert(0, element("strong", head))
    for kind in KINDS:
        if lines := system.faulty_lines(kind):
            name = f"{kind}: {min(len(lines), _EXAMPLES)} of {len(lines):,}"
            faults.append(folded(name, lines_html([system], lines[:_EXAMPLES], kind)))
    return joined([
        element("h3", f"{text.title}: {system.name}"),
        element("dl", *boxes, class_="facts"),
        figures(length_drawings([system]), joined(faults)),
        folded("Worst sentences", lines_html([system], system.worst[:_WORST])),
        _signatures(scores),
    ])  # fmt: skip


def _signatures(scores: Iterable[Score]) -> Html:
    signatures = (joined([f"{score.name}: ", element("code", score.signature)]) for score in scores)
    return folded("Signatures", bullets(signatures))


def _fault_table(systems: Sequence[System]) -> Html:
    """Return the number of lines with each kind of fault."""
    rows = [(kind, *(len(one.faulty_lines(kind)) for one in systems), meaning) for kind, meaning in KINDS.items()]
    rows = [row for row in rows if any(row[1:-1])]
    names = ["lines"] if len(systems) == 1 else [one.name for one in systems]
    nothing = element("p", "No line has a fault of those that are searched for.")
    return table(("fault", *names, "the line has"), rows) if rows else nothing


def comparison_html(systems: Iterable[System]) -> Html:
    """Return the section of the texts that two or more systems have translated, after those that only one has."""
    groups: dict[object, list[System]] = {}
    for system in systems:
        source, reference = system.text.pairs
        groups.setdefault((tuple(source or ()), tuple(reference)), []).append(system)
    alone = [group[0] for group in groups.values() if len(group) == 1]
    warnings = [
        f"{one.text.title} of {one.name}: no other system has translations of this text; its scores cannot be compared."
        for one in alone
    ]
    shared = (_comparison(group) for group in groups.values() if len(group) > 1)
    return joined([paragraphs(warnings, "warning"), *shared])


def _comparison(systems: Sequence[System]) -> Html:
    """Return significance, lines won, faults, scores by length, and the sentences that differ most."""
    scores = np.array([system.line_scores for system in systems])
    won = []  # for each system the lines where it is better than all others, the largest difference first
    for number, line_scores in enumerate(scores):
        ahead = line_scores - np.delete(scores, number, axis=0).max(axis=0)
        won.append([index for index in np.argsort(-ahead, kind="stable").tolist() if ahead[index] > _EQUAL])
    legend = [element("del", "Words that the reference lacks"), "."] if any(won) else ["All are equally good."]
    parts = [element("h3", systems[0].text.title), _significance(systems, [len(lines) for lines in won])]
    parts += [figures(length_drawings(systems), _fault_table(systems)), element("h4", "Sentences that differ most")]
    parts.append(element("p", *legend, class_="muted"))
    for system, lines in zip(systems, won, strict=True):
        if lines:
            title = element("h4", f"{system.name} is better in {counted(len(lines), 'line')}")
            parts += [title, lines_html(systems, lines[:_OPEN])]
        if len(lines) > _OPEN:
            parts.append(folded("More", lines_html(systems, lines[_OPEN:_SHOWN])))
    return joined(parts)


def _significance(systems: Sequence[System], won: Sequence[int]) -> Html:
    """Return which system is best under each metric, in words and numbers, and the lines that each one wins."""
    columns, parts, scores = ["system"], list[Html](), list[Score]()
    rows: list[list[Any]] = [[system.name] for system in systems]
    for measured in ([system.bleu for system in systems], [system.chrf for system in systems]):
        best = int(np.argmax([one.score().value for one in measured]))
        comparisons = [compare(measured[best], one) for one in measured]
        for row, one, found in zip(rows, measured, comparisons, strict=True):
            row += [one.score(RESAMPLES).text, f"{-found.difference:+.2f} (p = {found.p_value:.3f})"]
        rows[best][-1] = "best"
        worse = [one.name for one, found in zip(systems, comparisons, strict=True) if found.significant]
        verdict = f"significantly better than {' and '.join(worse)}" if worse else "but not significantly"
        scores.append(measured[best].score(RESAMPLES))
        parts.append(element("p", element("strong", f"{scores[-1].name}: {systems[best].name} is best, {verdict}.")))
        columns += [scores[-1].name, "difference to the best"]
    for row, system, lines in zip(rows, systems, won, strict=True):
        row += [lines, len({one.line for one in system.findings})]
    caption = (
        f"{len(systems[0].lines):,} lines; 95 % intervals by bootstrap resampling; p by paired bootstrap resampling, "
        f"below 0.05 significant. A line is won with a chrF that is more than {_EQUAL} better than all others."
    )
    parts.append(table((*columns, "lines won", "lines with faults"), rows, caption))
    return joined([*parts, _signatures(scores)])
