"""The filter of pairs: each rule by example."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Filters, LanguagePair, RuleName
from nmt.text.corpus import SentencePair
from nmt.text.filters import RULES, HeldOutText, PairFilter, Verdict

PERMISSIVE = Filters(keep=get_args(RuleName))


def pair_filter(target: str = "it", settings: Filters | None = None) -> PairFilter:
    return PairFilter.learn(settings or Filters(), LanguagePair("en", target))


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
def test_rules_on_text_give_their_reason(language: str, source: str, target: str, reason: str | None) -> None:
    assert pair_filter(language).apply(source, target).rule == reason


def test_filter_returns_the_normalized_pair() -> None:
    assert pair_filter().apply(" a\u200b  b ", "e\u0301\t") == Verdict("a b", "é")


def test_settings_disable_filters() -> None:
    pairs = pair_filter("zh", PERMISSIVE)
    assert pairs.apply("same", "same").rule is None
    assert pairs.apply("", "x").rule == "empty"


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (20, 20, None),
        (21, 20, "too_long"),
        (20, 21, "too_long"),
    ],
)
def test_rules_on_length_give_their_reason(source: int, target: int, reason: str | None) -> None:
    pairs = pair_filter(settings=Filters(max_tokens=20))
    removed = pairs.removed_by_length(np.array([5, source]), np.array([5, target]))
    assert list(removed) == [] if reason is None else [(1, reason)]


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
PARTS = [
    "the", "and", "il", "di", "你好", "，", " ", "1,000", "１９", "3.5", "Ã©", "é", "\ufffd", "\ud800", "www.a.org",
    "a@b.it", "東京",
]  # fmt: skip
LIKELY_TEXT = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
SAMPLE = [SentencePair("the old house", "la vecchia casa")] * 300
HELD_OUT = [HeldOutText("test", [SentencePair("the and the and the and the and 1,000", "di")])]


@given(ANY_TEXT | LIKELY_TEXT, ANY_TEXT | LIKELY_TEXT, st.sampled_from([("en", "it"), ("en", "zh"), ("ja", "sr")]))
def test_apply_accepts_any_text_and_is_deterministic(source: str, target: str, languages: tuple[str, str]) -> None:
    pairs = PairFilter.learn(Filters(), LanguagePair(*languages), SAMPLE, HELD_OUT)
    verdict = pairs.apply(source, target)
    assert verdict == pairs.apply(source, target)
    assert verdict.rule is None or verdict.rule in RULES
    for normalized in (verdict.source, verdict.target):
        assert "\t" not in normalized
        assert "\n" not in normalized
        normalized.encode()
    again = pairs.apply(verdict.source, verdict.target)
    assert again[:2] == verdict[:2]


@pytest.mark.parametrize("unit", ["a", "a@", "1 ", "1.", "你", "你 ", "Ã©", "é", "the ", ". ", "http://a."])
def test_long_lines_take_linear_time(unit: str) -> None:
    """100,000 characters; a pattern of quadratic time would need hours."""
    line = unit * (100_000 // len(unit))
    pairs = PairFilter.learn(Filters(), LanguagePair("en", "zh"), SAMPLE, HELD_OUT)
    pairs.apply(line, line + "x")
    pairs.apply(line, "好" + line)
    shorter = line[:1900]
    pairs.apply(shorter, "好" + shorter + "12 a@b.org")
