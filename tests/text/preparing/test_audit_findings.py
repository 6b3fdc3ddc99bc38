"""Findings about whole corpora: each property planted in text that has none."""

import re

import pytest

from nmt.config import Filters, LanguagePair
from nmt.text.preparing.audit import findings, shared_pairs
from nmt.text.readers import SentencePair
from tests.builders import TEXTS, demo_pairs

ENGLISH, ITALIAN, CHINESE = TEXTS["en"], TEXTS["it"], TEXTS["zh"]
TRADITIONAL = "我不知道他昨天對你說了什麼，但是這對我來說並不像你想的那麼重要。"
LANGUAGES = LanguagePair("en", "it")


@pytest.mark.parametrize(
    ("source", "target", "code", "expected"),
    [
        (ENGLISH, ITALIAN, "it", ""),
        (ENGLISH, CHINESE, "zh", ""),
        (ENGLISH, TRADITIONAL, "zh-Hant", ""),
        (ENGLISH, ITALIAN.replace("?", " ?"), "it", ""),  # as French has it
        (ENGLISH, f"{ITALIAN} In 't huis, 's avonds.", "it", ""),  # as Dutch has them
        (ENGLISH, f"{ITALIAN} 3~5일, 5.3.2020, ① ♪", "it", ""),  # signs of other languages
        (ENGLISH, ITALIAN.lower(), "it", r"the target \(it\) has no capital letters: "),
        (ENGLISH.replace(",", " ,"), ITALIAN, "it", r"the source \(en\) is tokenized in 100\.0% of the lines: "),
        (ENGLISH.replace("not", "n't"), ITALIAN, "it", r"the source \(en\) is tokenized in 100\.0% of the lines: "),
        (
            re.sub(r"\b(\w\w)(\w)", r"\1@@ \2", ENGLISH),
            ITALIAN,
            "it",
            r"the source \(en\) has the marks of pieces in 100",
        ),
        (ENGLISH, "▁" + ITALIAN.replace(" ", " ▁"), "it", r"the target \(it\) has the marks of pieces in 100\.0%"),
        (
            ENGLISH,
            f"{ITALIAN} &egrave;",
            "it",
            r"the target \(it\) has entities of HTML in 100\.0% of the lines: replace",
        ),
        (
            f"R&D; AT&T {ENGLISH} &#39;",
            ITALIAN,
            "it",
            r"the source \(en\) has entities of HTML in 100\.0% of the lines: ",
        ),
        (f"{ENGLISH} R&D; &brandName; ?a=1&copy=2", ITALIAN, "it", ""),
        (ENGLISH, ITALIAN.replace("é", "e"), "it", r"the target \(it\) has `e'`, `perche` and the like in 100\.0%"),
        (
            ENGLISH,
            f"{ITALIAN} <br/>",
            "it",
            r"the target \(it\) has tags, addresses or placeholders that the source lacks",
        ),
        (f"{ENGLISH} <br/>", f"<br/>{ITALIAN}", "it", ""),
        (f'"{ENGLISH}"', f'"Sì" e "{ITALIAN}"', "it", r"the source \(en\) is in quotes in 100\.0% of the lines: "),
        (ENGLISH, " ".join(CHINESE), "zh", ""),  # the spaces are removed
        (ENGLISH, TRADITIONAL, "zh", r"the target \(zh\) is Traditional Chinese in 100\.0% of the lines: "),
        (ENGLISH, "他们说李對明在这里。", "zh", ""),
        (ENGLISH, CHINESE, "zh-Hant", r"the target \(zh-Hant\) is Simplified Chinese in 100\.0% of the lines: "),
    ],
)
def test_planted_property_is_the_only_finding(source: str, target: str, code: str, expected: str) -> None:
    pairs = [SentencePair(source, target, number) for number in range(1, 501)]
    found = findings("train.tsv", LanguagePair("en", code), pairs, Filters())
    assert len(found) == bool(expected)
    for finding in found:
        assert re.match(expected, finding.text)
        assert finding.examples[0].startswith("line 1: ")


