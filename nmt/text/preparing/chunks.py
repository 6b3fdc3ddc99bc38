"""Chunks of a text: what one worker process filters and encodes at a time.

The results of a chunk depend on its pairs and the settings alone, not on the number of processes.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import CorpusFile, Recipe
from nmt.system.console import Console
from nmt.text.corpus import SentencePair, read_pairs
from nmt.text.filters import PairFilter, Rejected, RuleCounts
from nmt.text.passage_keys import TextLines
from nmt.text.prepared import smallest_type
from nmt.text.preparing.chunk_files import (
    RULE_NUMBERS,
    Arrays,
    EncodedChunk,
    KeptChunk,
    KeptRecord,
    RuleNumbers,
    encoded_file,
    file_of,
    write_encoded,
    write_kept,
)
from nmt.text.preparing.duplicates import BitSet, combined, digests_of
from nmt.text.preparing.tokenizer_training import is_sampled
from nmt.text.readers import Row
from nmt.text.tokenizer import Tokenizers

CHUNK_PAIRS = 50_000
_BLOCK_LINES = 4_096  # that are filtered at a time: they fit in the cache of a processor
_LEAST_PREFILTERED = 5_000  # pairs; for fewer, the tables of the prefilter take more time than the checks


@dataclass(frozen=True)
class Text:
    """The training or the validation text, and how it is prepared."""

    folder: Path
    """The files of its chunks, in the work directory."""
    corpora: tuple[CorpusFile, ...]
    rules: tuple[PairFilter, ...]
    """Of each corpus."""
    recipe: Recipe
    console: Console

    @property
    def names(self) -> list[str]:
        """The names of the corpora in messages."""
        return [" + ".join(map(str, corpus.files.values())) for corpus in self.corpora]


class RawChunk(NamedTuple):
    """Consecutive pairs of one corpus, each side as texts of many lines, which are pickled faster than single lines."""

    number: int
    """The number of the chunk in its text, over all corpora."""
    corpus: int
    """The index of its corpus."""
    first: int
    """The number of its first pair in its corpus, from 1."""
    lines: npt.NDArray[np.int64]
    sources: list[str]
    """Blocks of up to `_BLOCK_LINES` lines."""
    targets: list[str]
    files: list[tuple[int, str]]
    """Indices of pairs in the chunk, and the file from which the pairs from there on were read."""


def raw_chunks(text: Text) -> Iterator[RawChunk]:
    """Yield the chunks of a text. A corpus without pairs has no chunk. Raises DataError as `read_pairs` does."""
    number = 0
    for index, corpus in enumerate(text.corpora):
        pairs = read_pairs(corpus, text.recipe.languages_of(corpus))
        rows, first = ((pair.file, (pair.line, pair.source, pair.target)) for pair in pairs), 1
        while len((chunk := _raw_chunk(number, index, first, islice(rows, CHUNK_PAIRS))).lines):
            yield chunk
            number, first = number + 1, first + len(chunk.lines)


def _raw_chunk(number: int, corpus: int, first: int, rows: Iterable[tuple[str, Row]]) -> RawChunk:
    lines, sources, targets, files = array("q"), list[str](), list[str](), list[tuple[int, str]]()
    for file, (line, source, target) in rows:  # lists of strings, unlike one of rows, take no time of the GC
        if not files or file != files[-1][1]:
            files.append((len(lines), file))
        lines.append(line)
        sources.append(source)
        targets.append(target)
    blocks = [slice(start, start + _BLOCK_LINES) for start in range(0, len(lines), _BLOCK_LINES)]
    joined = [["\n".join(side[block]) for block in blocks] for side in (sources, targets)]
    return RawChunk(number, corpus, first, np.array(lines), joined[0], joined[1], files)


def filter_chunk(text: Text, chunk: RawChunk) -> KeptRecord:
    """Normalize the pairs of a chunk, apply the rules on text, and write those that are kept."""
    rules, start = text.rules[chunk.corpus], 0
    keep = np.ones(len(chunk.lines), dtype=np.bool_)
    rejected = list[Rejected]()
    kept: tuple[list[str], list[str]] = ([], [])
    examined = rules.prefilter.examined if len(chunk.lines) >= _LEAST_PREFILTERED else _all_pairs
    for block in zip(chunk.sources, chunk.targets, strict=True):
        sources, targets = (side.split("\n") for side in block)
        for position in examined(sources, targets):
            source, target, rule, found = rules.apply(sources[position], targets[position])
            sources[position], targets[position] = source, target
            if rule is not None:
                index = start + position
                keep[index] = False
                pair = SentencePair(source, target, file_of(chunk.files, index), int(chunk.lines[index]))
                rejected.append(Rejected(rule, chunk.first + index, pair, found))
        for side, lines in zip(kept, (sources, targets), strict=True):
            side += compress(lines, keep[start : start + len(lines)])
        start += len(sources)
    counts = RuleCounts.of(text.names[chunk.corpus], len(chunk.lines), rejected)
    characters = (sum(map(len, kept[0])), sum(map(len, kept[1])))
    record = KeptRecord(chunk.corpus, chunk.first, chunk.files, counts, characters)
    source_lines, target_lines = map(TextLines.of, kept)
    arrays: Arrays = {
        "source": source_lines.content,
        "target": target_lines.content,
        "positions": np.flatnonzero(keep).astype(np.int32),
        "lines": chunk.lines[keep],
        "digests": _digests(source_lines, target_lines, text.recipe.target_of(text.corpora[chunk.corpus])),
    }
    write_kept(text.folder, chunk.number, record, rejected, arrays)
    return record


def _all_pairs(sources: Sequence[str], targets: Sequence[str]) -> range:
    return range(len(sources))


def _digests(source: TextLines, target: TextLines, target_language: str) -> npt.NDArray[np.uint64]:
    """Return the digests of pairs, which repeat only pairs of the same target language."""
    of_source = combined(digests_of(TextLines.of([target_language])), digests_of(source))
    return combined(of_source, digests_of(target))


@dataclass(frozen=True)
class FilteredText:
    """A text after the rules on text and on repetitions."""

    text: Text
    starts: list[int]
    """The index of the first pair of each chunk among the pairs that the rules on text keep, and their number."""
    repeated: dict[str, BitSet]
    """The pairs that each rule on repetitions removes, by these indices."""

    def records(self) -> Iterator[KeptRecord]:
        """Yield what is known of the chunks; all records at once would take RAM."""
        return (KeptChunk(self.text.folder, number).record for number in self.numbers)

    @property
    def numbers(self) -> range:
        """The numbers of the chunks."""
        return range(len(self.starts) - 1)

    @property
    def characters(self) -> tuple[int, int]:
        """Characters of the pairs that the rules on text keep, of each side."""
        source, target = np.sum([record.characters for record in self.records()], axis=0).tolist()
        return source, target

    @property
    def counts(self) -> list[RuleCounts]:
        """The counts of the rules on text for each corpus."""
        counts = [RuleCounts(name) for name in self.text.names]
        for record in self.records():
            counts[record.corpus].merge(record.counts)
        return counts

    def chunks(self) -> Iterator[tuple[KeptChunk, RuleNumbers]]:
        """Yield the chunks in order, each with the first rule on repetitions that removes each of its pairs."""
        for number in self.numbers:
            yield KeptChunk(self.text.folder, number), self.repeated_in(number)

    def repeated_in(self, number: int) -> RuleNumbers:
        """Return for each pair of a chunk the first rule on repetitions that removes it."""
        start, end = self.starts[number : number + 2]
        rule_of = np.zeros(end - start, dtype=np.uint8)
        for rule, pairs in self.repeated.items():
            rule_of[(rule_of == 0) & pairs.range(start, end - start)] = RULE_NUMBERS[rule]
        return rule_of

    def sample(self, share: float) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a sample of the text, in order."""
        first = 0
        for chunk, rule_of in self.chunks():
            chosen = is_sampled(first + chunk["positions"].astype(np.int64), share) & (rule_of == 0)
            yield from ((chunk.source[index], chunk.target[index]) for index in np.flatnonzero(chosen).tolist())
            first += chunk.record.counts.read

    def encoded(self, array: str) -> Iterator[npt.NDArray[Any]]:
        """Yield an array of each chunk of token ids."""
        return (EncodedChunk(self.text.folder, number)[array] for number in self.numbers)

    def removed(self) -> Iterator[Rejected]:
        """Yield the removed pairs in order; those of the rules on tokens only if the chunks are encoded."""
        for number, (chunk, repeated) in enumerate(self.chunks()):
            is_encoded = encoded_file(self.text.folder, number).exists()
            yield from chunk.removed(EncodedChunk(self.text.folder, number)["rules"] if is_encoded else repeated)


