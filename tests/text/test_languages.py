"""Scripts against the Unicode database; the language of a text by letters and by words; variants of Chinese."""

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

from nmt.text import languages
from tests.builders import TEXTS


@pytest.mark.parametrize(
    ("code", "tokenizer"),
    [
        ("zho_Hans", "zh"),
        ("cmn", "zh"),
        ("kor", "ko-mecab"),
        ("it", "13a"),
        ("tha_Thai", "char"),
        ("khm_Khmr", "char"),
        ("nb", "13a"),
        ("xx", "13a"),
    ],
)
def test_tokenizer_for_language_codes_in_any_usual_spelling(code: str, tokenizer: str) -> None:
    target = languages.target_language(code)
    assert (target.tokenizer, target.origin, target.notice) == (tokenizer, "given", None)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["猫坐在垫子上。", "他没有来。"], "zh"),
        (["打开 GitHub 的 Settings 页面,然后点击按钮"], "zh"),
        (["猫はマットの上に座った。"], "ja"),
        (["고양이가 매트 위에 앉았다."], "ko"),
        (["大韓民國은 民主共和國이다"], "ko"),
        (["The cat sat on the mat."], ""),
        (["The sign said 你好, which means hello, and everyone who saw it smiled."], ""),
        (["Кошка сидит"], ""),
        (["", "123 !?", "。"], ""),
        ([], ""),
    ],
)
def test_language_is_recognised_by_the_script(lines: list[str], code: str) -> None:
    target = languages.detect_language(lines)
    assert target.code == code
    assert target.origin == "detected"


def test_notice_names_the_recognised_language_and_the_option() -> None:
    notice = "target language not given; text looks Chinese: BLEU tokenizer zh; --target-lang to choose"
    assert languages.detect_language(["你好"]).notice == notice
    assert "does not look Chinese, Japanese or Korean: BLEU" in (languages.detect_language(["ciao"]).notice or "")


NAMED = {"Han": ("CJK UNIFIED",), "Japanese": ("HIRAGANA", "KATAKANA", "CJK UNIFIED"), "Myanmar": ("MYANMAR",)}


@pytest.mark.parametrize("script", languages.SCRIPTS)
def test_scripts_contain_the_letters_named_after_them_in_unicode(script: str) -> None:
    letter_of = re.compile(f"[{languages.SCRIPTS[script]}]")
    own = NAMED.get(script, (script.upper(),))
    others = tuple(f"{name.upper()} LETTER" for name in languages.SCRIPTS if name != script)
    kinds = ("LETTER", "SYLLABLE", "IDEOGRAPH", "SMALL", "CAPITAL")
    mine = tuple(f"{name} {kind}" for name in own for kind in kinds)
    for letter, name in named_letters():
        if name.startswith(mine) and letter < "\U00010000":
            assert letter_of.match(letter), f"{script} lacks U+{ord(letter):04X} {name}"
        if name.startswith(others):
            assert not letter_of.match(letter), f"{script} holds U+{ord(letter):04X} {name}"


@cache
def named_letters() -> list[tuple[str, str]]:
    """Return the letters of all planes with their names in Unicode."""
    return [(chr(code), unicodedata.name(chr(code), "")) for code in range(0x110000) if chr(code).isalpha()]


@pytest.mark.parametrize(
    ("letters", "names"),
    [
        (languages.HAN, r"(VERTICAL )?(CJK|IDEOGRAPHIC|HANGZHOU)\b"),
        (
            languages.KANA,
            r"((HALFWIDTH|COMBINING) )?((HENTAIGANA|HIRAGANA|KATAKANA).* (LETTER|MARK|DIGRAPH|SOUND)|VERTICAL KANA)",
        ),
        (languages.HANGUL, r".*\bHANGUL\b"),
    ],
)
def test_east_asian_scripts_contain_exactly_their_letters_of_all_planes(letters: str, names: str) -> None:
    for letter, name in named_letters():
        held = re.match(f"[{letters}]", letter) is not None
        assert held == (re.match(names, name) is not None), f"U+{ord(letter):04X} {name}"


