"""The audit of a text: what each rule removed, with examples, and what is unusual about each corpus.

It is `audit.json` in the folder of the prepared corpus. It is the same wherever the text is: files have their names
without folders.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nmt.config import CorpusFile
from nmt.text.manifest import UnusableCorpusError
from nmt.text.preparing.findings import Finding, rule_findings
from nmt.text.preparing.rules import RULES

FILE = "audit.json"
EXAMPLES = 5
"""Removed pairs of each rule that are kept as examples: the first ones of the text."""


@dataclass(frozen=True)
class Removed:
    """A pair that a rule removed, as normalized, with its place and what was found in it."""

    rule: str
    place: str
    """File and line."""
    found: str
    source: str
    target: str


@dataclass
class CorpusAudit:
    """What the rules removed from one corpus."""

    name: str
    """The key in the recipe and the file: `data.train.0: train.tsv`."""
    split: str
    """`train` or `valid`."""
    read: int = 0
    """Pairs read."""
    removed: dict[str, int] = field(default_factory=dict)
    """Pairs removed, by rule."""
    examples: dict[str, list[Removed]] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Pairs that no rule removed."""
        return self.read - sum(self.removed.values())

    def add(self, removed: Removed) -> None:
        """Count a removed pair."""
        self.removed[removed.rule] = self.removed.get(removed.rule, 0) + 1
        examples = self.examples.setdefault(removed.rule, [])
        if len(examples) < EXAMPLES:
            file, _, line = removed.place.rpartition(":")
            examples.append(
                Removed(removed.rule, f"{Path(file).name}:{line}", removed.found, removed.source, removed.target)
            )


@dataclass
class Audit:
    """The audit of all corpora of a recipe."""

    corpora: list[CorpusAudit]
    findings: list[Finding]
    not_applied: dict[str, str]
    """The rules that could not be applied, and why; besides them, those of `data.filters.keep` were not."""

    def with_rule_findings(self) -> "Audit":
        """Return the audit with a finding for each rule that removes many training pairs."""
        found = [rule_findings(own.name, own.read, own.removed) for own in self.corpora if own.split == "train"]
        return replace(self, findings=[*self.findings, *chain.from_iterable(found)])

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


def corpus_name(key: str, corpus: CorpusFile) -> str:
    """Return the name of a corpus in an audit, which does not depend on its folder."""
    language = "" if corpus.target_language is None else f" ({corpus.target_language})"
    return f"{key}: {' + '.join(path.name for path in corpus.files.values())}{language}"


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
