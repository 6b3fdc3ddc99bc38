"""Subword regularization: a random segmentation of a sentence at each reading.

>>> sampler = SegmentationSampler(tokenizer, 0.1)
>>> tokenizer.decode(sampler.sample(tokenizer.encode("Come stai?"), random.Random(1)))
'Come stai?'

A unigram tokenizer draws a segmentation x with probability in proportion to P(x)^α, among all there are (Kudo 2018,
"Subword Regularization", with l = ∞), by forward sums over the lattice of pieces and backward sampling. A BPE tokenizer
leaves out each possible merge with probability p at each step (Provilkov et al. 2020, "BPE-Dropout"). SentencePiece has
both, but from version 0.2.3 on each process draws differently from the same seed: a resumed run would read other
segmentations.
"""

import math
import random
import re
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

from nmt.text.tokenizer import Tokenizer

_SPACE = "▁"
_UNKNOWN_PENALTY = 10.0
"""Log-probability of a character without a piece, below that of the rarest piece; as in SentencePiece."""


class SegmentationSampler:
    """Samples segmentations. `amount` is α for a unigram tokenizer, the probability of a lost merge for BPE."""

    def __init__(self, tokenizer: Tokenizer, amount: float) -> None:
        table = tokenizer.table
        self._kept = table.controls | table.protected
        self._byte_ids = {byte: i for i, byte in table.bytes.items()}
        self._ids = {piece: i for i, piece in enumerate(table.surfaces) if piece and i not in table.protected}
        self._spelling = {i: piece.encode() for piece, i in self._ids.items()}
        self._spelling |= {i: bytes([byte]) for i, byte in table.bytes.items()}
        if tokenizer.merges:
            self._cut: _Lattice | _Merges = _Merges({piece: -table.scores[i] for piece, i in self._ids.items()}, amount)
        else:
            self._cut = _Lattice({piece: amount * table.scores[i] for piece, i in self._ids.items()}, amount)

    def sample(self, ids: Sequence[int], draw: random.Random) -> list[int]:
        """Return a sampled segmentation of the text of `ids`. Tags and protected symbols are kept.

        Ids with `<unk>`, or with bytes that form no character, have no text and are returned as they are.
        """
        sampled: list[int] = []
        for is_kept, group in groupby(ids, self._kept.__contains__):
            run = list(group)
            sampled += run if is_kept else self._sampled(run, draw)
        return sampled

    def _sampled(self, ids: list[int], draw: random.Random) -> list[int]:
        try:
            text = b"".join(self._spelling[i] for i in ids).decode()
        except (KeyError, UnicodeDecodeError):
            return ids
        words = re.split(f"(?={_SPACE})", text)  # no piece crosses a space, so each word has its own segmentation
        return [i for word in words for piece in self._cut(word, draw) for i in self._ids_of(piece)]

    def _ids_of(self, piece: str) -> list[int]:
        known = self._ids.get(piece)
        return [known] if known is not None else [self._byte_ids[byte] for byte in piece.encode()]


class _Lattice:
    """All segmentations of a word by a unigram model; `log_weights` are α · log P."""

    def __init__(self, log_weights: dict[str, float], alpha: float) -> None:
        self._log_weights = log_weights
        self._unknown = min(log_weights.values()) - alpha * _UNKNOWN_PENALTY
        # prefixes of pieces, at which the search for longer pieces continues
        self._beginnings = {piece[:end] for piece in log_weights for end in range(1, len(piece) + 1)}

    def __call__(self, word: str, draw: random.Random) -> list[str]:
        incoming = self._incoming(word)
        # sums[end] is the log of the total weight of all segmentations of word[:end]
        sums = [0.0]
        for end in range(1, len(word) + 1):
            weights = [sums[start] + weight for start, weight in incoming[end]]
            largest = max(weights)
            sums.append(largest + math.log(sum(math.exp(weight - largest) for weight in weights)))
        pieces: list[str] = []
        end = len(word)
        while end:
            candidates = incoming[end]
            start = candidates[0][0]
            if len(candidates) > 1:
                shares = list(accumulate(math.exp(sums[start] + weight - sums[end]) for start, weight in candidates))
                start = candidates[bisect(shares, draw.random() * shares[-1], hi=len(shares) - 1)][0]
            pieces.append(word[start:end])
            end = start
        return pieces[::-1]

    def _incoming(self, word: str) -> list[list[tuple[int, float]]]:
        """Return for each end the possible starts of a piece that ends there, with its weight."""
        incoming: list[list[tuple[int, float]]] = [[] for _ in range(len(word) + 1)]
        for start in range(len(word)):
            end = start + 1
            if word[start] not in self._log_weights:
                incoming[end].append((start, self._unknown))
            while end <= len(word) and (piece := word[start:end]) in self._beginnings:
                weight = self._log_weights.get(piece)
                if weight is not None:
                    incoming[end].append((start, weight))
                end += 1
        return incoming


class _Merges:
    """Byte-pair encoding of a word by merges in the order of their ranks, each skipped with probability `dropout`."""

    def __init__(self, ranks: dict[str, float], dropout: float) -> None:
        self._ranks, self._dropout = ranks, dropout

    def __call__(self, word: str, draw: random.Random) -> list[str]:
        symbols = list(word)
        ranks = [self._ranks.get(a + b) for a, b in pairwise(symbols)]
        while True:
            possible = [
                (rank, i) for i, rank in enumerate(ranks) if rank is not None and draw.random() >= self._dropout
            ]
            if not possible:
                return symbols
            _, at = min(possible)
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
            del ranks[at]
            for i in (at - 1, at):
                if 0 <= i < len(ranks):
                    ranks[i] = self._ranks.get(symbols[i] + symbols[i + 1])
