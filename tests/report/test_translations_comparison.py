"""Systems compared: significance, lines won, and sentences that differ."""

import re
from dataclasses import replace
from html import unescape

from nmt.config import LanguagePair
from nmt.evaluation.metrics import compare, measure
from nmt.report.translations import System, Text, comparison_html
from nmt.text.languages import target_language

ITALIAN = target_language("it")
REFERENCE = [f"il gatto {word} dorme sul tappeto rosso" for word in "abcdefghijklmnopqrst"]
SOURCE = [f"the cat {word} sleeps on the red carpet" for word in "abcdefghijklmnopqrst"]
TEXT = Text("Test text", LanguagePair("en", "it"), SOURCE, REFERENCE)
GOOD = [*REFERENCE[:18], "il gatto s dorme", REFERENCE[19]]
BAD = [*(line.replace("gatto", "cane") for line in REFERENCE[:18]), *REFERENCE[18:]]


def html_of(**lines: list[str]) -> str:
    return unescape(comparison_html([System(name, TEXT, texts) for name, texts in lines.items()]))


def test_scores_lines_won_and_significance_are_those_of_the_metrics() -> None:
    html = html_of(A=GOOD, B=BAD, C=["il cane", *GOOD[1:]])
    table = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>.*?</tr>", html)]
    rows = {cells[0]: cells for cells in table if cells}
    for name, lines in (("A", GOOD), ("B", BAD)):
        for place, metric in ((1, "bleu"), (3, "chrf")):
            assert rows[name][place] == measure(metric, lines, [REFERENCE], ITALIAN).score(1000).text
    found = compare(*(measure("chrf", lines, [REFERENCE], ITALIAN) for lines in (GOOD, BAD)))
    assert rows["B"][4] == f"{-found.difference:+.2f} (p = {found.p_value:.3f})"
    assert rows["A"][4] == "best"
    assert "BLEU: A is best, significantly better than B" in html
    assert [rows[name][5] for name in "ABC"] == ["1", "1", "0"], "A alone has line 1, B line 19"
    assert "bs:1000|seed:12345" in html
    assert "BLEU: B is best, significantly better than A." in html_of(A=BAD, B=GOOD)


def test_equal_systems_have_no_winner() -> None:
    html = html_of(A=GOOD, B=list(GOOD))
    assert "significantly better than" not in html
    assert "All are equally good." in html


def test_sentences_that_differ_most_are_shown_with_their_differences_from_the_reference() -> None:
    html = html_of(A=GOOD, B=BAD)
    assert "A is better in 18 lines" in html
    of_b = html.split("B is better in 1 line<")[1]
    assert re.findall(r"line (\d+) ·", of_b) == ["19"]
    assert "<del>cane</del>" in html.split("A is better in 18 lines")[1]


def test_texts_that_differ_are_not_compared() -> None:
    other = System("C", replace(TEXT, reference=GOOD), BAD)
    html = comparison_html([System("A", TEXT, GOOD), other, System("B", TEXT, BAD)])
    assert "Test text of C: no other system has translations of this text; its scores cannot be compared." in html
    assert "A is best, significantly better than B." in html
