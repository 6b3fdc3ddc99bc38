"""Prepare a corpus: from text files to a tokenizer and token ids.

Two passes over the training text, neither of which holds it in memory:

1. train the tokenizer on the pairs that the filters on text keep (fine-tuning takes the initial model's tokenizer);
2. encode each pair, and apply the filters on length.

Nothing is random: the same text and settings give the same corpus, so runs with different seeds can share one.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from nmt.config import CorpusFile, Filters, MaxLength, Recipe, RuleName
from nmt.errors import ConfigError, DataError, ModelError
from nmt.system.console import Console, counted
from nmt.text import provenance
from nmt.text.corpus import SentencePair, read_pairs
from nmt.text.filters import RULES, PairFilter, Rejected, RuleCounts, Verdict
from nmt.text.filters.rule_counts import total_removed
from nmt.text.overlap import Overlap, OverlapCounter
from nmt.text.prepared import (
    FileDigest,
    Ids,
    Manifest,
    PreparedSplit,
    SideCounts,
    SplitCounts,
    SplitWriter,
    write_valid_texts,
)
from nmt.text.tokenizer import Tokenizer, Tokenizers, VocabularySizeError
from nmt.text.vocabulary import vocabulary_for

_BATCH_PAIRS = 10_000  # pairs that are encoded at once
_PAIRS_SHOWN = 1_000  # pairs between two updates of the progress bar, which is slow to draw

_NO_FILTERS = Filters(max_ratio=1e9, keep=get_args(RuleName))
"""For the validation text, which must be like what users send: only pairs without a loss are left out."""

_LIMIT_PAIRS = 1_000_000  # pairs, spread over the text, from whose lengths the limit on translations is computed
_LIMIT_FACTORS = np.arange(1.0, 6.05, 0.1)
_LIMIT_COVERAGE, _LIMIT_MARGIN = 0.9999, 1.1
"""Share of the pairs below the line, and the factor between the line and the limit."""
_LEAST_EXTRA = 5


def write_corpus(recipe: Recipe, directory: Path, console: Console) -> Manifest:
    """Write the prepared corpus of a recipe into an empty directory.

    Raises DataError with file and line for text that cannot be read, ConfigError for a tokenizer that cannot be made.
    """
    inputs = provenance.record(provenance.input_files(recipe))
    test_inputs = provenance.record(provenance.files_of_test_text(recipe))
    valid_texts = [list(read_pairs(corpus, recipe.languages_of(corpus))) for corpus in recipe.data.valid]
    valid_pairs = [pair for text in valid_texts for pair in text]
    readers = corpus_readers(recipe, valid_pairs)
    if recipe.train.init_from is None:
        tokenizers, training_pairs = _train_tokenizers(recipe, console)
    else:
        tokenizers, training_pairs = initial_tokenizers(recipe, recipe.train.init_from), None
    tokenizers.save(directory)
    encoder = _SplitEncoder(tokenizers, recipe.runtime.threads, console)
    train = encoder.encode(readers[0], directory / "train", training_pairs)
    valid = None
    if recipe.data.valid:
        write_valid_texts(directory, valid_texts)
        valid = encoder.encode(readers[1], directory / "valid", len(valid_pairs))
    provenance.check_unchanged((*inputs.values(), *test_inputs.values()))
    settings = provenance.recorded_settings(recipe)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    digests = provenance.digests(inputs)
    written = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    manifest = Manifest(
        settings,
        digests,
        provenance.fingerprint(settings, digests, sizes),
        train,
        valid,
        length_limit(PreparedSplit.open(directory / "train", train.corpora)),
        provenance.digests(test_inputs),
        tuple(counter.overlap() for reader in readers for counter in reader.counters),
        {str(path.relative_to(directory)): FileDigest.of(path) for path in written},
        sizes,
        provenance.versions(),
    )
    provenance.write_inputs(directory, {**inputs, **test_inputs})
    manifest.write(directory)
    return manifest


class ReadPair(NamedTuple):
    """A pair that the filters on text keep, with its number in its corpus from 1."""

    pair: SentencePair
    number: int
    counts: RuleCounts
    filter: PairFilter


class CorpusReader:
    """One pass over corpora: normalizes all pairs, counts them, and applies the filters on text."""

    def __init__(self, recipe: Recipe, corpora: tuple[CorpusFile, ...], filters: Filters) -> None:
        learnt = {pair: PairFilter.learn(filters, pair) for pair in dict.fromkeys(map(recipe.languages_of, corpora))}
        self.filters = [learnt[recipe.languages_of(corpus)] for corpus in corpora]
        self.counts = [RuleCounts(_name(corpus)) for corpus in corpora]
        self.counters: list[OverlapCounter] = []
        """Held-out texts to compare the pairs with."""
        self._corpora = corpora
        self._keeps_duplicates = "duplicate" in filters.keep
        self._languages_of = recipe.languages_of
        self._seen: set[int] = set()  # 64-bit digests: ten million pairs collide with probability below 1e-5

    @property
    def pairs_read(self) -> int:
        """Pairs read so far."""
        return sum(counts.read for counts in self.counts)

    def pairs(self, advance: Callable[[int], None]) -> Iterator[ReadPair]:
        """Yield the normalized pairs that the filters on text keep.

        `advance` is called with the number of pairs just read.
        """
        for corpus, counts, own_filter in zip(self._corpora, self.counts, self.filters, strict=True):
            for number, pair in enumerate(read_pairs(corpus, self._languages_of(corpus)), start=1):
                counts.read += 1
                if number % _PAIRS_SHOWN == 0:
                    advance(_PAIRS_SHOWN)
                verdict = own_filter.apply(pair.source, pair.target)
                source, target, rule, found = verdict
                normalized = SentencePair(source, target, pair.file, pair.line)
                for counter in self.counters:
                    counter.add(source, target)
                if rule is None and self._is_repeated(verdict):
                    rule = "duplicate"
                if rule is None:
                    yield ReadPair(normalized, number, counts, own_filter)
                else:
                    counts.add(Rejected(rule, number, normalized, found))

    def _is_repeated(self, verdict: Verdict) -> bool:
        if self._keeps_duplicates:
            return False
        digest = int.from_bytes(
            blake2b(f"{verdict.source}\n{verdict.target}".encode(), digest_size=8).digest(), "little"
        )
        repeated = digest in self._seen
        self._seen.add(digest)
        return repeated

    def nothing_kept(self) -> DataError:
        """Return the error for corpora of which no pair was kept."""
        files = ", ".join(str(path) for corpus in self._corpora for path in corpus.files.values())
        if self.pairs_read == 0:
            return DataError(f"{files}: no sentence pairs in it; expected one pair a line")
        removed = total_removed(self.counts)
        rules = "; ".join(f"{rule} ({RULES[rule]}): {count:,}" for rule, count in removed.items() if count)
        return DataError(
            f"{files}: {counted(self.pairs_read, 'pair')} read, none kept. {rules}. See data.filters of the recipe"
        )


def _name(corpus: CorpusFile) -> str:
    return " + ".join(map(str, corpus.files.values()))


def _pairs_of(recipe: Recipe, corpora: Iterable[CorpusFile]) -> list[SentencePair]:
    return [pair for corpus in corpora for pair in read_pairs(corpus, recipe.languages_of(corpus))]


def corpus_readers(recipe: Recipe, valid_pairs: list[SentencePair]) -> list[CorpusReader]:
    """Return readers of the training and the validation text, each of which also counts held-out sentences in it."""
    data = recipe.data
    test_pairs = _pairs_of(recipe, data.test)
    readers = [CorpusReader(recipe, data.train, data.filters)]
    if data.valid:
        readers[0].counters.append(OverlapCounter("validation", "training", valid_pairs))
        filters = _NO_FILTERS.model_copy(update={"max_tokens": data.filters.max_tokens})
        readers.append(CorpusReader(recipe, data.valid, filters))
    if test_pairs:
        for reader, within in zip(readers, ("training", "validation"), strict=False):
            reader.counters.append(OverlapCounter("test", within, test_pairs))
    return readers


def count_overlaps(recipe: Recipe, console: Console) -> tuple[Overlap, ...]:
    """Return the overlaps of all texts of a recipe, read for that alone."""
    readers = corpus_readers(recipe, _pairs_of(recipe, recipe.data.valid))
    for reader in readers:
        with console.progress("comparing the texts", None, "pairs") as advance:
            deque(reader.pairs(advance), maxlen=0)  # for the counters
    return tuple(counter.overlap() for reader in readers for counter in reader.counters)


def initial_tokenizers(recipe: Recipe, initial: Path) -> Tokenizers:
    """Return the tokenizers of the initial model. Raises ConfigError where the recipe states other ones."""
    tokenizers = Tokenizers.load(initial)
    found = {
        "vocab_size": len(tokenizers.source),
        "shared": tokenizers.shared,
        "type": "bpe" if tokenizers.source.merges else "unigram",
        "byte_fallback": "<0x00>" in tokenizers.source.pieces,
    }
    for key in sorted(found.keys() & recipe.tokenizer.model_fields_set):
        stated = getattr(recipe.tokenizer, key)
        if stated not in ("auto", found[key]):
            raise ConfigError(
                f"tokenizer.{key}: found {stated}, but the tokenizer of train.init_from has {found[key]}; "
                f"leave the section tokenizer out: it comes with {initial}"
            )
    for tag in recipe.tags:
        try:
            tokenizers.source.tag_id(tag)
        except ModelError:
            advice = "it has other target languages" if tag in recipe.target_tags else "use one of its tags, or none"
            raise ConfigError(
                f"data: tag {tag}: the tokenizer of train.init_from ({initial}) was trained without it; {advice}"
            ) from None
    return tokenizers


def _train_tokenizers(recipe: Recipe, console: Console) -> tuple[Tokenizers, int]:
    """Train the tokenizer(s); returns also the number of pairs in the training text."""
    settings, tags, total = recipe.tokenizer, recipe.tags, 0

    def lines(sides: tuple[str, ...]) -> Iterator[str]:
        nonlocal total
        reader, kept = CorpusReader(recipe, recipe.data.train, recipe.data.filters), 0
        with console.progress("reading", total or None, "pairs") as advance:
            for read in reader.pairs(advance):
                kept += 1
                yield from (getattr(read.pair, side) for side in sides)
        total = reader.pairs_read
        if not kept:
            raise reader.nothing_kept()

    def trained(*sides: str, tags: Sequence[str]) -> Tokenizer:
        size = settings.vocab_size
        if size == "auto":
            size = vocabulary_for(lines(sides), settings, len(tags))
        text = "both sides" if len(sides) == 2 else f"the {sides[0]} side"
        console.info(f"training a tokenizer of {size:,} pieces on {text}")
        try:
            return Tokenizer.train(lines(sides), settings.model_copy(update={"vocab_size": size}), tags)
        except VocabularySizeError as error:
            if settings.vocab_size != "auto":
                raise
            console.info(f"this text is too small or too varied for it; training one of {error.bound:,} pieces")
            return Tokenizer.train(lines(sides), settings.model_copy(update={"vocab_size": error.bound}), tags)

    if settings.shared:
        shared = trained("source", "target", tags=tags)
        return Tokenizers(shared, shared), total
    return Tokenizers(trained("source", tags=tags), trained("target", tags=())), total


@dataclass(frozen=True)
class _SplitEncoder:
    """The second pass: encodes the pairs of a reader into a split."""

    tokenizers: Tokenizers
    threads: int | None
    console: Console

    def encode(self, reader: CorpusReader, directory: Path, total: int | None) -> SplitCounts:
        """Write the pairs that pass all filters, and return their counts."""
        sides = (self.tokenizers.source, self.tokenizers.target)
        spelled_of = [tokenizer.spelled() for tokenizer in sides]
        counts = np.zeros((2, 3), dtype=np.int64)  # of each side: tokens, characters, characters without a piece
        kept = 0
        progress = self.console.progress(f"encoding {directory.name}", total, "pairs")
        with SplitWriter(directory, self.tokenizers) as writer, progress as advance:
            pairs = reader.pairs(advance)
            while batch := list(islice(pairs, _BATCH_PAIRS)):
                texts = [[read.pair.source for read in batch], [read.pair.target for read in batch]]
                ids = [side.encode_batch(own, self.threads) for side, own in zip(sides, texts, strict=True)]
                keep = _kept_by_length(batch, ids)
                kept += len(keep)
                texts, ids = [[own[i] for i in keep] for own in texts], [[own[i] for i in keep] for own in ids]
                for row, own_texts, own_ids, spelled in zip(counts, texts, ids, spelled_of, strict=True):
                    row[0] += sum(map(len, own_ids))
                    row[1] += sum(map(len, own_texts))
                    row[2] += sum(int(spelled[sentence].sum()) for sentence in own_ids)
                writer.extend(ids[0], ids[1])
        if not kept:
            raise reader.nothing_kept()
        source, target = (SideCounts(*row) for row in counts.tolist())
        corpora = tuple(counts.kept for counts in reader.counts)
        return SplitCounts(reader.pairs_read, kept, total_removed(reader.counts), source, target, corpora)


def _kept_by_length(batch: list[ReadPair], ids: list[list[Ids]]) -> list[int]:
    """Return the indices of the pairs that the rules on tokens keep, and count the others."""
    keep = []
    for i, (read, source, target) in enumerate(zip(batch, *ids, strict=True)):
        rule = read.filter.length_reason(len(source), len(target))
        if rule is None:
            keep.append(i)
        else:
            read.counts.add(Rejected(rule, read.number, read.pair))
    return keep


def length_limit(split: PreparedSplit) -> MaxLength:
    """Return a limit on target tokens for S source tokens, both with `</s>`, that truncates no text like this.

    Of all bounds factor · S + extra that hold for 99.99 % of the pairs, it is the one with the lowest mean, raised by
    10 %. The factor is at least 1, the extra at least 5. A low limit makes the search fast: the best score that a
    hypothesis can still reach depends on its longest possible length.
    """
    stride = math.ceil(len(split) / _LIMIT_PAIRS)
    sides = (split.source.offsets, split.target.offsets)
    source, target = (offsets[1::stride] - offsets[:-1:stride] + 1 for offsets in sides)
    extras = [max(0.0, float(np.quantile(target - factor * source, _LIMIT_COVERAGE))) for factor in _LIMIT_FACTORS]
    lowest = int(np.argmin(_LIMIT_FACTORS * source.mean() + extras))
    extra = max(_LEAST_EXTRA, math.ceil(_LIMIT_MARGIN * extras[lowest]))
    return MaxLength(factor=round(_LIMIT_MARGIN * _LIMIT_FACTORS[lowest], 2), extra=extra)