def test_lines_in_another_language_are_found_unless_a_rule_removes_them() -> None:
    pairs = [SentencePair(ENGLISH, TEXTS["fr"] if line % 50 == 7 else ITALIAN, line) for line in range(1, 501)]
    (finding,) = findings("train.tsv", LANGUAGES, pairs, Filters())
    text = "the target (it) is in another language in 2.0% of the lines: data.filters.language: true removes such pairs"
    assert finding.text == text
    assert finding.examples[0] == f"line 7: {TEXTS['fr']}"
    assert findings("train.tsv", LANGUAGES, pairs, Filters(language=True)) == []
    assert findings("train.tsv", LANGUAGES, pairs, Filters(keep=("language",))) == []


@pytest.mark.parametrize("share", [0.05, 1.0])
@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ("Leggi tutto sul nostro sito.", "the target (it) is the same beside different sentences in "),
        ('"""Ciao {}"" disse"', 'the target (it) has `""` in '),
        ("1972", "the target (it) has no letters in "),
        ("Un ▁altro ▁testo {}.", "the target (it) has the marks of pieces in "),
        ("Un altro <unk> testo {}.", "the target (it) has tags, addresses or placeholders that the source lacks in "),
    ],
)
def test_what_a_part_of_the_targets_has_is_found(planted: str, expected: str, share: float) -> None:
    rows = demo_pairs(1000)
    pairs = [SentencePair(row[0], row[1], line) for line, row in enumerate(rows)]
    every = round(1 / share)
    pairs = [pair._replace(target=planted.format(pair.line)) if pair.line % every == 0 else pair for pair in pairs]
    assert [text for text in (remark.text for remark in findings("x", LANGUAGES, pairs)) if text.startswith(expected)]
    assert not findings("x", LANGUAGES, map(SentencePair, *zip(*rows, strict=True), range(1000)))


@pytest.mark.parametrize(
    ("shared", "of", "found"), [(20, 20, "100.0%"), (5, 100, "5.0%"), (4, 100, None), (0, 9, None)]
)
def test_validation_pairs_in_the_test_text_are_found(shared: int, of: int, found: str | None) -> None:
    """Whatever their order, case and punctuation; pairs that share one side only are no shared pairs."""
    valid = [SentencePair(*row) for row in demo_pairs(of)]
    test = [SentencePair(pair.source.upper() + "!", pair.target) for pair in valid[:shared][::-1]]
    test += [SentencePair("", ""), *(SentencePair(pair.source, "altro") for pair in valid)]
    text = [finding.text.split(" of")[0] for finding in shared_pairs([*valid, SentencePair("", "")][:of], test)]
    assert text == ([] if found is None else [found])


def test_lines_that_stop_corresponding_are_found() -> None:
    rows = demo_pairs(3000)
    sources, targets = [row[0] for row in rows], [row[1] for row in rows[:1000] + rows[1001:]]
    (finding,) = findings("x", LANGUAGES, map(SentencePair, sources, targets, range(1, 3000)))
    assert finding.text == "the lengths of both sides stop corresponding at about line 1,001"


def test_text_without_pairs_is_found() -> None:
    (finding,) = findings("data.test: test.tsv", LANGUAGES, [SentencePair("", " ")])
    assert finding.text == "there are no sentence pairs in it"


def test_wrongly_decoded_lines_are_found_in_a_text_of_any_size() -> None:
    pairs = [SentencePair("Why not?", target, line) for line, target in enumerate(("Perché?", "PerchÃ©?"), 1)]
    (finding,) = findings("data.test: test.tsv", LANGUAGES, pairs)
    assert finding.text.startswith("the target (it) is decoded wrongly in 1 of 2 lines: convert the file again")
    assert finding.examples == ("line 2: PerchÃ©?",)
