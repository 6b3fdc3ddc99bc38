"""The files that hold the results of chunks, in the work directory of a preparation.

    NNNNNN.kept.safetensors       the pairs that the rules on text keep, normalized, with their places and digests
    NNNNNN.encoded.safetensors    their token ids, without repeated, too long and too unequal pairs

A file gets its name when it is complete, so an interrupted preparation continues after the last one.
"""

import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open

from nmt.system.files import atomic_file
from nmt.text.corpus import SentencePair
from nmt.text.filters import RULES, Rejected, RuleCounts
from nmt.text.filters.rule_counts import EXAMPLES
from nmt.text.preparing.duplicates import Digests
from nmt.text.text_lines import TextLines

CHUNK_FORMAT = 2
"""Files of another format are not used."""
RULE_NUMBERS = {rule: number for number, rule in enumerate(RULES, start=1)}
_RULES = tuple(RULES)
_RECORD = "record"
"""The array of a file with its record as JSON: unlike the metadata, which safetensors limits, it may be of any size."""
_CHECKSUM = "checksum"
"""The array of a file with the CRC-32 of all others."""

Arrays = dict[str, npt.NDArray[Any]]
DigestsOf = Literal["digests", "source_digests", "target_digests"]
RuleNumbers = npt.NDArray[np.uint8]
"""The number of the rule that removes each pair; 0 if none does."""


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
            indices, rule = np.flatnonzero(rule_of == number), _RULES[number - 1]
            counts.removed[rule] = len(indices)
            counts.examples[rule] = [self._rejected(number, index) for index in indices[:EXAMPLES].tolist()]
        return counts

    def _rejected(self, number: int, index: int) -> Rejected:
        record, position = self.record, int(self.positions[index])
        place = (file_of(record.files, position), int(self._lines[index]))
        pair = SentencePair(self.source[index], self.target[index], *place)
        return Rejected(_RULES[number - 1], record.first + position, pair)


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


def write_kept(folder: Path, record: KeptRecord, rejected: list[Rejected], arrays: Arrays) -> None:
    """Write the file that `KeptChunk` reads."""
    removed = np.frombuffer(_REJECTED.dump_json(rejected), dtype=np.uint8)
    _write(kept_file(folder, record.number), _KEPT.dump_json(record), {"rejected": removed, **arrays})


def write_encoded(folder: Path, number: int, record: EncodedRecord, arrays: Arrays) -> None:
    """Write the file that `EncodedChunk` reads."""
    _write(encoded_file(folder, number), _ENCODED.dump_json(record), arrays)


def file_of(files: Sequence[tuple[int, str]], position: int) -> str:
    """Return the file of a pair of a chunk, from `RawChunk.files`."""
    return files[bisect_right(files, position, key=lambda entry: entry[0]) - 1][1]


def _open(file: Path) -> Any:
    return safe_open(file, framework="numpy")


def _write(path: Path, record: bytes, arrays: Arrays) -> None:
    """Write a file of a chunk, which gets its name when it is on the disk."""
    stored = {_RECORD: np.frombuffer(record, dtype=np.uint8), **arrays}
    stored[_CHECKSUM] = np.array([_checksum(stored)])
    with atomic_file(path) as file:
        file.write(safetensors.numpy.save(stored))


def _checksum(arrays: Arrays) -> int:
    """Return the CRC-32 of arrays with their names."""
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(arrays[name].data, zlib.crc32(name.encode(), checksum))
    return checksum
