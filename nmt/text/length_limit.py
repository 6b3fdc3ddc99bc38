"""How long translations may become, learnt from the text."""

import math

import numpy as np

from nmt.config import MaxLength
from nmt.text.prepared import PreparedSplit

_PAIRS_MEASURED = 1_000_000
"""The lengths of so many pairs, spread over the text, tell enough."""
_FACTORS = np.arange(1.0, 6.05, 0.1)
_SEEN, _ROOM = 0.9999, 1.1
"""The share of the pairs that shall stay below the line, and how much higher the limit is than that."""
_LEAST_EXTRA = 5


def longest_to_expect(split: PreparedSplit) -> MaxLength:
    """Return a limit on target tokens T for S source tokens, both ends counted, that cuts no translation like these.

    Of all lines factor · S + extra below which 99.99 % of the pairs stay it is the one that is lowest on average, and a
    tenth more. The factor is at least 1, the extra 5. A low limit is a quick search: what can still become of a
    hypothesis depends on how long it may become.
    """
    stride = math.ceil(len(split) / _PAIRS_MEASURED)
    sides = (split.source.offsets, split.target.offsets)
    source, target = (offsets[1::stride] - offsets[:-1:stride] + 1 for offsets in sides)
    extras = [max(0.0, float(np.quantile(target - factor * source, _SEEN))) for factor in _FACTORS]
    lowest = int(np.argmin(_FACTORS * source.mean() + extras))
    extra = max(_LEAST_EXTRA, math.ceil(_ROOM * extras[lowest]))
    return MaxLength(factor=round(_ROOM * _FACTORS[lowest], 2), extra=extra)
