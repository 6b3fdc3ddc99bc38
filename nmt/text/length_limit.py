"""How long translations may become, learnt from the text."""

import math

import numpy as np

from nmt.config import MaxLength
from nmt.text.prepared import PreparedSplit

_PAIRS_MEASURED = 1_000_000
"""The lengths of so many pairs, spread over the text, tell enough."""


def longest_to_expect(split: PreparedSplit) -> MaxLength:
    """Return a limit on target tokens T for S source tokens, both ends counted, that cuts no translation like these.

    The factor is the 99.9 % quantile of T/S among the longer half of the pairs, and at least 1. The spread of T/S falls
    as sentences grow, so the longer they are, the more generous this is; short ones have the extra, the 99.99 %
    quantile of what goes beyond factor · S, and at least 10.
    """
    stride = math.ceil(len(split) / _PAIRS_MEASURED)
    sides = (split.source.offsets, split.target.offsets)
    source, target = (offsets[1::stride] - offsets[:-1:stride] + 1 for offsets in sides)
    longer = source >= np.median(source)
    factor = max(1.0, math.ceil(100 * np.quantile(target[longer] / source[longer], 0.999)) / 100)
    return MaxLength(factor=factor, extra=max(10, math.ceil(np.quantile(target - factor * source, 0.9999))))
