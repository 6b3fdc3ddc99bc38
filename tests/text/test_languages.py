"""The target language: from a code, or from the letters of the text."""

import pytest
from hypothesis import given as given_example
from hypothesis import strategies as st

from nmt.text import languages


@pytest.mark.parametrize(
    ("code", "tokenizer"),
    [
        ("zh", "zh"),
        ("ZH", "zh"),
        ("zh-CN", "zh"),
        ("zh_Hant", "zh"),
        ("zho_Hans", "zh"),
        ("cmn", "zh"),
        ("ja", "ja-mecab"),
        ("jpn_Jpan", "ja-mecab"),
        ("ko", "ko-mecab"),
        ("kor", "ko-mecab"),
        ("it", "13a"),
        ("en-GB", "13a"),
        ("xx", "13a"),
    ],
)
def test_codes_in_any_usual_spelling_choose_the_tokenizer(code: str, tokenizer: str) -> None:
    target = languages.given(code)
    assert target.tokenizer == tokenizer
    assert target.found == "given"
    assert target.notice is None


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["猫坐在垫子上。", "他没有来。"], "zh"),
        (["貓坐在墊子上。"], "zh"),
        (["打开 GitHub 的 Settings 页面,然后点击按钮"], "zh"),
        (["猫はマットの上に座った。"], "ja"),
        (["コンピューター"], "ja"),
        (["고양이가 매트 위에 앉았다."], "ko"),
        (["大韓民國은 民主共和國이다"], "ko"),
        (["The cat sat on the mat."], ""),
        (["Perché no?", "È così."], ""),
        (["The sign said 你好, which means hello, and everyone who saw it smiled."], ""),
        (["Кошка сидит"], ""),
        (["", "123 !?", "。"], ""),
        ([], ""),
    ],
)
def test_text_is_told_apart_by_its_letters(lines: list[str], code: str) -> None:
    target = languages.detect(lines)
    assert target.code == code
    assert target.found == "detected"


def test_the_notice_says_what_was_found_and_how_to_choose() -> None:
    assert (
        languages.detect(["你好"]).notice
        == "target language not given; text looks Chinese: BLEU tokenizer zh; --target-lang to choose"
    )
    assert "does not look Chinese, Japanese or Korean: BLEU tokenizer 13a" in (languages.detect(["ciao"]).notice or "")


@given_example(st.lists(st.text()))
def test_any_text_has_an_answer(lines: list[str]) -> None:
    assert languages.detect(lines).code in ("", "zh", "ja", "ko")


@given_example(st.text(st.characters(max_codepoint=0x24F)))
def test_latin_text_is_never_taken_for_another_script(line: str) -> None:
    assert languages.detect([line]).code == ""


def test_real_text_is_told_apart(shared_data) -> None:
    flores = shared_data / "flores200-dev"
    for name, code in [("zho_Hans", "zh"), ("zho_Hant", "zh"), ("ita_Latn", ""), ("eng_Latn", "")]:
        lines = (flores / f"{name}.dev").read_text(encoding="utf-8").split("\n")
        assert languages.detect(lines).code == code
        # most single sentences are enough
        right = sum(languages.detect([line]).code == code for line in lines if line)
        assert right > 0.99 * len(lines) - 1, name
