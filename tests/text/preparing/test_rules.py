"""The rules on text: each by example, damage by real misreadings of many languages; any text; linear time."""

import math
import pickle
import random
import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Filters, LanguagePair, RuleName
from nmt.errors import ConfigError
from nmt.text.preparing.rules import LEAST_PAIRS, RULES, LengthRatio, Rules, damage, letters
from nmt.text.readers import SentencePair
from tests.builders import TEXTS, random_lengths
from tests.time_limit import seconds_of_the_processor

UNDEFINED_IN_WINDOWS_1252 = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
SOURCE, TARGET = "The committee will meet again next Thursday.", "Il comitato si riunirà giovedì prossimo."
HELD_OUT = {
    "validation": [SentencePair("", "?!"), SentencePair("我们明天去北京。", "Yes.")],
    "test": [SentencePair(SOURCE, TARGET)],
}
SIMPLIFIED, TRADITIONAL = "这个国家的语言很难学。", "這個國家的語言很難學。"


def learned(target: str = "it", **settings: object) -> Rules:
    return Rules.learn(Filters.model_validate(settings), LanguagePair("en", target), (), HELD_OUT)


def as_windows_1252(data: bytes) -> str:
    """Decode as browsers do: bytes without a character in Windows-1252 are those of Latin-1."""
    return "".join(chr(b) if b in UNDEFINED_IN_WINDOWS_1252 else bytes([b]).decode("cp1252") for b in data)


@pytest.mark.parametrize(
    ("language", "source", "target", "rule"),
    [
        ("it", "", "ciao", "empty"),
        ("it", "hi", "ciao", None),
        ("it", "Perch\u00c3\u00a9?", "ciao", "damaged"),
        ("it", "Radio Roma", "radio roma", "copy"),
        ("it", "Straße", "STRASSE", None),
        ("zh", "Threads may share it", "线程可以共享Threads may share it", "copy"),
        ("it", "iOS 14", "iOS 14 (beta)", None),
        ("it", "It is 16, 18, 27, 28, 61, 87", "16, 18, 27, 28, 61, 87", "symbols"),
        ("it", "hi", "你好", "script"),
        ("it", "hi", "привет, это текст о PDF", "script"),  # Latin letters are few
        ("it", "hi", "Kyïv si scrive Київ", None),
        ("it", "hi", "α e β", None),
        ("zho_Hans", "hi", "hello", "script"),
        ("zh_Hant", "code", "print(x)", "script"),
        ("zh", "at half past ten", "10:30", None),
        ("zh", "Tom is here", "Tom 在", None),
        ("zh", "hi", "これは日本語のテキストです", "script"),
        ("ja", "hi", "東京", None),
        ("el", "hi", "γεια", None),
        ("sr", "hi", "zdravo", None),
    ],
)
def test_rules_by_example(language: str, source: str, target: str, rule: str | None) -> None:
    assert learned(language).apply(source, target)[2] == rule


def test_pair_is_returned_normalized_with_what_was_found() -> None:
    assert learned().apply(" a\u200b  b ", "e\u0301\t") == ("a b", "é", None, "")
    assert learned("zh").apply("x", "我 喜欢 （ iPad ） 。")[1] == "我喜欢（iPad）。"
    assert learned().apply("No comment.", "No comment.")[3] == "identical"
    assert learned().apply("x = 2 ** 10 / (3.5 - 1)", "testo")[3] == "93% digits and symbols"
    assert learned().apply("hi", "今天下雨")[3] == "no Latin letter"


def test_settings_turn_rules_off_except_for_empty_sides() -> None:
    permissive = learned("zh", keep=list(get_args(RuleName)))
    for source, target in (("same", "same"), (SOURCE, TARGET), ("\ufffd", "x")):
        assert permissive.apply(source, target)[2] is None
    assert permissive.apply("", "x")[2] == "empty"


@pytest.mark.parametrize("language", sorted(TEXTS.keys() - {"en"}))
def test_utf8_read_as_another_encoding_is_found(language: str) -> None:
    line = TEXTS[language]
    assert damage(line) is None
    assert damage(line.encode().decode("latin-1")) is not None
    assert damage(as_windows_1252(line.encode())) is not None


@pytest.mark.parametrize(
    ("line", "found"),
    [("PerchÃ© no?", "“Ã©” for “é”"), ("SÃ¬.", "“Ã¬” for “ì”"), ("mobilit\ufffd e libertà", "“\ufffd” at character 8"),
     ("锟斤拷你好", "“锟斤拷” at character 1"), ("Itâ€™s mine", "“â€™” for “’”")],
)  # fmt: skip
def test_damage_shows_the_characters_and_what_they_were(line: str, found: str) -> None:
    assert damage(line) == found


