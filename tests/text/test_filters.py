"""Filters: each rule by example, duplicates against a set of pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Filters, Languages
from nmt.text.filters import RULES, PairFilter

PERMISSIVE = Filters(keep_duplicates=True, keep_copies=True, keep_any_script=True)


def pair_filter(target: str = "it", settings: Filters | None = None) -> PairFilter:
    return PairFilter(settings or Filters(), Languages(source="en", target=target))


@pytest.mark.parametrize(
    ("language", "source", "target", "reason"),
    [
        ("it", "", "ciao", "empty"),
        ("it", "hi", "", "empty"),
        ("it", "hi", "ciao", None),
        ("it", "Radio Roma", "radio roma", "copy"),
        ("it", "at half past ten", "10:30", None),
        ("it", "hi", "你好", "script"),
        ("it", "hi", "привет!", "script"),
        ("pt-BR", "hi", "你好", "script"),
        ("zh", "hi", "你好", None),
        ("zho_Hans", "hi", "hello", "script"),
        ("zh_Hant", "code", "print(x)", "script"),
        ("zh", "at half past ten", "10:30", "script"),
        ("zh", "Tom is here", "Tom 在", None),
        ("ja", "hi", "こんにちは", None),
        ("ko", "hi", "안녕", None),
        ("ru", "hi", "hello", "script"),
        ("el", "hi", "γεια", None),
        ("ar", "hi", "مرحبا", None),
        ("he", "hi", "שלום", None),
        ("sr", "hi", "здраво", None),
        ("sr", "hi", "zdravo", None),
    ],
)
def test_filters_on_text(language: str, source: str, target: str, reason: str | None) -> None:
    pairs = pair_filter(language)
    assert pairs.text_reason(source, target) == reason
    assert pairs.counts == {rule: int(rule == reason) for rule in RULES}


def test_settings_disable_filters() -> None:
    pairs = pair_filter("zh", PERMISSIVE)
    assert [pairs.text_reason("same", "same") for _ in range(2)] == [None, None]
    assert pairs.text_reason("", "x") == "empty"


def test_second_of_two_equal_pairs_is_a_duplicate() -> None:
    pairs = pair_filter()
    seen = [("a", "b"), ("a", "c"), ("b", "b c"), ("a", "b"), ("ab", ""), ("a", "b")]
    assert [pairs.text_reason(*pair) for pair in seen] == [None, None, None, "duplicate", "empty", "duplicate"]
    assert pairs.counts["duplicate"] == 2


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (20, 20, None),
        (21, 20, "too_long"),
        (20, 21, "too_long"),
        (1, 13, None),  # 13 - 10 free = 3 times 1
        (1, 14, "ratio"),
        (14, 1, "ratio"),
        (3, 19, None),
        (3, 20, "ratio"),
    ],
)
def test_filters_on_length(source: int, target: int, reason: str | None) -> None:
    pairs = pair_filter(settings=Filters(max_tokens=20, max_ratio=3.0))
    assert pairs.length_reason(source, target) == reason


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=3), st.text("cd", min_size=1, max_size=3))))
def test_duplicates_equal_those_of_a_set_of_pairs(pairs: list[tuple[str, str]]) -> None:
    filtered, seen = pair_filter(), set()
    for pair in pairs:
        assert (filtered.text_reason(*pair) == "duplicate") == (pair in seen)
        seen.add(pair)
