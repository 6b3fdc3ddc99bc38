"""Sentences of a line, and parts of long ones."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.items import ITEM, Line, joined, pairs_of, read
from nmt.text.sentences import sentences, units
from tests.time_limit import seconds_of_the_processor


def count_words(text: str) -> int:
    return len(text.split())


TEXT = st.lists(
    st.sampled_from(
        [*"aB .!?,;:—…\t\"')1", *"。！，、”中文", "\u3000", "\u0301", "\u200d", "😀", "{0}", "<br>", "</b>"]
    )
).map("".join)


@given(TEXT | st.text(), st.integers(1, 12), st.sampled_from(["en", "it", "zh", "xx"]))
def test_units_join_to_the_line_fit_the_limit_and_begin_at_items(text: str, limit: int, language: str) -> None:
    line = read(text)
    found = units(line, limit, len, language)
    assert joined(found) == line
    assert all(len(unit.text) <= limit for unit in found)
    for unit in found:
        of_words = {index for index, item in enumerate(unit.items) if re.fullmatch("[®™†‡\ufe0f]+", item.text)}
        singles = {*range(len(unit.items))} - {*pairs_of(unit.items), *pairs_of(unit.items).values()} - of_words
        assert singles <= {0}
        assert not singles or unit.text[0] == ITEM


@given(st.text(st.sampled_from("aB .!?,;\"'")), st.integers(1, 5))
def test_units_do_not_split_words(text: str, limit: int) -> None:
    found = [unit.text for unit in units(Line(text), limit, count_words, "en")]
    assert [word for unit in found for word in re.findall(r"\w+", unit)] == re.findall(r"\w+", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I know Tom. Where is the station?", ["I know Tom. ", "Where is the station?"]),
        ("Yes. Hi. Go! Bob. Really?! OK", ["Yes. ", "Hi. ", "Go! ", "Bob. ", "Really?! ", "OK"]),
        ("Mr. Smith met J. S. Bach, e.g. at 3 p.m. in May.", ["Mr. Smith met J. S. Bach, e.g. at 3 p.m. in May."]),
        ("See https://b.org/a. It is v1.2.3.", ["See ", "https://b.org/a. ", "It is ", "v1.2.3."]),
        ("I like coffee.<br>Where is it?", ["I like coffee.", "<br>Where is it?"]),
        ("<b>One.</b> Two {0}.", ["<b>One.</b>", " Two ", "{0}."]),
        ("a <b>b</b> c <i>d {0}</i> <u>e <b>f</b></u>", ["a <b>b</b> c ", "<i>d ", "{0}", "</i> <u>e <b>f</b></u>"]),
        ("Is it <i>near <b>here?</b></i> No.", ["Is it <i>near <b>here?</b></i>", " No."]),
        ("An A™ <b>b<wbr>c</b>d&shy;e[^1] is {0}.", ["An A™ <b>b<wbr>c</b>d&shy;e[^1] is ", "{0}."]),
        ("Name | Address", ["Name ", "| Address"]),
        ("今天下雨。我们在家！“走吧。”", ["今天下雨。", "我们在家！", "“走吧。”"]),
        ("他走了。2020年我来了！iPad很好。", ["他走了。", "2020年我来了！", "iPad很好。"]),
        ("增长３.６％，达到１．８２万。", ["增长３.６％，达到１．８２万。"]),
        ("我说“好？”，他说（好！）。这是.NET平台。", ["我说“好？”，他说（好！）。", "这是.NET平台。"]),
        ("我们用C#，.NET也用。共3.请看", ["我们用C#，.NET也用。", "共3.", "请看"]),
        ("安装；2.配置，3．运行", ["安装；2.配置，3．运行"]),
        ("We use C# and .NET. It runs.", ["We use C# and .NET. ", "It runs."]),
        ("Den 17. mai kom han. Ja.", ["Den 17. mai kom han. ", "Ja."]),
        ("Молоко и т. е. всё. Потом.", ["Молоко и т. е. всё. ", "Потом."]),
        ("ខ្ញុំស្រឡាញ់អ្នក។ តើអ្នក? បាទ។", ["ខ្ញុំស្រឡាញ់អ្នក។ ", "តើអ្នក? ", "បាទ។"]),
    ],
)  # fmt: skip
def test_sentences_of_examples(text: str, expected: list[str]) -> None:
    language = "en" if text.isascii() else "zh"
    assert [str(unit) for unit in units(read(text), 100, count_words, language)] == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("one two, three four, five six", 4, ["one two, ", "three four, five six"]),
        ("vale 3.50 euro e 7.25 lire", 3, ["vale 3.50 euro ", "e 7.25 lire"]),
        ("see <a b='c d'>one and</a> two", 2, ["see <a b='c d'>one ", "and</a> two"]),
        ("今天下雨，我们在家，看书、写字。", 10, ["今天下雨，我们在家，", "看书、写字。"]),
        ("他们在这得到了351.94分", 9, ["他们在这得到了", "351.94分"]),
        ("我们都很喜欢它", 4, ["我们都", "很喜欢它"]),
    ],
)
def test_long_sentences_are_halved(text: str, limit: int, expected: list[str]) -> None:
    count = count_words if " " in text else len
    assert [str(unit) for unit in units(read(text), limit, count, "en")] == expected


def test_marks_stay_with_their_letters_when_a_text_is_halved() -> None:
    parts = [str(unit) for unit in units(read("प्रीति" * 40), 8, len, "hi")]
    assert "".join(parts) == "प्रीति" * 40
    assert all(unicodedata.category(part[0])[0] != "M" for part in parts)


@given(st.integers(1, 300), st.integers(2, 20))
def test_a_long_clause_leaves_no_short_part(length: int, limit: int) -> None:
    found = units(Line(" ".join(["word"] * length)), limit, count_words, "en")
    assert min(count_words(unit.text) for unit in found) >= min(length, limit // 2)


@pytest.mark.parametrize("unit", ["a", ".", ", ", "。", "\u0301", "—", ". ", ".)", "A. ", "…", "'\" .", "“a.” ", ITEM])
def test_repeated_characters_take_linear_time(unit: str) -> None:
    text = (unit * 200_000)[:200_000]
    with seconds_of_the_processor():
        assert "".join(sentences(text, "en")) == text
        assert "".join(part.text for part in units(read(text[:50_000]), 200, len, "en")) == text[:50_000]


def test_pairs_around_nothing_are_single_items() -> None:
    parts = units(read("Click <i></i> now <b>or <a><i></i></a> never</b>."), 100, len, "en")
    assert "|".join(map(str, parts)) == "Click |<i>|</i> now |<b>or |<a>|<i>|</i>|</a> never|</b>."
