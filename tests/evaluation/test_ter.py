"""TER with batched edit distances equals sacreBLEU's."""

import random

import pytest
from sacrebleu.metrics import TER

from nmt.evaluation.ter import BatchedTER, beam_edit_distances, count_edits


def edit_distance(a: list[str], b: list[str]) -> int:
    """Levenshtein's recursion."""
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, start=1):
        above, row = row, [i]
        for j, other in enumerate(b, start=1):
            row.append(min(above[j - 1] + (word != other), above[j] + 1, row[-1] + 1))
    return row[-1]


def sentences(seed: int, count: int, longest: int, vocabulary: str = "abcdefgh") -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(vocabulary, k=generator.randrange(longest))) for _ in range(count)]


@pytest.mark.parametrize("longest", [8, 30, 90])
def test_statistics_equal_sacrebleu(longest: int) -> None:
    hypotheses = [*sentences(1, 3, longest), "", "a", "a b"]
    references = [[*sentences(2, 3, longest), "a", "", "b a"], [*sentences(3, 3, longest // 2), "", "b", "a b"]]
    ours, theirs = (metric._extract_corpus_statistics(hypotheses, references) for metric in (BatchedTER(), TER()))
    assert ours == theirs


def test_shifted_blocks_and_signature_equal_sacrebleu() -> None:
    words = [f"w{i}" for i in range(30)]
    moved = words[10:18] + words[:10] + words[25:] + words[18:25]
    hypotheses, references = [" ".join(moved), " ".join(moved[::-1])], [[" ".join(words)] * 2]
    ours, theirs = BatchedTER(), TER()
    assert ours.corpus_score(hypotheses, references).score == theirs.corpus_score(hypotheses, references).score
    assert str(ours.get_signature()) == str(theirs.get_signature())


def test_edits_by_hand() -> None:
    assert count_edits(["c", "d", "a", "b"], ["a", "b", "c", "d"]) == 1
    assert count_edits(["a", "b", "x", "d", "e"], ["a", "b", "c", "d", "e"]) == 1
    assert count_edits(["a"], []) == 1
    assert count_edits([], ["a"]) == 1


def test_distances_of_short_sentences_are_exact() -> None:
    generator = random.Random(4)
    reference = generator.choices("abcd", k=15)
    hypotheses = [generator.choices("abcde", k=12) for _ in range(30)]
    assert beam_edit_distances(hypotheses, reference) == [edit_distance(one, reference) for one in hypotheses]
    assert beam_edit_distances([], reference) == []
