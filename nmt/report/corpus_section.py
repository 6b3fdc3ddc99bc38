"""The section Data: what the rules removed, and the lengths and pieces of the prepared corpus."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.errors import DataError, NMTError
from nmt.report.charts import Chart, Series, bar_chart, histogram, line_chart, sentence, short
from nmt.report.page import Section, bullets, chart_places, definitions, folded, paragraphs, table
from nmt.report.run_records import RunRecords
from nmt.text.languages import target_language
from nmt.text.manifest import Manifest
from nmt.text.prepared import PreparedCorpus, Sentences, TokenStore
from nmt.text.preparing.audit import Audit, CorpusAudit
from nmt.text.preparing.rules import RULES
from nmt.text.readers import shortened
from nmt.text.segment import words
from nmt.text.tokenizer import Tokenizer

PAIRS_MEASURED = 200_000
"""Sentence pairs whose lengths and pieces are counted; a larger corpus is sampled, always in the same way."""
SENTENCES_READ = 5_000
"""Sentences of each side whose words are counted."""
_LONGEST = 300  # characters of an example of a rule
_RARE = 10
"""A piece that occurs less often is hardly trained."""


def corpus_section(run: RunRecords) -> Section:
    """Return the section of the prepared corpus of a run; it states the reason if the corpus cannot be read."""
    directory = run.prepared
    try:
        corpus = PreparedCorpus.open(directory)
        sides, audit = _measure(corpus, directory), Audit.read(directory)
    except (NMTError, OSError) as error:
        text = f"The prepared corpus of this run cannot be read, so nothing is known about its text: {error}."
        return Section("data", "Data", paragraphs([text], "warning"))
    charts = _charts(audit, sides)
    return Section("data", "Data", _html(corpus.manifest, sides, charts, audit), charts)


class _Side:
    """Measurements of one side of a sample of the training text. Raises DataError for a damaged corpus."""

    def __init__(self, side: str, corpus: PreparedCorpus, sample: npt.NDArray[np.int64], directory: Path) -> None:
        codes = corpus.manifest.settings["languages"].get(side, "")
        code = ", ".join(codes) if isinstance(codes, list) else str(codes)
        tokenizer: Tokenizer = getattr(corpus.tokenizers, side)
        sentences = _gather(getattr(corpus.train, side), sample, len(tokenizer), directory)
        self.name = f"{side} ({code})"
        self.unit = "character" if target_language(code).unspaced else "word"
        """`character` for languages without spaces between words."""
        self.lengths = sentences.lengths
        """Pieces in each sentence of the sample."""
        self.pieces_per_unit = _pieces_per_word(sentences, tokenizer)
        """Of each sentence that was read."""
        self.counts = np.sort(np.bincount(sentences.ids, minlength=len(tokenizer)))[::-1]
        """(V,) occurrences of each piece in the sample, most frequent first."""


def _measure(corpus: PreparedCorpus, directory: Path) -> list[_Side]:
    """Return both sides. Raises DataError for a damaged corpus."""
    sample = np.arange(len(corpus.train))
    if len(sample) > PAIRS_MEASURED:
        sample = np.sort(np.random.default_rng(0).choice(len(sample), PAIRS_MEASURED, replace=False))
    return [_Side(side, corpus, sample, directory) for side in ("source", "target")]


def _gather(store: TokenStore, sample: npt.NDArray[np.int64], vocabulary: int, directory: Path) -> Sentences:
    try:
        sentences = store.gather(sample)
    except (ValueError, IndexError):
        raise DataError(f"{directory}: damaged: offsets that do not increase") from None
    if len(sentences.ids) and not 0 <= sentences.ids.min() <= sentences.ids.max() < vocabulary:
        raise DataError(f"{directory}: damaged: ids that are not in its vocabulary of {vocabulary:,} pieces")
    return sentences


def _pieces_per_word(sentences: Sentences, tokenizer: Tokenizer) -> npt.NDArray[np.float64]:
    """Return the pieces for each word of evenly spaced sentences; a Chinese character is a word."""
    step = -(-len(sentences.lengths) // SENTENCES_READ) or 1
    ends = np.cumsum(sentences.lengths)
    ratios = []
    for index in range(0, len(ends), step):
        ids = sentences.ids[ends[index] - sentences.lengths[index] : ends[index]].tolist()
        count = len(words(tokenizer.decode(ids)))
        if count:
            ratios.append(len(ids) / count)
    return np.array(ratios)


def _html(manifest: Manifest, sides: Sequence[_Side], charts: dict[str, Chart], audit: Audit) -> str:
    train, sample = manifest.train, len(sides[0].lengths)
    read = sum(corpus.read for corpus in audit.corpora if corpus.split == "train")
    dropped, rules = read - train.kept, filter_tables(audit)
    items = [
        ("Pairs kept", f"{train.kept:,}", f"of {read:,} read"),
        ("Pairs dropped", f"{dropped:,}", f"{dropped / max(1, read):.2%}"),
    ]
    for side, counts in zip(sides, (train.source, train.target), strict=True):
        items.append((f"Tokens, {side.name}", f"{counts.tokens:,}", f"{counts.tokens / max(1, train.kept):.1f} a pair"))
    used = "all pairs" if sample == train.kept else f"a sample of {sample:,} of {train.kept:,} pairs"
    counted = min(SENTENCES_READ, len(sides[0].pieces_per_unit))
    note = f"Lengths and pieces are those of {used}; words are counted in {counted:,} sentences of each side."
    return (
        f"{definitions(items)}<h3>Filters</h3>{rules}<h3>Lengths and pieces</h3>"
        f"<p>{note}</p>{chart_places(charts)}<h3>Vocabulary</h3>{_vocabulary(manifest, sides)}"
    )


def _vocabulary(manifest: Manifest, sides: Sequence[_Side]) -> str:
    """Return a table of how the pieces fit the text."""
    counts = (manifest.train.source, manifest.train.target)
    means = (side.pieces_per_unit.mean() if len(side.pieces_per_unit) else 0.0 for side in sides)
    rows: list[tuple[object, ...]] = [
        ("pieces in the vocabulary", *(len(side.counts) for side in sides)),
        ("pieces that occur", *(int((side.counts > 0).sum()) for side in sides)),
        (f"pieces that occur {_RARE} times or more", *(int((side.counts >= _RARE).sum()) for side in sides)),
        ("characters without a piece", *(f"{one.missing_share:.3%}" for one in counts)),
        ("characters a piece", *(f"{one.characters / max(1, one.tokens):.2f}" for one in counts)),
        ("pieces", *(f"{mean:.2f} a {side.unit}" for mean, side in zip(means, sides, strict=True))),
    ]
    return table(("", *(side.name for side in sides)), rows)


def _charts(audit: Audit, sides: Sequence[_Side]) -> dict[str, Chart]:
    charts = {}
    train = [corpus for corpus in audit.corpora if corpus.split == "train"]
    dropped = {rule: count for rule in RULES if (count := sum(corpus.removed.get(rule, 0) for corpus in train))}
    if dropped:
        most = max(dropped, key=lambda rule: dropped[rule])
        read = sum(corpus.read for corpus in train)
        summary = f"{sum(dropped.values()):,} of {read:,}; most by the rule {most} ({dropped[most]:,})."
        charts["dropped"] = bar_chart("Training pairs dropped", summary, ("rule", "pairs"), [("", dropped)])
    lengths = [(side.name, side.lengths) for side in sides]
    axes = ("pieces in a sentence", "% of sentences")
    charts["lengths"] = histogram("Sentence length", _quantiles(lengths, "pieces"), axes, lengths)
    ratio = [("target/source", sides[1].lengths / np.maximum(sides[0].lengths, 1))]
    axes = ("target pieces / source pieces", "% of pairs")
    charts["ratio"] = histogram("Length ratio", _quantiles(ratio, ""), axes, ratio)
    pieces = [(f"{side.name}, a {side.unit}", side.pieces_per_unit) for side in sides]
    axes = ("pieces", "% of sentences")
    charts["pieces"] = histogram("Pieces for each word", _quantiles(pieces, "pieces"), axes, pieces)
    charts["coverage"] = _coverage(sides)
    return charts


def _quantiles(series: Sequence[tuple[str, npt.NDArray[Any]]], unit: str) -> str:
    parts = []
    for name, values in series:
        if len(values):
            median, high, top = (short(float(value)) for value in np.quantile(values, [0.5, 0.99, 1]))
            parts.append(f"{name}: median {median}, 99 % at most {high}, largest {top} {unit}".rstrip())
    return sentence(parts)


def _coverage(sides: Sequence[_Side]) -> Chart:
    """Return the share of the text that the most frequent pieces cover."""
    lines, parts = [], []
    for side in sides:
        used = side.counts[side.counts > 0]
        share = 100 * np.cumsum(used) / max(1, used.sum())
        lines.append(Series(side.name, list(range(1, len(used) + 1)), share.tolist()))
        enough = int(np.searchsorted(share, 95)) + 1
        parts.append(f"{side.name}: the {enough:,} most frequent pieces are 95 % of the text")
    return line_chart("Vocabulary coverage", sentence(parts), ("most frequent pieces", "% of tokens"), lines)


def filter_tables(audit: Audit) -> str:
    """Return a table of the pairs read, removed by each rule, and kept, then findings and examples of an audit."""
    skipped = (f"The rule {rule} was not applied: {reason}." for rule, reason in audit.not_applied.items())
    return f"{_counts(audit.corpora)}{paragraphs(skipped)}{_findings(audit)}{_examples(audit)}"


def _counts(corpora: Sequence[CorpusAudit]) -> str:
    rows: list[tuple[str | int, ...]] = [("read", "", *(corpus.read for corpus in corpora))]
    for rule, meaning in RULES.items():
        if any(corpus.removed.get(rule) for corpus in corpora):
            rows.append((f"dropped: {rule}", meaning, *(corpus.removed.get(rule, 0) for corpus in corpora)))
    rows.append(("kept", "", *(corpus.kept for corpus in corpora)))
    return table(("pairs", "rule", *(corpus.name for corpus in corpora)), rows)


def _findings(audit: Audit) -> str:
    found = bullets(
        f"{escape(one.corpus)}: {escape(one.text)}{bullets(escape(shortened(text, _LONGEST)) for text in one.examples)}"
        for one in audit.findings
    )
    return found and f"<h4>Findings</h4>{found}"


def _examples(audit: Audit) -> str:
    """Return the examples of each rule, folded."""
    parts = ""
    for rule, meaning in RULES.items():
        shown = [one for corpus in audit.corpora for one in corpus.examples.get(rule, ())]
        if shown:
            rows = [
                [shortened(text, _LONGEST) for text in (one.place, one.source, one.target, one.found)] for one in shown
            ]
            caption = f"First pairs removed by the rule {rule}"
            parts += folded(f"{rule}: {meaning}", table(("place", "source", "target", "found"), rows, caption))
    return parts and f"<h4>Examples of each rule</h4>{parts}"
