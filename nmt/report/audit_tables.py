"""The tables of the section Data on the rules: counts, findings and examples."""

from collections.abc import Sequence
from html import escape

from nmt.report.line_view import folded
from nmt.report.page import bullets, paragraphs, table
from nmt.text.auditing.audit import Audit, CorpusAudit
from nmt.text.filters import RULES
from nmt.text.manifest import Manifest
from nmt.text.readers import shortened

_LONGEST = 300  # characters of an example


def filter_tables(manifest: Manifest, audit: Audit | None) -> str:
    """Return a table of the pairs read, removed by each rule, and kept, then findings and examples of an audit."""
    if audit is None:
        splits = {"training": manifest.train, "validation": manifest.valid}
        counts = [
            CorpusAudit(name, name, split.read, split.kept, split.refused, {})
            for name, split in splits.items()
            if split
        ]
        note = "This prepared corpus has no audit.json, as older ones: it records no removed pairs and no findings."
        return f"{_counts(counts)}{paragraphs([note], 'muted')}"
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
