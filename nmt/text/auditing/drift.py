"""The line at which two texts stop corresponding, found by the lengths of their lines.

The logarithm of the ratio of the lengths of a sentence and its translation is nearly normal (Gale & Church 1993). Where
a line is missing or added on one side, the lengths correspond again if one side is shifted. Where the gain of a shift
over no shift, summed from any line on, exceeds a threshold, that line is the change (CUSUM test, Page 1954).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST_SHIFTED = 8  # lines, besides the difference of the lengths of the texts
_SHIFT_THRESHOLD = 30.0  # gain in log-likelihood that shows a shift, 15 to 60 lines after it
_UNRELATED_THRESHOLD, _MOST_GAIN = 100.0, 1.0
"""Gain that shows unrelated lines, and what a line adds at most: so there must be a hundred of them."""
_FARTHEST = 3.0  # standard deviations; free translations of single lines count no more
_LEAST_SPREAD = 0.05  # standard deviation of the logarithm of the ratio: copies have none
_BLOCK = 100  # lines in which most probably nothing changes
_LOG_2 = float(np.log(2))
_SEGMENT = 1_000_000  # lines that are compared at once, to bound the RAM
_LEAST_CORRELATION = 0.6  # of corresponding lines: 0.67 to 0.98 in 18 corpora; shifted by one line at most 0.51

Lengths = Sequence[int] | NDArray[np.integer]
_Floats = NDArray[np.float64]


class Drift(NamedTuple):
    """A change of correspondence."""

    line: int
    """The first line, from 1, that does not correspond: within 2 lines for half of the changes, 10 for nearly all."""
    extra: int | None
    """Lines that only the source has there; negative for lines that only the target has; None for unrelated text, also
    for a hundred lines or more that only one side has."""


def find_drift(sources: Lengths, targets: Lengths) -> Drift | None:
    """Return where the lines of two texts, given by their lengths in characters, first stop corresponding.

    Returns None if they correspond throughout, or if a change is too near the end to be detected. The texts may have
    different numbers of lines.
    """
    surplus = len(sources) - len(targets)
    shifts = dict.fromkeys([*(sign * size for size in range(1, _MOST_SHIFTED + 1) for sign in (1, -1)), surplus])
    for start in range(0, min(len(sources), len(targets)), _SEGMENT):
        logs = [np.log1p(np.asarray(side[start : start + _SEGMENT], dtype=np.float64)) for side in (sources, targets)]
        if drift := _first_change(logs[0], logs[1], [shift for shift in shifts if shift]):
            return Drift(start + drift.line, drift.extra)
    return None


def lengths_correspond(sources: Lengths, targets: Lengths) -> bool:
    """Return whether the lengths of two texts, as far as both have lines, correlate as those of translations do.

    `find_drift` finds a change only where the lines before it correspond, so None is no evidence that they do.
    """
    common = min(len(sources), len(targets), _SEGMENT)
    logs = [np.log1p(np.asarray(side[:common], dtype=np.float64)) for side in (sources, targets)]
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where all lengths of a side are equal
        return bool(np.corrcoef(logs[0], logs[1])[0, 1] >= _LEAST_CORRELATION)


def _first_change(sources: _Floats, targets: _Floats, shifts: Sequence[int]) -> Drift | None:
    mean = targets.mean() - sources.mean()
    unshifted, *shifted = [_log_ratios(sources, targets, shift) - mean for shift in (0, *shifts)]
    elsewhere = np.roll(targets, len(targets) // 2)[: len(sources)]
    unrelated = max(2 * _LEAST_SPREAD, float(np.std(elsewhere - sources[: len(elsewhere)])))
    corresponding = min(_spread([unshifted, *shifted]), unrelated / 1.5)
    usual = _log_likelihood(unshifted, corresponding)
    chance = _log_likelihood(unshifted, unrelated)
    found: list[tuple[int, int, int | None]] = []
    for shift, ratios in zip(shifts, shifted, strict=True):
        other = _log_likelihood(ratios, corresponding)
        # lines that correspond to none may come before the lines that correspond after the shift
        gains = np.logaddexp(other, chance) - _LOG_2 - usual
        found += _changes(other - np.maximum(usual, chance), gains, _SHIFT_THRESHOLD, shift)
    gains = np.minimum(chance - usual, _MOST_GAIN)
    found += _changes(gains, gains, _UNRELATED_THRESHOLD, None)
    if not found:
        return None
    _, line, extra = min(found, key=lambda change: change[0])
    return Drift(line, extra)


def _log_ratios(sources: _Floats, targets: _Floats, shift: int) -> _Floats:
    """Return the logarithm of the ratio of target line i to source line i + shift; NaN where there is none."""
    ratios = np.full(len(targets), np.nan)
    first, end = max(0, -shift), min(len(targets), len(sources) - shift)
    if first < end:
        ratios[first:end] = targets[first:end] - sources[first + shift : end + shift]
    return ratios


def _spread(ratios: Sequence[_Floats]) -> float:
    """Return the standard deviation of corresponding lines: in each block, that of the shift where it is least."""
    edges = [*range(0, max(1, len(ratios[0]) - _BLOCK // 2), _BLOCK), len(ratios[0])]
    blocks = [np.abs([row[first:end] for row in ratios]) for first, end in pairwise(edges)]
    blocks = [block[~np.isnan(block).any(axis=1)] for block in blocks]
    least = [float(np.median(block, axis=1).min()) for block in blocks if len(block)]
    if not least:
        return 1.0
    return max(_LEAST_SPREAD, 1.4826 * float(np.median(least)))  # of a normal distribution, by its median


def _log_likelihood(ratios: _Floats, spread: float) -> _Floats:
    distance = np.minimum(np.nan_to_num(np.abs(ratios) / spread, nan=_FARTHEST), _FARTHEST)
    return np.asarray(-(distance**2) / 2 - np.log(spread))


def _changes(
    evidence: _Floats, gains: _Floats, threshold: float, extra: int | None
) -> list[tuple[int, int, int | None]]:
    """Return where the sum of evidence since a minimum first exceeds the threshold, and where gains begin before it."""
    sums = np.concatenate([[0.0], np.cumsum(evidence)])
    exceeded = np.flatnonzero(sums - np.minimum.accumulate(sums) > threshold)
    if not len(exceeded):
        return []
    sums = np.concatenate([[0.0], np.cumsum(gains[: exceeded[0]])])
    return [(int(exceeded[0]), int(np.argmin(sums)) + 1, extra)]