@pytest.mark.parametrize(
    "line",
    [
        "«PERCHÉ»", "È la CITTÀ…", "MANHÃ…", "NÃO “SÃO”", "„Ä“ ist ein Umlaut", "né»… oui", "ÄÖÜäöü", "éèàùòì", "Ã",
        "¿Él…?",        "10 °C, ½ l", "naïve café", "Ð is a letter", "Ñandú", "×3", "plain",
    ],
)  # fmt: skip
def test_letters_beside_punctuation_are_no_damage(line: str) -> None:
    assert damage(line) is None


@pytest.mark.parametrize(
    ("source", "target", "place"),
    [
        (SOURCE.upper(), "Altra traduzione.", f"test sentence 1: {SOURCE}"),
        ("“The commit-tee”  will meet again, next thursday…", "Altra.", f"test sentence 1: {SOURCE}"),
        ("They meet on Thursday.", TARGET.lower(), f"test sentence 1: {TARGET}"),
        ("Sì.", "YES!", "validation sentence 2: Yes."),
        (TARGET, SOURCE, f"test sentence 1: {TARGET}"),  # the other direction
        ("The committee will meet next Thursday.", "No.", None),
        ("?", "…", None),
    ],
)
def test_held_out_sentence_is_found_on_either_side(source: str, target: str, place: str | None) -> None:
    found = learned().apply(source, target)[2:]
    assert found == ((None, "") if place is None else ("leak", place))


@given(st.text() | st.text("काकीกาقُقَ a.,，é"))
def test_letters_are_what_unicode_calls_letters_numbers_and_marks(text: str) -> None:
    text = text.encode(errors="replace").decode()
    kept = [one for one in text.casefold() if one.isalnum() or unicodedata.category(one).startswith("M")]
    assert letters(text) == "".join(kept)


@pytest.mark.parametrize("vowels", ["का की कि", "قُبل قَبل", "กา กี", "क़ क"])
def test_sentences_that_differ_in_combining_vowels_are_not_held_out(vowels: str) -> None:
    first, *others = vowels.split()
    rules = Rules.learn(Filters(), LanguagePair("en", "sr"), (), {"test": [SentencePair("one", f"{first}।")]})
    assert rules.apply("two", first)[2] == "leak"
    assert [rules.apply("two", other)[2] for other in others] == [None] * len(others)


@pytest.mark.parametrize(
    ("target", "text", "found"),
    [
        ("it", TEXTS["it"], None),
        ("it", TEXTS["en"], "en"),
        ("it", TEXTS["fr"], "fr"),
        ("it", "The end.", None),  # too short
        ("it", "import numpy as np; print(np.zeros(10))", None),
        ("nb", "Jeg ved ikke hvorfor han ikke har fortalt mig noget om sin familie.", None),  # Danish is related
        ("tlh", TEXTS["en"], None),  # not known
        ("zh", "iPhone、MacBook 和 Apple Watch 等产品很贵", None),
    ],
)
def test_line_in_another_language_is_found_if_asked_for(target: str, text: str, found: str | None) -> None:
    source = "He told us much about the old house in which his family lived."
    assert learned(target).apply(source, text)[2] is None
    _, _, rule, what = learned(target, language=True).apply(source, text)
    assert (rule, what.partition(",")[0]) == ((None, "") if found is None else ("language", f"language {found}"))


def test_setting_and_exception_of_language_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"true removes what keep: \[language\] permits"):
        Filters.model_validate({"language": True, "keep": ["language"]})


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("zh", TRADITIONAL, SIMPLIFIED),
        ("zh-Hant", SIMPLIFIED, TRADITIONAL),
        ("zh", "歌手鄧丽君 在 这里 唱歌", "歌手邓丽君在这里唱歌"),
    ],
)
def test_lines_of_the_other_variant_of_chinese_are_converted_if_asked_for(
    language: str, text: str, expected: str
) -> None:
    pytest.importorskip("opencc")
    pair, sample = LanguagePair("en", language), [SentencePair("a", line) for line in [SIMPLIFIED] * 3 + [TRADITIONAL]]
    assert Rules.learn(Filters(han_variants="convert"), pair, sample).apply("Hello there.", text)[1] == expected
    mixed = SIMPLIFIED + TRADITIONAL
    assert Rules.learn(Filters(), pair, sample).apply("Hello there.", mixed)[1:3] == (mixed, None)


