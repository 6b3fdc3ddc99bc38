"""Splitting long lines into segments and joining the translations of the segments."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.segment import join_segments, split_line


def words(text: str) -> int:
    return len(text.split())


ALPHABET = st.sampled_from(
    [*"aB .!?,;:—…\t\"')1", "。", "！", "，", "、", "”", "中", "文", "\u3000", "\u0301", "\u200d", "😀"]
)


@given(st.text(ALPHABET) | st.text(), st.integers(1, 12))
def test_segments_join_to_the_text_and_fit_the_limit(text: str, limit: int) -> None:
    segments = split_line(text, limit, len)
    assert "".join(segments) == text
    assert all(len(segment) <= limit for segment in segments)


@given(st.text(ALPHABET, max_size=40))
def test_line_within_the_limit_is_one_segment(text: str) -> None:
    assert split_line(text, 40, len) == [text]


@given(st.text(st.sampled_from("aB .!?,;\"'")), st.integers(1, 5))
def test_segments_do_not_split_words(text: str, limit: int) -> None:
    segments = split_line(text, limit, words)
    assert [word for segment in segments for word in segment.split()] == text.split()
    assert all(words(segment) <= limit for segment in segments)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("It rained. We stayed! Why? He left.", 3, ["It rained. ", "We stayed! ", "Why? ", "He left."]),
        ('He said: "Stop." Then he left us.', 4, ['He said: "Stop." ', "Then he left us."]),
        (
            "We met Mr. Smith and J. S. Bach here. It rained.",
            9,
            ["We met Mr. Smith and J. S. Bach here. ", "It rained."],
        ),
        # before a lowercase letter a full stop ends no sentence, so that the line is split at spaces
        ("It weighs 3 kg. approx. as said", 5, ["It weighs 3 kg. approx. ", "as said"]),
        ("one two, three four, five six", 4, ["one two, three four, ", "five six"]),
        ("one two three four five", 2, ["one two ", "three four ", "five"]),
        ("vale 3.50 euro e 7.25 lire", 3, ["vale 3.50 euro ", "e 7.25 lire"]),
    ],
)
def test_split_of_western_text(text: str, limit: int, expected: list[str]) -> None:
    assert split_line(text, limit, words) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("今天下雨。我们在家！", 6, ["今天下雨。", "我们在家！"]),
        ("他说：“走吧。”然后走了。", 9, ["他说：“走吧。”", "然后走了。"]),
        ("今天下雨，我们在家，看书、写字。", 10, ["今天下雨，我们在家，", "看书、写字。"]),
        ("我们都很喜欢它", 4, ["我们都", "很喜欢它"]),
    ],
)
def test_split_of_chinese_text(text: str, limit: int, expected: list[str]) -> None:
    assert split_line(text, limit, len) == expected


def test_split_keeps_combining_characters() -> None:
    assert split_line("ae\u0301a", 3, len) == ["ae\u0301", "a"]
    assert split_line("a👩\u200d🔬aa", 5, len) == ["a👩\u200d🔬", "aa"]


@pytest.mark.parametrize(
    ("segments", "translations", "expected"),
    [
        (["It rained. ", "We left."], ["Pioveva.", "Partimmo."], "Pioveva. Partimmo."),
        (["It rained. ", "We left."], ["下雨了。", "我们走了。"], "下雨了。我们走了。"),
        (["下雨了。", "我们走了。"], ["It rained.", "We left."], "It rained. We left."),
        (["他说：“走吧。”", "然后走了。"], ["He said, “Go.”", "Then he left."], "He said, “Go.” Then he left."),
        (["Donaudampf", "schiff"], ["Danube steam", "ship"], "Danube steamship"),
        (["a ", "\u200b ", "b"], ["x", "", "y"], "x y"),
        ([" ", "b"], ["", "y"], "y"),
        (["It rained. ", "Stop."], ["下雨了。", "Stop."], "下雨了。Stop."),
        ([""], [""], ""),
    ],
)
def test_join_segments_follows_the_spacing_of_both_languages(
    segments: list[str], translations: list[str], expected: str
) -> None:
    assert join_segments(segments, translations) == expected


@given(st.lists(st.text(st.sampled_from("abc"), min_size=1, max_size=5), min_size=1), st.integers(1, 4))
def test_join_of_unchanged_segments_is_the_text(parts: list[str], limit: int) -> None:
    text = " ".join(parts)
    segments = split_line(text, limit, words)
    assert join_segments(segments, [segment.strip() for segment in segments]) == text


@pytest.mark.parametrize(
    "unit", ["a", ".", ",", " ", "。", "，", "\u0301", "—", ". ", ".)", ",.", "a.", "A. ", "…", "!?"]
)
def test_split_of_repeated_characters_takes_linear_time(unit: str) -> None:
    text = (unit * 100_000)[:100_000]
    started = time.process_time()
    assert "".join(split_line(text, 200, len)) == text
    assert time.process_time() - started < 3
