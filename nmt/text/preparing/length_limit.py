"""The limit on the length of translations, from the lengths of training pairs."""

import math

import numpy as np
import numpy.typing as npt

from nmt.config import MaxLength

SAMPLED_PAIRS = 1_000_000
"""Pairs, spread over the text, whose lengths suffice."""
_FACTORS = np.arange(1.0, 6.05, 0.1)
_COVERAGE, _MARGIN = 0.9999, 1.1
"""Share of the pairs below the line, and the factor between the line and the limit."""
_LEAST_EXTRA = 5


def length_limit(source_lengths: npt.NDArray[np.int64], target_lengths: npt.NDArray[np.int64]) -> MaxLength:
    """Return a limit on target tokens for S source tokens, both with `</s>`, that truncates no text like this.

    The lengths are those of pairs, without `</s>`. Of all bounds factor · S + extra that hold for 99.99 % of the pairs,
    it is the one with the lowest mean, raised by 10 %. The factor is at least 1, the extra at least 5. A low limit
    makes the search fast: the best score that a hypothesis can still reach depends on its longest possible length.
    """
    source, target = source_lengths + 1, target_lengths + 1
    extras = [max(0.0, float(np.quantile(target - factor * source, _COVERAGE))) for factor in _FACTORS]
    lowest = int(np.argmin(_FACTORS * source.mean() + extras))
    extra = max(_LEAST_EXTRA, math.ceil(_MARGIN * extras[lowest]))
    return MaxLength(factor=round(_MARGIN * _FACTORS[lowest], 2), extra=extra)
