"""The stages of the preparation of one text, training or validation, from chunks of files to chunks of token ids."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nmt.config import CorpusFile, Recipe
from nmt.errors import ConfigError, DataError
from nmt.system.console import Console, counted
from nmt.system.files import atomic_directory
from nmt.system.workers import WorkerPool, available_cores, can_fork, reuse_freed_ram
from nmt.text.corpus import text_files
from nmt.text.filters import RULES, PairFilter, RuleCounts
from nmt.text.filters.rule_counts import total_removed
from nmt.text.manifest import SideCounts, SplitCounts
from nmt.text.prepared import SplitWriter
from nmt.text.preparing.chunk_files import DigestsOf, EncodedChunk, KeptChunk, encoded_file, is_whole, kept_file
from nmt.text.preparing.chunks import Encoding, RawChunk, TextRules, encode_chunk, filter_chunk, raw_chunks
from nmt.text.preparing.duplicates import BitSet, find_repeated
from nmt.text.preparing.length_limit import SAMPLED_PAIRS
from nmt.text.preparing.tokenizer_training import initial_tokenizers, is_sampled, train_tokenizers
from nmt.text.readers.compression import compression_named
from nmt.text.tokenizer import Tokenizers

_CHUNK_COUNT = ".chunks"
_SHARED_BYTES = 2**23  # a text of fewer bytes is prepared sooner without worker processes
_UNPACKED = 3  # the size of usual text, relative to its size in a compressed file

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
        size = sum(_text_size(path) for corpus in self.corpora for path in text_files(corpus).values())
        return (self.recipe.runtime.threads or available_cores()) if size >= _SHARED_BYTES and can_fork() else 1

    def shared(
        self, function: Callable[[Context, Task], Result], context: Context, tasks: Iterable[Task]
    ) -> Iterator[Result]:
        """Yield `function(context, task)` for each task, in order."""
        if self.processes == 1:
            yield from (function(context, task) for task in tasks)
            return
        advice = "set runtime.threads to a smaller number"
        with closing(WorkerPool(context, self.processes, advice, on_start=reuse_freed_ram)) as pool:
            yield from pool.map(function, tasks)


def _text_size(path: Path) -> int:
    """Return about how many bytes of text a file holds."""
    size, suffix = path.stat().st_size, path.suffix.lower()
    return size if compression_named(suffix) is None and suffix != ".zip" else _UNPACKED * size


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


def filter_chunks(text: Text, shard: Shard = WHOLE) -> int:
    """Apply the rules on text to the chunks of a shard that are not done; return the number of chunks of the text.

    That number is the name of an empty file, with which the text is not read again for chunks that are all done.
    """
    text.folder.mkdir(exist_ok=True)

    @cache
    def needed(number: int) -> bool:
        return shard.has(number) and not is_whole(kept_file(text.folder, number))

    known = [int(path.stem) for path in text.folder.glob(f"*{_CHUNK_COUNT}")]
    if known and not any(map(needed, range(known[0]))):
        return known[0]
    with text.console.progress(f"filtering {text.folder.name}", None, "pairs") as advance:
        chunks = 0

        def remaining() -> Iterator[RawChunk]:
            nonlocal chunks
            chunks = yield from raw_chunks(text.recipe, text.corpora, text.names, needed)

        targets = tuple(map(text.recipe.target_of, text.corpora))
        rules = TextRules(text.folder, text.rules, text.held_out, targets)
        for record in text.shared(filter_chunk, rules, remaining()):
            advance(record.counts.read)
    (text.folder / f"{chunks}{_CHUNK_COUNT}").touch()
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
        raise DataError(f"{', '.join(text.names)}: no sentence pairs in it; expected one pair per line")
    if not any(of_corpus.kept for of_corpus in counts):
        removed = total_removed(counts)
        rules = "; ".join(f"{rule} ({RULES[rule]}): {count:,}" for rule, count in removed.items() if count)
        names, advice = ", ".join(text.names), "See data.filters of the recipe"
        if removed["leak"] > read / 2:
            advice = (
                "The validation and test text contain the sentences of the training text: name other ones in "
                "data.valid and data.test; nmt init divides a text"
            )
        raise DataError(f"{names}: {counted(read, 'pair')} read, none kept. {rules}. {advice}")


def find_repetitions(text: Text, filtered: Filtered) -> dict[str, BitSet]:
    """Return the pairs that the rules on repetitions remove, by rule, as indices after the rules on text."""
    filters, repeated = text.recipe.data.filters, dict[str, BitSet]()
    kinds: tuple[tuple[str, DigestsOf, int | None], ...] = (
        ("duplicate", "digests", None if "duplicate" in filters.keep else 1),
        ("same_source", "source_digests", filters.max_same_source),
        ("same_target", "target_digests", filters.max_same_target),
    )
    for rule, of, most in kinds:
        if most is not None:
            digests = (KeptChunk(text.folder, number).digests(of) for number in range(len(filtered.kept)))
            repeated[rule] = find_repeated(digests, sum(filtered.kept), most, text.folder, list(repeated.values()))
    return repeated


def make_tokenizers(text: Text, work: Path, filtered: Filtered, repeated: dict[str, BitSet]) -> Tokenizers:
    """Return the tokenizers: those of the initial model, those in the work directory, or new ones, stored there."""
    initial, done = text.recipe.train.init_from, work / "tokenizers"
    if initial is not None:
        return initial_tokenizers(text.recipe, initial)
    if not done.exists():
        training = _TokenizerTraining(text, filtered, repeated)
        if text.processes == 1:
            _train_tokenizers(training, done)
        else:
            # the training keeps RAM and threads until the process ends, and a process with threads cannot be forked
            with closing(WorkerPool(training, 1)) as pool:
                list(pool.map(_train_tokenizers, [done]))
    return Tokenizers.load(done)


@dataclass(frozen=True)
class _TokenizerTraining:
    text: Text
    filtered: Filtered
    repeated: dict[str, BitSet]

    def sample(self, share: float) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a sample of the text, in order."""
        kept = self.filtered.kept
        starts = zip(accumulate(self.filtered.read, initial=0), accumulate(kept, initial=0), strict=True)
        for number, (first_read, first_kept) in enumerate(islice(starts, len(kept))):
            chunk = KeptChunk(self.text.folder, number)
            chosen = is_sampled(first_read + chunk.positions, share)
            for removed in self.repeated.values():
                chosen &= ~removed.range(first_kept, kept[number])
            yield from ((chunk.source[index], chunk.target[index]) for index in np.flatnonzero(chosen).tolist())


def _train_tokenizers(training: _TokenizerTraining, directory: Path) -> None:
    """Train the tokenizers, and write them into a directory, which gets its name when it is complete."""
    text, characters = training.text, training.filtered.characters
    tokenizers = train_tokenizers(text.recipe, characters, training.sample, text.console)
    with atomic_directory(directory) as staging:
        tokenizers.save(staging)


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
