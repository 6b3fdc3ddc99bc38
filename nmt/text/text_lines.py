"""A text of many lines as one array of bytes with the bounds of its lines, instead of a list of strings."""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


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
