"""The sections of several runs: settings that differ, significance, lines won, and sentences that differ."""

import re
from dataclasses import replace
from html import unescape

from nmt.evaluation.metrics import compare, measure
from nmt.report.comparison_section import comparison_section, runs_section
from nmt.report.run_table import Row
from nmt.report.translations import System, Text
from nmt.text.languages import target_language

ITALIAN = target_language("it")
REFERENCE = [f"il gatto {word} dorme sul tappeto rosso" for word in "abcdefghijklmnopqrst"]
SOURCE = [f"the cat {word} sleeps on the red carpet" for word in "abcdefghijklmnopqrst"]
TEXT = Text("Test text", ("en", "it"), ITALIAN, SOURCE, REFERENCE)
GOOD = [*REFERENCE[:18], "il gatto s dorme", REFERENCE[19]]
BAD = [*(line.replace("gatto", "cane") for line in REFERENCE[:18]), *REFERENCE[18:]]


def html_of(**lines: list[str]) -> str:
    return unescape(comparison_section([System(name, TEXT, texts) for name, texts in lines.items()]).html)


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
    html = comparison_section([System("A", TEXT, GOOD), other, System("B", TEXT, BAD)]).html
    assert "Test text of C: no other system has translations of this text; its scores cannot be compared." in html
    assert "A is best, significantly better than B." in html
    hostile = [System("<img>", TEXT, ["<script>"] * 20), System("<b>", TEXT, GOOD)]
    assert not re.search("<(script|img|b)>", comparison_section(hostile).html)


def row_of(name: str, epochs: float, rate: float) -> Row:
    settings = {"train.schedule.rate": rate, "seed": 1}
    places = {"path": name, "remark": "", "settings": settings, "valid": {}, "test": {}}
    counts = dict.fromkeys(("parameters", "steps", "tokens", "minutes", "device"))
    return {"name": name, "epochs": epochs, "pairs": 1000, **places, **counts}


def test_runs_have_the_settings_that_differ_and_who_has_seen_more_text() -> None:
    html = runs_section([row_of("A", 1.0, 0.1), row_of("B", 2.5, 0.2), row_of("C", 1.02, 0.1)]).html
    assert "<td>train.schedule.rate</td>" in html
    assert "<td>seed</td>" not in html
    assert re.findall("<li>(.*?)</li>", html) == [
        "B has seen 2.5 times the text of A (2,500 sentence pairs against 1,000, repetitions included): a better score "
        "may be due to that."
    ]
    assert "None: the recipes are equal." in runs_section([row_of("A", 1, 0.1), row_of("B", 1, 0.1)]).html
