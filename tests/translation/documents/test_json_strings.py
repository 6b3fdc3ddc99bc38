"""JSON and JSON lines: which strings are translated, and everything that stays."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from nmt.translation.documents.document import Content
from nmt.translation.documents.json_strings import read_json, read_json_lines

FILE = """{
  "@@locale" : "en",
    "title":"Hello \\u00e8 \\/ {name}", "n": [1.50, true, null],
\t"menu": {"open": "Open", "items": ["One", {"label": "Two\\nlines"}], "$note": "x"}, "title": "again"
}
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def upper(value: object, key: str = "") -> object:
    """Return a value with all strings in capitals, those below keys of metadata unchanged."""
    if isinstance(value, dict):
        return {key: one if key[:1] in ("@", "$") and key else upper(one) for key, one in value.items()}
    if isinstance(value, list):
        return [upper(one) for one in value]
    return value.upper() if isinstance(value, str) else value


@given(VALUES, st.booleans(), st.none() | st.integers(0, 3))
def test_all_strings_but_keys_and_metadata_are_translated(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    document = read_json(Content("a.json", text))
    assert document.with_translations(document.texts) == text.encode()
    translated = document.with_translations([one.upper() for one in document.texts]).decode()
    assert json.loads(translated) == upper(value)


def test_only_strings_differ_and_are_written_in_the_style_of_the_file() -> None:
    document = read_json(Content("a.json", FILE))
    assert document.texts == ["Hello è / {name}", "Open", "One", "Two\nlines", "again"]
    assert [slot.place for slot in document.slots] == [
        "title",
        "menu.open",
        "menu.items[0]",
        "menu.items[1].label",
        "title",
    ]
    expected = FILE.replace("Hello \\u00e8", "HELLO \\u00c8").replace("{name}", "{NAME}").replace('"Open"', '"OPEN"')
    expected = expected.replace("One", "ONE").replace("Two\\nlines", "TWO\\nLINES").replace("again", "AGAIN")
    assert document.with_translations([text.upper() for text in document.texts]).decode() == expected


def test_file_with_strings_that_are_no_text_requires_a_key() -> None:
    text = '{"items": [{"label": "Open", "id": "a1b2", "class": "btn"}]}'
    with pytest.raises(ConfigError, match=r"--column: which key of a.json .* items\[0\].id is 'a1b2'"):
        read_json(Content("a.json", text))
    assert read_json(Content("a.json", text), "label").texts == ["Open"]
    labels = '{"type": "Type", "id": "ID", "url": "网址", "key": ""}'
    assert read_json(Content("a.json", labels)).texts == ["Type", "ID", "网址", ""]


def test_key_limits_what_is_translated() -> None:
    text = '{"hello": {"message": "Hello", "description": "A greeting"}}'
    document = read_json(Content("a.json", text), "message")
    assert document.with_translations(["Ciao è"]).decode() == text.replace('"Hello"', '"Ciao è"')
    with pytest.raises(ConfigError, match=r"--column text: a.json has no string with this key"):
        read_json(Content("a.json", text), "text")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "a": "b",\n}', "a.json:3: not JSON: Expecting property name"),
        ('{"a": "b', "a.json:1: not JSON: Unterminated string starting at at column 7"),
        ('{"a": 1,\n', "a.json:2: not JSON: Expecting property name enclosed in double quotes at column 1"),
        ("", "a.json:1: not JSON: Expecting value at column 1"),
        ('["a"] ["b"]', "a.json:1: not JSON: Extra data at column 7"),
        ("[" * 100_000, "a.json:1: not JSON that can be read: nested too deeply"),
    ],
)
def test_damaged_file_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_json(Content("a.json", text))


class TestJsonLines:
    LINES = '{"id":1,"text":"Hi"}\n\n{"text": "Ho", "it": ""}\r\n{"text": "He", "it": "già"}'

    @pytest.mark.parametrize(
        ("into", "expected"),
        [
            (None, '{"id":1,"text":"A"}\n\n{"text": "B", "it": ""}\r\n{"text": "C", "it": "già"}'),
            ("it", '{"id":1,"text":"Hi","it":"A"}\n\n{"text": "Ho", "it": "B"}\r\n{"text": "He", "it": "già"}'),
        ],
    )
    def test_translation_replaces_the_text_or_gets_a_key(self, into: str | None, expected: str) -> None:
        document = read_json_lines(Content("a.jsonl", self.LINES), "text", into)
        assert document.with_translations(["A", "B", "C"][: len(document.slots)]).decode() == expected

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"a": 1}', "a.jsonl:2: found an object with the keys a, expected an object with a string for 'text'"),
            ('["text"]', "a.jsonl:2: found no object"),
            ('{"text": 3}', "a.jsonl:2: found an object with the keys text"),
            ('{"text": "a", "it": [5]}', "a.jsonl:2: --into it: found [5], expected a string"),
            ('{"text": "a"', "a.jsonl:2: not JSON: Expecting ',' delimiter at column 13"),
        ],
    )
    def test_damaged_line_is_an_error(self, line: str, message: str) -> None:
        with pytest.raises(DataError, match=re.escape(message)):
            read_json_lines(Content("a.jsonl", f'{{"text": "a"}}\n{line}'), "text", "it")

    def test_key_is_required(self) -> None:
        with pytest.raises(ConfigError, match=r"--column: which key of the lines is translated\?"):
            read_json_lines(Content("a.jsonl", "{}"), None)
