"""The section Quality: scores equal to those of nmt score, the worst sentences first, counted faults."""

import re
from dataclasses import replace
from html import unescape

import pytest

from nmt.evaluation.metrics import measure
from nmt.report import quality_section as module
from nmt.report.quality_section import quality_section
from nmt.report.translated_text import TranslatedText
from nmt.text.languages import target_language

ITALIAN = target_language("it")
NUMBERS = ["uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto"]
REFERENCE = [f"il gatto numero {word} dorme sul tappeto" for word in NUMBERS]


def text_of(lines: list[str], source: list[str] | None = None, reference: list[str] | None = None) -> TranslatedText:
    reference = reference or REFERENCE
    return TranslatedText("test", "Test text", ("en", "it"), ITALIAN, reference, {"demo": lines}, source, "a note")


def shown(html: str) -> list[int]:
    """Return the numbers of the lines that are shown."""
    return [int(number) for number in re.findall(r"line (\d+) ·", html)]


def test_scores_equal_those_of_the_metrics() -> None:
    lines = [*REFERENCE[:7], "otto"]
    section = quality_section([text_of(lines)])
    for metric in ("bleu", "chrf"):
        score = measure(metric, lines, [REFERENCE], ITALIAN).score(1000)
        assert f"<dd>{score.value:.2f}<small>± {score.confidence.margin:.2f} (95 %)</small>" in section.html
        assert score.signature in section.html
    assert "a note" in section.html
    chart = section.charts["test-length"]
    assert [row[0] for row in chart.rows] == ["6–10 (8)"]
    assert '<div data-chart="test-length"></div>' in section.html


def test_worst_sentences_come_first_and_all_are_listed() -> None:
    lines = [*REFERENCE[:3], "gatto", *REFERENCE[4:]]
    html = quality_section([text_of(lines)]).html
    assert shown(html.split("Worst sentences")[1])[0] == 4
    assert shown(html.split("All sentences in order (8)")[1]) == list(range(1, 9))


def test_faults_are_counted_with_their_lines() -> None:
    source = ["The cat number one sleeps."] * 7 + ["In 1984."]
    lines = ["The cat number one sleeps.", "", *REFERENCE[2:7], "Nel 1983"]
    html = unescape(quality_section([text_of(lines, source, [*REFERENCE[:7], "Nel 1984"])]).html)
    faults = html.split("<h4>Faults</h4>")[1].split("<h4>")[0]
    assert re.findall(r"<td>(\w+)</td><td class=\"number\">(\d+)</td>", faults) == [
        ("empty", "1"),
        ("copy", "1"),
        ("number", "1"),
    ]
    assert "line 8 · chrF2" in faults
    assert "number: missing 1984; added 1983" in faults
    assert ">3<small>37.5%</small>" in html


def test_examples_of_faults_are_the_worst_lines() -> None:
    lines = [f"{line} 19{index}0" for index, line in enumerate(REFERENCE)]
    lines[5] = "x 1950"
    html = quality_section([text_of(lines)]).html
    assert shown(html.split("number: 5 of 8")[1].split("</details>")[0])[0] == 6


def test_text_without_faults_and_of_one_line() -> None:
    html = quality_section([text_of(["sì"], reference=["sì"])]).html
    assert "No line has a fault" in html
    assert "Best sentences" not in html


def test_all_text_is_escaped() -> None:
    html = quality_section([text_of(["<script>x</script>"], ["<img>"], ["<b>y</b>"])]).html
    assert not re.search("<(script|img|b)>", html)


def test_missing_texts_are_explained() -> None:
    assert "This run has no translated text" in quality_section([]).html
    html = quality_section([], ["No translations of the test text: x < y"]).html
    assert '<p class="warning">No translations of the test text: x &lt; y</p>' in html
    assert "This run has no" not in html


def test_all_systems_of_a_text_are_described() -> None:
    text = replace(text_of(list(REFERENCE)), systems={"A": list(REFERENCE), "B": ["x"] * 8})
    section = quality_section([text])
    assert re.findall("<h3>(.*?)</h3>", section.html) == ["Test text: A", "Test text: B"]
    assert list(section.charts) == ["test-length", "test-length-2"]
    assert all(f'<div data-chart="{name}"></div>' in section.html for name in section.charts)


def test_list_of_all_sentences_is_limited_and_scores_are_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*REFERENCE[:7], "otto"]
    monkeypatch.setattr(module, "_MOST_LISTED", 3)
    html = quality_section([text_of(lines)]).html
    assert shown(html.split("All sentences in order (the first 3 of 8)")[1]) == [1, 2, 3]
    assert f"<dd>{measure('chrf', lines, [REFERENCE], ITALIAN).score().value:.2f}<small>" in html
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 4 * len(REFERENCE[0]) + 8)  # two lines with their outputs
    assert "All sentences in order (the first 2 of 8)" in quality_section([text_of(lines)]).html
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 1)
    assert "All sentences in order (the first 1 of 8)" in quality_section([text_of(lines)]).html
