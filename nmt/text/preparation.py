"""Prepare a corpus: from text files to a tokenizer and token ids, in stages.

1. filter    normalize all pairs and apply the rules on text; in worker processes, chunk by chunk
2. repeated  find pairs that repeat earlier ones, by their digests
3. tokenizer train it on a sample (fine-tuning takes the initial model's tokenizer)
4. encode    token ids, and the rules on tokens; in worker processes, chunk by chunk
5. join      the chunks in order, into the prepared corpus

RAM does not depend on the size of the text: chunks, digests and token ids are on disk, in a work directory that also
lets an interrupted preparation continue, and several machines share it. Nothing is random: the same text and settings
give the same corpus for any number of processes and machines, so runs with different seeds can share one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TypeVar, get_args

import numpy as np
import numpy.typing as npt

from nmt.config import CorpusFile, Filters, LanguagePair, Recipe, RuleName
from nmt.errors import ConfigError, DataError
from nmt.system.console import Console, counted
from nmt.system.workers import WorkerPool, available_cores, can_fork
from nmt.text import provenance
from nmt.text.audit import corpus_findings, make_audit
from nmt.text.audit_report import settings_shown, write_report
from nmt.text.chunks import (
    EncodedChunk,
    Encoding,
    KeptChunk,
    RawChunk,
    TextRules,
    encode_chunk,
    encoded_file,
    filter_chunk,
    is_whole,
    kept_file,
    raw_chunks,
)
from nmt.text.corpus import SentencePair, read_pairs, text_files
from nmt.text.duplicates import BitSet, find_repeated
from nmt.text.filters import RULES, HeldOutText, PairFilter, RuleCounts
from nmt.text.filters.rule_counts import total_removed
from nmt.text.length_limit import SAMPLED_PAIRS, length_limit
from nmt.text.normalize import normalize
from nmt.text.overlap import Overlap, OverlapCounter
from nmt.text.prepared import FileDigest, Manifest, SideCounts, SplitCounts, SplitWriter, write_valid_texts
from nmt.text.tokenizer import Tokenizers
from nmt.text.tokenizer_training import initial_tokenizers, is_sampled, train_tokenizers

_NO_FILTERS = Filters(max_ratio=1e9, keep=get_args(RuleName))
"""For the validation text, which must be like what users send: only pairs without a loss are left out."""
_LEARNT_FROM, _FIRST_PAIRS = 20_000, 400_000  # pairs from which the rules learn at least, and among how many first ones
_SHARED_BYTES = 2**23  # a text of fewer bytes is prepared sooner without worker processes

Lengths = npt.NDArray[np.int64]
Context = TypeVar("Context")
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Shard:
    """A part of the chunks: those that one of `count` machines prepares, counted from 1."""

    number: int = 1
    count: int = 1

    def has(self, chunk: int) -> bool:
        """Return whether a chunk belongs to it."""
        return chunk % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard that a text such as `2/8` names. Raises ConfigError for another text."""
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.count:
            raise ConfigError(f"--shard: found {text}, expected I/N, such as 2/8 for the second of eight shards")
        return shard


WHOLE = Shard()


@dataclass(frozen=True)
class Text:
    """The training or the validation text, and how it is prepared."""

    folder: Path
    """The files of its chunks, in the work directory."""
    corpora: tuple[CorpusFile, ...]
    rules: tuple[PairFilter, ...]
    """Of each corpus."""
    held_out: frozenset[str]
    """Normalized sources of the texts with which it is compared."""
    recipe: Recipe
    console: Console

    @property
    def names(self) -> list[str]:
        """The names of the corpora in messages."""
        return [" + ".join(map(str, corpus.files.values())) for corpus in self.corpora]

    @property
    def processes(self) -> int:
        """The number of processes: one for a small text, which is prepared sooner without others."""
        size = sum(path.stat().st_size for corpus in self.corpora for path in text_files(corpus).values())
        return (self.recipe.runtime.threads or available_cores()) if size >= _SHARED_BYTES and can_fork() else 1

    def shared(
        self, function: Callable[[Context, Task], Result], context: Context, tasks: Iterable[Task]
    ) -> Iterator[Result]:
        """Yield `function(context, task)` for each task, in order."""
        if self.processes == 1:
            yield from (function(context, task) for task in tasks)
            return
        with closing(WorkerPool(context, self.processes, "set runtime.threads to a smaller number")) as pool:
            yield from pool.map(function, tasks)


@dataclass(frozen=True)
class Filtered:
    """A text after the rules on text."""

    corpora: list[int]
    """The index of the corpus of each chunk."""
    read: list[int]
    """Pairs of each chunk."""
    kept: list[int]
    """Those of them that are kept."""
    characters: tuple[int, int]
    """Characters of the pairs kept, of each side."""
    counts: list[RuleCounts]
    """Of each corpus."""
    held_out: list[tuple[str, str]]
    """Pairs whose source is that of a held-out text."""


