"""Chunks of a text: what one worker process prepares at a time, and the files that hold the results.

    NNNNNN.kept.safetensors       the pairs that the rules on text keep, normalized, with their places and digests
    NNNNNN.encoded.safetensors    their token ids, without repeated, too long and too unequal pairs

A file gets its name when it is complete, so an interrupted preparation continues after the last one. The content of a
chunk depends on its pairs and the settings alone, not on the number of processes or machines.
"""

import os
import secrets
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open

from nmt.config import CorpusFile, Filters, Recipe
from nmt.text.corpus import SentencePair, read_rows
from nmt.text.filters import RULES, PairFilter, Rejected, RuleCounts
from nmt.text.filters.rule_counts import EXAMPLES
from nmt.text.prepared import smallest_type
from nmt.text.preparing.duplicates import BitSet, Digests, combined, digests_of
from nmt.text.readers import Row
from nmt.text.text_lines import TextLines
from nmt.text.tokenizer import Tokenizers

CHUNK_PAIRS = 50_000
_BLOCK_LINES = 4_096  # that are filtered at a time: they fit in the cache of a processor
_LEAST_PREFILTERED = 5_000  # pairs; for fewer, the tables of the prefilter take more time than the checks
CHUNK_FORMAT = 2
"""Of the files of chunks: those of another format are not used."""

SIDES = ("source", "target")
_RECORD = "record"
"""The array of a file with its record as JSON: unlike the metadata, which safetensors limits, it may be of any size."""
_CHECKSUM = "checksum"
"""The array of a file with the CRC-32 of all others."""
DigestsOf = Literal["digests", "source_digests", "target_digests"]
Arrays = dict[str, npt.NDArray[Any]]
RuleNumbers = npt.NDArray[np.uint8]
"""The number of the rule that removes each pair; 0 if none does."""
_NAMES = tuple(RULES)
_NUMBERS = {rule: number for number, rule in enumerate(_NAMES, start=1)}


class RawChunk(NamedTuple):
    """Consecutive pairs of one corpus, each side as texts of many lines, which are pickled faster than single lines."""

    number: int
    """The number of the chunk in its text, over all corpora."""
    corpus: int
    """The index of its corpus."""
    name: str
    """The name of its corpus in messages."""
    first: int
    """The number of its first pair in its corpus, from 1."""
    lines: npt.NDArray[np.int64]
    sources: list[str]
    """Blocks of up to `_BLOCK_LINES` lines."""
    targets: list[str]
    files: list[tuple[int, str]]
    """Indices of pairs in the chunk, and the file from which the pairs from there on were read."""


@dataclass(frozen=True)
class KeptRecord:
    """What is known of a chunk after the rules on text."""

    number: int
    corpus: int
    first: int
    files: list[tuple[int, str]]
    counts: RuleCounts
    kept: int
    characters: tuple[int, int]
    """Characters of the pairs kept, of the source and the target side."""
    held_out: list[tuple[str, str]]
    """Pairs whose source is that of a held-out text, except those that the rule `leak` removes."""


@dataclass(frozen=True)
class EncodedRecord:
    """What is known of a chunk after the rules on tokens."""

    counts: RuleCounts
    """Pairs removed since the rules on text; `read` is 0."""
    kept: int
    sides: tuple[tuple[int, int, int], tuple[int, int, int]]
    """Tokens, characters, and characters without a piece of the source and the target side."""


_KEPT, _ENCODED, _REJECTED = TypeAdapter(KeptRecord), TypeAdapter(EncodedRecord), TypeAdapter(list[Rejected])


def raw_chunks(
    recipe: Recipe, corpora: Sequence[CorpusFile], names: Sequence[str], needed: Callable[[int], bool]
) -> Generator[RawChunk, None, int]:
    """Yield the chunks of corpora whose numbers are `needed`; return the number of all.

    The pairs of the others are only counted, which takes a third of the time. A corpus without pairs has no chunk.
    Raises DataError as `read_pairs` does.
    """
    number = 0
    for index, (corpus, name) in enumerate(zip(corpora, names, strict=True)):
        first, count, pairs, files = 1, 0, _Columns(), list[tuple[int, str]]()
        for file, rows in read_rows(corpus, recipe.languages_of(corpus)):
            files.append((count, file))
            while more := _read(islice(rows, CHUNK_PAIRS - count), pairs if needed(number) else None):
                count += more
                if count == CHUNK_PAIRS:
                    if pairs.lines:
                        yield RawChunk(number, index, name, first, *pairs.joined(), files)
                    first, number, count, pairs, files = first + count, number + 1, 0, _Columns(), [(0, file)]
        if pairs.lines:
            yield RawChunk(number, index, name, first, *pairs.joined(), files)
        number += count > 0
    return number


