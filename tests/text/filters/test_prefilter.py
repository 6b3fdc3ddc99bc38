"""The prefilter: no pair that the rules change or remove is passed over."""

import unicodedata
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import Filters, LanguagePair
from nmt.text.corpus import SentencePair
from nmt.text.filters import HeldOutText, PairFilter, prefilter
from nmt.text.normalize import normalize

HELD_OUT_SOURCES = [
    "The quick brown fox jumps over the lazy dog today",
    "我们昨天在北京的一家书店里见到了他们的老师",
    "Yes.",
    "Die Straße ist seit gestern wegen Bauarbeiten gesperrt",
]
HELD_OUT = [HeldOutText("test", [SentencePair(source, "di") for source in HELD_OUT_SOURCES])]
SAMPLE = [SentencePair("the old house", "la vecchia casa")] * 1000
LANGUAGES = [("en", "it"), ("en", "zh"), ("zh", "en"), ("de", "fr"), ("ja", "sr"), ("ru", "ar")]
FILTERS = {pair: PairFilter.learn(Filters(), LanguagePair(*pair), SAMPLE, HELD_OUT) for pair in LANGUAGES}
PARTS = [
    "the", "and", "house", "il", "di", "casa", "der", "und", "est", "в", "не", "你好", "我们", "這個", "，", " ", "  ",
    "。", "1,000", "１９", "10:30", "Ã©", "é", "e\u0301", "à", "”", "\ufffd", "锟斤拷", "\ud800", "www.a.org",
    "a@b.it", "3.5",
    "https://b.org", "\u200b", "\xa0", "\t", "`", "don´t", "ß", "İ", "Привет", "مرحبا", "가", "\u1100\u1161", "😀",
    "\U00020000", "-----", *HELD_OUT_SOURCES,
]  # fmt: skip
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
LIKELY_TEXT = st.lists(st.sampled_from(PARTS), max_size=14).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda space: space.join(parts))
)
LINES = st.lists(st.tuples(LIKELY_TEXT | ANY_TEXT, LIKELY_TEXT | ANY_TEXT), max_size=8)


def passed_over(rules: PairFilter, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    examined = set(rules.prefilter.examined([source for source, _ in pairs], [target for _, target in pairs]))
    return [pair for index, pair in enumerate(pairs) if index not in examined]


@given(LINES, st.sampled_from(LANGUAGES))
@settings(max_examples=300, deadline=None)
@example([("a\nb", "c"), ("", ""), (" a", "b "), ("a", "b" * 3000)], ("en", "it"))
def test_no_pair_that_the_rules_change_or_remove_is_passed_over(
    pairs: list[tuple[str, str]], languages: tuple[str, str]
) -> None:
    rules = FILTERS[languages]
    for source, target in passed_over(rules, pairs):
        assert rules.apply(source, target) == (source, target, None, "")


@given(st.data(), st.sampled_from(HELD_OUT_SOURCES))
@settings(max_examples=200, deadline=None)
def test_a_held_out_sentence_on_either_side_is_examined(data: st.DataObject, held_out: str) -> None:
    place = data.draw(st.integers(0, len(held_out)))
    changed = held_out[:place].upper() + data.draw(st.sampled_from(["", ",", " ", "…"])) + held_out[place:].lower()
    rules = FILTERS[("de", "fr")]
    for pair in ((changed, "la vecchia casa"), ("la vecchia casa", changed)):
        assert rules.prefilter.held_out.find(*pair) is not None
        assert passed_over(rules, [pair]) == []


def test_source_in_lower_case_is_found_in_its_target() -> None:
    """A capital sigma becomes one of two letters, at the end of a word the other one."""
    rules = PairFilter.learn(Filters(), LanguagePair("el", "kk"), SAMPLE)
    pair = ("Ο ΔΡΟΜΟΣ ΕΙΝΑΙ ΜΕΓΑΛΟΣ", "мен ο δρομος ειναι μεγαλος")
    assert rules.apply(*pair).rule == "untranslated"
    assert passed_over(rules, [pair]) == []


def test_usual_pairs_are_passed_over() -> None:
    with Path("data/demo/train.tsv").open(encoding="utf-8") as lines:
        pairs = [tuple(line.split("\t")[:2]) for line in islice(lines, 500)]
    assert len(passed_over(FILTERS[("en", "it")], pairs)) > 0.8 * len(pairs)


def test_every_character_that_normalization_changes_is_examined() -> None:
    """Alone, and after each letter that may be composed with it."""
    rules = FILTERS[("en", "it")]
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    changed = [
        (character, f"a{character}b") for character in characters if normalize(f"a{character}b") != f"a{character}b"
    ]
    decompositions = [unicodedata.normalize("NFD", character) for character in characters]
    changed += [("casa", parts) for parts in decompositions if len(parts) > 1 and normalize(parts) != parts]
    assert len(changed) > 10_000
    assert passed_over(rules, changed) == []


def test_with_a_rule_that_has_no_condition_all_pairs_are_examined() -> None:
    rules = FILTERS[("en", "it")]
    checks = {**rules.prefilter.checks, "new": lambda source, target: None}
    assert replace(rules.prefilter, checks=checks).examined(["a house"] * 3, ["una casa"] * 3) == [0, 1, 2]
    assert rules.checks.keys() <= prefilter.PREFILTERED


@pytest.mark.parametrize("lines", [1, 5_000])
def test_prefilter_examines_any_number_of_lines(lines: int) -> None:
    sources = ["the house of the man", "the  house"] * lines
    assert FILTERS[("en", "it")].prefilter.examined(sources, ["la casa dell'uomo che"] * 2 * lines) == list(
        range(1, 2 * lines, 2)
    )
