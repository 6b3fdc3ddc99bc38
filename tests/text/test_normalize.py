"""normalize: the properties that a clean line has, and every character against the Unicode database."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.normalize import normalize

ANY_TEXT = st.text(st.characters(exclude_categories=()))

VISIBLE_FORMAT_CHARACTERS = {
    *range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD,  # signs that span digits
    0x200C, 0x200D,  # joiners
    *range(0x13430, 0x13440), *range(0x1BCA0, 0x1BCA4),  # layout of hieroglyphs and of shorthand
    *range(0xE0020, 0xE0080),  # tags in the flags of England, Scotland, Wales
}  # fmt: skip


@given(ANY_TEXT)
def test_normalize_returns_one_clean_line(text: str) -> None:
    clean = normalize(text)
    assert normalize(clean) == clean
    assert clean == clean.strip()
    assert "  " not in clean
    assert all(character == " " or not character.isspace() for character in clean)
    assert len(clean.splitlines()) <= 1
    assert unicodedata.is_normalized("NFC", clean)
    clean.encode("utf-8")


def test_normalize_follows_the_category_of_each_character() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        category = unicodedata.category(character)
        noncharacter = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
        if character.isspace():
            expected = "a b"
        elif category == "Cs":
            expected = "a\ufffdb"
        elif noncharacter or category == "Cc" or (category == "Cf" and code not in VISIBLE_FORMAT_CHARACTERS):
            expected = "ab"
        else:
            expected = unicodedata.normalize("NFC", f"a{character}b")
        assert normalize(f"a{character}b") == expected, f"U+{code:04X} ({category})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \t\u3000\u2028 ", ""),
        ("one\x0btwo\x0cthree\x85four\u2028five", "one two three four five"),
        ("e\u0301", "é"),
        ("e\u200b\u0301", "é"),
        ("你好，世界！（真的）", "你好，世界！（真的）"),
        ("می\u200cروم", "می\u200cروم"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("\ud83d\ude00", "😀"),
        ("half \ud83d", "half \ufffd"),
        ("\ufeffso\xadft \u200e‘quotes’", "soft ‘quotes’"),
        ("▁", "▁"),
    ],
)
def test_normalize_of_examples(text: str, expected: str) -> None:
    assert normalize(text) == expected