class _Columns:
    """The line numbers, the sources and the targets of rows."""

    def __init__(self) -> None:
        self.lines, self.sources, self.targets = array("q"), list[str](), list[str]()

    def joined(self) -> tuple[npt.NDArray[np.int64], list[str], list[str]]:
        """Return the numbers, and each side as blocks of lines."""
        blocks = [slice(start, start + _BLOCK_LINES) for start in range(0, len(self.lines), _BLOCK_LINES)]
        sources, targets = (["\n".join(side[block]) for block in blocks] for side in (self.sources, self.targets))
        return np.array(self.lines), sources, targets


def _read(rows: Iterable[Row], pairs: _Columns | None) -> int:
    """Append rows to `pairs` if it is given; return their number."""
    if pairs is None:
        return sum(1 for _ in rows)
    before = len(pairs.lines)
    for line, source, target in rows:  # lists of strings, unlike one of rows, take no time of the garbage collector
        pairs.lines.append(line)
        pairs.sources.append(source)
        pairs.targets.append(target)
    return len(pairs.lines) - before


@dataclass
class Removed:
    """The pairs of a chunk that rules remove, and their counts with a few examples."""

    counts: RuleCounts
    pairs: list[Rejected] = field(default_factory=list)

    def add(self, rejected: Rejected) -> None:
        """Add a pair."""
        self.counts.add(rejected)
        self.pairs.append(rejected)

    def as_json(self) -> npt.NDArray[np.uint8]:
        """Return the pairs as the bytes of a JSON text."""
        return np.frombuffer(_REJECTED.dump_json(self.pairs), dtype=np.uint8)


@dataclass(frozen=True)
class TextRules:
    """What worker processes need for the rules on text."""

    folder: Path
    rules: tuple[PairFilter, ...]
    """Of each corpus."""
    held_out: frozenset[str]
    """Normalized sources of the validation and the test text."""
    target_languages: tuple[str, ...]
    """Of each corpus. Pairs repeat only pairs of the same language."""


def filter_chunk(context: TextRules, chunk: RawChunk) -> KeptRecord:
    """Normalize the pairs of a chunk, apply the rules on text, and write those that are kept."""
    removed, keep = Removed(RuleCounts(chunk.name, read=len(chunk.lines))), np.ones(len(chunk.lines), dtype=np.bool_)
    rules, in_held_out, start = context.rules[chunk.corpus], list[tuple[str, str]](), 0
    kept: tuple[list[str], list[str]] = ([], [])
    prefiltered = len(chunk.lines) >= _LEAST_PREFILTERED
    for block in zip(chunk.sources, chunk.targets, strict=True):
        sources, targets = (side.split("\n") for side in block)
        for position in rules.prefilter.examined(sources, targets) if prefiltered else range(len(sources)):
            source, target, rule, found = rules.apply(sources[position], targets[position])
            sources[position], targets[position] = source, target
            if rule is not None:
                index = start + position
                keep[index] = False
                pair = SentencePair(source, target, _file_of(chunk.files, index), int(chunk.lines[index]))
                removed.add(Rejected(rule, chunk.first + index, pair, found))
        if shared := context.held_out.intersection(sources):
            in_held_out += [pair for pair in zip(sources, targets, strict=True) if pair[0] in shared]
        own = keep[start : start + len(sources)]
        for side, lines in zip(kept, (sources, targets), strict=True):
            side.append("".join(f"{line}\n" for line in compress(lines, own)))
        start += len(sources)
    leaked = {(pair.pair.source, pair.pair.target) for pair in removed.pairs if pair.rule == "leak"}
    held_out = [pair for pair in dict.fromkeys(in_held_out) if pair not in leaked]
    places = np.flatnonzero(keep).astype(np.int32)
    texts = ["".join(blocks)[:-1] for blocks in kept]
    characters = [len(text) - max(0, len(places) - 1) for text in texts]
    of_chunk = (chunk.number, chunk.corpus, chunk.first, chunk.files)
    record = KeptRecord(*of_chunk, removed.counts, len(places), (characters[0], characters[1]), held_out)
    sides = {side: np.frombuffer(text.encode(), dtype=np.uint8) for side, text in zip(SIDES, texts, strict=True)}
    digests = _digests(sides, context.target_languages[chunk.corpus], rules.settings)
    arrays: Arrays = {"rejected": removed.as_json(), "positions": places, "lines": chunk.lines[places]}
    arrays |= sides | digests
    _write(kept_file(context.folder, chunk.number), _KEPT.dump_json(record), arrays)
    return record


