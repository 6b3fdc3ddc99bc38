"""The sections of several runs or systems: what the runs are and cost, and their scores on the texts they share."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nmt.evaluation.findings import KINDS
from nmt.evaluation.metrics import RESAMPLES, compare
from nmt.report.page import Html, Section, bullets, element, figures, folded, joined, paragraphs, table
from nmt.report.quality_section import NO_FAULTS
from nmt.report.run_table import Row, columns_of, differing_settings, setting_text
from nmt.report.translations import System, length_drawings, lines_html
from nmt.system.console import counted

# Sentences that differ most, of each system: shown at once, and at most.
_OPEN, _SHOWN = 3, 10
# Points of chrF: a line of a smaller difference is equally good.
_EQUAL = 0.5
# A run that has seen this many times the pairs of another one has seen more text.
_MORE = 1.05


def runs_section(rows: Sequence[Row]) -> Section:
    """Return the section of runs: costs and scores, the settings that differ, and which ones have seen more text."""
    columns, settings = columns_of(rows), differing_settings(rows)
    values = [(key, *(setting_text(value, is_short=False) for value in found)) for key, found in settings.items()]
    names = columns["name"]
    parts = [
        table(list(columns), zip(*columns.values(), strict=True)),
        element("h3", "Settings that differ"),
        table(("key", *names), values) if values else element("p", "None: the recipes are equal."),
        bullets(_seen_text(rows)),
    ]
    return Section("runs", "Runs", joined(parts))


def _seen_text(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each run that has seen more text than the one that has seen the least."""
    seen = {row["name"]: row["epochs"] * row["pairs"] for row in rows if row["epochs"] and row["pairs"]}
    if not seen:
        return []
    least = min(seen, key=lambda name: seen[name])
    return [
        f"{name} has seen {count / seen[least]:.1f} times the text of {least} ({count:,.0f} sentence pairs against "
        f"{seen[least]:,.0f}, repetitions included): a better score may be due to that."
        for name, count in seen.items()
        if count > _MORE * seen[least]
    ]


def comparison_section(systems: Iterable[System]) -> Section:
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
    return Section("comparison", "Comparison", joined([paragraphs(warnings, "warning"), *shared]))


def _comparison(systems: Sequence[System]) -> Html:
    """Return significance, lines won, faults, scores by length, and the sentences that differ most."""
    scores = np.array([system.line_scores for system in systems])
    won = []  # for each system the lines where it is better than all others, the largest difference first
    for number, line_scores in enumerate(scores):
        ahead = line_scores - np.delete(scores, number, axis=0).max(axis=0)
        won.append([index for index in np.argsort(-ahead, kind="stable").tolist() if ahead[index] > _EQUAL])
    names = [system.name for system in systems]
    faults = [Counter(one.kind for one in system.findings) for system in systems]
    kinds = [(kind, *(one[kind] for one in faults), KINDS[kind]) for kind in KINDS if any(one[kind] for one in faults)]
    fault_table = table(("fault", *names, "the line has"), kinds) if kinds else element("p", NO_FAULTS)
    legend = [element("del", "Words that the reference lacks"), "."] if any(won) else ["All are equally good."]
    parts = [element("h3", systems[0].text.title), _significance(systems, [len(lines) for lines in won])]
    parts += [figures(length_drawings(systems), fault_table), element("h4", "Sentences that differ most")]
    parts.append(element("p", *legend, class_="muted"))
    for name, lines in zip(names, won, strict=True):
        if lines:
            more = [folded("More", lines_html(systems, lines[_OPEN:_SHOWN]))] if len(lines) > _OPEN else []
            title = element("h4", f"{name} is better in {counted(len(lines), 'line')}")
            parts += [title, lines_html(systems, lines[:_OPEN]), *more]
    return joined(parts)


def _significance(systems: Sequence[System], won: Sequence[int]) -> Html:
    """Return which system is best under each metric, in words and numbers, and the lines that each one wins."""
    columns, parts, signatures = ["system"], list[Html](), []
    rows: list[list[Any]] = [[system.name] for system in systems]
    for measured in ([system.bleu for system in systems], [system.chrf for system in systems]):
        best = int(np.argmax([one.score().value for one in measured]))
        score, worse = measured[best].score(RESAMPLES), []
        for row, one in zip(rows, measured, strict=True):
            found = compare(measured[best], one)
            row += [one.score(RESAMPLES).text, f"{-found.difference:+.2f} (p = {found.p_value:.3f})"]
            worse += [row[0]] if found.significant else []
        rows[best][-1] = "best"
        verdict = f"significantly better than {' and '.join(worse)}" if worse else "but not significantly"
        parts.append(element("p", element("strong", f"{score.name}: {systems[best].name} is best, {verdict}.")))
        signatures.append(joined([f"{score.name}: ", element("code", score.signature)]))
        columns += [score.name, "difference to the best"]
    for row, system, lines in zip(rows, systems, won, strict=True):
        row += [lines, len({one.line for one in system.findings})]
    caption = (
        f"{len(systems[0].lines):,} lines; 95 % intervals by bootstrap resampling; p by paired bootstrap resampling, "
        f"below 0.05 significant. A line is won with a chrF that is more than {_EQUAL} better than all others."
    )
    parts.append(table((*columns, "lines won", "lines with faults"), rows, caption))
    return joined([*parts, folded("Signatures", bullets(signatures))])
