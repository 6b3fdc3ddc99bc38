"""The section Attention: quantized weights, text alternatives, and the drawing of an alignment."""

import base64
import re
from html import unescape

import numpy as np
import pytest

from nmt.report.attention_section import alignment_drawing, attention_section, text_width, tokens_of
from nmt.report.sentences import DrawnSentence, draw_sentence
from nmt.translation.translator import Translator
from tests.builders import tiny_loaded_model


@pytest.fixture(scope="module")
def sentence() -> DrawnSentence:
    return draw_sentence(Translator(tiny_loaded_model()), 1, "the cat sleeps .")


def test_weights_of_all_heads_are_in_the_data(sentence: DrawnSentence) -> None:
    (content,) = attention_section([sentence]).data["sentences"]
    for kind in ("encoder", "decoder", "cross"):
        weights = getattr(sentence.attention.weights, kind).numpy()
        rows, columns = tokens_of(sentence.attention, kind)
        found = np.frombuffer(base64.b64decode(content[kind]["weights"]), dtype=np.uint8).reshape(weights.shape)
        np.testing.assert_allclose(found / 255, weights, atol=0.5 / 255 + 1e-6)
        assert (content[kind]["rows"], content[kind]["columns"]) == (rows, columns)
        assert weights.shape == (content[kind]["layers"], content[kind]["heads"], len(rows), len(columns))


def test_strongest_weights_are_in_a_table(sentence: DrawnSentence) -> None:
    html = attention_section([sentence]).html
    row = sentence.attention.weights.cross[0, 1, 0]
    columns = tokens_of(sentence.attention, "cross")[1]
    assert f"{columns[int(row.argmax())]} {float(row.max()):.2f}" in unescape(html)
    assert html.count("<th scope") == sum(
        1 + len(tokens_of(sentence.attention, kind)[0]) for kind in ("encoder", "decoder", "cross")
    )


def test_alignment_has_a_line_for_each_link_from_word_to_word(sentence: DrawnSentence) -> None:
    one = DrawnSentence(
        1, "Where is Anna?", "Dov'è <Anna>?", sentence.attention, [(0, 0), (2, 1)], [], sentence.options, None
    )
    drawing = alignment_drawing(one)
    places = {unescape(text): int(x) for x, text in re.findall(r'<text x="(\d+)" y="\d+">([^<]*)</text>', drawing)}
    assert list(places) == ["Where", "is", "Anna?", "Dov'è", "<Anna>?"]
    curves = re.findall(r'<path d="M(\d+) \d+C[\d ]+ (\d+) \d+"/>', drawing)
    assert [(int(start), int(end)) for start, end in curves] == [
        (places["Where"], places["Dov'è"]), (places["Anna?"], places["<Anna>?"]),
    ]  # fmt: skip
    assert "Where – Dov'è, Anna? – <Anna>?" in unescape(drawing)


def test_chinese_characters_are_as_wide_as_high() -> None:
    assert text_width("猫。", 16) == 32


def test_remarks_and_no_sentence_are_a_section() -> None:
    section = attention_section([], ["No sentence can be drawn: <reason>"])
    assert "&lt;reason&gt;" in section.html
    assert section.data == {"sentences": []}
