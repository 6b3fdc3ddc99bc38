"""Typography of Chinese: examples and properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.text.normalize import normalize
from nmt.text.typography import apply_typography
from tests.time_limit import seconds_of_the_processor

PIECES = ["他", "说", "Tom", "l'", "amico", "3.14", "1,000", "https://x.org/a,b", "(", ")"]
PIECES += ['"', ",", ".", "!", "?", ":", ";", "，", "“", "”", "...", "'", "’", " ", "(a)", "（", "è", "\n"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好,世界!", "你好，世界！"),
        ("你好 , 世界 .", "你好，世界。"),
        ('他说:"你好."', "他说：“你好。”"),
        ("价格是3.14元,共1,000个", "价格是3.14元，共1,000个"),
        ("请看https://x.org/a,b?c=d:e", "请看https://x.org/a,b?c=d:e"),
        ("Tom (汤姆)来了", "Tom（汤姆）来了"),
        ("我用 Python 3 写程序", "我用 Python 3 写程序"),
        ("他等了...", "他等了..."),
        ("你认识Tom?", "你认识Tom？"),
        ("时间是10:30", "时间是10:30"),
        ("Hello, Tom (and all).", "Hello, Tom (and all)."),
        ("他说 “好” ， 走了 。", "他说“好”，走了。"),
        ("返回 :class:`int` 和:py:meth:`x` , 好 :smile: 吗 ?", "返回 :class:`int` 和:py:meth:`x`，好 :smile: 吗？"),
        ("他说 : 好", "他说：好"),
    ],
)
def test_typography_of_chinese(text: str, expected: str) -> None:
    assert apply_typography("zh", text) == expected
    assert apply_typography("zh-CN", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use Node.js，React、Vue。", "Use Node.js, React, Vue."),
        ("At 12：30 ， he said：“Yes！”", "At 12:30, he said: “Yes!”"),
        ('"Yes，" he said："No，¿sí？" „Ja，“ he said。', '"Yes," he said: "No, ¿sí?" „Ja,“ he said.'),
        ("The verse 你好，世界！ is Chinese；fine。", "The verse 你好，世界！ is Chinese; fine."),
    ],
)
def test_marks_are_narrow_outside_of_chinese(text: str, expected: str) -> None:
    assert apply_typography("en", text) == apply_typography("en", expected) == expected
    assert apply_typography("ja", text) == text


def test_typography_keeps_other_languages_and_protected_items() -> None:
    assert apply_typography("de", "E' l' 你 , 好 .") == "E' l' 你 , 好 ."
    assert apply_typography("hak", "佢（好），OK，好") == "佢（好），OK，好", "the script is unknown, and may be Han"
    kept = ["你好 , 世界", "{0}"]
    assert apply_typography("it", "\ue0007\ue000，B :a:", kept) == "\ue0007\ue000, B :a:"
    assert apply_typography("zh", "他说 你好 , 世界 , 再见 {0} .", kept) == "他说 你好 , 世界，再见 {0} ."


@settings(max_examples=400)
@given(text=TEXTS)
def test_typography_is_idempotent_and_keeps_one_line(text: str) -> None:
    line = normalize(text)
    once = apply_typography("zh", line)
    assert apply_typography("zh", once) == once
    assert normalize(once) == once


@given(text=TEXTS, string=st.sampled_from([piece for piece in PIECES if piece.strip()]))
def test_typography_keeps_each_occurrence(text: str, string: str) -> None:
    line = normalize(text)
    assert apply_typography("zh", line, [string]).count(string) >= line.count(string)


@pytest.mark.parametrize("part", ["!", " ", ",!", " ,"])
def test_typography_takes_linear_time(part: str) -> None:
    text = part * 50_000  # takes half a minute in quadratic time
    with seconds_of_the_processor():
        assert apply_typography("zh", f"好{text}a").endswith("a")
        assert apply_typography("zh", f"a{text}a好").endswith("a好")
        assert apply_typography("it", f"a，{text}，a").endswith(", a")
