"""Encode many sentences word by word: each word that was encoded before is a look-up, a third of SentencePiece's time.

The ids of a sentence are those of its words if no piece contains a space, except as its first character. But a unigram
model adds scores from the start of a sentence in 32-bit floats, so if two segmentations of a word have nearly equal
scores, rounding decides between them. A sentence with such a word is encoded as a whole.

Legend: L sentences, W words of all of them.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.text.passage_keys import Integers, KeyTable, passage_keys, word_bounds

_MOST_WORDS = 2**19  # that are stored, in 60 MB
_BLOCK = 4096  # sentences; their arrays fit in the cache of a processor
_WORD_PARTS = 4  # of 8 bytes
_LONGEST_WORD = 8 * _WORD_PARTS  # bytes; a sentence with one of this size is encoded as a whole
_LONGEST_SENTENCE = 1_000  # bytes
_LEAST_DIFFERENCE = 0.05
"""Between scores. That of a sentence of 1,000 characters is above -2^14, where an addition is off by at most 0.0005."""
_SAMPLED = 1_000  # sentences that show whether words are separated
_USUAL_WORD = 16
"""Characters. Where words are longer on average, as in Chinese, few of them are repeated."""
_NOT_STORED, _UNDECIDED = 0, 1
"""The numbers of words that are not stored, and of words whose ids may depend on their sentence."""

Ids = npt.NDArray[np.int32]


class WordEncoder:
    """Encodes normalized sentences exactly like a SentencePiece processor.

    `scores` are those of the pieces by id; `special` are the ids of pieces that have none. `merges` is true for a
    byte-pair encoding, in which no two segmentations are equally good, and false for a unigram model.
    """

    def __init__(self, processor: Any, scores: Sequence[float], special: frozenset[int], merges: bool) -> None:
        self._processor, self._scores, self._special, self._merges = processor, scores, special, merges
        self._clear()
        pieces = (processor.id_to_piece(i) for i in range(len(scores)))
        self._has_word_pieces = not any("▁" in piece[1:] for piece in pieces)
        self._has_word_pieces &= processor.encode("a a") == 2 * processor.encode("a")

    def _clear(self) -> None:
        self._table = KeyTable(2 * _MOST_WORDS)
        """The number of each word, by its key."""
        self._ids = np.zeros(0, dtype=np.int32)
        """The ids of all words end to end."""
        self._starts, self._lengths = np.zeros((2, 2), dtype=np.int64)
        """Of the ids of each word, by its number."""

    def encode(self, text: bytes, threads: int) -> tuple[Ids, Integers]:
        """Return the ids of all sentences end to end, and the length of each sentence (L,). Each ends with `\\n`.

        With several threads (-1: one for each core), sentences that are not encoded by words are distributed over them.
        """
        ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n")) + 1
        if not (self._has_word_pieces and _are_spaced(text[: ends[:_SAMPLED][-1]].decode())):
            return _end_to_end(self._processor.encode(text.decode().split("\n")[:-1], num_threads=threads))
        edges = [0, *ends[_BLOCK - 1 : -1 : _BLOCK].tolist(), len(text)]
        ids, lengths = zip(
            *(self._encode_block(text[slice(*block)], threads) for block in pairwise(edges)), strict=True
        )
        return np.concatenate(ids), np.concatenate(lengths)

    def _encode_block(self, text: bytes, threads: int) -> tuple[Ids, Integers]:
        first_bytes, sizes, first_words = word_bounds(np.frombuffer(text, dtype=np.uint8))
        begins = [*first_bytes[first_words].tolist(), len(text)]  # of the sentences
        words = np.diff(first_words, append=len(sizes))  # (L,)
        sizes[np.repeat(np.add.reduceat(sizes + 1, first_words) > _LONGEST_SENTENCE, words)] = 0
        numbers = self._word_numbers(text, first_bytes, sizes)  # (W,)
        starts, lengths = self._starts[numbers], self._lengths[numbers]

        is_whole = np.logical_or.reduceat(numbers == _UNDECIDED, first_words)
        others = [text[begins[index] : begins[index + 1] - 1].decode() for index in np.flatnonzero(is_whole).tolist()]
        ids_of_others, lengths_of_others = _end_to_end(self._processor.encode(others, num_threads=threads))
        # the ids of such a sentence, behind those of the words, take the place of its first word
        lengths[np.repeat(is_whole, words)] = 0
        lengths[first_words[is_whole]] = lengths_of_others
        starts[first_words[is_whole]] = len(self._ids) + np.cumsum(lengths_of_others) - lengths_of_others

        ends = np.cumsum(lengths)
        places = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])
        return np.concatenate([self._ids, ids_of_others])[places], np.add.reduceat(lengths, first_words)

    def _word_numbers(self, text: bytes, starts: Integers, sizes: Integers) -> Integers:
        """Return the number of each word of a text (W,): `_UNDECIDED` for those of no byte, or of too many."""
        keys = passage_keys(text, starts, sizes, _WORD_PARTS)
        numbers = self._table.find(keys)
        numbers[(sizes == 0) | (sizes >= _LONGEST_WORD)] = _UNDECIDED
        new = np.flatnonzero(numbers == _NOT_STORED)
        if not len(new):
            return numbers
        if self._table.count and self._table.count + len(new) > _MOST_WORDS:
            self._clear()
            return self._word_numbers(text, starts, sizes)
        new_keys, places, word_of = np.unique(keys[new], return_index=True, return_inverse=True)
        places = new[places[:_MOST_WORDS]]
        new_numbers = np.full(len(new_keys), _UNDECIDED)
        words = [text[starts[at] : starts[at] + sizes[at]] for at in places.tolist()]
        new_numbers[: len(places)] = self._encode_words(words)
        self._table.add(new_keys[: len(places)], new_numbers[: len(places)])
        numbers[new] = new_numbers[word_of]
        return numbers

    def _encode_words(self, words: Sequence[bytes]) -> list[int]:
        """Encode words and store their ids; return the numbers of the words."""
        texts = [word.decode() for word in words]
        if self._merges:
            # two unknown pieces in a row are one, also of two words
            unknown = [self._processor.unk_id()]
            encoded = [None if ids[:1] == unknown else ids for ids in self._processor.encode(texts)]
        else:
            best = self._processor.nbest_encode(texts, nbest_size=2)
            encoded = [segmentations[0] if self._is_decided(segmentations) else None for segmentations in best]
        number = len(self._lengths)
        decided = [ids for ids in encoded if ids is not None]
        ids, lengths = _end_to_end(decided)
        self._starts = np.append(self._starts, len(self._ids) + np.cumsum(lengths) - lengths)
        self._lengths, self._ids = np.append(self._lengths, lengths), np.append(self._ids, ids)
        following = iter(range(number, number + len(decided)))
        return [_UNDECIDED if ids is None else next(following) for ids in encoded]

    def _is_decided(self, segmentations: Sequence[Sequence[int]]) -> bool:
        """Return whether the best segmentation of a word is the best in all sentences."""
        best, *others = (sum(self._scores[i] for i in ids) for ids in segmentations)
        return self._special.isdisjoint(segmentations[0]) and all(best - other >= _LEAST_DIFFERENCE for other in others)


def _are_spaced(text: str) -> bool:
    """Return whether there are spaces between the words of most sentences of a text; each ends with `\\n`."""
    return len(text) <= (_USUAL_WORD + 1) * (text.count(" ") + text.count("\n"))


def _end_to_end(sentences: Sequence[Sequence[int]]) -> tuple[Ids, Integers]:
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    return np.fromiter(chain.from_iterable(sentences), dtype=np.int32, count=int(lengths.sum())), lengths
