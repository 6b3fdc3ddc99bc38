"""Pairs in JSON lines: one object per line, with the texts under two keys, as Hugging Face datasets have them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.languages import is_language, language_code, primary_code
from nmt.text.readers import Row, one_line, shortened
from nmt.text.readers.opening import read_lines

Keys = tuple[str, str]


def read_json_lines(path: Path, keys: Keys | None, languages: LanguagePair | None) -> Iterator[Row]:
    """Yield the pairs of a file. `keys` may be nested, as in `translation.en`; by default they are the language codes.

    Raises DataError with file and line for invalid JSON, a missing key and a value that is no text.
    """
    for number, found in _objects(path):
        keys = keys or _language_keys(path, number, found, languages)
        source, target = (_text(path, number, found, key) for key in keys)
        yield number, one_line(source), one_line(target)


def language_keys(path: Path) -> list[str]:
    """Return the keys of the first object that are language codes, at its top or below one key."""
    return next((_codes(found) for _, found in _objects(path)), [])


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the object of each line that is not blank, with the number of the line."""
    array = "; in a file that is one JSON array, write one object per line: jq -c '.[]' FILE > FILE.jsonl"
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        advice = array if line.lstrip().startswith("[") else ""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not a JSON object: {error}{advice}") from None
        if not isinstance(found, dict):
            raise DataError(f"{path}:{number}: expected a JSON object in each line, found {shortened(line)}{advice}")
        yield number, found


def _codes(found: dict[str, Any]) -> list[str]:
    nested = [f"{key}.{inner}" for key, value in found.items() if isinstance(value, dict) for inner in value]
    for keys in (list(found), nested):
        codes = [key for key in keys if is_language(language_code(key.rpartition(".")[2]))]
        if len(codes) > 1:
            return codes
    return []


def _language_keys(path: Path, number: int, found: dict[str, Any], languages: LanguagePair | None) -> Keys:
    """Return the keys of the languages; of the first two, if the languages are not known."""
    codes = _codes(found)
    if languages is None:
        chosen = codes[:2]
    else:
        by_code = {language_code(key.rpartition(".")[2]): key for key in reversed(codes)}
        sides = (primary_code(languages.source), primary_code(languages.target))
        chosen = [by_code[side] for side in sides if side in by_code]
    if len(chosen) < 2:
        raise DataError(
            f"{path}:{number}: no keys of both languages; name them with `columns`, as in [translation.en, "
            f"translation.it]; found the keys {', '.join(map(shortened, found)) or 'of an empty object'}"
        )
    return chosen[0], chosen[1]


def _text(path: Path, number: int, found: dict[str, Any], key: str) -> str:
    """Return the text under a key, or under a path of keys; null is an empty text."""
    value: Any = found
    for name in [key] if key in found else key.split("."):
        if not isinstance(value, dict) or name not in value:
            raise DataError(f"{path}:{number}: no key {key!r}; found {', '.join(map(shortened, found))}")
        value = value[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{path}:{number}: {key}: expected text, found {shortened(repr(value))}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{path}:{number}: {key}: found half of a surrogate pair, expected whole characters") from None
    return value
