"""JSON and JSON lines: which strings are translated, and everything that stays."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import ConfigError, DataError
from nmt.translation.documents.document import Content
from nmt.translation.documents.json_strings import read_json
from tests.translation.documents.writing import texts, translated

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
    assert json.loads(translated(read_json(Content("a.json", text)))) == upper(value)


def test_only_strings_differ() -> None:
    document = read_json(Content("a.json", FILE))
    assert texts(document) == ["Hello è / {name}", "Open", "One", "Two\nlines", "again"]
    assert [slot.place for slot in document.slots] == [
        "title",
        "menu.open",
        "menu.items[0]",
        "menu.items[1].label",
        "title",
    ]
    expected = FILE.replace("Hello \\u00e8 \\/", "HELLO È /").replace("{name}", "{NAME}").replace('"Open"', '"OPEN"')
    expected = expected.replace("One", "ONE").replace("Two\\nlines", "TWO\\nLINES").replace("again", "AGAIN")
    assert translated(document).decode() == expected


def test_file_with_strings_that_are_no_text_requires_a_key() -> None:
    text = '{"items": [{"label": "Open", "id": "a1b2", "class": "btn"}]}'
    with pytest.raises(ConfigError, match=r"--column: which key of a.json .* items\[0\].id is 'a1b2'"):
        read_json(Content("a.json", text))
    assert texts(read_json(Content("a.json", text), "label")) == ["Open"]
    labels = '{"type": "Type", "id": "ID", "url": "网址", "key": ""}'
    assert texts(read_json(Content("a.json", labels))) == ["Type", "ID", "网址", ""]


def test_key_limits_what_is_translated() -> None:
    text = '{"hello": {"message": "Hello", "description": "A greeting"}}'
    document = read_json(Content("a.json", text), "message")
    assert translated(document, lambda _: "Ciao è").decode() == text.replace('"Hello"', '"Ciao è"')
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
