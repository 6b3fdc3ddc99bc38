"""The section Data: what the rules removed, with examples, and the lengths of the prepared corpus."""

from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from nmt.errors import NMTError
from nmt.report.drawing import Drawing, new_chart, set_logarithmic
from nmt.report.page import render, shown, warning
from nmt.report.run_records import RunRecords
from nmt.system.console import counted
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.audit import Audit
from nmt.text.preparing.rules import RULES

PAIRS_MEASURED = 200_000  # whose lengths are drawn; a larger corpus is sampled, always in the same way
_INTERVALS = 40
RATIOS = 2 ** (np.arange(-10.5, 11) / 5)  # the edges of intervals with the ratio 1 in the middle of one

Values = npt.NDArray[Any]


def corpus_html(run: RunRecords) -> Markup:
    """Return the section of the prepared corpus of a run; it states the reason if the corpus cannot be read."""
    try:
        corpus, audit = run.corpus(), Audit.read(run.prepared)
    except (NMTError, OSError) as error:
        return warning(f"The prepared corpus of this run cannot be read, so nothing is known about its text: {error}.")
    rules = {rule: meaning for rule, meaning in RULES.items() if any(text.removed[rule] for text in audit.corpora)}
    drawings = length_drawings(corpus)
    return render("data.html", manifest=corpus.manifest, audit=audit, drawings=drawings, rules=rules)


def length_drawings(corpus: PreparedCorpus) -> list[Drawing]:
    """Return the distributions of the lengths of sentences and of their ratio."""
    sample = np.arange(len(corpus.train))
    if len(sample) > PAIRS_MEASURED:
        sample = np.sort(np.random.default_rng(0).choice(len(sample), PAIRS_MEASURED, replace=False))
    source, target = sides = np.stack(corpus.train.lengths(sample)) - 1  # (2, pairs), without `</s>`
    ratio = target / np.maximum(source, 1)
    pieces = histogram("lengths", "Pieces in a sentence", {"source": source, "target": target}, length_edges(sides))
    pieces.figure.axes[0].locator_params(axis="x", integer=True)
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
