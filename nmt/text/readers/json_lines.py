"""Pairs in JSON lines: one object per line, with the texts under two keys, as Hugging Face datasets have them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.languages import is_language, nearest_codes
from nmt.text.readers import Columns, SentencePair, one_line, shortened
from nmt.text.readers.opening import read_lines

# Half of a character, which JSON can hold alone and UTF-8 cannot.
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_json_lines(path: Path, columns: Columns, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a file. `columns` are keys, which may be nested, as in `translation.en`.

    By default (1, 2) they are the codes of `languages`, and without these the first two codes. Raises DataError with
    file and line for invalid JSON, a missing key and a value that is no text.
    """
    keys = [key for key in columns if isinstance(key, str)]
    if not keys and columns != (1, 2):
        raise DataError(f"{path}: `columns` of JSON lines are keys, as in [translation.en, translation.it]")
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            found = _object(path, number, line)
            try:
                keys = keys or _language_keys(found, languages)
                source, target = (one_line(_text(found, key)) for key in keys)
            except ValueError as error:
                raise DataError(f"{path}:{number}: {error}") from None
            yield SentencePair(source, target, number)


def first_keys(path: Path) -> list[str]:
    """Return the keys of the first object that are language codes."""
    lines = ((number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip())
    return next((_codes(_object(path, number, line)) for number, line in lines), [])


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError(f"found {shortened(line)}")
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}:{number}: expected a JSON object in each line: {error}. If the file is one JSON array, write one "
            "object per line: jq -c '.[]' FILE > FILE.jsonl"
        ) from None
    return found


def _codes(found: dict[str, Any]) -> list[str]:
    """Return the keys of an object that are language codes, at its top or below one key."""
    nested = [f"{key}.{inner}" for key, value in found.items() if isinstance(value, dict) for inner in value]
    codes = ([key for key in keys if is_language(key.rpartition(".")[2])] for keys in (list(found), nested))
    return next((keys for keys in codes if len(keys) > 1), [])


def _language_keys(found: dict[str, Any], languages: LanguagePair | None) -> list[str]:
    keys, names = _codes(found), {key.casefold(): key for key in found}
    if {"source", "target"} <= names.keys():
        keys = [names["source"], names["target"]]
    elif languages is not None:
        by_code = {key.rpartition(".")[2]: key for key in reversed(keys)}
        keys = [by_code[code] for code in nearest_codes(languages, by_code) or ()]
    if len(keys) < 2:
        raise ValueError(
            "no keys of both languages; name them with `columns`, as in [translation.en, translation.it]; found the "
            f"keys {', '.join(map(shortened, found))}"
        )
    return keys[:2]


def _text(found: dict[str, Any], key: str) -> str:
    """Return the text under a key, or under a path of keys; null is an empty text. Raises ValueError."""
    value: Any = found
    for name in [key] if key in found else key.split("."):
        if not isinstance(value, dict) or name not in value:
            raise ValueError(f"no key {key!r}; found {', '.join(map(shortened, found))}")
        value = value[name]
    if not isinstance(value or "", str):
        raise ValueError(f"{key}: expected text, found {shortened(repr(value))}")
    return _SURROGATE.sub("\ufffd", value or "")
