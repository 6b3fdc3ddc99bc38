"""Scripts of lines by example; lines in the other variant of Chinese: found and converted."""

import pytest

from nmt.config import Filters, LanguagePair
from nmt.errors import ConfigError
from nmt.text import han_variants
from nmt.text.corpus import SentencePair
from nmt.text.filters import PairFilter
from nmt.text.filters.script import HanCheck, ScriptCheck, is_other_variant

SIMPLIFIED = "这个国家的语言很难学。"
TRADITIONAL = "這個國家的語言很難學。"
SAMPLE = [SIMPLIFIED] * 3 + [TRADITIONAL]


@pytest.mark.parametrize(
    ("language", "is_target", "text", "is_wrong"),
    [
        ("it", True, "ciao", False),
        ("it", True, "10:30", False),
        ("it", True, "你好", True),
        ("it", True, "привет, это текст о PDF", True),  # Latin letters are few
        ("it", True, "Kyïv si scrive Київ", False),
        ("it", True, "α e β", False),
        ("zh", True, "你好", False),
        ("zh", True, "10:30", True),
        ("zh", False, "10:30", False),
        ("zh", True, "print(x)", True),
        ("zh", True, "Tom 在", False),
        ("zh", True, "これは日本語のテキストです", True),
        ("ja", True, "これは日本語のテキストです", False),
        ("ja", True, "東京", False),
        ("ru", False, "hello", True),
        ("ru", False, "привет", False),
        ("ko", True, "안녕", False),
    ],
)
def test_wrong_script_is_found(language: str, is_target: bool, text: str, is_wrong: bool) -> None:
    check = ScriptCheck.of(language, is_target)
    assert check is not None
    assert (check.wrong(text) is not None) == is_wrong


def test_languages_of_several_scripts_have_no_check() -> None:
    assert ScriptCheck.of("sr", is_target=True) is None


@pytest.mark.parametrize(
    ("language", "variant"),
    [
        ("zh", "Simplified"),
        ("zh-Hant", "Traditional"),
        ("zh_TW", "Traditional"),
        ("zho_Hans", "Simplified"),
        ("zh-Hant-CN", "Traditional"),
        ("zh-Hans-HK", "Simplified"),
    ],
)
def test_variant_is_stated_or_that_of_most_lines(language: str, variant: str) -> None:
    pytest.importorskip("opencc")
    check = HanCheck.of(language, "convert", SAMPLE)
    assert check is not None
    assert check.variant == variant


@pytest.mark.parametrize(
    ("text", "is_other"),
    [
        (SIMPLIFIED, False),
        (TRADITIONAL, True),
        ("和后台的人", False),  # characters of both
        ("这个国家的歌手鄧丽君会说国语", False),  # one character, of a name
        ("这个国家與語言", True),  # mixed
        ("Tom", False),
    ],
)
def test_line_is_in_the_other_variant_or_mixed(text: str, is_other: bool) -> None:
    assert is_other_variant(text, "Simplified") == is_other


def pair_filter(action: str, language: str = "zh") -> PairFilter:
    filters = Filters.model_validate({"han_variants": action})
    return PairFilter.learn(filters, LanguagePair("en", language), [SentencePair("a", line) for line in SAMPLE])


def test_lines_of_the_other_variant_are_kept_by_default() -> None:
    assert pair_filter("keep").apply("Hello there.", TRADITIONAL)[1:3] == (TRADITIONAL, None)


def test_lines_of_the_other_variant_are_converted() -> None:
    pytest.importorskip("opencc")
    assert pair_filter("convert").apply("Hello there.", TRADITIONAL).target == SIMPLIFIED
    assert pair_filter("convert", "zh-Hant").apply("Hello there.", SIMPLIFIED).target == TRADITIONAL
    assert pair_filter("convert").apply("Hello there.", "歌手鄧丽君 在 这里 唱歌").target == "歌手邓丽君在这里唱歌"


def test_conversion_without_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(han_variants, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"han_variants: convert needs OpenCC; install it: pip install opencc$"):
        pair_filter("convert")


def test_other_languages_have_no_variants() -> None:
    pytest.importorskip("opencc")
    assert HanCheck.of("it", "convert", SAMPLE) is None
    assert HanCheck.of("ja", "convert", SAMPLE) is None
    assert HanCheck.of("zh", "convert", ["abc"]) is None
