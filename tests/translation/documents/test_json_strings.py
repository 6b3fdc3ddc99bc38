"""JSON and JSON lines: which strings are translated, and everything that stays."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from tests.translation.documents.writing import read, texts, translated

FILE = """{
  "@@locale" : "en",
    "title":"Hello \\u00e8 \\/ {name}", "n": [1.50, true, null],
\t"menu": {"open": "Open", "items": ["One", {"label": "Two\\nlines"}], "$note": "x"}, "title": "again"
}
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab È{}\ud800\n", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy@$", max_size=3), inner, max_size=3),
    max_leaves=12,
)


def upper(value: object, key: str = "") -> object:
    """Return a value with the texts of its strings in capitals, those below keys of metadata unchanged."""
    if isinstance(value, dict):
        return {key: one if key[:1] in ("@", "$") and key else upper(one) for key, one in value.items()}
    if isinstance(value, list):
        return [upper(one) for one in value]
    return value.replace("a", "A").replace("b", "B") if isinstance(value, str) else value


@given(VALUES, st.booleans(), st.none() | st.integers(0, 3))
def test_all_strings_but_keys_and_metadata_are_translated(value: object, ascii_only: bool, indent: int | None) -> None:
    is_escaped = ascii_only or "\\ud800" in json.dumps(value)  # half a character is valid only as an escape
    text = json.dumps(value, ensure_ascii=is_escaped, indent=indent)
    document = read("json", text)
    assert translated(document, str) == text.encode()
    with_items = json.dumps(value).replace("\\ud800", "\ufffd")
    made = translated(read("json", with_items), lambda line: line.replace("a", "A").replace("b", "B"))
    if "{" not in "".join(texts(document)) and "}" not in "".join(texts(document)):
        assert json.loads(made) == upper(json.loads(with_items))


def test_only_strings_differ() -> None:
    document = read("json", FILE)
    assert texts(document) == ["Hello è / {name}", "Open", "One", "Two\nlines", "again"]
    places = ["title", "menu.open", "menu.items[0]", "menu.items[1].label", "title"]
    assert [place for _, place in document.texts.entries] == places
    expected = FILE.replace("Hello \\u00e8 \\/", "HELLO È /").replace('"Open"', '"OPEN"')
    expected = expected.replace("One", "ONE").replace("Two\\nlines", "TWO\\nLINES").replace("again", "AGAIN")
    assert translated(document).decode() == expected


def test_strings_that_a_program_reads_stay_and_are_named() -> None:
    codes = {
        "id": "a1b2", "className": "btn", "iconUrl": "x", "img_src": "x", "dir": "ltr",
        "pluralForm": "nplurals=2; plural=n;",
        "dateFormat": "x", "date": "DD/MM/YYYY", "time": "HH:mm", "long": "MMMM d, yyyy", "code": "en-US",
        "zh": "zh-Hant-TW",
    }  # fmt: skip
    document = read("json", json.dumps(codes))
    assert (texts(document), [*document.texts.kept.values()]) == ([], [list(codes)])
    assert texts(read("json", json.dumps(codes), columns=["id"])) == ["a1b2"]
    labels = {
        "type": "Type",
        "id": "ID",
        "url": "网址",
        "key": "",
        "class": "first class",
        "a": "Hmm",
        "b": "mm",
        "c": "Ah, mum",
    }
    assert texts(read("json", json.dumps(labels))) == list(labels.values())


def test_keys_limit_what_is_translated() -> None:
    text = '{"hello": {"message": "Hello", "description": "A greeting"}, "by": {"message": "Bye", "help": "Help"}}'
    assert texts(read("json", text, columns=["message"])) == ["Hello", "Bye"]
    assert texts(read("json", text, columns=["hello.message", "help"])) == ["Hello", "Help"]
    assert texts(read("json", text, excluded=["hello", "help"])) == ["Bye"]
    assert texts(read("json", text, columns=["message"], excluded=["by"])) == ["Hello"]
    for options in ({"columns": ["text"]}, {"excluded": ["text"]}):
        with pytest.raises(DataError, match=r"a:1: found the keys hello.message, .*, expected a string for 'text'"):
            read("json", text, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "a": "b",\n c}', "a:3: not JSON: Expecting property name"),
        ('{"a": "b', "a:1: not JSON: Unterminated string starting at at column 7"),
        ("", "a:1: not JSON: Expecting value at column 1"),
        ('["a"] ["b"]', "a:1: not JSON: Extra data at column 7; for an object in each line, give --format jsonl"),
        ("[" * 100_000, "a:1: not JSON that can be read: nested too deeply"),
        ("[" * 101 + '"a"' + "]" * 101, "a:1: found more than 100 objects and arrays inside each other"),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read("json", text)


def test_large_numbers_stay_as_they_are() -> None:
    """Python refuses to read integers of more than 4,300 digits."""
    number = "9" * 5000
    assert translated(read("json", f'{{"a": {number}, "b": "x"}}')) == f'{{"a": {number}, "b": "X"}}'.encode()
    lines = f'{{"a": -{number}, "b": "x"}}\n'
    assert translated(read("jsonl", lines, columns=["b"])) == lines.replace("x", "X").encode()


LINES = '{"id":1.50,"text":"Hi"}\n\n{"text": "Ho", "it": ""}\n{"text": "\\u0041", "it": "già"}\n{"text": null}\n'


@pytest.mark.parametrize("into", [None, "it"])
def test_translation_replaces_the_text_of_a_line_or_gets_a_key(into: str | None) -> None:
    found = translated(read("jsonl", LINES, columns=["text"], into=into)).decode()
    expected = LINES.replace('"Hi"', '"HI"').replace('"Ho"', '"HO"')
    if into:
        expected = LINES.replace('"Hi"', '"Hi", "it": "HI"').replace('"it": ""', '"it": "HO"')
    assert found == expected


def test_keys_of_lines_may_be_nested() -> None:
    text = '{"t": {"en": "Hi", "it": null}}\n{"t": {"en": "Ho"}}\n'
    document = read("jsonl", text, columns=["t.en"], into="t.it")
    assert translated(document).decode() == text.replace("null", '"HI"').replace('"Ho"', '"Ho", "it": "HO"')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1}', "a:2: found the keys a, expected a string for 'text'"),
        ('["text"]', "a:2: found the keys [0], expected a string for 'text'"),
        ('{"text": 3}', "a:2: found the keys text, expected a string"),
        ('{"text": "a", "it": [5]}', "a:2: --into it: found another value, expected a string"),
        ('{"text": "a", "it": 5}', "a:2: --into it: found another value"),
        ('{"text": "a", "it": { }}', "a:2: --into it: found another value"),
        ('{"text": ["a"]}', "a:2: --into it: text[0] is in a list, so that no key can be beside it; leave --into out"),
        ('{"text": {"x": "a", "y": "b"}}', "a:2: --into it: found the texts text.x, text.y, expected one in a line"),
        ('{"t": {"text": "a"}}', "a:2: --into it: the translation must be beside t.text, such as --into t.it"),
        ('{"text": "a"', "a:2: not JSON: Expecting ',' delimiter at column 13"),
    ],
)
def test_damaged_line_is_an_error(line: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read("jsonl", f'{{"text": "a"}}\n{line}', columns=["text"], into="it")


def test_key_of_lines_is_required() -> None:
    with pytest.raises(ConfigError, match=r"--column: which key of the lines is translated\?"):
        read("jsonl", "{}")
