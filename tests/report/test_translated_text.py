"""Lines of a text on the page: marked differences, escaped text."""

import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluation.findings import Finding
from nmt.report.translated_text import TranslatedText, lines_html, marked
from nmt.text.languages import target_language


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("the black cat", "the cat", "the <del>black </del>cat"),
        ("the cat", "the black cat", "the cat"),
        ("a b", "a b", "a b"),
        ("我们去看电影", "我们看电影", "我们<del>去</del>看电影"),
        ("", "a", ""),
        ("x", "", "<del>x</del>"),
        ("<b> & c", "<b> c", "&lt;b&gt; <del>&amp; </del>c"),
    ],
)
def test_words_that_the_other_line_has_not_are_marked(text: str, other: str, expected: str) -> None:
    assert marked(text, other, "del") == expected


@settings(max_examples=50, derandomize=True)
@given(st.text(max_size=30), st.text(max_size=30))
def test_marked_text_is_the_text_itself(text: str, other: str) -> None:
    html = marked(text, other, "ins")
    assert unescape(re.sub("</?ins>", "", html)) == unescape(text.replace("&", "&amp;"))
    assert not re.search("<(?!/?ins>)", html)


def test_long_sentences_are_cut() -> None:
    assert marked("a" * 5000, "b", "del") == f"<del>{'a' * 2000}</del>…"
    html = marked("a b " * 5000, "b a a " * 5000, "del")
    assert re.sub("</?del>", "", html) == "a b " * 500 + "…"


def test_a_line_shows_its_texts_languages_and_faults() -> None:
    systems, sources = {"run": [""] * 1234}, ["The <cat>"] * 1234
    text = TranslatedText("id", "Title", ("en", "it"), target_language("it"), ["Il gatto"] * 1234, systems, sources)
    html = lines_html(text, ["run"], [1233], ["chrF2 0.0"] * 1234, [Finding(1234, "empty", ""), Finding(1, "copy", "")])
    assert "line 1,234 · chrF2 0.0 · empty</p>" in html
    assert '<dt>source</dt><dd lang="en">The &lt;cat&gt;</dd>' in html
    assert '<dd lang="it"><ins>Il gatto</ins></dd>' in html
    assert "<em>empty</em>" in html


def test_two_outputs_are_compared_with_each_other() -> None:
    systems = {"a": ["un gatto"], "b": ["il cane"]}
    text = TranslatedText("id", "Title", ("", ""), target_language("it"), ["il gatto"], systems)
    html = lines_html(text, ["a", "b"], [0], ["chrF 1.0 and 2.0"])
    assert "<dt>reference</dt><dd>il gatto</dd>" in html
    assert "<dt>a</dt><dd><del>un</del> <del>gatto</del></dd>" in html
    assert "<dt>b</dt><dd><ins>il</ins> <ins>cane</ins></dd>" in html
