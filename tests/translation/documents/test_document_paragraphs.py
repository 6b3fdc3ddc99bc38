"""Paragraphs of texts, and lines of paragraphs."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.items import Item, Line, joined
from nmt.translation.documents.document import code_line, lines_in, paragraphs, read_text, with_lines, wrap

ITALIC = code_line(Item("<i>", "opening", "i"))


@given(st.lists(st.sampled_from(["a", "bcd", "efghij", ITALIC, "我们", "好。"]), max_size=12), st.integers(1, 4))
def test_lines_are_few_complete_and_balanced(words: list[str | Line], count: int) -> None:
    line = joined(part for word in words for part in (Line(word) if isinstance(word, str) else word, Line(" ")))
    lines = wrap(line, count, widest=12)
    assert len(lines) <= count
    assert "".join(map(str, lines)).replace(" ", "") == str(line).replace(" ", "")
    text = line.text.replace("\ufffc", "")
    widths = [
        sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in str(part).replace("<i>", "")) for part in lines
    ]
    # no line is longer than an even share and the longest word
    assert max(widths) <= max(12, (len(text) + text.count("我们") * 2 + text.count("好。") * 2) / count + 7)


def test_fewer_lines_are_used_where_they_are_not_wider_than_the_original() -> None:
    assert wrap(Line("Yes, I do"), 2, widest=10) == [Line("Yes, I do")]
    assert wrap(Line("Yes, I do"), 2, widest=8) == [Line("Yes,"), Line("I do")]


def test_chinese_is_broken_between_characters_but_not_before_punctuation() -> None:
    assert wrap(Line("我不知道现在应该做，真的"), 2, widest=14) == [Line("我不知道现在"), Line("应该做，真的")]
    assert wrap(Line("一二三四五，六七八九"), 2, widest=10) == [Line("一二三四五，"), Line("六七八九")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My father has\na rabbit.", ["My father has a rabbit."]),
        ("It is not so\n  that it ends,\n  but goes on.\nGood!", ["It is not so that it ends, but goes on.", "Good!"]),
        ("I like coffee.\nwhere is it", ["I like coffee.", "where is it"]),
        ("I like these:\ntea", ["I like these:", "tea"]),
        ("name\naddress\nphone", ["name", "address", "phone"]),
        ("I know that\nMarco is here", ["I know that", "Marco is here"]),
        ("It is not\n\nso", ["It is not", "so"]),
        (" a\r\n\tb \n", ["a", "b"]),
    ],
)
def test_lines_are_joined_inside_a_sentence_only(text: str, expected: list[str]) -> None:
    assert list(map(str, lines_in(read_text(text)))) == expected


@given(st.text(alphabet="ab .\n\r\t{<>}", max_size=30))
def test_paragraphs_are_the_text(text: str) -> None:
    line = read_text(text)
    parts = paragraphs(line)
    assert joined(parts) == line
    assert all(part.text.isspace() or not part.text for part in parts[1::2])
    made = with_lines(line, {one: Line("one") for one in lines_in(line)})
    assert made.text.count("\n") <= line.text.count("\n"), "one word is one line"