def test_unspaced_text_contains_no_latin_letters_and_no_spaces() -> None:
    assert re.fullmatch(f"[{languages.UNSPACED_TEXT}]+", "猫は、。「」・ー〜！？（）ﾟㄅ〱")
    assert not re.search(f"[{languages.UNSPACED_TEXT}]", "Aéя한 \u3000\t.,–")


@pytest.mark.parametrize("language", TEXTS)
def test_text_is_confirmed_in_its_language_and_in_no_other(language: str) -> None:
    lines = [TEXTS[language]] * 100
    assert languages.identify(TEXTS[language])[0] == language
    assert languages.language_of(lines) == language
    assert languages.found_instead(lines, language) is None
    for other in TEXTS.keys() - {language}:
        assert languages.found_instead(lines, other) == language, other


def test_number_of_blocks_that_are_identified_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are spread over all lines: a text of which the last quarter is in another language is in none."""
    blocks = list[str]()
    identify = languages.identify
    monkeypatch.setattr(languages, "identify", lambda text: (blocks.append(text), identify(text))[1])
    assert languages.language_of([TEXTS["it"]] * 30_000 + [TEXTS["en"]] * 10_000) is None
    assert len(blocks) == 400
    assert languages.language_of([TEXTS["it"]] * 30_000) == "it"
    assert len(blocks) == 400 + 375


@pytest.mark.parametrize(
    ("language", "code"),
    [("it", "xx"), ("it", "sc"), ("it", "ita_Latn"), ("zh", "zh-CN"), ("zh", "yue"), ("pt", "gl"), ("uk", "sr")],
)
def test_only_languages_that_can_be_told_apart_are_contradicted(language: str, code: str) -> None:
    """By py3langid or by the script; Serbian is written in two, but Ukrainian is none of it."""
    assert languages.found_instead([TEXTS[language]] * 100, code) == ("uk" if code == "sr" else None)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["调用 str.format() 方法时 object 会被转换为 string；see PEP 3101 for details。"] * 100, "zh"),
        (["12345 67", ""] * 100, "en"),
        ([TEXTS["it"]] * 99 + ["12345 67"], "en"),  # too few lines
        ([TEXTS["it"]] * 100 + [TEXTS["fr"]] * 100, "en"),
    ],
)
def test_texts_with_terms_without_letters_and_in_two_languages_contradict_nothing(lines: list[str], code: str) -> None:
    assert languages.found_instead(lines, code) is None


@pytest.mark.parametrize(("text", "found"), [("ମୁଁ ଗତକାଲି ବଜାରକୁ ଯାଇଥିଲି", "or"), ("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "another script")])
def test_text_in_another_script_contradicts_a_language_and_raises_no_error(text: str, found: str) -> None:
    assert languages.found_instead([text] * 100, "en") == found
    assert languages.found_instead([text] * 100, "chr") is None


@pytest.mark.parametrize(
    ("text", "simplified", "traditional"),
    [
        ("这个国家说话时間學", "这个国说话时", "間學"),
        ("這個國家说话時間學", "说话", "這個國時間學"),
        ("我和他在台北的后面，人大中文, il gatto, ねこ", "", ""),
    ],
)
def test_characters_of_one_variant_are_returned(text: str, simplified: str, traditional: str) -> None:
    assert languages.other_variant(text, "Traditional") == simplified
    assert languages.other_variant(text, "Simplified") == traditional


@pytest.mark.parametrize(
    ("name", "code", "simplified", "traditional"),
    [("zho_Hans", "zh", 1, 0), ("zho_Hant", "zh", 0, 1), ("ita_Latn", "", 0, 0), ("eng_Latn", "", 0, 0)],
)
def test_sentences_of_flores_are_recognised(
    shared_data: Path, name: str, code: str, simplified: int, traditional: int
) -> None:
    lines = (shared_data / "flores200-dev" / f"{name}.dev").read_text(encoding="utf-8").splitlines()
    assert languages.detect_language(lines).code == code
    for expected, shows in (
        (1, lambda line: languages.detect_language([line]).code == code),
        (simplified, lambda line: languages.other_variant(line, "Traditional")),
        (traditional, lambda line: languages.other_variant(line, "Simplified")),
    ):
        assert abs(expected - sum(bool(shows(line)) for line in lines) / len(lines)) <= 0.01