def write_corpus(recipe: Recipe, work: Path, directory: Path, console: Console) -> Manifest:
    """Write the prepared corpus of a recipe into an empty directory.

    `work` is a directory for temporary files; what an interrupted preparation left there is used. Raises DataError with
    file and line for text that cannot be read, ConfigError for a tokenizer that cannot be made.
    """
    inputs = provenance.record(provenance.input_files(recipe))
    test_inputs = provenance.record(provenance.files_of_test_text(recipe))
    valid_texts = [pairs_of(recipe, [corpus]) for corpus in recipe.data.valid]
    valid_pairs, test_pairs = list(chain.from_iterable(valid_texts)), pairs_of(recipe, recipe.data.test)
    text = training_text(recipe, work, valid_pairs, test_pairs, console)

    filtered = summary(text, filter_chunks(text))
    repeated = find_repetitions(text, filtered)
    tokenizers = make_tokenizers(text, work, filtered, repeated)
    encode_chunks(text, filtered, repeated, tokenizers)
    tokenizers.save(directory)
    train, lengths = join_chunks(text, filtered, tokenizers, directory / "train")

    overlaps = find_overlaps(filtered, valid_pairs, test_pairs, "training")
    valid, counts = None, filtered.counts
    if recipe.data.valid:
        write_valid_texts(directory, valid_texts)
        valid_text = validation_text(recipe, work, test_pairs, console)
        valid_filtered = summary(valid_text, filter_chunks(valid_text))
        encode_chunks(valid_text, valid_filtered, {}, tokenizers)
        valid, _ = join_chunks(valid_text, valid_filtered, tokenizers, directory / "valid")
        overlaps += find_overlaps(valid_filtered, [], test_pairs, "validation")
        counts = [*counts, *valid_filtered.counts]
    provenance.check_unchanged((*inputs.values(), *test_inputs.values()))

    settings, digests = provenance.recorded_settings(recipe), provenance.digests(inputs)
    tested = provenance.digests(test_inputs)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    found = corpus_findings(recipe, (HeldOutText("validation", valid_pairs), HeldOutText("test", test_pairs)))
    audit = make_audit(recipe, counts, found, text.rules)
    audit.write(directory)
    write_report(audit, directory, settings_shown(recipe))
    written = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    manifest = Manifest(
        settings,
        digests,
        provenance.fingerprint(settings, provenance.corpus_inputs(settings, digests, tested), sizes),
        train,
        valid,
        length_limit(*lengths),
        tested,
        overlaps,
        {str(path.relative_to(directory)): FileDigest.of(path) for path in written},
        sizes,
        provenance.versions(),
    )
    provenance.write_inputs(directory, {**inputs, **test_inputs})
    manifest.write(directory)
    return manifest


def prepare_shard(
    recipe: Recipe, work: Path, shard: Shard, console: Console, alone: Callable[[], AbstractContextManager[None]]
) -> bool:
    """Do the stages of a shard of the training text; return whether its chunks are encoded.

    They are not if other shards have not applied the rules on text yet: repetitions and the tokenizer depend on the
    whole text. Then the same call, made later, continues. Within `alone()` no other process works on the corpus.
    """
    valid, test = pairs_of(recipe, recipe.data.valid), pairs_of(recipe, recipe.data.test)
    text = training_text(recipe, work, valid, test, console)
    chunks = filter_chunks(text, shard)
    if not all(is_whole(kept_file(text.folder, number)) for number in range(chunks)):
        return False
    filtered = summary(text, chunks)
    repeated = find_repetitions(text, filtered)
    with alone():
        tokenizers = make_tokenizers(text, work, filtered, repeated)
    encode_chunks(text, filtered, repeated, tokenizers, shard)
    return True


def pairs_of(recipe: Recipe, corpora: Iterable[CorpusFile]) -> list[SentencePair]:
    """Return the pairs of small texts."""
    return [pair for corpus in corpora for pair in read_pairs(corpus, recipe.languages_of(corpus))]


def training_text(
    recipe: Recipe, work: Path, valid: Sequence[SentencePair], test: Sequence[SentencePair], console: Console
) -> Text:
    """Return the training text with its rules."""
    held_out = (HeldOutText("validation", valid), HeldOutText("test", test))
    corpora_of: dict[LanguagePair, list[CorpusFile]] = {}
    for corpus in recipe.data.train:
        corpora_of.setdefault(recipe.languages_of(corpus), []).append(corpus)
    learnt = {
        languages: PairFilter.learn(recipe.data.filters, languages, _first_pairs(recipe, corpora), held_out)
        for languages, corpora in corpora_of.items()
    }
    rules = tuple(learnt[recipe.languages_of(corpus)] for corpus in recipe.data.train)
    sources = frozenset(normalize(pair.source) for text in held_out for pair in text.pairs)
    return Text(work / "train", recipe.data.train, rules, sources, recipe, console)


