"""Encode many sentences word by word, with the ids of earlier words from a cache: half the time of SentencePiece.

The ids of a sentence are those of its words if no piece contains a space, except as its first character. But a unigram
model adds scores from the start of a sentence in 32-bit floats, so if two segmentations of a word have nearly equal
scores, rounding decides between them. A sentence with such a word is encoded as a whole.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

_MOST_WORDS = 2**18  # in the cache, which takes 60 MB then
_LONGEST_WORD, _LONGEST_SENTENCE = 40, 1_000  # characters
_LEAST_DIFFERENCE = 0.05
"""Between scores. That of a sentence of 1,000 characters is above -2^14, where an addition is off by at most 0.0005."""
_SAMPLED = 1_000  # sentences that show whether words are separated
_USUAL_WORD = 16
"""Characters. Where words are longer on average, as in Chinese, few of them are repeated."""

Encoded = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]


class WordEncoder:
    """Encodes normalized sentences exactly like a SentencePiece processor.

    `scores` are those of the pieces by id; `special` are the ids of pieces that have none. `merges` tells a byte-pair
    encoding, whose segmentations have no equals, from a unigram model.
    """

    def __init__(self, processor: Any, scores: Sequence[float], special: frozenset[int], merges: bool) -> None:
        self._processor, self._scores, self._special, self._merges = processor, scores, special, merges
        self._ids: dict[str, bytes] = {}
        """The ids of words, as 32-bit integers."""
        pieces = (processor.id_to_piece(i) for i in range(len(scores)))
        self._has_word_pieces = not any("▁" in piece[1:] for piece in pieces)
        self._has_word_pieces &= processor.encode("a a") == 2 * processor.encode("a")

    def encode(self, sentences: Sequence[str], threads: int) -> Encoded:
        """Return the ids of all sentences end to end, and the length of each sentence.

        With several threads (-1: one for each core), sentences that are not encoded by words are distributed over them.
        """
        if not (self._has_word_pieces and _are_spaced(sentences[:_SAMPLED])):
            ids = self._processor.encode(list(sentences), num_threads=threads)
            return np.fromiter(chain.from_iterable(ids), dtype=np.int32), np.array(list(map(len, ids)), dtype=np.int64)
        encoded, missing = self._encode_by_words(sentences)
        if missing:
            rest = [sentences[index] for index in missing]
            self._learn(rest)
            encoded_rest, still_missing = self._encode_by_words(rest)
            whole = self._processor.encode([rest[index] for index in still_missing], num_threads=threads)
            for index, ids in zip(still_missing, whole, strict=True):
                encoded_rest[index] = _as_bytes(ids)
            for index, own in zip(missing, encoded_rest, strict=True):
                encoded[index] = own
        lengths = np.array(list(map(len, encoded)), dtype=np.int64) // np.dtype(np.int32).itemsize
        return np.frombuffer(b"".join(encoded), dtype=np.int32), lengths

    def _encode_by_words(self, sentences: Sequence[str]) -> tuple[list[bytes], list[int]]:
        """Return the ids of sentences, and the indices of those that are not encoded.

        These have a word that is not in the cache, or are so long that their score is imprecise.
        """
        ids_of = self._ids.__getitem__
        encoded, missing = [], []
        for index, sentence in enumerate(sentences):
            try:
                if len(sentence) > _LONGEST_SENTENCE:
                    raise KeyError(sentence)
                encoded.append(b"".join(map(ids_of, sentence.split(" "))))
            except KeyError:
                missing.append(index)
                encoded.append(b"")
        return encoded, missing

    def _learn(self, sentences: Sequence[str]) -> None:
        """Add the words of sentences to the cache, except those whose ids may depend on their sentence."""
        if len(self._ids) >= _MOST_WORDS:
            self._ids.clear()
        words = {word for sentence in sentences for word in sentence.split(" ")}
        new = [word for word in words - self._ids.keys() if len(word) <= _LONGEST_WORD]
        if self._merges:
            self._ids.update(zip(new, map(_as_bytes, self._processor.encode(new)), strict=True))
            return
        for word, (best, *others) in zip(new, self._processor.nbest_encode(new, nbest_size=2), strict=True):
            if self._special.isdisjoint(best) and all(self._is_better(best, other) for other in others):
                self._ids[word] = _as_bytes(best)

    def _is_better(self, ids: Sequence[int], others: Sequence[int]) -> bool:
        difference = sum(self._scores[i] for i in ids) - sum(self._scores[i] for i in others)
        return difference >= _LEAST_DIFFERENCE


def _are_spaced(sentences: Sequence[str]) -> bool:
    """Return whether there are spaces between the words of most sentences."""
    words = len(sentences) + sum(sentence.count(" ") for sentence in sentences)
    return sum(map(len, sentences)) <= _USUAL_WORD * words


def _as_bytes(ids: Sequence[int]) -> bytes:
    return np.array(ids, dtype=np.int32).tobytes()
