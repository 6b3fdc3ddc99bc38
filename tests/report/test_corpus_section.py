"""The section Data: counts and lengths of the corpus, what the rules removed, and corpora that are gone or damaged."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from nmt.report import corpus_section as module
from nmt.report.corpus_section import corpus_html, histogram, length_drawings, length_edges
from nmt.report.drawing import Drawing
from nmt.report.run_records import RunRecords
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.audit import Audit, CorpusAudit, Remark, Removed
from tests.report.run_files import train_line, write_run


@pytest.fixture
def run(texts: Path, tmp_path: Path) -> RunRecords:
    """A run with a copy of the prepared reversal task, at another place than its recipe names."""
    path = write_run(tmp_path / "run", [train_line(10, 3.0)])
    shutil.copytree(texts / "prepared", path / "prepared")
    path.rename(tmp_path / "moved")
    return RunRecords(tmp_path / "moved")


def cells(html: str, name: str) -> list[str]:
    """Return the cells of the row of a table whose first cell is `name`."""
    (row,) = re.findall(rf"<tr><td>{re.escape(name)}</td>(.*?)</tr>", html)
    return [unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]


def test_counts_and_lengths_equal_those_of_the_texts(
    run: RunRecords, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [line.split("\t") for line in (texts / "train.tsv").read_text().splitlines()]
    distinct = len({tuple(pair) for pair in pairs})
    html = corpus_html(run)
    assert cells(html, "read") == ["", str(len(pairs)), "6"]
    assert cells(html, "kept")[1] == str(distinct)
    assert cells(html, "removed: duplicate")[1] == str(len(pairs) - distinct)
    corpus = PreparedCorpus.open(run.path / "prepared")
    lengths = corpus.train.source.lengths[:distinct].tolist()
    assert cells(html, "tokens")[0] == f"{sum(lengths):,}"
    drawing, _ = length_drawings(corpus)
    assert f"source: median {np.median(lengths):.4g}," in drawing.caption
    assert f"largest {max(lengths)};" in drawing.caption
    monkeypatch.setattr(module, "PAIRS_MEASURED", 50)
    assert length_drawings(corpus)[0].caption == length_drawings(corpus)[0].caption
    assert length_drawings(corpus)[0].caption.startswith("Of 50 pairs: ")


def bars(drawing: Drawing) -> dict[tuple[float, float], float]:
    """Return the heights of a histogram by the two edges of each interval, without empty ones."""
    (stairs,) = drawing.figure.axes[0].patches
    heights, edges, _ = stairs.get_data()  # type: ignore[attr-defined]
    return {(low, high): height for low, high, height in zip(edges, edges[1:], heights, strict=False) if height}


def test_histogram_has_integers_in_the_middle_of_bars_and_all_above_in_the_last_one() -> None:
    lengths = np.array([1] * 100 + [2] * 300 + [900])
    found = bars(histogram("name", "title", {"a": lengths}, length_edges(lengths)))
    assert found == {(0.5, 1.5): pytest.approx(10000 / 401), (1.5, 2.5): pytest.approx(30100 / 401)}
    ratios = bars(histogram("name", "title", {"a": np.array([0.01, 1.0, 1.0, 2.0])}, module.RATIOS))
    assert sorted(ratios.values()) == [25, 25, 50]
    ((low, high),) = [edges for edges, height in ratios.items() if height == 50]
    assert low * high == pytest.approx(1), "1 is in the middle"


def damage_manifest(prepared: Path) -> None:
    file = prepared / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"format_version": 2}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no prepared corpus here"),
        (damage_manifest, "found format version 2, expected"),
        (lambda prepared: (prepared / "tokenizer.model").write_bytes(b"x"), "tokenizer.model"),
        (lambda prepared: (prepared / "audit.json").write_bytes(b"x"), "audit.json"),
    ],
)
def test_corpus_that_is_gone_or_damaged_is_named(
    run: RunRecords, damage: Callable[[Path], object], message: str
) -> None:
    damage(run.path / "prepared")
    html = unescape(corpus_html(run))
    assert html.startswith('<p class="warning">The prepared corpus of this run cannot be read')
    assert message in html


def test_audit_is_shown_escaped_with_examples_of_each_rule(run: RunRecords) -> None:
    name = "data.train.0: <b>.tsv"
    example = Removed("copy", "<b>.tsv:7", "identical", "<b>one & two</b>", "x" * 400)
    corpus = CorpusAudit(name, 9, Counter(copy=1), {"copy": [example]})
    finding = Remark(name, "the source has no <b>", ("line 1: <b>",))
    Audit([corpus], [finding], {"leak": "no <b> text"}).write(run.prepared)
    html = corpus_html(run)
    for text in (
        "<td>removed: copy</td>", "&lt;b&gt;.tsv:7", "&lt;b&gt;one &amp; two&lt;/b&gt;", "x" * 300 + "…", "identical",
        'class="number">data.train.0: &lt;b&gt;.tsv', "<li>data.train.0: &lt;b&gt;.tsv: the source has no &lt;b&gt;",
        "line 1: &lt;b&gt;", "The rule leak was not applied: no &lt;b&gt; text.",
    ):  # fmt: skip
        assert text in html
    assert "removed: empty" not in html
    assert "<b>" not in html
