"""A text of many lines as one array of bytes, its lines and words by their bounds, and keys of its passages.

The keys are 64-bit integers, computed and looked up for many passages at a time.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_BLOCK = 2**17  # bytes; their arrays fit in the cache of a processor
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
"""Masks of the first 0 to 8 bytes of an integer."""


class TextLines:
    """Lines of UTF-8 separated by `\\n`; a text without bytes has no lines.

    Legend: L lines, N bytes.
    """

    def __init__(self, content: npt.NDArray[np.uint8]) -> None:
        self.content = content  # (N,)
        breaks = np.flatnonzero(content == ord("\n"))
        lines = len(breaks) + 1 if len(content) else 0
        self.starts = np.append(0, breaks + 1)[:lines]  # (L,)
        self.ends = np.append(breaks, len(content))[:lines]  # (L,), without the `\n`

    @classmethod
    def of(cls, lines: Iterable[str]) -> "TextLines":
        """Return the lines of strings."""
        return cls(np.frombuffer("\n".join(lines).encode(), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> str:
        return self.content[self.starts[index] : self.ends[index]].tobytes().decode()

    @cached_property
    def characters(self) -> Integers:
        """The number of characters of each line (L,)."""
        continued = np.flatnonzero((self.content & 0xC0) == 0x80)  # all bytes of a character but the first
        in_lines = np.searchsorted(continued, self.ends) - np.searchsorted(continued, self.starts)
        counts: Integers = self.ends - self.starts - in_lines
        return counts


def word_bounds(characters: npt.NDArray[np.integer]) -> tuple[Integers, Integers, Integers]:
    """Return the start and the size of each word of a text, and the index of the first word of each line.

    Words end at a space or a line break, and the text ends with a line break.
    """
    ends = np.flatnonzero((characters == ord(" ")) | (characters == ord("\n")))
    starts = np.append(0, ends[:-1] + 1)
    last = np.flatnonzero(characters[ends] == ord("\n"))
    return starts, ends - starts, np.append(0, last[:-1] + 1)


def mixed(bits: Keys) -> Keys:
    """Return pseudo-random integers, a different one for each: the finalizer of splitmix64 (Steele et al. 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def passage_keys(text: bytes, starts: Integers, sizes: Integers, parts: int) -> Keys:
    """Return a key for each passage of a text, which is given by its first byte and its size in bytes.

    Equal passages have equal keys. Different ones of at most 8 bytes have different keys, and among a million longer
    ones two have equal keys with probability 3e-8. Only the first 8 times `parts` bytes count. The key of a passage
    without bytes, and of no other, is 0. A passage must not end with a NUL, which has no effect on its key.
    """
    integers = _integers(text + bytes(8 * parts))
    keys = integers[starts] & _FIRST_BYTES[np.minimum(sizes, 8)]
    keys *= _FACTOR
    keys ^= keys >> _HALF
    for begin in range(8, 8 * parts, 8):
        longer = np.flatnonzero(sizes > begin)
        part = integers[starts[longer] + begin] & _FIRST_BYTES[np.minimum(sizes[longer] - begin, 8)]
        # without `mixed`, a difference in the highest byte changes few bits, and one in the next part can cancel it
        part = (part ^ mixed(keys[longer])) * _FACTOR
        keys[longer] = part ^ (part >> _HALF)
    return keys


def passage_digests(text: bytes, starts: Integers, sizes: Integers) -> Keys:
    """Return keys like those of `passage_keys`, for which all bytes of a passage count, however long it is."""
    integers = _integers(text + bytes(8))
    digests = np.zeros(len(starts), dtype=np.uint64)
    ends = np.cumsum(sizes)
    edges = np.searchsorted(ends, np.arange(0, sizes.sum() + 1, _BLOCK))
    for start, end in pairwise(np.unique(np.append(edges, len(starts))).tolist()):
        block = slice(start, end)
        counts = np.maximum(1, (sizes[block] + 7) >> 3)  # parts of 8 bytes
        first = np.cumsum(counts) - counts
        begins = 8 * (np.arange(counts.sum()) - np.repeat(first, counts))  # of each part in its passage
        parts = integers[np.repeat(starts[block], counts) + begins]
        parts &= _FIRST_BYTES[np.minimum(np.repeat(sizes[block], counts) - begins, 8)]
        parts += (begins.astype(np.uint64) + np.uint64(1)) * _FACTOR
        digests[block] = np.add.reduceat(mixed(parts), first)
    return digests


class KeyTable:
    """Numbers by keys that are not 0: a hash table with linear probing, for many keys at a time.

    It has more slots than keys; with fewer than twice as many, look-ups take long.
    """

    def __init__(self, slots: int) -> None:
        self.count = 0
        self._keys = np.zeros(slots, dtype=np.uint64)  # 0: the slot is free
        self._numbers = np.zeros(slots, dtype=np.int32)

    def find(self, keys: Keys) -> Integers:
        """Return the number of each key; 0 for those that were not added."""
        slots = self._first_slots(keys)
        stored = self._keys[slots]
        others = np.flatnonzero((stored != keys) & (stored != 0))
        while len(others):
            slots[others] = (slots[others] + 1) % len(self._keys)
            stored = self._keys[slots[others]]
            others = others[(stored != keys[others]) & (stored != 0)]
        return self._numbers[slots].astype(np.int64)

    def add(self, keys: Keys, numbers: Integers) -> None:
        """Add different keys that are not in the table."""
        slots = self._first_slots(keys)
        self.count += len(keys)
        while len(keys):
            free = self._keys[slots] == 0
            self._keys[slots[free]] = keys[free]  # of several keys for a slot, one gets it
            placed = self._keys[slots] == keys
            self._numbers[slots[placed]] = numbers[placed]
            keys, numbers, slots = keys[~placed], numbers[~placed], (slots[~placed] + 1) % len(self._keys)

    def _first_slots(self, keys: Keys) -> Integers:
        return (keys % np.uint64(len(self._keys))).astype(np.int64)


def _integers(padded: bytes) -> Keys:
    """Return the 8 bytes that begin at each byte but the last 7, as one little-endian integer, without a copy."""
    return np.ndarray(len(padded) - 7, dtype="<u8", buffer=padded, strides=(1,))
