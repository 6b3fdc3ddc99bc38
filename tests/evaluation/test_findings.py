"""Findings of single lines: each kind with lines that are nearly of it, and human references, which have few."""

import gzip
from collections import Counter

import pytest

from nmt.evaluation.findings import KINDS, Finding, diagnose, summary
from nmt.text.languages import detect_language, target_language
from tests.time_limit import seconds_of_the_processor

ITALIAN = target_language("it")
CHINESE = target_language("zh")


def found(
    text: str, source: str | None = None, reference: str | None = None, language: str = "it"
) -> list[tuple[str, str]]:
    """Return the kinds and details of one line."""
    references = [] if reference is None else [[reference]]
    findings = diagnose([text], target_language(language), references, None if source is None else [source])
    assert all(finding.line == 1 for finding in findings)
    return [(finding.kind, finding.detail) for finding in findings]


def test_correct_lines_have_no_finding() -> None:
    source = ["In 1984, I paid 1,000.50 for {0}.", "See https://a.org/x.", "Yes!", "Ha ha ha ha ha!"]
    target = ["Nel 1984 ho pagato 1.000,50 per {0}.", "Vedi https://a.org/x.", "Sì!", "Ah ah ah ah ah!"]
    assert diagnose(target, ITALIAN, [target], source) == []
    assert diagnose(target, ITALIAN, [], source) == []


def test_findings_have_line_numbers_and_are_counted() -> None:
    findings = diagnose(["Nel 1984.", "", "Nel 1983 e nel 1985."], ITALIAN, [["Nel 1984.", "Sì.", "Nel 1984."]])
    assert findings == [Finding(2, "empty", ""), Finding(3, "number", "missing 1984; added 1983 1985")]
    assert summary(findings) == "2 lines: empty 1, number 1"
    assert summary([]) == ""
    assert {finding.kind for finding in findings} <= set(KINDS)


@pytest.mark.parametrize(
    ("text", "source", "reference", "expected"),
    [
        (" ", "Yes.", None, "empty"),
        ("", None, "Sì.", "empty"),
        ("", "", " ", None),
        ("Nel 1983.", "In 1984.", None, "number missing 1984; added 1983"),
        ("Nel 1983.", None, "Nel 1984.", "number missing 1984; added 1983"),
        ("Nel 1984.", "In 1984.", "In quell'anno.", None),
        ("In quell'anno.", "In 1984.", "In quell'anno.", None),
        ("In quell'anno.", "In 1984.", "Nel 1984.", "number missing 1984"),
        ("1.000 volte", "1,000 times", None, None),
        ("due gatti", "2 cats", None, None),
        ("10.000 volte", "1,000 times", None, "number missing 1,000; added 10.000"),
        ("Apri { 0 }.", "Open {0}.", None, "placeholder missing {0}; added { 0 }"),
        ("Apri.", "Open {0}.", "Apri {0}.", "placeholder missing {0}"),
        ("Apri.", "Open {0}.", "Apri.", None),
        ("Apri {0} {0}.", "Open {0}.", None, "placeholder added {0}"),
        ("<b>Apri</b> {0}", "<b>Open</b> {0}", "{0} <b>aprire</b>", None),
        ("The cat sleeps here.", "The cat sleeps here.", "Il gatto dorme qui.", "copy equals the source"),
        ("the CAT sleeps here.", "The cat sleeps here.", None, "copy equals the source"),
        ("Tom Jackson", "Tom Jackson", None, None),
        ("Windows 10", "Windows 10", "Windows 10", None),
        ("Hello.", "Hello.", "Ciao.", "copy equals the source"),
        ("18.", "18.", "Punto 18.", None),
        ("tea time", "tea time", None, None),
    ],
)
def test_faults_are_found_beside_source_and_reference(
    text: str, source: str | None, reference: str | None, expected: str | None
) -> None:
    assert [f"{kind} {detail}".strip() for kind, detail in found(text, source, reference)] == (
        [] if expected is None else [expected]
    )


@pytest.mark.parametrize(
    ("text", "source", "numbers"),
    [
        ("二十只猫", "20 cats", 0),
        ("1983年", "in 1984", 1),
        ("一九八四年", "in 1984", 0),
        ("200亿元", "20 billion yuan", 0),
    ],
)
def test_numbers_in_chinese_numerals_are_not_lost(text: str, source: str, numbers: int) -> None:
    assert len(found(text, source, language="zh")) == numbers


@pytest.mark.parametrize(
    ("text", "language", "unit"),
    [
        ("il gatto il gatto il gatto il gatto dorme", "it", "il gatto × 4"),
        ("è vero che è vero che è vero che è vero", "it", "è vero che × 3"),
        ("no no no no", "it", "no × 4"),
        ("lalalalalalalalala", "it", "la × 9"),
        ("molto, molto, molto bello", "it", None),
        ("no no no", "it", None),
        ("10 10 10 10", "it", None),
        ("......... ? ? ? ?", "it", None),
        ("a b a c a d a e a f", "it", None),
        ("我们去看我们去看我们去看", "zh", "我们去看 × 3"),
        ("我喜欢苹果苹果苹果苹果", "zh", "苹果 × 4"),
        ("哈哈哈哈", "zh", None),
        ("哈哈哈哈哈哈哈哈哈", "zh", "哈 × 9"),
    ],
)
def test_repeated_unit_is_found(text: str, language: str, unit: str | None) -> None:
    assert found(text, language=language) == ([] if unit is None else [("repetition", unit)])
    assert found(text, source="x", reference=text, language=language) == []


