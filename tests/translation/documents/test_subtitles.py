"""SubRip and WebVTT: texts of cues, wrapping, and everything that stays."""

import re

import pytest

from nmt.errors import DataError
from tests.translation.documents.writing import read, texts, translated

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
    document = read(format_, data)
    assert texts(document) == expected
    assert translated(document, str) == data
    document = read(format_, data)
    changed = text
    words = (
        "Hello, my|old friend.|Who is there|Me.|Bye|a paragraph" if format_ == "srt" else "Salt|pepper|and|oil|Yes.|No."
    )
    for own in words.split("|"):
        changed = changed.replace(own, own.upper())
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
        read("srt" if name == "a.srt" else "vtt", text, name)


def test_dashes_of_speakers_are_no_part_of_the_text() -> None:
    cue = "<i>-Yes.\n {\\an8}– «No.</i>\n-5 degrees\n- - and\nmore -- and\n>> D.\n♪ E ♪"
    document = read("srt", f"00:00:01 --> 00:00:02\n{cue}")
    assert texts(document) == ["Yes.", "«No.</i> -5 degrees", "- and more -- and", "D.", "E ♪"]
    made = iter("ABCDE")
    assert translated(document, lambda _: next(made)).decode().endswith("\n<i>-A\n {\\an8}– B\n- C\n>> D\n♪ E")


@pytest.mark.parametrize(
    "text", ["10:15:30", "9:41:00 AM", "Rome --> Naples", "00:00:01,000", "It is 2:30:00", "3 -> 4"]
)
def test_text_of_a_subtitle_may_be_a_time_or_have_an_arrow(text: str) -> None:
    subtitles = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n\n2\n00:00:03,000 --> 00:00:04,000\nHi\n"
    assert texts(read("srt", subtitles)) == [text, "Hi"]


@pytest.mark.parametrize("line_end", ["\n", "\r\r\n"])
@pytest.mark.parametrize(
    ("format_", "text", "expected"),
    [
        ("srt", "", []),
        ("srt", "\n\n", []),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\n\n", []),
        ("srt", "1\n\n00:00:01 --> 00:00:02\nHi\n\n2\n\n00:00:03 --> 00:00:04\nHo\n", ["Hi", "Ho"]),
        ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nHi\n00:02.000 --> 00:03.000\nHo\n", ["Hi", "Ho"]),
        ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n \nHi you\n \nand me\n\nNot this\n", ["Hi you", "and me"]),
    ],
)
def test_blank_lines_and_times_end_texts(format_: str, text: str, expected: list[str], line_end: str) -> None:
    document = read(format_, text.replace("\n", line_end))
    assert texts(document) == expected
    for one in expected:
        text = text.replace(one, one.upper())
    assert translated(document).decode() == text.replace("\n", line_end)


def test_codes_are_markup_and_characters_are_escaped() -> None:
    cue = "<i>Tom &amp; <00:19.000>&lt;Bob&gt;</i> &amp;c."
    document = read("vtt", f"WEBVTT\n\n00:01.000 --> 00:02.000\n{cue}\n")
    assert [item.text for item in document.texts.entries[0][0].items if item.is_markup] == [
        "<i>",
        "<00:19.000>",
        "</i>",
    ]
    assert translated(document).decode().endswith(f"\n{cue.replace('Tom', 'TOM').replace('&amp;c', '&amp;C')}\n")


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("-He is here. -Who? A-b - c.", "He is here.#Who? A-b - c."),
        ("- Where are you? - At home… –  ¿Qué?", "Where are you?#At home…#¿Qué?"),
        ('- He said "no" - and left. - èh? A - Bb', 'He said "no" - and left. - èh? A - Bb'),
        ("- Да. — Нет. - 5", "Да.#Нет. - 5"),
    ],
)
def test_a_dash_behind_a_full_stop_is_that_of_another_speaker(cue: str, expected: str) -> None:
    document = read("srt", f"1\n00:00:01,000 --> 00:00:02,500\n{cue}\n")
    assert [line.text.replace("\ufffc", "#") for line, _ in document.texts.entries] == [expected]
    assert translated(document).decode().endswith(f"\n{cue.upper()}\n")


def test_pronunciation_stays() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<ruby>cat<rt>not this</rt></ruby> here\n"
    assert translated(read("vtt", text)).decode() == text.replace("cat", "CAT").replace("here", "HERE")
