"""Minimum Bayes risk decoding: of many candidates, the one with the highest mean similarity to the others.

Kumar & Byrne 2004; candidates drawn from the model, Eikema & Aziz 2022. The similarity is chrF (Popović 2015), which
needs no words and so suits Chinese too.

C candidates for one sentence; P characters of all of them in one row.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ORDERS = range(1, 7)  # lengths of the character n-grams
_BETA = 2.0  # the weight of recall relative to precision

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def ranked_by_utility(texts: Sequence[str]) -> list[int]:
    """Return the indices of the distinct candidates, that of the highest expected utility first.

    The utility of a candidate is its mean chrF, as hypothesis, with each of the others as reference. A text that
    occurs several times counts as often. Of equal ones, the earlier comes first.
    """
    copies = Counter(texts)  # in the order of their first occurrence
    distinct, counts = list(copies), np.array(list(copies.values()))
    table = chrf_table(distinct)
    utilities = table @ counts - table.diagonal()  # without the similarity to itself
    return [texts.index(distinct[i]) for i in np.argsort(-utilities.round(9), kind="stable")]


def chrf_table(texts: Sequence[str]) -> Floats:
    """Return the chrF (C, C), 0 to 100, of each text as hypothesis with each text as reference.

    As sacreBLEU computes it for sentences: F2 of the mean precision and the mean recall of character 1- to 6-grams,
    without whitespace, over the orders for which both texts are long enough.
    """
    rows = [np.frombuffer("".join(text.split()).encode("utf-32-le", "surrogatepass"), np.uint32) for text in texts]
    sizes = np.array([len(row) for row in rows])
    owners = np.repeat(np.arange(len(rows)), sizes)  # (P)
    left = np.repeat(sizes.cumsum(), sizes) - np.arange(sizes.sum())  # characters from here to the end of the text
    _, characters = np.unique(np.concatenate(rows), return_inverse=True)
    grams = characters.astype(np.int64)
    precision, recall, orders = np.zeros((3, len(rows), len(rows)))
    for order in _ORDERS:
        places = np.flatnonzero(left >= order)
        if not places.size:
            break
        if order > 1:  # an n-gram is an (n-1)-gram and one character more
            longer = grams[places] * (characters.max() + 1) + characters[places + order - 1]
            _, grams[places] = np.unique(longer, return_inverse=True)
        matches = _matches(owners[places], grams[places], len(rows))
        totals = np.bincount(owners[places], minlength=len(rows)).astype(np.float64)
        safe = totals.clip(1)
        both = (totals[:, None] > 0) & (totals > 0)
        precision += matches / safe[:, None]  # no n-grams, no matches
        recall += matches / safe
        orders += both
    precision, recall = precision / orders.clip(1), recall / orders.clip(1)
    weighted = _BETA**2 * precision + recall
    table: Floats = 100 * (1 + _BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return table


def _matches(owners: Ints, grams: Ints, count: int) -> Floats:
    """Return the number of common n-grams of each two texts (C, C), from the text and the n-gram at each place.

    The number is Σ_g min(a_g, b_g). The second, third … occurrence of an n-gram in a text counts as another
    n-gram; then every count is 0 or 1, the minimum is a product, and the sum over all pairs one product of matrices.
    """
    order = np.lexsort((grams, owners))
    owners, grams = owners[order], grams[order]
    steps = np.arange(len(grams))
    new = np.ones(len(grams), dtype=np.bool_)
    new[1:] = (owners[1:] != owners[:-1]) | (grams[1:] != grams[:-1])
    occurrence = steps - np.maximum.accumulate(np.where(new, steps, 0))
    _, columns = np.unique(grams * (occurrence.max() + 1) + occurrence, return_inverse=True)
    table = np.zeros((count, columns.max() + 1), dtype=np.float32)  # exact: numbers of n-grams are small
    table[owners, columns] = 1
    shared: Floats = (table @ table.T).astype(np.float64)
    return shared