@dataclass(frozen=True)
class Encoding:
    """What worker processes need to encode chunks."""

    filtered: FilteredText
    tokenizers: Tokenizers
    threads: int | None

    @cached_property
    def spelled(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """The ids of characters without a piece, of the source and the target side."""
        return self.tokenizers.source.spelled(), self.tokenizers.target.spelled()


def encode_chunk(context: Encoding, number: int) -> None:
    """Encode the pairs of a chunk that are not repeated, apply the rules on tokens, and write those that are kept."""
    text, rule_of = context.filtered.text, context.filtered.repeated_in(number)
    chunk = KeptChunk(text.folder, number)
    lines, tokenizers = (chunk.source, chunk.target), (context.tokenizers.source, context.tokenizers.target)
    ids = [
        tokenizer.encode_lines(own_lines.content.tobytes(), context.threads)
        for tokenizer, own_lines in zip(tokenizers, lines, strict=True)
    ]
    for index, rule in text.rules[chunk.record.corpus].removed_by_length(ids[0][1], ids[1][1]):
        rule_of[index] = rule_of[index] or RULE_NUMBERS[rule]
    keep = rule_of == 0
    arrays: Arrays = {"rules": rule_of}
    sides = []
    for side, own_lines, (tokens, lengths), spelled in zip(
        ("source", "target"), lines, ids, context.spelled, strict=True
    ):
        kept = tokens[np.repeat(keep, lengths)]
        arrays[f"{side}.tokens"] = kept.astype(smallest_type(len(spelled)))
        arrays[f"{side}.lengths"] = lengths[keep]
        sides.append((len(kept), own_lines.characters[keep].sum(), np.count_nonzero(spelled[kept])))
    arrays["sides"] = np.array(sides, dtype=np.int64)
    write_encoded(text.folder, number, chunk.counts_of(rule_of), arrays)
