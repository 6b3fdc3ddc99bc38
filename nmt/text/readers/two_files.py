"""Pairs in two files whose lines correspond."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from nmt.errors import DataError
from nmt.system.console import counted
from nmt.text.opening import read_lines
from nmt.text.readers import Row


def read_two_files(source: Path, target: Path) -> Iterator[Row]:
    """Yield the pairs of two files. Raises DataError if they differ in their number of lines."""
    sources, targets = read_lines(source), read_lines(target)
    for number, (source_line, target_line) in enumerate(zip_longest(sources, targets), start=1):
        if source_line is None or target_line is None:
            total = number + sum(1 for _ in (targets if source_line is None else sources))
            short, long = (source, target) if source_line is None else (target, source)
            raise DataError(
                f"{long}:{number}: no line to pair with: {long} has {counted(total, 'line')}, {short} has "
                f"{number - 1:,}. "
                "The two files must hold a sentence and its translation on lines of the same number"
            )
        yield Row(number, source_line, target_line)
