"""Findings about whole corpora: each property planted in text that has none."""

import random
import re

import pytest

from nmt.config import Filters, LanguagePair
from nmt.text.preparing.audit import Audit, CorpusAudit, Finding, findings
from nmt.text.readers import SentencePair
from tests.builders import demo_pairs

ENGLISH = ["The old man reads a book in the garden.", "My sister doesn't like it, but she has to go there.",
           "What is the name of your friend?", "I think that they were at the market, too.",
           "He was with her when it happened."]  # fmt: skip
ITALIAN = ["Il vecchio legge un libro nel giardino.", "A mia sorella non piace, ma ci deve andare.",
           "Come si chiama il tuo amico?", "Penso che anche loro fossero al mercato.",
           "Era con lei quando è successo."]  # fmt: skip
CHINESE = ["老人在花园里看书，这个国家很美。", "我姐姐不喜欢，但是她得去。", "你朋友叫什么名字？",
           "我想他们也在市场里。", "事情发生的时候他和她在一起。"]  # fmt: skip
TRADITIONAL = ["老人在花園裡看書，這個國家很美。", "我姐姐不喜歡，但是她得去。", "你朋友叫什麼名字？",
               "我想他們也在市場裡。", "事情發生的時候他和她在一起。"]  # fmt: skip


def found(sources: list[str], targets: list[str], target: str = "it") -> list[Finding]:
    """Return the findings about a text whose lines have one to four of the sentences."""
    choose = random.Random(1)
    lines = [choose.choices(range(5), k=choose.randint(1, 4)) for _ in range(500)]
    pairs = [
        SentencePair(" ".join(sources[i] for i in line), " ".join(targets[i] for i in line), number)
        for number, line in enumerate(lines, start=1)
    ]
    return findings("train.tsv", LanguagePair("en", target), pairs, Filters())


def tokenized(lines: list[str]) -> list[str]:
    return [re.sub(r"([,.?]|n't)", r" \1", line) for line in lines]


@pytest.mark.parametrize(
    ("sources", "targets", "target", "expected"),
    [
        (ENGLISH, ITALIAN, "it", ""),
        (ENGLISH, CHINESE, "zh", ""),
        (ENGLISH, TRADITIONAL, "zh-Hant", ""),
        (ENGLISH, [re.sub(r"[?.]$", " ?", line) for line in ITALIAN], "it", ""),  # as French has them
        (ENGLISH, list(map(str.lower, ITALIAN)), "it", r"the target \(it\) has no capital letters: "),
        (tokenized(ENGLISH), ITALIAN, "it", r"the source \(en\) is tokenized in 9\d\.\d% of the lines: "),
        (ENGLISH, list(map(" ".join, CHINESE)), "zh", r"the target \(zh\) has spaces between .* in 100\.0% of "),
        (ENGLISH, TRADITIONAL, "zh", r"the target \(zh\) is Traditional Chinese in (9\d|100)\.\d% of "),
        (ENGLISH, CHINESE, "zh-Hant", r"the target \(zh-Hant\) is Simplified Chinese in (9\d|100)\.\d% of "),
    ],
)
def test_planted_property_is_the_only_finding(
    sources: list[str], targets: list[str], target: str, expected: str
) -> None:
    own = found(sources, targets, target)
    assert len(own) == bool(expected)
    for finding in own:
        assert re.match(expected, finding.text)
        assert finding.examples[0].startswith("line 1: ")
        assert finding.severity == ("note" if "they are removed" in finding.text else "warning")


def test_lines_in_another_language_are_found_unless_a_rule_removes_them() -> None:
    french = ["Je ne sais pas pourquoi il est parti si tôt.", "Nous avons mangé du pain et du fromage ce matin."]
    pairs = [
        SentencePair(ENGLISH[number % 5], french[number % 2] if number % 50 == 7 else ITALIAN[number % 5], number)
        for number in range(1, 501)
    ]
    languages = LanguagePair("en", "it")
    (finding,) = findings("train.tsv", languages, pairs, Filters())
    assert finding.text == (
        "the target (it) is in another language in 2.0% of the lines: data.filters.language: true removes such pairs"
    )
    assert finding.examples[0] == f"line 7: {french[1]}"
    assert findings("train.tsv", languages, pairs, Filters(language=True)) == []
    assert findings("train.tsv", languages, pairs, Filters(keep=("language",))) == []


def test_lines_that_stop_corresponding_are_found() -> None:
    rows = demo_pairs(3000)
    sources, targets = [row[0] for row in rows], [row[1] for row in rows[:1000] + rows[1001:]]
    pairs = list(map(SentencePair, sources, targets, range(1, 3000)))
    (finding,) = findings("x", LanguagePair("en", "it"), pairs)
    assert finding.text == "the lengths of both sides stop corresponding at about line 1,001"


def test_rules_that_remove_many_pairs_are_found() -> None:
    train = CorpusAudit("train.tsv", "train", 1000, {"script": 134, "copy": 9})
    audit = Audit([train, CorpusAudit("valid.tsv", "valid", 10, {"copy": 9})], [], {})
    audit.add_rule_findings()
    (finding,) = audit.findings
    assert finding.text == "13.4% of the pairs: not in the script of its language (rule script)"


def test_text_without_pairs_is_found() -> None:
    (finding,) = findings("data.test: test.tsv", LanguagePair("en", "it"), [SentencePair("", " ")])
    assert finding.text == "there are no sentence pairs in it"


def test_wrongly_decoded_lines_are_found_in_a_text_of_any_size() -> None:
    pairs = [SentencePair("Why not?", target, line) for line, target in enumerate(("Perché?", "PerchÃ©?"), 1)]
    (finding,) = findings("data.test: test.tsv", LanguagePair("en", "it"), pairs)
    assert finding.text.startswith("the target (it) is decoded wrongly in 1 of 2 lines: convert the file again")
    assert finding.examples == ("line 2: PerchÃ©?",)
