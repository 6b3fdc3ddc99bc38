"""Prepare a corpus: from text files to a tokenizer and token ids, in stages.

1. filter    normalize all pairs and apply the rules on text; in worker processes, chunk by chunk
2. repeated  find pairs that repeat earlier ones, by their digests
3. tokenizer train it on a sample (fine-tuning takes the initial model's tokenizer)
4. encode    token ids, and the rules on tokens; in worker processes, chunk by chunk
5. join      the chunks in order, into the prepared corpus

RAM does not depend on the size of the text: chunks, digests and token ids are on disk, in a work directory. Nothing is
random: the same text and settings give the same corpus for any number of processes, so runs with different seeds can
share one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import get_args

import numpy as np

from nmt.config import CorpusFile, Filters, LanguagePair, Recipe, RuleName
from nmt.system.console import Console, counted
from nmt.text.auditing.audit import Audit, make_audit, settings_shown, write_report
from nmt.text.corpus import SentencePair, evenly_spread, pairs_of, read_pairs
from nmt.text.filters import HeldOutText, PairFilter, Rejected, RuleCounts
from nmt.text.manifest import FileDigest, Manifest
from nmt.text.prepared import TokenStore, write_valid_texts
from nmt.text.preparing import provenance
from nmt.text.preparing.chunks import FilteredText, Text
from nmt.text.preparing.stages import (
    SAMPLED_PAIRS,
    encode_chunks,
    filter_chunks,
    filtered_text,
    join_chunks,
    length_limit,
    make_tokenizers,
)
from nmt.text.preparing.tokenizer_training import proposed_size
from nmt.text.proposing.profile import characters_in_a_token

_NO_FILTERS = Filters(keep=get_args(RuleName))
"""For the validation text, which must be like what users send: only pairs without a loss are left out."""
_LEARNED_FROM = 20_000  # pairs from which the rules learn at least
_FIRST_PAIRS = 400_000  # among which they are
_SAMPLE = 5_000  # pairs of each corpus that show how many characters a token has
_ESTIMATED = "it counts tokens, and a dry run makes no tokenizer; by their characters, it removes about {}"


def filter_texts(recipe: Recipe, work: Path, console: Console) -> dict[str, FilteredText]:
    """Apply the rules on text and on repetitions; return `train`, and `valid` if the recipe names it.

    The files of chunks are in `work`. Raises DataError with file and line for text that cannot be read.
    """
    text = training_text(recipe, work, console)
    splits = {"train": filtered_text(text, filter_chunks(text))}
    if recipe.data.valid:
        text = validation_text(recipe, work, console)
        splits["valid"] = filtered_text(text, filter_chunks(text))
    return splits


def write_corpus(recipe: Recipe, work: Path, directory: Path, console: Console) -> Iterator[Rejected]:
    """Write the prepared corpus of a recipe into an empty directory; return the pairs that the rules remove.

    `work` is an empty directory for temporary files. Raises DataError with file and line for text that cannot be read,
    ConfigError for a tokenizer that cannot be made.
    """
    inputs = provenance.record(provenance.input_files(recipe))
    texts = filter_texts(recipe, work, console)
    tokenizers = make_tokenizers(texts["train"], work)
    tokenizers.save(directory)
    splits, counts = {}, list[RuleCounts]()
    for name, filtered in texts.items():
        encode_chunks(filtered, tokenizers)
        splits[name], own = join_chunks(filtered, tokenizers, directory / name)
        counts += own
    if recipe.data.valid:
        write_valid_texts(directory, [pairs_of(recipe, [corpus]) for corpus in recipe.data.valid])
    provenance.check_unchanged(inputs.values())

    audit = make_audit(texts["train"].text, counts)
    audit.write(directory)
    write_report(audit, directory, settings_shown(recipe))
    stride = -(-texts["train"].starts[-1] // SAMPLED_PAIRS)
    offsets = [TokenStore.open(directory / "train", side).offsets for side in ("source", "target")]
    lengths = [own[1::stride] - own[:-1:stride] for own in offsets]
    written = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    manifest = Manifest(
        provenance.recorded_settings(recipe),
        provenance.digests(inputs),
        (len(tokenizers.source), len(tokenizers.target)),
        splits["train"],
        splits.get("valid"),
        length_limit(lengths[0], lengths[1]),
        {str(path.relative_to(directory)): FileDigest.of(path) for path in written},
        provenance.versions(),
    )
    provenance.write_inputs(directory, inputs)
    manifest.write(directory)
    return texts["train"].removed()


def audit_text(recipe: Recipe, work: Path, console: Console) -> tuple[Audit, Iterator[Rejected]]:
    """Return the audit of the texts of a recipe without the rules on tokens, and the removed training pairs.

    It makes no tokenizer: what the rules on tokens remove is estimated. `work` is an empty directory for temporary
    files. Raises DataError for text that cannot be read.
    """
    texts = filter_texts(recipe, work, console)
    counts, train = [], texts["train"]
    for filtered in texts.values():
        own = filtered.counts
        for chunk, rule_of in filtered.chunks():
            own[chunk.record.corpus].merge(chunk.counts_of(rule_of))
        counts += own
    audit = make_audit(train.text, counts)
    without = {rule: _ESTIMATED.format(counted(count, "pair")) for rule, count in _estimated_removals(train).items()}
    return replace(audit, not_applied=audit.not_applied | without), train.removed()


def _estimated_removals(filtered: FilteredText) -> Counter[str]:
    """Return about how many pairs of a text `too_long` would remove after the other rules."""
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


def training_text(recipe: Recipe, work: Path, console: Console) -> Text:
    """Return the training text with its rules."""
    texts = {"validation": recipe.data.valid, "test": recipe.data.test}
    held_out = [HeldOutText(name, pairs_of(recipe, corpora)) for name, corpora in texts.items()]
    corpora_of: dict[LanguagePair, list[CorpusFile]] = {}
    for corpus in recipe.data.train:
        corpora_of.setdefault(recipe.languages_of(corpus), []).append(corpus)
    learned = {
        languages: PairFilter.learn(recipe.data.filters, languages, _first_pairs(recipe, corpora), held_out)
        for languages, corpora in corpora_of.items()
    }
    rules = tuple(learned[recipe.languages_of(corpus)] for corpus in recipe.data.train)
    return Text(work / "train", recipe.data.train, rules, recipe, console)


def validation_text(recipe: Recipe, work: Path, console: Console) -> Text:
    """Return the validation text, of which only pairs without a loss are left out."""
    filters = _NO_FILTERS.model_copy(update={"max_tokens": recipe.data.filters.max_tokens})
    rules = tuple(PairFilter.learn(filters, recipe.languages_of(corpus)) for corpus in recipe.data.valid)
    return Text(work / "valid", recipe.data.valid, rules, recipe, console)


def _first_pairs(recipe: Recipe, corpora: Sequence[CorpusFile]) -> list[SentencePair]:
    """Return normalized pairs from which the rules learn, evenly spread over the first ones of each corpus."""
    sample = []
    for corpus in corpora:
        first = islice(read_pairs(corpus, recipe.languages_of(corpus)), _FIRST_PAIRS // len(corpora))
        sample += [pair.normalized() for pair in evenly_spread(first, 2 * _LEARNED_FROM // len(corpora))]
    return sample
