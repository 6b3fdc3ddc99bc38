"""The section Data: what the rules removed, with examples, and the lengths of the prepared corpus."""

from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.errors import NMTError
from nmt.report.drawing import Drawing, new_figure
from nmt.report.page import Html, Section, bullets, element, facts, figures, folded, joined, paragraphs, shown, table
from nmt.report.run_records import RunRecords
from nmt.text.manifest import Manifest
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.audit import Audit
from nmt.text.preparing.rules import RULES
from nmt.text.readers import shortened

# Sentence pairs whose lengths are drawn; a larger corpus is sampled, always in the same way.
PAIRS_MEASURED = 200_000
_LONGEST = 300  # characters of an example
_INTERVALS = 40


def corpus_section(run: RunRecords) -> Section:
    """Return the section of the prepared corpus of a run; it states the reason if the corpus cannot be read."""
    try:
        corpus, audit = PreparedCorpus.open(run.prepared), Audit.read(run.prepared)
    except (NMTError, OSError) as error:
        text = f"The prepared corpus of this run cannot be read, so nothing is known about its text: {error}."
        return Section("data", "Data", paragraphs([text], "warning"))
    parts = [
        _overview(corpus.manifest),
        element("h3", "Filters"),
        audit_html(audit),
        element("h3", "Lengths"),
        figures(length_drawings(corpus)),
    ]
    return Section("data", "Data", joined(parts))


def _overview(manifest: Manifest) -> Html:
    train = manifest.train
    dropped, sides = train.read - train.kept, (train.source, train.target)
    items = [
        ("Pairs kept", f"{train.kept:,}", f"of {train.read:,} read"),
        ("Pairs removed", f"{dropped:,}", f"{dropped / max(1, train.read):.2%}"),
    ]
    rows = [
        ("tokens", *(side.tokens for side in sides)),
        ("pieces in the vocabulary", *manifest.vocabulary),
        ("characters in a piece", *(side.characters / max(1, side.tokens) for side in sides)),
        ("characters without a piece", *(f"{side.missing_share:.3%}" for side in sides)),
    ]
    return joined([facts(items), table(("", "source", "target"), rows)])


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
    used = f"Of {len(sample):,} pairs"
    lengths, ratio = {"source": source, "target": target}, {"target/source": target / np.maximum(source, 1)}
    return [
        histogram("lengths", "Sentence length", (used, "pieces in a sentence"), lengths),
        histogram("ratio", "Length ratio", (used, "target pieces / source pieces"), ratio),
    ]


def histogram(name: str, title: str, labels: tuple[str, str], series: dict[str, npt.NDArray[Any]]) -> Drawing:
    """Return the share of values in equal intervals; the last one also holds the 0.5 % that are above it.

    `labels` are the start of the caption and the name of the values.
    """
    values = np.concatenate(list(series.values()))
    highest = float(np.quantile(values, 0.995)) if len(values) else 1.0
    step = max(1.0, np.ceil(highest / _INTERVALS)) if values.dtype.kind == "i" else highest / _INTERVALS
    edges = np.arange(0, highest + 1.5 * step, step)
    figure = new_figure()
    axes, words = figure.subplots(), []
    for label, numbers in series.items():
        weights = np.full(len(numbers), 100 / max(1, len(numbers)))
        axes.hist(np.minimum(numbers, edges[-1]), edges.tolist(), weights=weights, label=label, alpha=0.6)
        median, high, top = map(shown, np.quantile(numbers, [0.5, 0.99, 1]).tolist() if len(numbers) else (0, 0, 0))
        words.append(f"{label}: median {median}, 99 % at most {high}, largest {top}")
    axes.set(xlabel=labels[1], ylabel="%")
    if len(series) > 1:
        axes.legend()
    return Drawing(name, title, f"{labels[0]}: {'; '.join(words)}.", figure)
