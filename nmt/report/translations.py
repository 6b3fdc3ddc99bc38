"""Texts with their translations by one or two systems: read from a run, scored, and shown line by line.

Of a line, source, reference and outputs are below each other, with the differences of words marked.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice

import numpy as np

from nmt.errors import DataError, NMTError
from nmt.evaluation.findings import diagnose
from nmt.evaluation.metrics import RESAMPLES, length_buckets, length_unit, measure
from nmt.report.drawing import COLOURS, Drawing, new_chart
from nmt.report.page import Html, element, joined
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


@dataclass(frozen=True)
class Text:
    """Sentences with a reference for each, in one target language."""

    # Such as `Test text`.
    title: str
    # The languages of source and target; empty if unknown.
    codes: tuple[str, str]
    # That of the target, for the metrics.
    language: TargetLanguage
    source: list[str] | None
    reference: list[str]
    # What translated it.
    note: str = ""

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
        self.findings = diagnose(lines, text.language, [text.reference], text.source)


def systems_of_run(run: RunRecords, name: str) -> tuple[list[System], list[str]]:
    """Return the translations that a run recorded of its test and validation texts, and why one is missing."""
    found, missing = list[System](), list[str]()
    data = run.recipe.data
    for title, file, corpora in (("Test text", "test.txt", data.test), ("Validation text", "valid.txt", data.valid)):
        if not corpora:
            continue
        try:
            if not (run.path / file).exists():
                when = "when training ends" if corpora is data.test else "at the best validation"
                raise DataError(f"{run.path / file} does not exist yet; nmt train writes it {when}")
            pairs_of = _test_pairs(run) if corpora is data.test else PreparedCorpus.open(run.prepared).valid_texts
            lines = list(read_lines(run.path / file))
            if len(lines) != (expected := sum(len(sources) for sources, _ in pairs_of)):
                raise DataError(f"{file} has {counted(len(lines), 'line')}, but the text {expected:,}: it has changed")
        except (NMTError, OSError) as error:
            missing.append(f"No translations of the {title.lower()}: {error}.")
            continue
        own, note = iter(lines), "by the best checkpoint" + ("" if corpora is data.test else ", greedy")
        for corpus, (source, reference) in zip(corpora, pairs_of, strict=True):
            code = run.recipe.target_of(corpus)
            full = f"{title} ({code})" if len(run.recipe.languages.target) > 1 else title
            codes = (run.recipe.languages.source, code)
            text = Text(full, codes, target_language(code), source, reference, note)
            found.append(System(name, text, list(islice(own, len(source)))))
    return found, missing


def _test_pairs(run: RunRecords) -> list[tuple[list[str], list[str]]]:
    """Return the sources and references of each test text. Raises DataError."""
    corpora = run.recipe.data.test
    pairs_of = [list(read_pairs(corpus, run.recipe.languages_of(corpus))) for corpus in corpora]
    return [([pair.source for pair in pairs], [pair.target for pair in pairs]) for pairs in pairs_of]


def length_drawings(systems: Sequence[System]) -> list[Drawing]:
    """Return the chrF of systems by the length of lines, with intervals; nothing if all lines are of one length."""
    text = systems[0].text
    side, lines = ("reference", text.reference) if text.source is None else ("source", text.source)
    buckets, unit = length_buckets(lines), length_unit(lines)
    if len(buckets) == 1:
        return []
    (figure, (axes,)), weakest = new_chart(2.6, margins=(0.5, 0.1, 0.62, 0.12)), []
    for number, system in enumerate(systems):
        parts = [replace(system.chrf, statistics=[system.chrf.statistics[i] for i in one.lines]) for one in buckets]
        scores = [part.score(RESAMPLES) for part in parts]
        places = np.arange(len(buckets)) + (number - (len(systems) - 1) / 2) * 0.7 / len(systems)
        margins = [score.confidence.margin if score.confidence else 0 for score in scores]
        axes.errorbar(
            places,
            [score.value for score in scores],
            margins,
            fmt="o",
            capsize=3,
            label=system.name,
            color=COLOURS[number % 7],
        )
        lowest, bucket = min(zip(scores, buckets, strict=True), key=lambda pair: pair[0].value)
        named = f", {system.name}" if len(systems) > 1 else ""
        weakest.append(f"{bucket.name} {unit} ({lowest.text}{named})")
    axes.set_xticks(range(len(buckets)), [f"{bucket.name}\n({len(bucket.lines):,})" for bucket in buckets])
    axes.set(xlabel=f"{unit} of the {side} (lines)", xlim=(-0.6, len(buckets) - 0.4))
    axes.set_ylim(top=min(100.2, axes.get_ylim()[1]))
    if len(systems) > 1:
        axes.legend()
    caption = f"With 95 % intervals. It is lowest for {', '.join(weakest)}."
    return [Drawing("length", "chrF by length", caption, figure)]


def samples_html(system: System) -> Html:
    """Return six lines: two at random, always the same ones; of those that differ two of median and of lowest chrF."""
    order = sorted(range(len(system.lines)), key=lambda index: system.line_scores[index])
    differ = [index for index in order if system.lines[index] != system.text.reference[index]]
    drawn = np.random.default_rng(0).permutation(len(order)).tolist()
    parts, seen, typical = [], set[int](), differ[len(differ) // 2 :]
    groups = {"At random": drawn, "Typical differences": typical, "Largest differences": differ}
    for title, indices in groups.items():
        chosen = [index for index in indices if index not in seen][:2]
        seen |= set(chosen)
        parts += [element("div", element("h3", title), lines_html([system], chosen))] if chosen else []
    return element("div", *parts, class_="columns samples")


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
    """Return lines of a text as one or two systems translated them, with their chrF and faults, or those of one kind.

    Each output is compared with the reference.
    """
    return joined(_line(systems, index, kind) for index in indices)


def _line(systems: Sequence[System], index: int, kind: str) -> Html:
    text, outputs = systems[0].text, [system.lines[index] for system in systems]
    reference = text.reference[index]
    source, target = text.codes
    rows: list[tuple[str, str, object]] = []
    if text.source is not None:
        rows.append(("source", source, shortened(text.source[index], _LONGEST)))
    single = len(systems) == 1
    rows.append(
        ("reference", target, marked(reference, outputs[0], "ins") if single else shortened(reference, _LONGEST))
    )
    for system, output in zip(systems, outputs, strict=True):
        rows.append(("output" if single else system.name, target, marked(output, reference, "del")))
    heading = [f"line {index + 1:,}", "chrF " + ", ".join(f"{one.line_scores[index]:.1f}" for one in systems)]
    if single:
        found = [one for one in systems[0].findings if one.line == index + 1 and kind in ("", one.kind)]
        heading += [f"{one.kind}: {one.detail}" if one.detail else one.kind for one in found]
    entries = [
        joined([element("dt", name), element("dd", content or element("em", "empty"), lang=code)])
        for name, code, content in rows
    ]
    note = element("p", " · ".join(heading), class_="muted")
    return element("div", note, element("dl", *entries), class_="line")
