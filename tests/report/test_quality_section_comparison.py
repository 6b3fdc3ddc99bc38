"""The section Comparison: significance, lines won, and sentences that differ."""

import re
from dataclasses import replace
from html import unescape

from nmt.evaluation.metrics import measure
from nmt.report.quality_section import comparison_section
from nmt.report.translations import System, Text
from nmt.text.languages import target_language

ITALIAN = target_language("it")
REFERENCE = [f"il gatto {word} dorme sul tappeto rosso" for word in "abcdefghijklmnopqrst"]
SOURCE = [f"the cat {word} sleeps on the red carpet" for word in "abcdefghijklmnopqrst"]
TEXT = Text("Test text", ("en", "it"), ITALIAN, SOURCE, REFERENCE)
GOOD = [*REFERENCE[:18], "il gatto s dorme", REFERENCE[19]]
BAD = [*(line.replace("gatto", "cane") for line in REFERENCE[:18]), *REFERENCE[18:]]


def html_of(first: list[str], second: list[str]) -> str:
    return unescape(comparison_section([System("A", TEXT, first)], [System("B", TEXT, second)]).html)


def test_scores_and_the_better_system_are_shown() -> None:
    html = html_of(GOOD, BAD)
    good, bad = (measure("chrf", lines, [REFERENCE], ITALIAN).score(1000) for lines in (GOOD, BAD))
    cells = ["chrF2", good.text, bad.text, f"{good.value - bad.value:+.2f}", "0.001"]
    assert "".join(f"<td>{cell}</td>" for cell in cells) in html
    assert "<strong>BLEU: A is significantly better. chrF2: A is significantly better.</strong>" in html
    assert "<strong>BLEU: B is significantly better. chrF2: B is significantly better.</strong>" in html_of(BAD, GOOD)
    assert "bs:1000|seed:12345" in html
    found = re.findall(r"<dt>(.*?)</dt><dd>(\d+)", html)
    assert found == [("lines", "20"), ("A is better", "18"), ("B is better", "1"), ("equal lines", "1")]


def test_equal_systems_have_no_winner() -> None:
    html = html_of(GOOD, list(GOOD))
    assert "<strong>BLEU: no significant difference. chrF2: no significant difference.</strong>" in html
    assert "All are equally good." in html


def test_sentences_that_differ_most_are_shown_with_the_difference() -> None:
    html = html_of(GOOD, BAD)
    assert "A is better (10 of 18)" in html
    better = html.split("B is better (1 of 1)</summary>")[1].split("</details>")[0]
    assert re.findall(r"line (\d+) ·", better) == ["19"]
    assert "<ins> sul tappeto rosso</ins>" in better


def test_texts_that_differ_are_not_compared() -> None:
    first, other = System("A", TEXT, GOOD), System("B", replace(TEXT, reference=GOOD), BAD)
    for others in ([other], []):
        html = comparison_section([first], others).html
        assert "Test text: the other system has no translations of the same text." in html
    assert not re.search("<(script|img)>", comparison_section([System("<img>", TEXT, ["<script>"] * 20)], [first]).html)
