"""The audit of `nmt prepare --dry-run`, which makes no tokenizer: what the rules on tokens remove is estimated."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from nmt.config import Recipe
from nmt.system.console import Console, counted
from nmt.text.auditing.audit import Audit, make_audit
from nmt.text.filters import Rejected
from nmt.text.preparing.chunks import FilteredText
from nmt.text.preparing.preparation import filter_texts
from nmt.text.preparing.tokenizer_training import proposed_size
from nmt.text.proposing.profile import characters_in_a_token

_SAMPLE = 5_000  # pairs of each corpus that show how many characters a token has
_ESTIMATED = "it counts tokens, and a dry run makes no tokenizer; by their characters, it removes about {}"


def audit_text(recipe: Recipe, work: Path, console: Console) -> tuple[Audit, Iterator[Rejected]]:
    """Return the audit of the texts of a recipe without the rules on tokens, and the removed training pairs.

    `work` is an empty directory for temporary files. Raises DataError for text that cannot be read.
    """
    texts, overlaps = filter_texts(recipe, work, console)
    counts, train = [], texts["train"]
    for filtered in texts.values():
        own = filtered.counts
        for chunk, rule_of in filtered.chunks():
            own[chunk.record.corpus].merge(chunk.counts_of(rule_of))
        counts += own
    audit = make_audit(train.text, counts, overlaps)
    without = {rule: _ESTIMATED.format(counted(count, "pair")) for rule, count in _estimated_removals(train).items()}
    return replace(audit, not_applied=audit.not_applied | without), train.removed()


def _estimated_removals(filtered: FilteredText) -> Counter[str]:
    """Return about how many pairs of a text `too_long` and `ratio` would remove after the other rules."""
    samples: dict[int, list[str]] = {}
    for chunk, rule_of in filtered.chunks():
        if len(rule_of) and chunk.record.corpus not in samples:
            first = range(min(_SAMPLE, len(rule_of)))
            sides = (chunk.source, chunk.target)
            samples[chunk.record.corpus] = ["".join(lines[index] for index in first) for lines in sides]
    alphabet = Counter("".join(side for sample in samples.values() for side in sample))
    text, settings = filtered.text, filtered.text.recipe.tokenizer
    size = settings.vocab_size
    if size == "auto":
        size = proposed_size(sum(filtered.characters), alphabet, settings, len(text.recipe.tags))
    removed = Counter[str]()
    for chunk, rule_of in filtered.chunks():
        corpus = chunk.record.corpus
        if not len(rule_of):
            continue
        lengths = []
        for lines, sample in zip((chunk.source, chunk.target), samples[corpus], strict=True):
            lengths.append(np.rint(lines.characters / characters_in_a_token(sample, size, len(alphabet))))
        reasons = text.rules[corpus].removed_by_length(*lengths)
        removed.update(reason for index, reason in reasons if not rule_of[index])
    return removed
