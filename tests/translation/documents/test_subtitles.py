"""SubRip and WebVTT: texts of cues, wrapping, and everything that stays."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.translation.documents.document import Content
from nmt.translation.documents.subtitles import read_subtitles, wrap
from tests.translation.documents.writing import texts, translated

SRT = """1
00:00:01,000 --> 00:00:02,500  X1:10
  <i>Hello, my
old friend.</i>

2
00:00:03,000 --> 00:00:04,000
- Who is there?
- Me.


00:00:05.0 --> 00:00:06
{\\an8}Bye
3
00:01:00,000 --> 00:01:01,000
4

a paragraph
"""
VTT = """WEBVTT - a title
X-TIMESTAMP-MAP=LOCAL:00:00:00.000

NOTE a comment
Hello

STYLE
::cue(b) { color: red }

intro
00:01.000 --> 00:02.000 align:left line:0
<v Bob>Salt &amp; pepper
and <c.loud>oil</c>

NOTE last
00:00:01.000 is a time

10:00:02.000 --> 10:00:03.000
<v Ann>Yes.
<v Bob>No.
"""


SRT_TEXTS = ["<i>Hello, my old friend.</i>", "Who is there?", "Me.", "{\\an8}Bye", "4", "a paragraph"]
VTT_TEXTS = ["<v Bob>Salt & pepper and <c.loud>oil</c>", "<v Ann>Yes.", "<v Bob>No."]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("format_", "text", "expected"), [("srt", SRT, SRT_TEXTS), ("vtt", VTT, VTT_TEXTS)])
def test_only_the_texts_of_cues_and_speakers_differ(
    format_: str, text: str, expected: list[str], mark: bytes, line_end: str
) -> None:
    data = mark + text.replace("\n", line_end).encode()
    document = read_subtitles(Content.decode(data, "a"), format_)
    assert texts(document) == expected
    assert document.encoded() == data
    changed = text
    words = "Hello, my|old friend.|i>|Who is there?|Me.|{\\an8}Bye|a paragraph"
    for own in f"{words}|<v Bob>Salt|pepper|and|<c.loud>oil</c>|<v Ann>Yes.|<v Bob>No.".split("|"):
        changed = changed.replace(own, own.upper()) if format_ == "srt" or "<" in own or own in "pepperand" else changed
    assert translated(document) == mark + changed.replace("\n", line_end).encode()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.srt", "1\n00:00:01,000 -> 00:00:02,000\nHi\n", "a.srt:1: found '1' before the times of a first subtitle"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nHi\n\n2\n00:00:x --> 1\nHo\n",
         "a.srt:6: found '00:00:x --> 1', expected times such as 00:00:01,000 --> 00:00:02,500"),
        ("a.srt", "Hi\n\n1\n00:00:01,000 --> 00:00:02,000\nHi\n", "a.srt:1: found 'Hi' before the times"),
        ("a.vtt", "", "a.vtt:1: not WebVTT"),
        ("a.vtt", "WEBVTTX\n", "a.vtt:1: not WebVTT"),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02\nHi", "a.vtt:3: found '00:01.000 --> 00:02', expected"),
        ("a.srt", "00:00:01,000 --> 00:00:02,000\nHi\n\n00:00:03,000 -> 00:00:04,000\nHo\n",
         "a.srt:4: found '00:00:03,000 -> 00:00:04,000', expected times such as"),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nHi\nHi --> Ho\n", "a.vtt:5: found 'Hi --> Ho', expected times"),
    ],
)  # fmt: skip
def test_damaged_file_is_an_error_with_its_line(name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_subtitles(Content(name, text), name[-3:])


def test_dashes_of_speakers_are_no_part_of_the_text() -> None:
    cue = "<i>-Yes.\n {\\an8}– «No.</i>\n-5 degrees\n- - and\nmore -- and"
    document = read_subtitles(Content("a.srt", f"00:00:01 --> 00:00:02\n{cue}"), "srt")
    assert texts(document) == ["Yes.", "«No.</i> -5 degrees", "- and more -- and"]
    made = iter("ABC")
    assert translated(document, lambda _: next(made)).decode().endswith("\n<i>-A\n {\\an8}– B\n- C")


@pytest.mark.parametrize("text", ["", "\n\n", "1\n00:00:01,000 --> 00:00:02,000\n\n"])
def test_file_without_text_is_unchanged(text: str) -> None:
    assert translated(read_subtitles(Content("a.srt", text), "srt")).decode() == text


def test_times_end_the_text_before_them() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nHi\n00:02.000 --> 00:03.000\nHo\n"
    assert texts(read_subtitles(Content("a.vtt", text), "vtt")) == ["Hi", "Ho"]


@given(st.lists(st.sampled_from(["a", "bcd", "efghij", "<i>", "我们", "好。"]), max_size=12), st.integers(1, 4))
def test_lines_are_few_complete_and_balanced(words: list[str], count: int) -> None:
    text = " ".join(words)
    lines = wrap(text, count, widest=12)
    assert len(lines) <= count
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    bare = [re.sub("<i>", "", line) for line in lines]
    widths = [sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in line) for line in bare]
    # no line is longer than an even share and the longest word
    assert max(widths) <= max(12, (len(text) + text.count("我们") * 2 + text.count("好。") * 2) / count + 7)


def test_fewer_lines_are_used_where_they_are_not_wider_than_the_original() -> None:
    assert wrap("Yes, I do", 2, widest=10) == ["Yes, I do"]
    assert wrap("Yes, I do", 2, widest=8) == ["Yes,", "I do"]


def test_chinese_is_broken_between_characters_but_not_before_punctuation() -> None:
    assert wrap("我不知道现在应该做，真的", 2, widest=14) == ["我不知道现在", "应该做，真的"]
    assert wrap("一二三四五，六七八九", 2, widest=10) == ["一二三四五，", "六七八九"]
