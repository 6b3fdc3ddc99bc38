"""The section Quality: scores equal to those of nmt score, the worst sentences first, counted faults."""

import re
from html import unescape

from nmt.config import LanguagePair
from nmt.evaluation.metrics import measure
from nmt.report.translations import System, Text, quality_html
from nmt.text.languages import target_language

ITALIAN = target_language("it")
NUMBERS = ["uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto"]
REFERENCE = [f"il gatto numero {word} dorme sul tappeto" for word in NUMBERS]


def html_of(lines: list[str], source: list[str] | None = None, reference: list[str] = REFERENCE) -> str:
    text = Text("Test text", LanguagePair("en", "it"), source, reference, "a note")
    return quality_html([System("demo", text, lines)])


def shown(html: str) -> list[int]:
    """Return the numbers of the lines that are shown."""
    return [int(number) for number in re.findall(r"line (\d+) ·", html)]


def test_scores_equal_those_of_the_metrics_and_the_worst_sentences_come_first() -> None:
    lines = [*REFERENCE[:3], "gatto", *REFERENCE[4:]]
    html = html_of(lines)
    for metric in ("bleu", "chrf"):
        score = measure(metric, lines, [REFERENCE], ITALIAN).score(1000)
        assert f"<dd>{score.text}<small>95 % interval</small>" in html
        assert score.signature in html
    assert "a note" in html
    assert shown(html.split("Worst sentences")[1])[0] == 4


def test_faults_are_counted_with_the_worst_lines_of_each_kind() -> None:
    source = ["The cat number one sleeps."] * 7 + ["In 1984."]
    lines = ["The cat number one sleeps.", "", *REFERENCE[2:7], "Nel 1983"]
    html = unescape(html_of(lines, source, [*REFERENCE[:7], "Nel 1984"]))
    faults = html.split("<strong>Faults in ")[1].split("Worst sentences")[0]
    counts = re.findall(r"<td>(\w+)</td><td class=\"number\">(\d+)</td>", faults)
    assert counts == [("empty", "1"), ("copy", "1"), ("number", "1")]
    assert "number: missing 1984; added 1983" in faults
    assert faults.startswith("3 lines (37.5%)<")
    lines = [f"{line} 19{index}0" for index, line in enumerate(REFERENCE)]
    lines[5] = "x 1950"
    assert shown(html_of(lines).split("number: 5 of 8")[1].split("</details>")[0])[0] == 6


def test_text_without_faults_and_of_one_line() -> None:
    html = html_of(["sì"], reference=["sì"])
    assert "No line has a fault" in html


def test_missing_texts_are_explained() -> None:
    assert "This run has no translated text" in quality_html([])
    html = quality_html([], ["No translations of the test text: x < y"])
    assert html.strip() == '<p class="warning">No translations of the test text: x &lt; y</p>'
