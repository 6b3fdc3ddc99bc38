"""Lines in capitals and titles: their case for the model, and that of their translations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.typography import is_title, lower, restored_case, sentence_case

KNOWN = {"Tom", "York", "the", "good", "saw", "and", "drove", "new", "very", "to", "hat"}


def count(word: str) -> int:
    return 1 if word in KNOWN else len(word)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TOM AND I SAW NEW YORK.", "Tom and I saw new York."),
        ("I'M THE GOOD ONE", "I'm the good one"),
        ("EXIT!", "Exit!"),
        ("Hold The Hat", "Hold the hat"),
        ("to York Institute Towns", "to York institute towns"),  # a part of a sentence
        ("The BBC Saw Tom on YouTube", "The BBC saw Tom on YouTube"),
        # abbreviations, names and sentences stay
        *((text, text) for text in ("USA", "I", "A 1", "Tom York", "Tom saw the USA.", "How far is New York?")),
        # letters without case are no capitals
        *((text, text) for text in ("我在 NASA 工作。", "แม่ของฉันชอบ PDF", "나는 NASA에서 일한다.")),
    ],
)  # fmt: skip
def test_texts_get_the_case_of_sentences(text: str, expected: str) -> None:
    assert sentence_case(text, "en", count, is_title(text, "en")) == expected


def test_titles_are_english() -> None:
    assert not is_title("Hold The Hat", "de")
    assert sentence_case("I COME HERE", "it", count, in_title=False) == "I come here"


@given(st.text(st.characters(codec="ascii")) | st.text("aB iI.'1", max_size=12))
def test_only_the_case_changes_and_capitals_come_back(text: str) -> None:
    changed = sentence_case(text, "en", count, is_title(text, "en"))
    assert changed.upper() == text.upper()
    if changed != text and text == text.upper():
        assert restored_case(changed, text, "it") == text


@pytest.mark.parametrize("language", ["tr", "az-Latn", "Turkish"])
def test_turkish_and_azerbaijani_have_two_letters_i(language: str) -> None:
    assert restored_case("istanbul çok ılık", "ISTANBUL IS VERY MILD", language) == "İSTANBUL ÇOK ILIK"
    assert restored_case("istanbul tarihi", "The Istanbul History Book", language) == "İstanbul tarihi"
    changed = sentence_case("BİR KIZ İLE IŞIK", language, lambda word: word in ("ile", "ışık"), in_title=False)
    assert changed == "Bir kız İle Işık"
    assert lower("I", "it") == "i"
