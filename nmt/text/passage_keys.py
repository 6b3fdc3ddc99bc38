"""Keys of passages of a text, such as its words: integers, in arrays, in place of strings."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)


def passage_keys(text: bytes, starts: Integers, sizes: Integers, parts: int) -> Keys:
    """Return a key for each passage of a text that begins at a byte and has so many bytes.

    Equal passages have equal keys. Different ones of at most 8 bytes have different keys, and among a million longer
    ones two are equal with probability 3e-8. Only the first 8 times `parts` bytes count.
    """
    padded = text + bytes(8 * parts)
    # the 8 bytes from each byte on, as one integer
    integers = np.ndarray(len(padded) - 7, dtype="<u8", buffer=padded, strides=(1,))
    keys = np.zeros(len(starts), dtype=np.uint64)
    for begin in range(0, 8 * parts, 8):
        keys = keys * _FACTOR + (integers[starts + begin] & _FIRST_BYTES[np.clip(sizes - begin, 0, 8)])
    return keys


def word_bounds(text: bytes) -> tuple[Integers, Integers, Integers]:
    """Return the first byte and the size of each word of a text, and the index of the first word of each line.

    Words end at a space or a line break, and the text ends with a line break.
    """
    characters = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero((characters == ord(" ")) | (characters == ord("\n")))
    starts = np.append(0, ends[:-1] + 1)
    last = np.flatnonzero(characters[ends] == ord("\n"))
    return starts, ends - starts, np.append(0, last[:-1] + 1)
