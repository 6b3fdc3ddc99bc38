"""TER with sacreBLEU's values in a fraction of its time: the distances of all shifts of a step are computed at once.

sacreBLEU computes the edit distance of up to 1000 shifted hypotheses a sentence cell by cell. Here each row of the
distance matrices of all of them is a few NumPy operations. The enumeration and the choice of shifts remain sacreBLEU's.
"""

import math
from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import lib_ter
from sacrebleu.metrics.ter import TER

_UNREACHABLE = 1 << 24
"""The distance of cells outside the beam."""
_CELLS = 1 << 20
"""The largest number of cells of the rows that are computed at once."""


class BatchedTER(TER):
    """sacreBLEU's TER with batched edit distances."""

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, list[list[str]]]) -> list[float]:
        """Return the number of edits to the closest reference, and the mean length of the references."""
        words, references = hypothesis.split(), ref_kwargs["ref_words"]
        edits = min(count_edits(words, reference) for reference in references)
        return [edits, sum(map(len, references)) / len(references)]


def count_edits(hypothesis: list[str], reference: list[str]) -> int:
    """Return the number of shifts and other edits that sacreBLEU counts between two sentences."""
    if not reference:
        return len(hypothesis)
    matrix = lib_ter.BeamEditDistance(reference)
    words, shifts, checked = hypothesis, 0, 0
    while True:
        start = matrix(words)
        candidates: list[list[str]] = []
        lib_ter._shift(words, reference, _Answers([start], candidates), checked)
        distances = beam_edit_distances(candidates, reference)
        answers = _Answers([start, *((distance, "") for distance in distances)], [])
        gain, shifted, checked = lib_ter._shift(words, reference, answers, checked)
        if checked >= lib_ter._MAX_SHIFT_CANDIDATES or gain <= 0:
            return shifts + start[0]
        words, shifts = shifted, shifts + 1


class _Answers:
    """Returns known edit distances in order, then collects the questions."""

    def __init__(self, known: Sequence[tuple[int, str]], open_questions: list[list[str]]) -> None:
        self._known, self._open_questions = iter(known), open_questions

    def __call__(self, words: list[str]) -> tuple[int, str]:
        answer = next(self._known, None)
        if answer is None:
            self._open_questions.append(words)
            return 0, ""
        return answer


def beam_edit_distances(hypotheses: Sequence[Sequence[str]], reference: Sequence[str]) -> list[int]:
    """Return the edit distance of each hypothesis, all of one length, as `lib_ter.BeamEditDistance` does.

    Only cells near the diagonal of a matrix are reachable.
    """
    numbers = {word: number for number, word in enumerate(reference)}
    at_once = max(1, _CELLS // (len(reference) + 1))
    distances: list[int] = []
    for start in range(0, len(hypotheses), at_once):
        rows = [[numbers.get(word, -1) for word in words] for words in hypotheses[start : start + at_once]]
        distances += _distances(np.array(rows), np.array([numbers[word] for word in reference]))
    return distances


def _distances(hypotheses: np.ndarray, reference: np.ndarray) -> list[int]:
    """Return the distances of hypotheses (N, H) from a reference (R)."""
    count, length = hypotheses.shape
    ratio = len(reference) / length
    width = lib_ter._BEAM_WIDTH
    if width < ratio / 2:
        width = math.ceil(ratio / 2 + width)
    columns = np.arange(len(reference) + 1)
    row = np.tile(columns, (count, 1))  # (N, R + 1)
    for i in range(1, length + 1):
        diagonal = math.floor(i * ratio)
        first, end = max(0, diagonal - width), min(len(reference) + 1, diagonal + width)
        if i == length:
            end = len(reference) + 1
        reached = row[:, first:end] + 1  # the word is deleted
        inner = max(first, 1)
        substituted = row[:, inner - 1 : end - 1] + (hypotheses[:, i - 1, None] != reference[None, inner - 1 : end - 1])
        np.minimum(reached[:, inner - first :], substituted, out=reached[:, inner - first :])
        # words are inserted: the least of all cells to the left, one more for each step
        reached -= columns[first:end]
        np.minimum.accumulate(reached, axis=1, out=reached)
        row[:] = _UNREACHABLE
        np.minimum(reached + columns[first:end], _UNREACHABLE, out=row[:, first:end])
    return [int(distance) for distance in row[:, -1]]
