"""Repetitions in a text of any size: digests are sorted into buckets on disk, which are resolved one by one.

RAM holds one bucket, and one bit for each sentence pair.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from nmt.text.passage_keys import TextLines, mixed, passage_digests

Digests = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_BUCKET = 2**19  # digests in a bucket, unless that makes more than `_MOST_BUCKETS`
_MOST_BUCKETS = 256  # open files
_ITEM = np.dtype([("digest", "<u8"), ("index", "<i8")])


def digests_of(lines: TextLines) -> Digests:
    """Return 64-bit digests of lines; among 20 million different ones two have equal digests with probability 1e-5."""
    return passage_digests(lines.content.tobytes(), lines.starts, lines.ends - lines.starts)


def combined(first: Digests, second: Digests) -> Digests:
    """Return digests of pairs from those of their parts; one digest may be combined with many."""
    return mixed(mixed(first) + second)


class BitSet:
    """A set of the numbers below `size`, in `size` bits."""

    def __init__(self, size: int) -> None:
        self._bits = np.zeros(-(-size // 8), dtype=np.uint8)

    def add(self, numbers: npt.NDArray[np.int64]) -> None:
        """Add numbers."""
        np.bitwise_or.at(self._bits, numbers >> 3, (1 << (numbers & 7)).astype(np.uint8))

    def range(self, start: int, count: int) -> Mask:
        """Return for each of the numbers from `start` on whether it is in the set."""
        stored = self._bits[start >> 3 : (start + count + 7) >> 3]
        return np.unpackbits(stored, bitorder="little")[start & 7 :][:count].astype(np.bool_)


def find_repeated(digests: Iterable[Digests], total: int, most: int, folder: Path, without: Sequence[BitSet]) -> BitSet:
    """Return the texts that repeat one of which `most` came before.

    `digests` are those of all `total` texts in order, in arrays of any size. Texts that are in a set of `without` do
    not count. `folder` is for temporary files, of 16 bytes for each text.
    """
    repeated = BitSet(total)
    bits = min(max(1, total // _BUCKET), _MOST_BUCKETS - 1).bit_length()
    with TemporaryDirectory(dir=folder, prefix="buckets-") as place:
        paths = [Path(place, str(number)) for number in range(1 << bits)]
        _write_buckets(digests, paths, bits, without)
        for path in paths:
            repeated.add(_repeated_in(np.fromfile(path, dtype=_ITEM), most))
            path.unlink()
    return repeated


def _write_buckets(digests: Iterable[Digests], paths: Sequence[Path], bits: int, without: Sequence[BitSet]) -> None:
    """Append each digest with its index to the bucket of its highest bits."""
    start = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for part in digests:
            indices = np.arange(start, start + len(part))
            for removed in without:
                indices = indices[~removed.range(start, len(part))[indices - start]]
            items = np.empty(len(indices), dtype=_ITEM)
            items["digest"], items["index"] = part[indices - start], indices
            buckets = items["digest"] >> np.uint64(64 - bits)
            order = np.argsort(buckets, kind="stable")
            edges = np.searchsorted(buckets[order], np.arange(len(files) + 1, dtype=np.uint64))
            for file, first, end in zip(files, edges[:-1], edges[1:], strict=True):
                file.write(items[order[first:end]].tobytes())
            start += len(part)


def _repeated_in(items: npt.NDArray[np.void], most: int) -> npt.NDArray[np.int64]:
    """Return the indices in a bucket whose digest occurred `most` times before; the bucket is in order of indices."""
    order = np.argsort(items["digest"], kind="stable")
    digests, numbers = items["digest"][order], np.arange(len(items))
    is_first = np.ones(len(items), dtype=np.bool_)
    is_first[1:] = digests[1:] != digests[:-1]
    earlier = numbers - np.maximum.accumulate(np.where(is_first, numbers, 0))
    repeated: npt.NDArray[np.int64] = items["index"][order[earlier >= most]]
    return repeated
