"""normalize: the properties that a clean line has, and every character against the Unicode database."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.normalize import join_unspaced, normalize, normalizer_of

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
        if category in ("Cn", "Co") and not noncharacter and code % 16:
            continue  # a million of characters without properties
        if character.isspace():
            expected = "a b"
        elif category == "Cs":
            expected = "a\ufffdb"
        elif 0x80 <= code < 0xA0:
            expected = "a" + bytes([code]).decode("cp1252", "ignore") + "b"
        elif noncharacter or category == "Cc" or (category == "Cf" and code not in VISIBLE_FORMAT_CHARACTERS):
            expected = "ab"
        elif unicodedata.normalize("NFC", character) in "`´":
            expected = "a'b"
        else:
            expected = unicodedata.normalize("NFC", f"a{character}b")
        assert normalize(f"a{character}b") == expected, f"U+{code:04X} ({category})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("l`altro, don´t, perch´è", "l'altro, don't, perch'è"),
        ("`ls` and ``ord`` of Pe` 5´", "`ls` and ``ord`` of Pe` 5´"),  # no letter on both sides
        ('“so” «so» ‘so’ "so"', '“so” «so» ‘so’ "so"'),
        ("e\u200b\u0301", "é"),
        ("\x93l\x92acqua\x94 \x80 5\x81", "“l’acqua” € 5"),
        ("你好，世界！（真的）", "你好，世界！（真的）"),
        ("می\u200cروم", "می\u200cروم"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_normalize_returns_the_expected_text(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("因 為 耶 穌 說 、 是 。", "因為耶穌說、是。"),  # a space between all characters
        ("他 喜欢 喝茶 ， 也 喜欢 （ iPad ） 。", "他喜欢喝茶，也喜欢（iPad）。"),  # segmented into words
        ("2018 年 1 月 3 日 他 来 了", "2018 年 1 月 3 日他来了"),
        ("把 AVI 视频转换为 MP4 格式", "把 AVI 视频转换为 MP4 格式"),  # between scripts, as some styles ask for
        ("第一章 总则", "第一章 总则"),
        ("如果有错误，请重试。 你也可以取消。 详见说明。", "如果有错误，请重试。 你也可以取消。 详见说明。"),
        ("你好 世界", "你好 世界"),
        ("Tom 在 家", "Tom 在 家"),
    ],
)
def test_spaces_of_a_tokenizer_are_removed_from_chinese(text: str, expected: str) -> None:
    assert join_unspaced(text) == expected


@given(st.lists(st.sampled_from(["你", "好", "。", "（", "A", "iPad", "3", " ", " "]), max_size=40).map("".join))
def test_join_unspaced_removes_only_spaces_and_is_idempotent(text: str) -> None:
    joined = join_unspaced(normalize(text))
    assert joined.replace(" ", "") == text.replace(" ", "")
    assert normalize(joined) == joined
    assert join_unspaced(joined) == joined


def test_chinese_and_japanese_lose_the_spaces_of_a_tokenizer() -> None:
    spaced = "今天 下雨 ， 我们 不 去 公园 。"
    assert normalizer_of("zh")(spaced) == normalizer_of("zh-Hant")(spaced) == "今天下雨，我们不去公园。"
    assert normalizer_of("en")(f"  {spaced} ") == spaced
