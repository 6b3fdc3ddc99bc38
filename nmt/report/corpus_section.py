"""The section Data: what the rules removed, with examples, and the lengths of the prepared corpus."""

from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.errors import NMTError
from nmt.report.drawing import Drawing, new_chart, set_logarithmic
from nmt.report.page import Html, Section, bullets, element, figures, folded, joined, paragraphs, shown, table
from nmt.report.run_records import RunRecords
from nmt.system.console import counted
from nmt.text.manifest import Manifest
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.audit import Audit
from nmt.text.preparing.rules import RULES
from nmt.text.readers import shortened

# Sentence pairs whose lengths are drawn; a larger corpus is sampled, always in the same way.
PAIRS_MEASURED = 200_000
_LONGEST = 300  # characters of an example
_INTERVALS = 40
_RATIOS = 2 ** (np.arange(-10.5, 11) / 5)  # the edges of intervals with the ratio 1 in the middle of one


def corpus_section(run: RunRecords) -> Section:
    """Return the section of the prepared corpus of a run; it states the reason if the corpus cannot be read."""
    try:
        corpus, audit = PreparedCorpus.open(run.prepared), Audit.read(run.prepared)
    except (NMTError, OSError) as error:
        text = f"The prepared corpus of this run cannot be read, so nothing is known about its text: {error}."
        return Section("data", "Data", paragraphs([text], "warning"))
    tables = element("div", _overview(corpus.manifest), element("div", audit_html(audit)), class_="columns")
    return Section("data", "Data", joined([figures(length_drawings(corpus)), tables]))


def _overview(manifest: Manifest) -> Html:
    sides = manifest.train.source, manifest.train.target
    rows = [
        ("tokens", *(side.tokens for side in sides)),
        ("pieces in the vocabulary", *manifest.vocabulary),
        ("characters in a piece", *(side.characters / max(1, side.tokens) for side in sides)),
        ("characters without a piece", *(f"{side.missing_share:.3%}" for side in sides)),
    ]
    return table(("", "source", "target"), rows)


def audit_html(audit: Audit) -> Html:
    """Return a table of the pairs read, removed by each rule, and kept, then findings and examples of an audit."""
    corpora = audit.corpora
    rows: list[tuple[str | int, ...]] = [("read", "", *(corpus.read for corpus in corpora))]
    examples = []
    for rule, meaning in RULES.items():
        if any(corpus.removed.get(rule) for corpus in corpora):
            rows.append((f"removed: {rule}", meaning, *(corpus.removed.get(rule, 0) for corpus in corpora)))
        found = [one for corpus in corpora for one in corpus.examples.get(rule, ())]
        if found:
            cells = (
                [shortened(text, _LONGEST) for text in (one.place, one.source, one.target, one.found)] for one in found
            )
            content = table(("place", "source", "target", "found"), cells, "The first ones of each text.")
            examples.append(folded(f"{rule}: {meaning}", content))
    rows.append(("kept", "", *(corpus.kept for corpus in corpora)))
    skipped = [f"The rule {rule} was not applied: {reason}." for rule, reason in audit.not_applied.items()]
    findings = [
        joined([f"{one.corpus}: {one.text}", bullets(shortened(text, _LONGEST) for text in one.examples)])
        for one in audit.findings
    ]
    parts = [table(("pairs", "rule", *(corpus.name for corpus in corpora)), rows), paragraphs(skipped)]
    parts += [element("h4", "Findings"), bullets(findings)] if findings else []
    parts += [element("h4", "Examples of removed pairs"), *examples] if examples else []
    return joined(parts)


def length_drawings(corpus: PreparedCorpus) -> list[Drawing]:
    """Return the distributions of the lengths of sentences and of their ratio."""
    sample = np.arange(len(corpus.train))
    if len(sample) > PAIRS_MEASURED:
        sample = np.sort(np.random.default_rng(0).choice(len(sample), PAIRS_MEASURED, replace=False))
    source, target = (side - 1 for side in corpus.train.lengths(sample))  # without `</s>`
    used = f"Of {counted(len(sample), 'pair')}"
    ratio = target / np.maximum(source, 1)
    return [
        histogram("lengths", "Pieces in a sentence", used, {"source": source, "target": target}),
        histogram("ratio", "Target pieces for each source piece", used, {"ratio": ratio}),
    ]


def histogram(name: str, title: str, start: str, series: dict[str, npt.NDArray[Any]]) -> Drawing:
    """Return the share of values in intervals: of integers with the integers in the middle, else of equal ratios.

    The first and the last one also hold the values outside. The caption begins with `start`.
    """
    values = np.concatenate(list(series.values()))
    is_count = values.dtype.kind == "i"
    if is_count:
        step = max(1, round(float(np.quantile(values, 0.995)) / _INTERVALS)) if len(values) else 1
        edges = np.arange(0, np.quantile(values, 0.995) + 1.5 * step if len(values) else 2, step) - 0.5
    else:
        edges = _RATIOS
    (figure, (axes,)), words = new_chart(), []
    for (label, numbers), style in zip(series.items(), ("-", "--"), strict=False):
        shares, _ = np.histogram(np.clip(numbers, edges[0], edges[-1]), edges)
        axes.stairs(100 * shares / max(1, len(numbers)), edges, label=label, linestyle=style, linewidth=1.8)
        median, high, top = map(shown, np.quantile(numbers, [0.5, 0.99, 1]).tolist() if len(numbers) else (0, 0, 0))
        words.append(f"{label}: median {median}, 99 % at most {high}, largest {top}")
    axes.set(xlabel=title.lower() if is_count else "ratio, on a logarithmic scale", xlim=(edges[0], edges[-1]))
    axes.yaxis.set_major_formatter("{x:g} %")
    if not is_count:
        set_logarithmic(axes, "x")
    if len(series) > 1:
        axes.legend()
    return Drawing(name, title, f"{start}: {'; '.join(words)}.", figure)