def _digests(sides: Mapping[str, npt.NDArray[np.uint8]], language: str, filters: Filters) -> Arrays:
    """Return the digests of the pairs whose lines are `sides`, and those of a side if its repetitions are limited.

    They depend on the target language, since pairs repeat only those of the same one.
    """
    source, target = (digests_of(TextLines(sides[side])) for side in SIDES)
    base = digests_of(TextLines(np.frombuffer(language.encode(), dtype=np.uint8)))
    digests: Arrays = {"digests": combined(combined(base, source), target)}
    if filters.max_same_source is not None:
        digests["source_digests"] = combined(base, source)
    if filters.max_same_target is not None:
        digests["target_digests"] = combined(base, target)
    return digests


class KeptChunk:
    """The pairs of a chunk that the rules on text keep, read on access."""

    def __init__(self, folder: Path, number: int) -> None:
        self._file = _open(kept_file(folder, number))

    @cached_property
    def record(self) -> KeptRecord:
        """What is known of it."""
        return _KEPT.validate_json(self._file.get_tensor(_RECORD).tobytes())

    def digests(self, of: DigestsOf) -> Digests:
        """Return the digests of the pairs, or those of a side if the pairs with equal ones are limited."""
        digests: Digests = self._file.get_tensor(of)
        return digests

    @property
    def removed(self) -> list[Rejected]:
        """The pairs that the rules on text remove."""
        return _REJECTED.validate_json(self._file.get_tensor("rejected").tobytes())

    @cached_property
    def positions(self) -> npt.NDArray[np.int64]:
        """The indices of the pairs in the chunk as it was read."""
        positions: npt.NDArray[np.int64] = self._file.get_tensor("positions").astype(np.int64)
        return positions

    @cached_property
    def _lines(self) -> npt.NDArray[np.int64]:
        lines: npt.NDArray[np.int64] = self._file.get_tensor("lines")
        return lines

    @cached_property
    def source(self) -> TextLines:
        """The source sentences, normalized."""
        return TextLines(self._file.get_tensor("source"))

    @cached_property
    def target(self) -> TextLines:
        """The target sentences, normalized."""
        return TextLines(self._file.get_tensor("target"))

    def removed_by(self, rule_of: RuleNumbers) -> list[Rejected]:
        """Return the pairs that later rules remove, for the rule of each pair."""
        return [self._rejected(number, index) for index, number in enumerate(rule_of.tolist()) if number]

    def counts_of(self, rule_of: RuleNumbers) -> RuleCounts:
        """Return the counts of the pairs that later rules remove."""
        counts = RuleCounts(self.record.counts.file)
        for number in np.unique(rule_of[rule_of > 0]).tolist():
            indices = np.flatnonzero(rule_of == number)
            counts.removed[_NAMES[number - 1]] = len(indices)
            counts.examples[_NAMES[number - 1]] = [self._rejected(number, i) for i in indices[:EXAMPLES].tolist()]
        return counts

    def _rejected(self, number: int, index: int) -> Rejected:
        record, position = self.record, int(self.positions[index])
        place = (_file_of(record.files, position), int(self._lines[index]))
        pair = SentencePair(self.source[index], self.target[index], *place)
        return Rejected(_NAMES[number - 1], record.first + position, pair)