@pytest.mark.parametrize(
    ("text", "language", "detail"),
    [
        ("Il gаtto dorme", "it", "Cyrillic: а"),  # a Cyrillic letter in an Italian word
        ("猫在睡觉", "it", "Han: 猫在睡觉"),
        ("Il gatto dorme a α gradi", "it", None),
        ("Il gatto dorme in the house on the hill", "it", None),
        ("Il gatto dorme sul tappeto", "zh", "no Han character"),
        ("Tom", "zh", None),
        ("GNU General Public License", "zh", None),
        ("汤姆的 iPhone", "zh", None),
        ("猫はねむい", "zh", "Kana: はねむい"),
        ("Кот спит", "ru", None),
        ("猫は眠い", "ja", None),
    ],
)
def test_characters_of_another_script_are_found(text: str, language: str, detail: str | None) -> None:
    assert dict(found(text, language=language)).get("script") == detail


def test_script_of_an_unknown_language_is_that_of_the_references() -> None:
    unknown = detect_language(["Il gatto dorme.", "Sì."])
    assert unknown.code == ""
    findings = diagnose(["Il gаtto dorme.", "Sì."], unknown, [["Il gatto dorme.", "Sì."]])
    assert findings == [Finding(1, "script", "Cyrillic: а")]
    assert diagnose(["кот", "猫"], unknown) == []


def test_script_of_the_source_or_the_reference_is_no_fault() -> None:
    assert found("Si scrive «кот».", source="It is written «кот».") == []
    assert found("Si scrive «кот».", reference="Scrivi «кот».") == []
    assert found("Linux", reference="操作系统", language="zh") == [("script", "no Han character")]
    assert found("Linux", reference="Linux", language="zh") == []


def test_simplified_and_traditional_characters_are_distinguished_by_the_language_or_the_references() -> None:
    simplified, traditional = ["这个国家很大。", "他说得对。"], ["這個國家很大。", "他說得對。"]
    assert diagnose(traditional, CHINESE, [simplified]) == [
        Finding(1, "variant", "Traditional: 這個國"),
        Finding(2, "variant", "Traditional: 說對"),
    ]
    assert [finding.detail for finding in diagnose(simplified, CHINESE, [traditional])] == [
        "Simplified: 这个国",
        "Simplified: 说对",
    ]
    assert diagnose(simplified, CHINESE, [simplified]) == []
    assert diagnose(traditional, CHINESE, [traditional]) == []
    assert diagnose(traditional, CHINESE, [], ["x", "y"]) == []
    simplified_is_a_fault = [finding.detail for finding in diagnose(simplified, target_language("zh-Hant"))]
    assert simplified_is_a_fault == ["Simplified: 这个国", "Simplified: 说对"]
    assert diagnose(simplified, target_language("zh_Hans"), [traditional]) == []
    # 瞭 in a Simplified reference
    assert diagnose(["他们瞭望。", "对。"], CHINESE, [["他们瞭望。", "对。"]]) == []


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("你好,世界.", ",."),
        ("你好吗?", "?"),
        ("你好，世界。", None),
        ("圆周率是3.14,约等于3。", ","),
        ("版本1.5见https://a.org/b?c=1,d。", None),
        ("时间是12:30。", None),
        ("他说Hello, world.", None),
        ("石雕(约9英寸)", None),
    ],
)
def test_ascii_punctuation_in_chinese_is_found(text: str, detail: str | None) -> None:
    assert found(text, language="zh") == ([] if detail is None else [("punctuation", detail)])
    assert found(text, reference=text, language="zh") == []
    assert [kind for kind, _ in found(text)].count("punctuation") == 0


def test_hostile_lines_are_diagnosed_in_linear_time() -> None:
    lines = ["a" * 100_000, "ab " * 30_000, "1" * 50_000, "<" * 50_000, "人" * 50_000, "\x00", "{" * 50_000]
    with seconds_of_the_processor():
        assert {finding.line for finding in diagnose(lines, ITALIAN, [["x"] * len(lines)])} >= {1, 2, 5}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "language", "most"),
    [("tatoeba-en-it/test.tsv", "it", 0.001), ("more-en-it/tldr.tsv.gz", "it", 0.005),
     ("tatoeba-en-zh/test.tsv", "zh", 0.03), ("more-en-zh/scratch.tsv.gz", "zh", 0.02)],
)  # fmt: skip
def test_human_translations_have_few_findings(shared_data, file: str, language: str, most: float) -> None:
    path = shared_data / file
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    pairs = [line.split("\t")[:2] for line in text.removesuffix("\n").split("\n")]
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    findings = diagnose(target, target_language(language), [], source)
    assert len({finding.line for finding in findings}) <= most * len(pairs)
    # ASCII marks are what some translators wrote
    others = Counter(finding.kind for finding in findings if finding.kind != "punctuation")
    assert others.total() <= 0.005 * len(pairs)
    assert diagnose(target, target_language(language), [target], source) == []
