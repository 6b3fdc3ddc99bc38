"""JSON lines: keys, nested keys and keys by language; errors with the line."""

import json
from pathlib import Path

import pytest

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.readers import Columns, SentencePair
from nmt.text.readers.tables import read_json_lines

ENGLISH_ITALIAN = LanguagePair(source="en", target="it")


def rows(folder: Path, content: str, keys: Columns = (1, 2)) -> list[SentencePair]:
    (folder / "a.jsonl").write_text(content, encoding="utf-8")
    return list(read_json_lines(folder / "a.jsonl", keys, ENGLISH_ITALIAN))


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        ({"en": "one", "it": "uno"}, (1, 2)),
        ({"id": 7, "translation": {"it": "uno", "en": "one"}}, (1, 2)),
        ({"x": {"eng_Latn": "one", "ita_Latn": "uno"}}, (1, 2)),
        ({"meta": {"en": "x"}, "translation": {"en": "one", "it": "uno"}}, (1, 2)),
        ({"en-US": "x", "en": "one", "it": "uno"}, (1, 2)),
        ({"source": "one", "target": "uno"}, (1, 2)),
        ({"a": {"b": {"c": "one"}}, "d": "uno"}, ("a.b.c", "d")),
        ({"a.b": "one", "a": {"b": "x"}, "d": "uno"}, ("a.b", "d")),
    ],
)
def test_keys_are_found(tmp_path: Path, found: object, keys: Columns) -> None:
    line = json.dumps(found)
    assert rows(tmp_path, f"{line}\n\n{line}\r\n", keys) == [("one", "uno", 1), ("one", "uno", 3)]


def test_texts_are_one_line_and_null_is_empty(tmp_path: Path) -> None:
    content = '{"en": "one\\ntwo \\r\\n three", "it": null}\n{"en": "\\u00e8", "it": "a\\u2028b"}\n'
    assert rows(tmp_path, content) == [("one two three", "", 1), ("è", "a b", 2)]
    assert rows(tmp_path, '{"en": "a\\ud83d", "it": "b"}\n') == [("a\ufffd", "b", 1)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"en": 1, "it": "x"}', "en: expected text, found 1"),
        ('{"en": "x", "it": 0}', "it: expected text, found 0"),
        ('{"en": "x", "de": "x"}', r"expected one key for each language; .* found the keys en, de"),
        ('{"a": {"en": "x", "it": "y"}, "b": {"en": "u", "it": "v"}}', "expected one key for each language; name them"),
        ('[{"en": "x"}]', "expected a JSON object in each line: found .* jq -c '.\\[\\]' FILE > FILE.jsonl"),
        ("{'en': 'x'}", "expected a JSON object in each line: Expecting property name"),
        ("[" * 100_000, "expected a JSON object in each line: "),
    ],
)
def test_error_names_the_line(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(DataError, match=rf"a\.jsonl:2: {problem}"):
        rows(tmp_path, f"\n{line}\n")


def test_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:2: no key 'a\.it'; found a, b"):
        rows(tmp_path, '{"a": {"en": "1", "it": "2"}}\n{"a": {"en": "1"}, "b": 2}\n', ("a.en", "a.it"))
