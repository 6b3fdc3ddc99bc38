"""The audit of `nmt prepare --dry-run`, which makes no tokenizer: what the rules on tokens remove is estimated."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from nmt.config import Recipe
from nmt.system.console import Console, counted
from nmt.text.auditing.audit import Audit, make_audit, recipe_findings
from nmt.text.auditing.rejected_pairs import rejected_pairs
from nmt.text.corpus import pairs_of
from nmt.text.filters import HeldOutText, Rejected
from nmt.text.preparing.chunk_files import KeptChunk
from nmt.text.preparing.chunks import repeated_in
from nmt.text.preparing.duplicates import BitSet
from nmt.text.preparing.preparation import find_overlaps, training_text, validation_text
from nmt.text.preparing.stages import Filtered, Text, filter_chunks, find_repetitions, summary
from nmt.text.preparing.vocabulary import proposed_size
from nmt.text.proposing.profile import characters_in_a_token

_SAMPLE = 5_000  # pairs of each corpus that show how many characters a token has
_ESTIMATED = "it counts tokens, and a dry run makes no tokenizer; by their characters, it removes about {}"


def audit_text(recipe: Recipe, work: Path, console: Console) -> tuple[Audit, Iterator[Rejected]]:
    """Return the audit of the texts of a recipe without the rules on tokens, and the removed training pairs.

    `work` is an empty directory for temporary files. Raises DataError for text that cannot be read.
    """
    valid_pairs, test_pairs = pairs_of(recipe, recipe.data.valid), pairs_of(recipe, recipe.data.test)
    text = training_text(recipe, work, valid_pairs, test_pairs, console)
    found = recipe_findings(recipe, (HeldOutText("validation", valid_pairs), HeldOutText("test", test_pairs)))
    filtered = summary(text, filter_chunks(text))
    repeated = find_repetitions(text, filtered)
    for chunk, start in _chunks(text, filtered):
        filtered.counts[chunk.record.corpus].merge(chunk.counts_of(repeated_in(chunk, start, repeated)))
    counts, overlaps = filtered.counts, find_overlaps(filtered, valid_pairs, test_pairs, "training")
    if recipe.data.valid:
        valid_text = validation_text(recipe, work, test_pairs, console)
        valid_filtered = summary(valid_text, filter_chunks(valid_text))
        counts = [*counts, *valid_filtered.counts]
        overlaps += find_overlaps(valid_filtered, [], test_pairs, "validation")
    audit = make_audit(recipe, counts, found, overlaps, text.rules)
    estimated = _estimated_removals(text, filtered, repeated)
    without = {rule: _ESTIMATED.format(counted(count, "pair")) for rule, count in estimated.items()}
    return replace(audit, not_applied=audit.not_applied | without), rejected_pairs(text.folder, repeated)


def _chunks(text: Text, filtered: Filtered) -> Iterator[tuple[KeptChunk, int]]:
    """Yield the chunks that the rules on text leave pairs of, each with the index of its first pair."""
    for number, start in enumerate(accumulate(filtered.kept[:-1], initial=0)):
        if filtered.kept[number]:
            yield KeptChunk(text.folder, number), start


def _estimated_removals(text: Text, filtered: Filtered, repeated: Mapping[str, BitSet]) -> Counter[str]:
    """Return about how many pairs of a text `too_long` and `ratio` would remove after the other rules."""
    samples: dict[int, list[str]] = {}
    for chunk, _ in _chunks(text, filtered):
        if chunk.record.corpus not in samples:
            sides = (chunk.source, chunk.target)
            first = range(min(_SAMPLE, chunk.record.kept))
            samples[chunk.record.corpus] = ["".join(lines[index] for index in first) for lines in sides]
    alphabet = Counter("".join(side for sample in samples.values() for side in sample))
    settings = text.recipe.tokenizer
    size = settings.vocab_size
    if size == "auto":
        size = proposed_size(sum(filtered.characters), alphabet, settings, len(text.recipe.tags))
    removed = Counter[str]()
    for chunk, start in _chunks(text, filtered):
        corpus, repetitions = chunk.record.corpus, repeated_in(chunk, start, repeated)
        lengths = []
        for lines, sample in zip((chunk.source, chunk.target), samples[corpus], strict=True):
            lengths.append(np.rint(lines.characters / characters_in_a_token(sample, size, len(alphabet))))
        reasons = text.rules[corpus].removed_by_length(*lengths)
        removed.update(reason for index, reason in reasons if not repetitions[index])
    return removed
