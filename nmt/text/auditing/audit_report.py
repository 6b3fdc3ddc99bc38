"""`report.md`: the audit of a text as Markdown."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from nmt.config import Recipe
from nmt.text.auditing.audit import Audit, CorpusAudit
from nmt.text.filters import RULES
from nmt.text.preparing.provenance import versions
from nmt.text.readers import shortened

_LONGEST = 200  # characters of an example


def write_report(audit: Audit, directory: Path, settings: dict[str, str]) -> None:
    """Write `report.md`; `settings` are shown at its end."""
    (directory / "report.md").write_text(render(audit, settings), encoding="utf-8")


def settings_shown(recipe: Recipe) -> dict[str, str]:
    """Return the settings on which the audit depends, and the versions of the programs."""
    filters = {f"data.filters.{key}": json.dumps(value) for key, value in recipe.data.filters.model_dump().items()}
    return {"languages": recipe.languages.names, **filters, **versions()}


def render(audit: Audit, settings: dict[str, str]) -> str:
    """Return the report as Markdown."""
    counts = _table(("", *(corpus.name for corpus in audit.corpora)), count_rows(audit.corpora))
    lines = ["# Audit of the text", "", *counts, "", "## Findings", ""]
    for finding in audit.findings:
        lines.append(f"* {finding.severity}: {_escaped(finding.corpus)}: {_escaped(finding.text)}")
        lines += [f"  * {_escaped(example)}" for example in finding.examples]
    for overlap in audit.overlaps:
        text, *examples = str(overlap).split("\n")
        lines += [f"* warning: {_escaped(text)}", *(f"  * {_escaped(example)}" for example in examples)]
    if not audit.findings and not audit.overlaps:
        lines.append("None.")
    lines += ["", "## Examples of each rule"]
    for rule, meaning in RULES.items():
        lines += _examples(rule, meaning, audit.corpora)
    if audit.not_applied:
        lines += ["", "## Rules that were not applied", ""]
        lines += [f"* `{rule}`: {reason}" for rule, reason in audit.not_applied.items()]
    lines += ["", "## Settings", "", *_table(("setting", "value"), settings.items())]
    return "\n".join(lines) + "\n"


def count_rows(corpora: Sequence[CorpusAudit]) -> list[list[str]]:
    """Return the pairs read, removed by each rule and kept, a column for each corpus."""
    rows = [["pairs read", *(f"{corpus.read:,}" for corpus in corpora)]]
    for rule, meaning in RULES.items():
        removed = [(corpus.removed.get(rule, 0), corpus.read) for corpus in corpora]
        if any(count for count, _ in removed):
            shares = (f"{count:,} ({count / read:.2%})" if count else "0" for count, read in removed)
            rows.append([f"{rule}: {meaning}", *shares])
    rows.append(["pairs kept", *(f"{corpus.kept:,}" for corpus in corpora)])
    return rows


def _examples(rule: str, meaning: str, corpora: Sequence[CorpusAudit]) -> list[str]:
    lines = []
    for corpus in corpora:
        shown = corpus.examples.get(rule, [])
        if shown:
            removed = corpus.removed[rule]
            lines += ["", f"{_escaped(corpus.name)}: {removed:,}, of which the first {len(shown)}:", ""]
            rows = [(one.place, one.source, one.target, one.found) for one in shown]
            lines += _table(("place", "source", "target", "found"), rows)
    return ["", f"### `{rule}`: {meaning}", *lines] if lines else []


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(map(_escaped, cells)) + " |" for cells in lines]


def _escaped(text: str) -> str:
    """Return a text as one line of Markdown, in which no character is markup."""
    return re.sub(r"([\\`*_{}\[\]<>|~&])", r"\\\1", " ".join(shortened(text, _LONGEST).split()))
