"""Pairs in two files whose lines correspond."""

from array import array
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

from nmt.errors import DataError
from nmt.system.console import counted
from nmt.text.auditing.drift import find_drift, lengths_correspond
from nmt.text.readers import Row, shortened
from nmt.text.readers.opening import STANDARD_INPUT, read_lines

_UNDETECTED = 60  # lines at the end; 11 % of the shifts that begin 60 lines before it are not detected in Tatoeba


def read_two_files(source: Path, target: Path) -> Iterator[Row]:
    """Yield the pairs of two files.

    Raises DataError if they differ in their number of lines, with the line from which on they do not correspond.
    """
    sources, targets = read_lines(source), read_lines(target)
    for number, (source_line, target_line) in enumerate(zip_longest(sources, targets), start=1):
        if source_line is None or target_line is None:
            total = number + sum(1 for _ in (targets if source_line is None else sources))
            short, long = (source, target) if source_line is None else (target, source)
            raise DataError(
                f"{long}:{number}: no line to pair with: {long} has {counted(total, 'line')}, {short} has "
                f"{number - 1:,}. {_place_of_drift(source, target)}"
                "The two files must hold a sentence and its translation on lines of the same number"
            )
        yield number, source_line, target_line


def _place_of_drift(source: Path, target: Path) -> str:
    """Return a sentence on the line from which on the files do not correspond, with that line of both."""
    if STANDARD_INPUT in (source, target):
        return ""
    lengths = [array("I", map(len, read_lines(path))) for path in (source, target)]
    drift = find_drift(lengths[0], lengths[1])
    if drift is None:
        if min(map(len, lengths)) <= _UNDETECTED or not lengths_correspond(lengths[0], lengths[1]):
            return ""
        return (
            f"By their lengths, the lines correspond, except perhaps in the last {_UNDETECTED}, where a shift may not "
            "be detected. "
        )
    shown = [
        f"\n    {path}:{drift.line}: {shortened(line)}"
        for path in (source, target)
        for line in islice(read_lines(path), drift.line - 1, drift.line)
    ]
    cause = "text that is not a translation begins"
    if drift.extra is not None:
        path = source if drift.extra > 0 else target
        cause = f"{path} has {counted(abs(drift.extra), 'line')} more"
    before = f"By their lengths, the lines correspond up to about line {drift.line - 1:,}; there, {cause}"
    return f"{before}:{''.join(shown)}\n"
