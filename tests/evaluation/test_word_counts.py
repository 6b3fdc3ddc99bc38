"""Accuracy of words by frequency, and n-grams that one system prefers, by hand."""

from collections import Counter

import pytest

from nmt.evaluation.word_counts import WordAccuracy, distinctive_ngrams, word_accuracy, word_list


def test_words_are_lowercase_and_without_punctuation() -> None:
    assert word_list("«Dov'è» New York, 24/7?") == ["dov'è", "new", "york", "24", "7"]
    assert word_list("汤姆在 Linux 上。") == ["汤", "姆", "在", "linux", "上"]
    assert word_list("...") == []


def test_word_accuracy_by_hand() -> None:
    frequencies = Counter({"il": 5000, "gatto": 12, "dorme": 12})
    output, reference = ["Il gatto, il gatto", "x"], ["Il gatto dorme", "x y"]
    rare, common, frequent = word_accuracy(output, reference, frequencies)
    assert rare == WordAccuracy("0", in_output=1, in_reference=2, right=1)
    assert common == WordAccuracy("10–99", in_output=2, in_reference=2, right=1)
    assert frequent == WordAccuracy("≥ 1000", in_output=2, in_reference=1, right=1)
    assert rare.f1 == pytest.approx(100 * 2 * (1 / 1) * (1 / 2) / (1 / 1 + 1 / 2))
    assert WordAccuracy("1", 0, 0, 0).f1 == 0


def test_ngrams_of_one_system_are_found() -> None:
    reference = ["the black cat sleeps"] * 8
    first = ["the black cat sleeps"] * 8
    second = ["the black dog sleeps"] * 7 + ["the black cat sleeps"]
    more, fewer = distinctive_ngrams(first, second, reference, 10)
    # the words inside it have the same counts
    assert [ngram.text for ngram in more] == ["the black cat sleeps"]
    assert (more[0].counts, more[0].right, more[0].in_reference) == ((8, 1), (8, 1), 8)
    assert [ngram.text for ngram in fewer] == ["the black dog sleeps"]
    assert (fewer[0].counts, fewer[0].right, fewer[0].in_reference) == ((0, 7), (0, 0), 0)


def test_equal_systems_and_small_differences_have_no_distinctive_ngrams() -> None:
    lines = ["a b c", "d e f"]
    assert distinctive_ngrams(lines, lines, lines, 5) == ([], [])
    assert distinctive_ngrams(["a b"], ["c d"], ["a d"], 5) == ([], [])
    assert distinctive_ngrams([""], [""], [""], 5) == ([], [])


def test_chinese_ngrams_have_no_spaces() -> None:
    more, _ = distinctive_ngrams(["您的 Linux 账户"] * 9, ["你的 Linux 账户"] * 9, ["您的账户"] * 9, 1)
    assert [ngram.text for ngram in more] == ["您的linux账"]
