"""Held-out sentences in the training text: equal up to case, punctuation and spaces, on either side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.corpus import SentencePair
from nmt.text.filters.leakage import HeldOutIndex, HeldOutText, letters

SOURCE, TARGET = "The committee will meet again next Thursday.", "Il comitato si riunirà giovedì prossimo."
INDEX = HeldOutIndex(
    [
        HeldOutText("validation", [SentencePair("", "?!"), SentencePair("我们明天去北京。", "Yes.")]),
        HeldOutText("test", [SentencePair(SOURCE, TARGET)] * 2),
    ]
)


@pytest.mark.parametrize(
    "source",
    [
        SOURCE,
        SOURCE.upper(),
        "The committee will meet again, next thursday",
        "“The committee” will meet again next Thursday…",
        "The  commit-tee will meet again next Thursday!",
    ],
)
def test_held_out_source_is_found_with_any_translation(source: str) -> None:
    assert INDEX.find(source, "Altra traduzione.") == f"test sentence 1: {SOURCE}"


def test_held_out_target_is_found_with_any_source() -> None:
    assert INDEX.find("They meet on Thursday.", TARGET.lower()) == f"test sentence 1: {TARGET}"
    assert INDEX.find("Sì.", "YES!") == "validation sentence 2: Yes."


def test_pairs_of_the_other_direction_are_found() -> None:
    assert INDEX.find(TARGET, SOURCE) == f"test sentence 1: {TARGET}"
    assert INDEX.find("北京", "我们明天去北京！") == "validation sentence 2: 我们明天去北京。"


@pytest.mark.parametrize("source", ["The committee will meet next Thursday.", "", "?", "…"])
def test_other_sentences_are_not_found(source: str) -> None:
    assert INDEX.find(source, "") is None
    assert HeldOutIndex([]).find(source, SOURCE) is None


@given(st.text(st.characters(max_codepoint=0x17F)))
def test_letters_are_what_python_calls_letters_and_digits(text: str) -> None:
    assert letters(text) == "".join(character for character in text.casefold() if character.isalnum())