@dataclass(frozen=True)
class Encoding:
    """What worker processes need to encode chunks."""

    folder: Path
    rules: tuple[PairFilter, ...]
    """Of each corpus."""
    tokenizers: Tokenizers
    repeated: dict[str, BitSet]
    """The pairs that each rule on repetitions removes, by their index in the text after the rules on text."""
    threads: int | None

    @cached_property
    def spelled(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """The ids of characters without a piece, of the source and the target side."""
        return self.tokenizers.source.spelled(), self.tokenizers.target.spelled()


def encode_chunk(context: Encoding, task: tuple[int, int]) -> EncodedRecord:
    """Encode the pairs of a chunk that are not repeated, apply the rules on tokens, and write those that are kept.

    `task` is the number of the chunk and the index of its first pair in the text after the rules on text.
    """
    number, start = task
    chunk = KeptChunk(context.folder, number)
    rules, rule_of = context.rules[chunk.record.corpus], repeated_in(chunk, start, context.repeated)
    lines, tokenizers = (chunk.source, chunk.target), (context.tokenizers.source, context.tokenizers.target)
    ids = [
        tokenizer.encode_lines(own_lines.content.tobytes(), context.threads)
        for tokenizer, own_lines in zip(tokenizers, lines, strict=True)
    ]
    for index, rule in rules.removed_by_length(ids[0][1], ids[1][1]):
        rule_of[index] = rule_of[index] or _NUMBERS[rule]
    keep = rule_of == 0
    arrays: Arrays = {"rules": rule_of}
    sides = []
    for side, own_lines, (tokens, lengths), spelled in zip(SIDES, lines, ids, context.spelled, strict=True):
        kept = tokens[np.repeat(keep, lengths)]
        arrays[f"{side}.tokens"] = kept.astype(smallest_type(len(spelled)))
        arrays[f"{side}.lengths"] = lengths[keep]
        characters = int(own_lines.characters[keep].sum())
        sides.append((len(kept), characters, int(np.count_nonzero(spelled[kept]))))
    record = EncodedRecord(chunk.counts_of(rule_of), int(keep.sum()), (sides[0], sides[1]))
    _write(encoded_file(context.folder, number), _ENCODED.dump_json(record), arrays)
    return record


def repeated_in(chunk: KeptChunk, start: int, repeated: Mapping[str, BitSet]) -> RuleNumbers:
    """Return for each pair of a chunk the first rule on repetitions that removes it.

    `start` is the index of the first pair of the chunk in the text after the rules on text.
    """
    rule_of = np.zeros(chunk.record.kept, dtype=np.uint8)
    for rule, pairs in repeated.items():
        rule_of[(rule_of == 0) & pairs.range(start, chunk.record.kept)] = _NUMBERS[rule]
    return rule_of


class EncodedChunk:
    """The token ids of a chunk, read on access."""

    def __init__(self, folder: Path, number: int) -> None:
        self._file = _open(encoded_file(folder, number))

    @cached_property
    def record(self) -> EncodedRecord:
        """What is known of it."""
        return _ENCODED.validate_json(self._file.get_tensor(_RECORD).tobytes())

    @property
    def rules(self) -> RuleNumbers:
        """The rule on repetitions or tokens that removes each of the pairs that the rules on text keep."""
        rules: RuleNumbers = self._file.get_tensor("rules")
        return rules

    def side(self, side: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the ids of all sentences of a side end to end, and the length of each."""
        return self._file.get_tensor(f"{side}.tokens"), self._file.get_tensor(f"{side}.lengths")


def kept_file(folder: Path, number: int) -> Path:
    """Return the file of the pairs that the rules on text keep."""
    return folder / f"{number:06d}.kept.safetensors"


def encoded_file(folder: Path, number: int) -> Path:
    """Return the file of token ids."""
    return folder / f"{number:06d}.encoded.safetensors"


def is_whole(file: Path) -> bool:
    """Return whether a file of a chunk is there, complete and undamaged."""
    try:
        arrays = safetensors.numpy.load_file(file)
    except (OSError, SafetensorError):
        return False
    found = arrays.pop(_CHECKSUM, None)
    return found is not None and found.tolist() == [_checksum(arrays)]


def _open(file: Path) -> Any:
    return safe_open(file, framework="numpy")


def _file_of(files: Sequence[tuple[int, str]], position: int) -> str:
    return files[bisect_right(files, position, key=lambda entry: entry[0]) - 1][1]


def _write(path: Path, record: bytes, arrays: Arrays) -> None:
    """Write a file of a chunk, which gets its name when it is on the disk."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    stored = {_RECORD: np.frombuffer(record, dtype=np.uint8), **arrays}
    stored[_CHECKSUM] = np.array([_checksum(stored)])
    try:
        with partial.open("xb") as file:
            file.write(safetensors.numpy.save(stored))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _checksum(arrays: Arrays) -> int:
    """Return the CRC-32 of arrays with their names."""
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(arrays[name].data, zlib.crc32(name.encode(), checksum))
    return checksum
