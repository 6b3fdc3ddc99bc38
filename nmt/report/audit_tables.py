"""The tables of the section Data on the rules: counts, findings and examples."""

from nmt.report.page import escape, table
from nmt.text.auditing.audit import Audit
from nmt.text.filters import RULES
from nmt.text.manifest import Manifest

_LONGEST = 300  # characters of an example


def filter_tables(manifest: Manifest, audit: Audit | None) -> str:
    """Return a table of the pairs read, removed by each rule, and kept, then findings and examples of an audit."""
    if audit is None:
        note = "This prepared corpus has no audit.json, as older ones: it records no removed pairs and no findings."
        return f'{_counts_of_splits(manifest)}<p class="muted">{note}</p>'
    columns = ("pairs", "rule", *(corpus.name for corpus in audit.corpora))
    rows: list[tuple[str | int, ...]] = [("read", "", *(corpus.read for corpus in audit.corpora))]
    for rule, meaning in RULES.items():
        if any(rule in corpus.removed for corpus in audit.corpora):
            rows.append((f"dropped: {rule}", meaning, *(corpus.removed.get(rule, 0) for corpus in audit.corpora)))
    rows.append(("kept", "", *(corpus.kept for corpus in audit.corpora)))
    skipped = [f"The rule {rule} was not applied: {reason}." for rule, reason in audit.not_applied.items()]
    notes = "".join(f"<p>{escape(note)}</p>" for note in skipped)
    return f"{table(columns, rows)}{notes}{_findings(audit)}{_examples(audit)}"


def _counts_of_splits(manifest: Manifest) -> str:
    splits = [("training", manifest.train)]
    if manifest.valid is not None:
        splits.append(("validation", manifest.valid))
    rows: list[tuple[str | int, ...]] = [("read", "", *(split.read for _, split in splits))]
    for rule, meaning in RULES.items():
        if any(split.refused.get(rule) for _, split in splits):
            rows.append((f"dropped: {rule}", meaning, *(split.refused.get(rule, 0) for _, split in splits)))
    rows.append(("kept", "", *(split.kept for _, split in splits)))
    return table(("pairs", "rule", *(name for name, _ in splits)), rows)


def _findings(audit: Audit) -> str:
    items = ""
    for finding in audit.findings:
        examples = "".join(f"<li>{escape(_cut(example))}</li>" for example in finding.examples)
        items += f"<li>{escape(finding.corpus)}: {escape(finding.text)}<ul>{examples}</ul></li>"
    return f"<h4>Findings</h4><ul>{items}</ul>" if items else ""


def _examples(audit: Audit) -> str:
    """Return the examples of each rule, folded."""
    parts = ""
    for rule, meaning in RULES.items():
        shown = [one for corpus in audit.corpora for one in corpus.examples.get(rule, ())]
        if shown:
            rows = [(one.place, _cut(one.source), _cut(one.target), _cut(one.found)) for one in shown]
            content = table(("place", "source", "target", "found"), rows, f"First pairs removed by the rule {rule}")
            parts += f"<details><summary>{escape(rule)}: {escape(meaning)}</summary>{content}</details>"
    return f"<h4>Examples of each rule</h4>{parts}" if parts else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
