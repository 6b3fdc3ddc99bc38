"""The filter of pairs: each rule by example."""

import pickle
from typing import get_args

import pytest

from nmt.config import Filters, LanguagePair, RuleName
from nmt.text.filters import PairFilter, Verdict

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
def test_filters_on_text(language: str, source: str, target: str, reason: str | None) -> None:
    assert pair_filter(language).apply(source, target).rule == reason


def test_filter_returns_the_normalized_pair() -> None:
    assert pair_filter().apply(" a\u200b  b ", "e\u0301\t") == Verdict("a b", "é")


def test_filter_can_be_pickled() -> None:
    pairs = pair_filter("zh")
    copied = pickle.loads(pickle.dumps(pairs))
    for pair in (("Hi.", "你好。"), ("Hi.", "Hi."), ("Good morning!", "早上 好 ！ 你 们")):
        assert copied.apply(*pair) == pairs.apply(*pair)


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
