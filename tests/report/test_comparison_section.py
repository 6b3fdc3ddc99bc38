"""The section Comparison: significance, lines won, charts by group, distinctive words, sentences that differ."""

import re
from html import unescape

import pytest

from nmt.evaluation.metrics import measure
from nmt.report.comparison_section import comparison_section
from nmt.report.translated_text import TranslatedText
from nmt.text.glossary import Glossary
from nmt.text.languages import target_language

ITALIAN = target_language("it")
REFERENCE = [f"il gatto {word} dorme sul tappeto rosso" for word in "abcdefghijklmnopqrst"]
SOURCE = [f"the cat {word} sleeps on the red carpet" for word in "abcdefghijklmnopqrst"]
GOOD = [*REFERENCE[:18], "il gatto s dorme", REFERENCE[19]]
BAD = [*(line.replace("gatto", "cane") for line in REFERENCE[:18]), *REFERENCE[18:]]


def text_of(first: list[str], second: list[str], source: list[str] | None = SOURCE) -> TranslatedText:
    systems = {"A": first, "B": second}
    return TranslatedText("test", "Test text", ("en", "it"), ITALIAN, REFERENCE, systems, source)


def test_scores_and_the_better_system_are_shown() -> None:
    html = unescape(comparison_section([text_of(GOOD, BAD)]).html)
    good, bad = (measure("chrf", lines, [REFERENCE], ITALIAN).score(1000) for lines in (GOOD, BAD))
    assert good.confidence is not None
    assert bad.confidence is not None
    cells = [f"{one.value:.2f} ± {one.confidence.margin:.2f}" for one in (good, bad) if one.confidence]
    cells = ["chrF2", *cells, f"{good.value - bad.value:+.2f}", "0.001"]
    assert "".join(f"<td>{cell}</td>" for cell in cells) in html
    assert "<strong>A is significantly better</strong> in BLEU and chrF2." in html
    reverse = comparison_section([text_of(BAD, GOOD)]).html
    assert "<strong>B is significantly better</strong> in BLEU and chrF2." in reverse
    assert "bs:1000|seed:12345" in html
    cards = re.findall(r"<dt>(.*?)</dt><dd>(\d+)", html.split("Sentences that differ most")[0])
    assert cards == [
        ("lines", "20"),
        ("lines on which A is better", "18"),
        ("lines on which B is better", "1"),
        ("equal lines", "1"),
        ("identical lines", "1"),
    ]


def test_equal_systems_have_no_winner() -> None:
    html = comparison_section([text_of(GOOD, list(GOOD))]).html
    assert "<strong>No significant difference</strong> in BLEU and chrF2." in html
    assert "The outputs are equally good." in html


def test_charts_compare_both_systems_by_group() -> None:
    section = comparison_section([text_of(GOOD, BAD)])
    names = ["lengths", "differences", "scores"]
    assert list(section.charts) == [f"test-{name}" for name in names]
    assert section.charts["test-lengths"].rows[0][0] == "6–10 (20)"


def test_scores_of_single_lines_are_counted() -> None:
    charts = comparison_section([text_of(GOOD, BAD)]).charts
    scores = {str(row[0]): row[1:] for row in charts["test-scores"].rows}
    assert scores["≥ 95"] == (95.0, 10.0)  # 19 and 2 of 20 lines are the reference


def test_equal_lines_are_in_the_middle_of_a_bar() -> None:
    chart = comparison_section([text_of(GOOD, BAD)]).charts["test-differences"]
    shares = {str(row[0]): row[1] for row in chart.rows}
    assert shares["-2.5–2.5"] == 5.0  # one of 20 lines
    assert sum(share for share in shares.values() if isinstance(share, int | float)) == pytest.approx(100, abs=0.01)


def test_sentences_that_differ_are_shown() -> None:
    html = comparison_section([text_of(GOOD, BAD)]).html
    assert "A is better (10 of 18)" in html
    assert "B is better (1)" in html
    better = html.split("B is better (1)</summary>")[1].split("</details>")[0]
    assert "line 19 ·" in better
    assert "<ins> sul tappeto rosso</ins>" in better


def test_problems_come_first_and_text_is_escaped() -> None:
    text = text_of(["<script>"] * 20, ["<img>"] * 20)
    html = comparison_section([text], ["<no>"]).html
    assert html.startswith('<p class="warning">&lt;no&gt;</p>')
    assert not re.search("<(script|img|no)>", html)


def test_glossary_terms_are_counted_for_each_system() -> None:
    glossary = Glossary({"cat": "gatto", "red carpet": "tappeto rosso"})
    section = comparison_section([text_of(GOOD, BAD)], glossary=glossary)
    rows = re.findall(r"<tr><td>(A|B|reference)</td><td[^>]*>(\d+)</td><td[^>]*>([\d.]+%)</td></tr>", section.html)
    # 20 lines with two terms; A lacks the carpet once, B the cat 18 times
    assert rows == [("A", "39", "97.5%"), ("B", "22", "55.0%"), ("reference", "40", "100.0%")]
    assert (
        "No line of the source has a term"
        in comparison_section([text_of(GOOD, BAD)], glossary=Glossary({"x": "y"})).html
    )
