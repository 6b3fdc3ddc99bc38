"""The files that hold the results of chunks, in the work directory of a preparation.

NNNNNN.kept.safetensors       the pairs that the rules on text keep, normalized, with their places and digests
NNNNNN.encoded.safetensors    their token ids, without repeated and too long pairs
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from pydantic import TypeAdapter
from safetensors import safe_open

from nmt.text.corpus import SentencePair
from nmt.text.filters import RULES, Rejected, RuleCounts
from nmt.text.filters.rule_counts import EXAMPLES
from nmt.text.passage_keys import TextLines

RULE_NUMBERS = {rule: number for number, rule in enumerate(RULES, start=1)}
_RULES = ("", *RULES)
_RECORD = "record"
"""The array of a file with its record as JSON: unlike the metadata, which safetensors limits, it may be of any size."""

Arrays = dict[str, npt.NDArray[Any]]
RuleNumbers = npt.NDArray[np.uint8]
"""The number of the rule that removes each pair; 0 if none does."""


@dataclass(frozen=True)
class KeptRecord:
    """What is known of a chunk after the rules on text."""

    corpus: int
    first: int
    files: list[tuple[int, str]]
    counts: RuleCounts
    characters: tuple[int, int]
    """Characters of the pairs kept, of the source and the target side."""


_KEPT, _COUNTS, _REJECTED = TypeAdapter(KeptRecord), TypeAdapter(RuleCounts), TypeAdapter(list[Rejected])


class ChunkFile:
    """The arrays of a file of a chunk, each read on access."""

    def __init__(self, path: Path) -> None:
        self._file: Any = safe_open(path, framework="numpy")

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = self._file.get_tensor(name)
        return array


class KeptChunk(ChunkFile):
    """The pairs of a chunk that the rules on text keep.

    Its arrays are `source` and `target`, their text; `positions`, the indices of the pairs in the chunk as it was read;
    `lines`, their lines in the files; `digests` of the pairs; `rejected`, the pairs that the rules on text remove.
    """

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(kept_file(folder, number))

    @cached_property
    def record(self) -> KeptRecord:
        """What is known of it."""
        return _KEPT.validate_json(self[_RECORD].tobytes())

    @cached_property
    def source(self) -> TextLines:
        """The source sentences, normalized."""
        return TextLines(self["source"])

    @cached_property
    def target(self) -> TextLines:
        """The target sentences, normalized."""
        return TextLines(self["target"])

    def removed(self, rule_of: RuleNumbers) -> list[Rejected]:
        """Return all removed pairs in order; `rule_of` has the later rule that removes each of the pairs."""
        later = self._removed_later(rule_of, np.flatnonzero(rule_of))
        return sorted([*_REJECTED.validate_json(self["rejected"].tobytes()), *later], key=lambda pair: pair.number)

    def counts_of(self, rule_of: RuleNumbers) -> RuleCounts:
        """Return the counts of the pairs that later rules remove; `read` is 0."""
        counts = RuleCounts(self.record.counts.file)
        for number in np.unique(rule_of[rule_of > 0]).tolist():
            indices = np.flatnonzero(rule_of == number)
            counts.removed[_RULES[number]] = len(indices)
            counts.examples[_RULES[number]] = self._removed_later(rule_of, indices[:EXAMPLES])
        return counts

    def _removed_later(self, rule_of: RuleNumbers, indices: npt.NDArray[np.int64]) -> list[Rejected]:
        record, places, lines = self.record, self["positions"][indices], self["lines"][indices]
        removed = []
        for index, place, line in zip(indices.tolist(), places.tolist(), lines.tolist(), strict=True):
            pair = SentencePair(self.source[index], self.target[index], file_of(record.files, place), line)
            removed.append(Rejected(_RULES[rule_of[index]], record.first + place, pair))
        return removed


class EncodedChunk(ChunkFile):
    """The token ids of a chunk.

    Its arrays are `rules`, the rule on repetitions or tokens that removes each of the pairs that the rules on text
    keep; `source.tokens` and `target.tokens`, the ids of the others end to end; `source.lengths` and `target.lengths`
    of each sentence; `sides` (2, 3): tokens, characters, and characters without a piece of each side.
    """

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(encoded_file(folder, number))

    @property
    def counts(self) -> RuleCounts:
        """The counts of the pairs removed since the rules on text; `read` is 0."""
        return _COUNTS.validate_json(self[_RECORD].tobytes())


def kept_file(folder: Path, number: int) -> Path:
    """Return the file of the pairs that the rules on text keep."""
    return folder / f"{number:06d}.kept.safetensors"


def encoded_file(folder: Path, number: int) -> Path:
    """Return the file of token ids."""
    return folder / f"{number:06d}.encoded.safetensors"


def write_kept(folder: Path, number: int, record: KeptRecord, rejected: list[Rejected], arrays: Arrays) -> None:
    """Write the file that `KeptChunk` reads."""
    removed = np.frombuffer(_REJECTED.dump_json(rejected), dtype=np.uint8)
    _write(kept_file(folder, number), _KEPT.dump_json(record), {"rejected": removed, **arrays})


def write_encoded(folder: Path, number: int, counts: RuleCounts, arrays: Arrays) -> None:
    """Write the file that `EncodedChunk` reads."""
    _write(encoded_file(folder, number), _COUNTS.dump_json(counts), arrays)


def file_of(files: Sequence[tuple[int, str]], position: int) -> str:
    """Return the file of a pair of a chunk, from `RawChunk.files`."""
    return files[bisect_right(files, position, key=lambda entry: entry[0]) - 1][1]


def _write(path: Path, record: bytes, arrays: Arrays) -> None:
    """Write a file of a chunk."""
    safetensors.numpy.save_file({_RECORD: np.frombuffer(record, dtype=np.uint8), **arrays}, path)