def validation_text(recipe: Recipe, work: Path, test: Sequence[SentencePair], console: Console) -> Text:
    """Return the validation text, of which only pairs without a loss are left out."""
    filters = _NO_FILTERS.model_copy(update={"max_tokens": recipe.data.filters.max_tokens})
    sources = frozenset(normalize(pair.source) for pair in test)
    rules = tuple(PairFilter.learn(filters, recipe.languages_of(corpus)) for corpus in recipe.data.valid)
    return Text(work / "valid", recipe.data.valid, rules, sources, recipe, console)


def _first_pairs(recipe: Recipe, corpora: Sequence[CorpusFile]) -> list[SentencePair]:
    """Return normalized pairs from which the rules learn, evenly spread over the first ones of each corpus."""
    sample = []
    for corpus in corpora:
        chosen: list[SentencePair] = []
        step = 1
        first = islice(read_pairs(corpus, recipe.languages_of(corpus)), _FIRST_PAIRS // len(corpora))
        for number, pair in enumerate(first):
            if number % step == 0:
                chosen.append(pair)
            if len(chosen) * len(corpora) > 2 * _LEARNT_FROM:
                chosen, step = chosen[::2], 2 * step
        sample += [SentencePair(normalize(pair.source), normalize(pair.target)) for pair in chosen]
    return sample


def filter_chunks(text: Text, shard: Shard = WHOLE) -> int:
    """Apply the rules on text to the chunks of a shard that are not done; return the number of chunks of the text."""
    text.folder.mkdir(exist_ok=True)
    chunks = 0

    with text.console.progress(f"filtering {text.folder.name}", None, "pairs") as advance:

        def remaining() -> Iterator[RawChunk]:
            nonlocal chunks
            for chunk in raw_chunks(text.recipe, text.corpora, text.names):
                chunks = chunk.number + 1
                if shard.has(chunk.number):
                    if is_whole(kept_file(text.folder, chunk.number)):
                        advance(len(chunk.sources))
                    else:
                        yield chunk

        for record in text.shared(filter_chunk, TextRules(text.folder, text.rules, text.held_out), remaining()):
            advance(record.counts.read)
    return chunks


def summary(text: Text, chunks: int) -> Filtered:
    """Return what is known of a text of so many chunks after the rules on text. Raises DataError if nothing is kept."""
    counts = [RuleCounts(name) for name in text.names]
    filtered = Filtered([], [], [], (0, 0), counts, [])
    characters = np.zeros(2, dtype=np.int64)
    for number in range(chunks):
        record = KeptChunk(text.folder, number).record
        filtered.corpora.append(record.corpus)
        filtered.read.append(record.counts.read)
        filtered.kept.append(record.kept)
        filtered.held_out.extend(record.held_out)
        counts[record.corpus].merge(record.counts)
        characters += record.characters
    check_any_kept(text, counts)
    return replace(filtered, characters=(int(characters[0]), int(characters[1])))


def check_any_kept(text: Text, counts: Sequence[RuleCounts]) -> None:
    """Raise DataError if no pair is kept."""
    read = sum(of_corpus.read for of_corpus in counts)
    if read == 0:
        raise DataError(f"{', '.join(text.names)}: no sentence pairs in it; expected one pair a line")
    if not any(of_corpus.kept for of_corpus in counts):
        removed = total_removed(counts)
        rules = "; ".join(f"{rule} ({RULES[rule]}): {count:,}" for rule, count in removed.items() if count)
        names = ", ".join(text.names)
        raise DataError(f"{names}: {counted(read, 'pair')} read, none kept. {rules}. See data.filters of the recipe")


def find_repetitions(text: Text, filtered: Filtered) -> dict[str, BitSet]:
    """Return the pairs that the rules on repetitions remove, by rule, as indices after the rules on text."""
    if "duplicate" in text.recipe.data.filters.keep:
        return {}
    digests = (KeptChunk(text.folder, number).digests for number in range(len(filtered.kept)))
    return {"duplicate": find_repeated(digests, sum(filtered.kept), 1, text.folder, ())}


def make_tokenizers(text: Text, work: Path, filtered: Filtered, repeated: dict[str, BitSet]) -> Tokenizers:
    """Return the tokenizers: those of the initial model, those in the work directory, or new ones, stored there."""
    recipe, done = text.recipe, work / "tokenizers"
    if recipe.train.init_from is not None:
        return initial_tokenizers(recipe, recipe.train.init_from)
    if done.exists():
        return Tokenizers.load(done)

    def sample(share: float) -> Iterator[tuple[str, str]]:
        starts = zip(accumulate(filtered.read, initial=0), accumulate(filtered.kept, initial=0), strict=True)
        for number, (first_read, first_kept) in enumerate(islice(starts, len(filtered.kept))):
            chunk = KeptChunk(text.folder, number)
            chosen = is_sampled(first_read + chunk.positions, share)
            for removed in repeated.values():
                chosen &= ~removed.range(first_kept, filtered.kept[number])
            sources, targets = chunk.texts("source"), chunk.texts("target")
            yield from ((sources[index], targets[index]) for index in np.flatnonzero(chosen).tolist())

    tokenizers = train_tokenizers(recipe, filtered.characters, sample, text.console)
    partial = work / "tokenizers.partial"
    partial.mkdir(exist_ok=True)
    tokenizers.save(partial)
    partial.rename(done)
    return tokenizers


def encode_chunks(
    text: Text, filtered: Filtered, repeated: dict[str, BitSet], tokenizers: Tokenizers, shard: Shard = WHOLE
) -> None:
    """Encode the chunks of a shard that are not done."""
    threads = text.recipe.runtime.threads if text.processes == 1 else 1
    encoding = Encoding(text.folder, text.rules, tokenizers, repeated, threads)
    starts = enumerate(accumulate(filtered.kept[:-1], initial=0))
    own = [(number, start) for number, start in starts if shard.has(number)]
    remaining = [task for task in own if not is_whole(encoded_file(text.folder, task[0]))]
    with text.console.progress(f"encoding {text.folder.name}", sum(filtered.read), "pairs") as advance:
        advance(sum(filtered.read[number] for number, _ in set(own) - set(remaining)))
        results = text.shared(encode_chunk, encoding, remaining)
        for (number, _), _ in zip(remaining, results, strict=True):
            advance(filtered.read[number])


def join_chunks(
    text: Text, filtered: Filtered, tokenizers: Tokenizers, directory: Path
) -> tuple[SplitCounts, tuple[Lengths, Lengths]]:
    """Write the chunks into a split; return its counts, and the lengths of pairs that are spread over it."""
    counts, sides, written = filtered.counts, np.zeros((len(text.corpora), 2, 3), dtype=np.int64), 0
    stride = -(-sum(filtered.kept) // SAMPLED_PAIRS) or 1
    lengths: tuple[list[Lengths], list[Lengths]] = ([], [])
    with SplitWriter(directory, tokenizers) as writer:
        for number, corpus in enumerate(filtered.corpora):
            chunk = EncodedChunk(text.folder, number)
            record = chunk.record
            source, target = chunk.side("source"), chunk.side("target")
            writer.extend(source, target)
            for sample, own in zip(lengths, (source[1], target[1]), strict=True):
                sample.append(own[-written % stride :: stride])
            written += record.kept
            sides[corpus] += record.sides
            counts[corpus].merge(record.counts)
    check_any_kept(text, counts)
    of_sides = [SideCounts(*row) for row in sides.sum(0).tolist()]
    corpora = tuple(of_corpus.kept for of_corpus in counts)
    sides_of = tuple((SideCounts(*source), SideCounts(*target)) for source, target in sides.tolist())
    totals = SplitCounts(
        sum(filtered.read), written, total_removed(counts), of_sides[0], of_sides[1], corpora, sides_of
    )
    return totals, (np.concatenate(lengths[0]), np.concatenate(lengths[1]))


def find_overlaps(
    filtered: Filtered, valid: Sequence[SentencePair], test: Sequence[SentencePair], within: str
) -> tuple[Overlap, ...]:
    """Return how many sentences of the held-out texts occur in a text."""
    return _overlaps(filtered.held_out, {"validation": valid, "test": test}, within)


def _overlaps(
    pairs: Iterable[tuple[str, str]], held_out: dict[str, Sequence[SentencePair]], within: str
) -> tuple[Overlap, ...]:
    counters = [OverlapCounter(name, within, text) for name, text in held_out.items() if text]
    for source, target in pairs:
        for counter in counters:
            counter.add(source, target)
    return tuple(counter.overlap() for counter in counters)


def count_overlaps(recipe: Recipe, console: Console) -> tuple[Overlap, ...]:
    """Return the overlaps of all texts of a recipe, read for that alone."""
    valid, test = pairs_of(recipe, recipe.data.valid), pairs_of(recipe, recipe.data.test)
    with console.progress("comparing the texts", None, "pairs") as advance:

        def training() -> Iterator[tuple[str, str]]:
            for corpus in recipe.data.train:
                for pair in read_pairs(corpus, recipe.languages_of(corpus)):
                    advance(1)
                    yield normalize(pair.source), normalize(pair.target)

        found = _overlaps(training(), {"validation": valid, "test": test}, "training")
    own = ((normalize(pair.source), normalize(pair.target)) for pair in valid)
    return found + (_overlaps(own, {"test": test}, "validation") if valid else ())
