"""Sentences that resemble one of a small set, by the Jaccard similarity of their character n-grams (Broder 1997).

Two sets of n-grams with a similarity of at least t share an n-gram among the rarest (1 - t) · n + 1 ones of either, the
prefix filter of Chaudhuri, Ganti & Kaushik (2006), so only those are looked up.
"""

from collections import Counter
from collections.abc import Iterable

from nmt.text.filters.leakage import letters

_NGRAM = 4


class NearDuplicates:
    """An index of sentences."""

    def __init__(self, sentences: Iterable[str], threshold: float = 0.7) -> None:
        self.threshold = threshold
        self._sentences = list(dict.fromkeys(sentences))
        self._ngrams = [_ngrams(sentence) for sentence in self._sentences]
        frequency = Counter(ngram for own in self._ngrams for ngram in own)
        # by frequency; the n-gram itself decides ties, since all sentences must use one order
        ordered = sorted(frequency, key=lambda ngram: (frequency[ngram], ngram))
        self._rank = {ngram: rank for rank, ngram in enumerate(ordered)}
        self._postings: dict[int, list[int]] = {}
        for number, own in enumerate(self._ngrams):
            for rank in self._rarest(own):
                self._postings.setdefault(rank, []).append(number)

    def most_similar(self, sentence: str) -> str | None:
        """Return the sentence that is most similar to another one, and as similar as the threshold; None if none is."""
        ngrams = _ngrams(sentence)
        candidates = {number for rank in self._rarest(ngrams) for number in self._postings.get(rank, ())}
        similarity = {number: _jaccard(ngrams, self._ngrams[number]) for number in sorted(candidates)}
        best = max(similarity, key=lambda number: similarity[number], default=None)
        return None if best is None or similarity[best] < self.threshold else self._sentences[best]

    def _rarest(self, ngrams: frozenset[str]) -> list[int]:
        """Return the ranks of those among the rarest n-grams of a sentence that occur in the index."""
        ranks = [self._rank[ngram] for ngram in ngrams if ngram in self._rank]
        rarest = int((1 - self.threshold) * len(ngrams) + 1e-9) + 1
        absent = len(ngrams) - len(ranks)  # rarer than all others
        return sorted(ranks)[: max(0, rarest - absent)]


def _ngrams(sentence: str) -> frozenset[str]:
    text = letters(sentence)
    starts = range(max(1, len(text) - _NGRAM + 1)) if text else ()
    return frozenset(text[start : start + _NGRAM] for start in starts)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common)
