"""Answers to requests: their texts are those of the translator, and their structure is that of the source."""

import bz2
import gzip
import lzma
import re
from dataclasses import replace
from io import BytesIO
from threading import Event
from typing import Any

import docx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Languages, RuntimeSettings
from nmt.errors import ConfigError, DataError
from nmt.serving.api import FileRequest, RequestError, Service, TextRequest
from nmt.text.normalize import normalize
from nmt.text.words import words
from nmt.translation.documents.translating import translate_html
from nmt.translation.translator import Translator
from tests.builders import tiny_loaded_model
from tests.time_limit import seconds_of_the_processor

TEXTS = st.lists(
    st.sampled_from(
        ["the cat", "a dog barks .", " ", "\t", "\n", "\r\n", "\r", "\u2028", "😀", "tea <b>x</b>", "\ud800", "7"]
    )
).map("".join)


@pytest.fixture(scope="module")
def service(translator: Translator) -> Service:
    return Service([translator])


def answer(service: Service, q: Any, **fields: Any) -> dict[str, Any]:
    """Return the answer to a request from English to Italian."""
    request = TextRequest.model_construct(q=q, **{"source": "en", "target": "it", **fields})
    return service.translate(request, Event())


@given(TEXTS)
def test_lines_are_translated_and_line_ends_and_spaces_around_them_stay(
    service: Service, translator: Translator, text: str
) -> None:
    found = answer(service, text)["translatedText"]
    expected = re.sub(
        r"[^\r\n]+",
        lambda line: re.sub(r"\S(?:.*\S)?", lambda core: translator.translate(core[0]).text, line[0], flags=re.S),
        text,
    )
    assert found == expected
    assert "".join(answer(service, [text])["translatedText"]) == expected


def test_alternatives_are_whole_texts_of_the_translators_alternatives(service: Service, translator: Translator) -> None:
    lines = ["the cat sleeps .", "a dog"]
    found = answer(service, "\n\n".join(lines), alternatives=3)
    options = translator.options(n_best=4)
    ranked = [[one.text, *(other.text for other in one.alternatives)] for one in translator.translate(lines, options)]
    assert [found["translatedText"], *found["alternatives"]] == [
        "\n\n".join(texts[min(rank, len(texts) - 1)] for texts in ranked) for rank in range(max(map(len, ranked)))
    ]
    assert "alternatives" not in answer(service, "the cat")


def test_alignment_has_the_words_that_the_translator_aligns(service: Service, translator: Translator) -> None:
    lines = ["the cat sleeps on the mat .", "😀 a  dog \u200b barks ."]
    text = f"{lines[0]}\r\n  {lines[1]}"
    found = answer(service, text, alignment=True)
    expected, options = [], replace(translator.options(), alignment=True)
    for line in lines:
        one = translator.translate(line, options)
        expected += [(words(normalize(line))[i], words(one.text)[j]) for i, j in one.alignment or ()]
    made = found["translatedText"]
    assert [(text[a:b], made[c:d]) for a, b, c, d in found["alignment"]] == expected
    assert expected


def test_html_and_glossary_are_those_of_the_translator(service: Service, translator: Translator) -> None:
    html = '<p title="a dog">The <b>cat</b> &amp; me</p>'
    assert answer(service, html, format="html")["translatedText"] == translate_html(translator, html)
    assert "zebra" in answer(service, "the cat sleeps .", glossary={"cat": "zebra"})["translatedText"]


def test_languages_are_found_in_any_spelling_and_others_are_refused(service: Service) -> None:
    expected = answer(service, "the cat")
    assert answer(service, "the cat", source="eng", target="it-IT") == expected
    found = answer(service, ["<p>What do you think about that?</p>"], source="auto", format="html")
    assert found["detectedLanguage"][0]["language"] == "en"
    assert found["detectedLanguage"][0]["confidence"] > 50
    for source, target, message in (
        ("en", "xx", "xx is not supported"), ("yy", "it", "yy is not supported"),
        ("it", "en", "en is not available as a target language from it"),
        ("auto", "en", "en is not available as a target language"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=message):
            answer(service, "a", source=source, target=target)
    with seconds_of_the_processor():
        service.direction(FileRequest(source="auto", target="it"), ["<" * 200_000])


def test_models_of_several_directions_serve_together(translator: Translator) -> None:
    chinese = Translator(tiny_loaded_model(language="zh-Hant"), RuntimeSettings(device="cpu"))
    service = Service([translator, chinese])
    assert [(one["name"], one["targets"]) for one in service.languages()] == [
        ("English", ["it", "zh-Hant"]), ("Italian", []), ("Chinese (zh-Hant)", []),
    ]  # fmt: skip
    assert answer(service, "the cat", target="zh")["translatedText"] == chinese.translate("the cat").text
    with pytest.raises(ConfigError, match="two models translate en → it"):
        Service([translator, translator])


def test_language_of_a_document_is_that_of_its_texts(
    service: Service, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    french = Translator(
        replace(tiny_loaded_model(), languages=Languages(source="fr", target="it")), RuntimeSettings(device="cpu")
    )
    both = Service([french, translator])
    monkeypatch.setattr(both.queues["fr", "it"], "translate_batches", None)
    text, saved = "What do you think about that?", BytesIO()
    word = docx.Document()
    word.add_paragraph(text)
    word.save(saved)
    for name, data in (
        ("a.docx", saved.getvalue()), ("a.txt", text.encode("utf-16")),
        ("a.html", f"<script>{'le chat et le chien '* 99}</script>{text}".encode()),
        ("a.xlf", b'<xliff><file source-language="en-US"><trans-unit><source>OK</source></trans-unit></file></xliff>'),
    ):  # fmt: skip
        document = both.translate_file(FileRequest(source="auto", target="it"), name, data, Event())
        assert document == service.translate_file(FileRequest(source="en", target="it"), name, data, Event())


def test_documents_are_translated_in_their_format(service: Service, translator: Translator) -> None:
    def made(name: str, data: bytes, source: str = "en") -> bytes:
        return service.translate_file(FileRequest(source=source, target="it"), name, data, Event())[0]

    cat = translator.translate("the cat sleeps").text
    assert made("a.srt", b"1\n00:01:00,000 --> 00:02:00,000\nthe cat sleeps\n").decode().splitlines()[2] == cat
    assert made("a.txt", " the cat sleeps\r\n".encode("utf-16"), "auto").decode("utf-16") == f" {cat}\r\n"
    with pytest.raises(DataError, match=r"x\.docx"):
        made("x.docx", b"PK\x03\x04 word/document.xml")
    with pytest.raises(RequestError, match=r"x\.pdf: documents of this format are not"):
        made("x.pdf", b"%PDF-1.7")
    for module in (gzip, bz2, lzma):
        with pytest.raises(RequestError, match=r"a\.srt\.gz: a compressed file is not translated; unpack it"):
            made("a.srt.gz", module.compress(b"the cat"))
    for name in ("x.csv", "x.txt"):  # recognized by name or content
        with pytest.raises(RequestError, match=rf"{name}: the format csv is not translated here: its column is"):
            made(name, b"id,text\n1,a dog\n2,the cat\n")
