"""Splitting long lines into segments and joining their translations; words.

Words and their pieces are compared with the words of text that the tokenizer decodes.
"""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.text.normalize import normalize
from nmt.text.segment import is_punctuation, join_segments, split_line, words, words_of_pieces
from tests.builders import tiny_tokenizers


def count_words(text: str) -> int:
    return len(text.split())


ALPHABET = st.sampled_from(
    [*"aB .!?,;:—…\t\"')1", "。", "！", "，", "、", "”", "中", "文", "\u3000", "\u0301", "\u200d", "😀"]
)


@given(st.text(ALPHABET) | st.text(), st.integers(1, 12))
def test_segments_join_to_the_text_and_fit_the_limit(text: str, limit: int) -> None:
    segments = split_line(text, limit, len)
    assert "".join(segments) == text
    assert all(len(segment) <= limit for segment in segments)
    assert split_line(text, len(text), len) == [text]


@given(st.text(st.sampled_from("aB .!?,;\"'")), st.integers(1, 5))
def test_segments_do_not_split_words(text: str, limit: int) -> None:
    segments = split_line(text, limit, count_words)
    assert [word for segment in segments for word in segment.split()] == text.split()
    assert all(count_words(segment) <= limit for segment in segments)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("It rained. We stayed! Why? He left.", 3, ["It rained. ", "We stayed! ", "Why? ", "He left."]),
        ('He said: "Stop." Then he left us.', 4, ['He said: "Stop." ', "Then he left us."]),
        ("Mr. Smith and J. S. Bach met. It rained.", 8, ["Mr. Smith and J. S. Bach met. ", "It rained."]),
        # before a lowercase letter a full stop ends no sentence, so that the line is split at spaces
        ("It weighs 3 kg. approx. as said", 5, ["It weighs 3 kg. ", "approx. as said"]),
        ("one two, three four, five six", 4, ["one two, ", "three four, five six"]),
        ("vale 3.50 euro e 7.25 lire", 3, ["vale 3.50 euro ", "e 7.25 lire"]),
        ("今天下雨。我们在家！", 6, ["今天下雨。", "我们在家！"]),
        ("他说：“走吧。”然后走了。", 9, ["他说：“走吧。”", "然后走了。"]),
        ("今天下雨，我们在家，看书、写字。", 10, ["今天下雨，我们在家，", "看书、写字。"]),
        ("我们都很喜欢它", 4, ["我们都", "很喜欢它"]),
    ],
)
def test_split_by_words_and_chinese_by_characters(text: str, limit: int, expected: list[str]) -> None:
    assert split_line(text, limit, count_words if " " in text else len) == expected


@given(st.integers(1, 300), st.integers(2, 20))
def test_a_long_clause_leaves_no_short_segment(words_of_text: int, limit: int) -> None:
    segments = split_line(" ".join(["word"] * words_of_text), limit, count_words)
    assert min(map(count_words, segments)) >= min(words_of_text, limit // 2)


@pytest.mark.parametrize(
    ("segments", "translations", "expected"),
    [
        (["It rained. ", "We left."], ["Pioveva.", "Partimmo."], "Pioveva. Partimmo."),
        (["It rained. ", "We left."], ["下雨了。", "我们走了。"], "下雨了。我们走了。"),
        (["下雨了。", "我们走了。"], ["It rained.", "We left."], "It rained. We left."),
        (["他说：“走吧。”", "然后走了。"], ["He said, “Go.”", "Then he left."], "He said, “Go.” Then he left."),
        (["Donaudampf", "schiff"], ["Danube steam", "ship"], "Danube steamship"),
        (["a ", "\u200b ", "b"], ["x", "", "y"], "x y"),
    ],
)
def test_join_segments_follows_the_spacing_of_both_languages(
    segments: list[str], translations: list[str], expected: str
) -> None:
    assert join_segments(segments, translations) == expected


@given(st.lists(st.text(st.sampled_from("abc"), min_size=1, max_size=5), min_size=1), st.integers(1, 4))
def test_join_of_unchanged_segments_is_the_text(parts: list[str], limit: int) -> None:
    text = " ".join(parts)
    segments = split_line(text, limit, count_words)
    assert join_segments(segments, [segment.strip() for segment in segments]) == text


@pytest.mark.parametrize(
    "unit", ["a", ".", ",", " ", "。", "，", "\u0301", "—", ". ", ".)", ",.", "a.", "A. ", "…", "!?"]
)
def test_split_of_repeated_characters_takes_linear_time(unit: str) -> None:
    text = (unit * 100_000)[:100_000]
    started = time.process_time()
    assert "".join(split_line(text, 200, len)) == text
    assert time.process_time() - started < 3


TOKENIZER = tiny_tokenizers().source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("It's 9.30, isn't it?", ["It's", "9.30,", "isn't", "it?"]),
        ("他住在New York，对吗？", ["他", "住", "在", "New", "York", "，", "对", "吗", "？"]),
        ("か\u3099く 葛\U000e0100", ["か\u3099", "く", "葛\U000e0100"]),
        ("안녕하세요 친구", ["안녕하세요", "친구"]),
    ],
)
def test_words_equal_those_by_hand(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_pieces_by_hand() -> None:
    pieces = [b" Hel", b"lo", b" ", b" wor", b"ld", "你好".encode(), "吗".encode()[:1], "吗".encode()[1:], b""]
    count, touched = words_of_pieces(pieces)
    assert count == 5
    assert [list(each) for each in touched] == [[0], [0], [], [1], [1], [2, 3], [4], [4], []]


@pytest.mark.parametrize(
    ("piece", "expected"),
    [("?", True), (" '", True), ("。", True), ("—", True), ("l'", False), ("5", False), ("€", False), (" ", False)],
)
def test_punctuation_is_recognised(piece: str, expected: bool) -> None:
    assert is_punctuation(piece.encode()) is expected
    assert not is_punctuation("。".encode()[:2]), "a part of a character"


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20) | st.text("ab ▁\u200b你か\u3099\u3000。\u0301𠀀", max_size=12))
def test_text_has_the_words_of_its_pieces(text: str) -> None:
    pieces = TOKENIZER.spell_text(text)
    assert len(pieces) == len(TOKENIZER.encode(text))
    assert b"".join(pieces).decode().strip() == normalize(text)
    count, touched = words_of_pieces(pieces)
    assert count == len(words(normalize(text)))
    assert {word for each in touched for word in each} == set(range(count)), "every word is written by a piece"
