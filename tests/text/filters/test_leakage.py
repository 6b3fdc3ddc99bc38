"""Held-out sentences in the training text: each trivial difference, and the search for one edit against all pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.corpus import SentencePair
from nmt.text.filters.leakage import HeldOutIndex, HeldOutText, differ_by_one, letters

LONG = "The committee will meet again next Thursday."
SHORT = "Thank you."


def index(*sources: str, target: str = "Grazie.") -> HeldOutIndex:
    return HeldOutIndex([HeldOutText("test", [SentencePair(source, target) for source in sources])])


@pytest.mark.parametrize(
    "source",
    [
        LONG,
        LONG.upper(),
        "The committee will meet again, next thursday",
        "“The committee” will meet again next Thursday…",
        "The  commit-tee will meet again next Thursday!",
        "The committees will meet again next Thursday.",
        "The committee will met again next Thursday.",
        "The comittee will meet again next Thursday.",
        "The committée will meet again next Thursday.",
    ],
)
def test_trivial_differences_are_found_with_any_translation(source: str) -> None:
    assert index(LONG).find(source, "Altra traduzione.") == f"test sentence 1: {LONG}"


@pytest.mark.parametrize(
    "source",
    ["The committee will meet again next Friday.", "The committee will not meet again next Thursday.", "", "?!"],
)
def test_other_sentences_are_not_found(source: str) -> None:
    assert index(LONG).find(source, "Grazie.") is None


def test_short_sentence_is_found_only_with_its_translation() -> None:
    assert index(SHORT).find("thank you!", "GRAZIE") == "test sentence 1: Thank you."
    assert index(SHORT).find("Thank you.", "La ringrazio.") is None


def test_one_letter_may_not_differ_in_a_short_sentence() -> None:
    assert index("He learned how to drive.").find("We learned how to drive.", "Grazie.") is None


def test_chinese_sentence_is_found_with_other_punctuation() -> None:
    assert index("我们明天去北京看朋友。").find("我们明天去北京看朋友！", "x") is not None
    assert index("我们明天去北京看朋友们。").find("我们明天去北京看朋友。", "x") is not None


def test_texts_are_named() -> None:
    made = HeldOutIndex(
        [HeldOutText("validation", [SentencePair("", "")]), HeldOutText("test", [SentencePair(LONG, "x")] * 2)]
    )
    assert made.find(LONG, "y") == f"test sentence 1: {LONG}"


@pytest.mark.parametrize("source", ["", "?", LONG])
def test_in_empty_texts_nothing_is_found(source: str) -> None:
    for made in (HeldOutIndex([]), HeldOutIndex([HeldOutText("test", [SentencePair("", ""), SentencePair("?", "!")])])):
        assert made.sentences == {}
        assert made.find(source, "") is None


def edit_distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        previous, row[0] = row[0], i
        for j, b in enumerate(other, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


TEXTS = st.text("ab", min_size=33, max_size=40)


@given(TEXTS, st.integers(0, 40), st.sampled_from("abc"), st.sampled_from(["insert", "remove", "replace", "none"]))
def test_every_single_edit_is_found(text: str, place: int, letter: str, edit: str) -> None:
    edited = {
        "insert": text[:place] + letter + text[place:],
        "remove": text[:place] + text[place + 1 :],
        "replace": text[:place] + letter + text[place + 1 :],
        "none": text,
    }[edit]
    assert index(text).find(edited, "other") is not None


@given(st.lists(TEXTS, min_size=1, max_size=5), TEXTS)
def test_index_equals_the_comparison_with_all_sentences(held_out: list[str], text: str) -> None:
    assert (index(*held_out).find(text, "other") is not None) == any(edit_distance(text, one) <= 1 for one in held_out)


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_differ_by_one_equals_the_edit_distance(one: str, other: str) -> None:
    if abs(len(one) - len(other)) <= 1:
        assert differ_by_one(one, other) == (edit_distance(one, other) <= 1)


@given(st.text(st.characters(max_codepoint=0x17F)))
def test_letters_are_what_python_calls_letters_and_digits(text: str) -> None:
    assert letters(text) == "".join(character for character in text.casefold() if character.isalnum())
