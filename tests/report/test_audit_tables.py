"""The tables on rules: counts, findings and examples of an audit, or the counts of an older corpus."""

from dataclasses import replace
from pathlib import Path

from nmt.report.audit_tables import filter_tables
from nmt.text.auditing.audit import Audit, CorpusAudit, Example
from nmt.text.auditing.corpus_findings import Finding
from nmt.text.manifest import Manifest


def test_audit_is_shown_escaped_with_examples_of_each_rule(texts: Path) -> None:
    example = Example("a.tsv:7", "<b>one & two</b>", "x" * 400, "identical")
    corpus = CorpusAudit("data.train.0: a.tsv", "train", 9, 8, {"copy": 1}, {"copy": [example]})
    finding = Finding("data.train.0: a.tsv", "the source (en) has no capital letters", ("line 1: <i>",))
    html = filter_tables(Manifest.read(texts / "prepared"), Audit((corpus,), (finding,), (), {"leak": "no test text"}))
    for text in (
        "<td>dropped: copy</td>", "a.tsv:7", "&lt;b&gt;one &amp; two&lt;/b&gt;", "x" * 300 + "…", "identical",
        "the source (en) has no capital letters", "line 1: &lt;i&gt;", "The rule leak was not applied: no test text.",
    ):  # fmt: skip
        assert text in html
    assert "dropped: empty" not in html
    assert "<b>" not in html


def test_older_corpus_without_audit_has_counts_only(texts: Path) -> None:
    manifest = Manifest.read(texts / "prepared")
    html = filter_tables(replace(manifest, train=replace(manifest.train, refused={"copy": 12})), None)
    assert "dropped: copy" in html
    assert "Examples" not in html
