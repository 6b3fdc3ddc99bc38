"""The section Data: what the rules removed, with examples, and the lengths of the prepared corpus."""

from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.errors import NMTError
from nmt.report.drawing import Drawing, new_chart, set_logarithmic
from nmt.report.page import Html, bullets, element, figures, folded, joined, paragraphs, shown, table
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
RATIOS = 2 ** (np.arange(-10.5, 11) / 5)  # the edges of intervals with the ratio 1 in the middle of one

Values = npt.NDArray[Any]


def corpus_html(run: RunRecords) -> Html:
    """Return the section of the prepared corpus of a run; it states the reason if the corpus cannot be read."""
    try:
        corpus, audit = PreparedCorpus.open(run.prepared), Audit.read(run.prepared)
    except (NMTError, OSError) as error:
        text = f"The prepared corpus of this run cannot be read, so nothing is known about its text: {error}."
        return paragraphs([text], "warning")
    tables = element("div", _overview(corpus.manifest), element("div", audit_html(audit)), class_="columns")
    return joined([figures(length_drawings(corpus)), tables])


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
        removed = [corpus.removed.get(rule, 0) for corpus in corpora]
        if any(removed):
            rows.append((f"removed: {rule}", meaning, *removed))
        first = [one for corpus in corpora for one in corpus.examples.get(rule, ())]
        cells = [
            [shortened(text, _LONGEST) for text in (one.place, one.source, one.target, one.found)] for one in first
        ]
        if cells:
            content = table(("place", "source", "target", "found"), cells, "The first ones of each text.")
            examples.append(folded(f"{rule}: {meaning}", content))
    rows.append(("kept", "", *(corpus.kept for corpus in corpora)))
    skipped = (f"The rule {rule} was not applied: {reason}." for rule, reason in audit.not_applied.items())
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
    sides = np.stack(corpus.train.lengths(sample)) - 1  # (2, pairs), without `</s>`
    source, target = sides
    ratio = target / np.maximum(source, 1)
    pieces = histogram("lengths", "Pieces in a sentence", {"source": source, "target": target}, length_edges(sides))
    ratios = histogram("ratio", "Target pieces for each source piece", {"ratio": ratio}, RATIOS)
    ratios.figure.axes[0].set_xlabel("ratio, on a logarithmic scale")
    set_logarithmic(ratios.figure.axes[0], "x")
    return [pieces, ratios]


def length_edges(lengths: Values) -> Values:
    """Return the edges of intervals with lengths in their middle; the last one also holds the longest 0.5 %."""
    longest = float(np.quantile(lengths, 0.995))
    step = max(1, round(longest / _INTERVALS))
    return np.arange(0, longest + 1.5 * step, step) - 0.5


def histogram(name: str, title: str, series: dict[str, Values], edges: Values) -> Drawing:
    """Return the share of values in intervals; the first and the last one also hold the values outside."""
    (figure, (axes,)), words = new_chart(), []
    for (label, values), style in zip(series.items(), ("-", "--"), strict=False):
        shares, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
        axes.stairs(100 * shares / len(values), edges, label=label, linestyle=style, linewidth=1.8)
        median, high, top = map(shown, np.quantile(values, [0.5, 0.99, 1]).tolist())
        words.append(f"{label}: median {median}, 99 % at most {high}, largest {top}")
    axes.set(xlabel=title.lower(), xlim=(edges[0], edges[-1]))
    axes.yaxis.set_major_formatter("{x:g} %")
    if len(series) > 1:
        axes.legend()
    return Drawing(name, title, f"Of {counted(len(values), 'pair')}: {'; '.join(words)}.", figure)
