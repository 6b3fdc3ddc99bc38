"""The audit of a text: what each rule removed, with examples, and what is unusual about each corpus.

It is in the folder of the prepared corpus as `audit.json`, for programs, and as `report.md`. Like the manifest, it is
the same wherever the text is: files have their names without folders.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nmt.config import CorpusFile, Recipe
from nmt.text.auditing.corpus_findings import Finding, findings, rule_findings
from nmt.text.corpus import read_pairs
from nmt.text.filters import RULES, RuleCounts
from nmt.text.filters.wrong_language import LIBRARY, is_available
from nmt.text.manifest import UnusableCorpusError
from nmt.text.preparing.chunks import Text
from nmt.text.preparing.provenance import versions
from nmt.text.readers import shortened

FILE = "audit.json"
_LONGEST = 200  # characters of an example in the report


@dataclass(frozen=True)
class Example:
    """A removed pair with its place and what was found in it."""

    place: str
    source: str
    target: str
    found: str


@dataclass(frozen=True)
class CorpusAudit:
    """What the rules removed from one corpus."""

    name: str
    """The key in the recipe and the file: `data.train.0: train.tsv`."""
    split: str
    """`train` or `valid`."""
    read: int
    kept: int
    removed: dict[str, int]
    examples: dict[str, list[Example]]

    @classmethod
    def of(cls, name: str, counts: RuleCounts) -> "CorpusAudit":
        """Return the audit of a corpus."""
        examples = {
            rule: [
                Example(f"{Path(one.pair.file).name}:{one.pair.line}", one.pair.source, one.pair.target, one.found)
                for one in counts.examples[rule]
            ]
            for rule in RULES
            if rule in counts.examples
        }
        removed = {rule: counts.removed[rule] for rule in RULES if counts.removed[rule]}
        return cls(name, name.split(".")[1].partition(":")[0], counts.read, counts.kept, removed, examples)


@dataclass(frozen=True)
class Audit:
    """The audit of all corpora of a recipe."""

    corpora: tuple[CorpusAudit, ...]
    findings: tuple[Finding, ...]
    not_applied: dict[str, str]
    """The rules that could not be applied, and why; besides them, those of `data.filters.keep` were not."""

    def write(self, directory: Path) -> None:
        """Write `audit.json`."""
        text = json.dumps(_AUDIT.dump_python(self, mode="json"), indent=1, ensure_ascii=False)
        (directory / FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> "Audit":
        """Read `audit.json` of a prepared corpus. Raises DataError if it is missing or damaged."""
        try:
            return _AUDIT.validate_json((directory / FILE).read_bytes())
        except (OSError, ValidationError):
            raise UnusableCorpusError(f"{directory / FILE}: missing or damaged") from None


_AUDIT = TypeAdapter(Audit)


def make_audit(train: Text, counts: Iterable[RuleCounts]) -> Audit:
    """Return the audit of a recipe: counts of its training and validation texts, in this order, and all findings."""
    recipe, corpora = train.recipe, list[CorpusAudit]()
    found, of_rules = list[Finding](), list[Finding]()
    for (key, corpus), own in zip(recipe.data.prepared_texts.items(), counts, strict=True):
        name = _name(key, corpus)
        of_rules += rule_findings(name, own) if "train" in key else ()
        corpora.append(CorpusAudit.of(name, own))
    for key, corpus in {**recipe.data.prepared_texts, **recipe.data.test_texts}.items():
        languages = recipe.languages_of(corpus)
        converted = "train" in key and recipe.data.filters.han_variants != "keep"
        found += findings(_name(key, corpus), languages, read_pairs(corpus, languages), converted)
    return Audit(tuple(corpora), (*found, *of_rules), _not_applied(train))


def _name(key: str, corpus: CorpusFile) -> str:
    """Return the name of a corpus in reports, which does not depend on its folder."""
    language = "" if corpus.target_language is None else f" ({corpus.target_language})"
    return f"{key}: {' + '.join(path.name for path in corpus.files.values())}{language}"


def _not_applied(train: Text) -> dict[str, str]:
    reasons = {}
    if not all("length" in own.checks for own in train.rules):
        reasons["length"] = "there are too few pairs to learn the usual ratio"
    if not is_available():
        reasons["language"] = f"{LIBRARY} is not installed: pip install py3langid"
    return {rule: reason for rule, reason in reasons.items() if rule not in train.recipe.data.filters.keep}


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
    if not audit.findings:
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