def test_conversion_without_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.errors.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"opencc, which .*han_variants: convert needs, is not installed; run: pip"):
        learned("zh", han_variants="convert")


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
ANY_TEXT |= st.binary(max_size=60).map(lambda data: data.decode("cp1252", "replace"))
PARTS = [
    "the", "and", "il", "di", "你好", "，", " ", "1,000", "１９", "3.5", "Ã©", "é", "\ufffd", "\ud800", "www.a.org",
    "a@b.it", "東京",
]  # fmt: skip
LIKELY_TEXT = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
SAMPLE = [SentencePair("the old house", "la vecchia casa")] * 300


@given(ANY_TEXT | LIKELY_TEXT, ANY_TEXT | LIKELY_TEXT, st.sampled_from([("en", "it"), ("en", "zh"), ("ja", "sr")]))
def test_apply_accepts_any_text_and_can_be_pickled(source: str, target: str, languages: tuple[str, str]) -> None:
    rules = Rules.learn(Filters(), LanguagePair(*languages), SAMPLE, HELD_OUT)
    verdict = rules.apply(source, target)
    assert verdict == pickle.loads(pickle.dumps(rules)).apply(source, target)
    assert verdict[2] is None or verdict[2] in RULES
    for normalized in verdict[:2]:
        assert "\t" not in normalized
        assert "\n" not in normalized
        normalized.encode()
    assert rules.apply(*verdict[:2])[:2] == verdict[:2]


@pytest.mark.parametrize("unit", ["a", "a@", "1 ", "1.", "你", "你 ", "Ã©", "é", "the ", ". ", "http://a."])
def test_long_lines_take_linear_time(unit: str) -> None:
    """100,000 characters; a pattern of quadratic time would need hours."""
    line = unit * (100_000 // len(unit))
    rules = Rules.learn(Filters(), LanguagePair("en", "zh"), SAMPLE, HELD_OUT)
    with seconds_of_the_processor():
        rules.apply(line, line + "x")
        rules.apply(line, "好" + line)


def pairs(count: int, ratio: float) -> list[tuple[str, str]]:
    return [("a" * source, "b" * target) for source, target in random_lengths(count, ratio)]


LENGTHS, CONSTANT = pairs(2000, 1.0), [("a" * 50, "b" * 50)] * LEAST_PAIRS
CHINESE, NAME = [("a" * 20, "中" * 7)] * LEAST_PAIRS, "Internationalization and Localization"


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_ratio_is_learned_though_a_fifth_of_the_pairs_are_wrong(ratio: float) -> None:
    choose = random.Random(1)
    wrong = [("a" * choose.randint(1, 200), "b" * choose.randint(1, 200)) for _ in range(500)]
    learned = LengthRatio.learn([*pairs(2000, ratio), *wrong])
    assert learned is not None
    assert math.exp(learned.median) == pytest.approx(ratio, rel=0.05)
    assert sum(learned.unusual(*pair) is not None for pair in pairs(2000, ratio)) <= 5
    assert learned.unusual("a" * 100, "b" * round(100 * ratio * 5)) is not None
    assert learned.unusual("a" * 100, "b" * round(100 * ratio / 5)) is not None


@pytest.mark.parametrize(
    ("sample", "source", "target", "found"),
    [
        (LENGTHS, "a" * 5, "b" * 15, None),  # the tolerance grows for short sentences
        (LENGTHS, "a" * 100, "b" * 300, "target 3 times as long, expected 0.41 to 2.5 times"),
        (CONSTANT, "a" * 50, "b" * 99, None),
        (CONSTANT, "a" * 50, "b" * 101, "target 2 times as long, expected 0.5 to 2 times"),
        # Chinese counts in bytes, three for a character, so that names in it count as those of the other side
        (CHINESE, f"{'a' * 20} {NAME}", f"{'中' * 7}{NAME}", None),
    ],
)
def test_unusual_lengths_by_hand(sample: list[tuple[str, str]], source: str, target: str, found: str | None) -> None:
    learned = LengthRatio.learn(sample)
    assert learned is not None
    assert learned.unusual(source, target) == found


def test_small_sample_gives_no_limit() -> None:
    assert LengthRatio.learn(pairs(LEAST_PAIRS - 1, 1.0)) is None
    assert LengthRatio.learn([]) is None
    assert LengthRatio.learn([("", "b")] * LEAST_PAIRS) is None
