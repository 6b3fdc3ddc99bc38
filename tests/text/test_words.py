"""Words and their pieces, compared with the words of text that the tokenizer decodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.text.normalize import normalize
from nmt.text.words import is_punctuation, joined_links, words, words_of_pieces
from tests.builders import tiny_tokenizers

TOKENIZER = tiny_tokenizers().source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("It's 9.30, isn't it?", ["It's", "9.30,", "isn't", "it?"]),
        ("他住在New York，对吗？", ["他", "住", "在", "New", "York", "，", "对", "吗", "？"]),
        ("か\u3099く 葛\U000e0100", ["か\u3099", "く", "葛\U000e0100"]),
        ("안녕하세요 친구", ["안녕하세요", "친구"]),
        ("เขาซื้อ iPhone น้ำ", ["เข", "า", "ซื้", "อ", "iPhone", "น้ำ"]),
        ("ខ្ញុំស្រឡាញ់", ["ខ្ញុំ", "ស្រ", "ឡា", "ញ់"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
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


def test_joined_links_count_words_that_segments_share_once() -> None:
    segments = [("Use ({0}", "用（{0}", [(0, 0), (1, 2)]), (").", "）。", [(0, 1)]), ("Go", "走", [(0, 0)])]
    assert joined_links(segments, "Use ({0}). Go", "用（{0}）。走") == [(0, 0), (1, 2), (1, 4), (2, 5)]
