"""Pairs in JSON lines: one object per line, with the texts under two keys, as Hugging Face datasets have them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.config import LanguagePair
from nmt.errors import DataError
from nmt.text.readers import Columns, SentencePair, named_sides, one_line, shortened
from nmt.text.readers.opening import read_lines

# Half of a character, which JSON can hold alone and UTF-8 cannot.
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_json_lines(path: Path, columns: Columns, languages: LanguagePair | None) -> Iterator[SentencePair]:
    """Yield the pairs of a file. `columns` are keys, which may be nested, as in `translation.en`.

    By default (1, 2) they are `source` and `target`, or the codes of `languages`. Raises DataError with file and line
    for invalid JSON, a missing key and a value that is no text.
    """
    keys = None if columns == (1, 2) else tuple(map(str, columns))
    if keys is not None and not isinstance(columns[0], str):
        raise DataError(f"{path}: `columns` of JSON lines are keys, as in [translation.en, translation.it]")
    for number, values in read_objects(path):
        keys = keys or named_sides(values, languages)
        names = ", ".join(map(shortened, values))
        if keys is None:
            advice = "name them with `columns`, as in [translation.en, translation.it]"
            raise DataError(f"{path}:{number}: expected one key for each language; {advice}; found the keys {names}")
        for key in keys:
            if key not in values:
                raise DataError(f"{path}:{number}: no key {key!r}; found {names}")
            if not isinstance(values[key] or "", str):
                raise DataError(f"{path}:{number}: {key}: expected text, found {shortened(repr(values[key]))}")
        source, target = (one_line(_SURROGATE.sub("\ufffd", values[key] or "")) for key in keys)
        yield SentencePair(source, target, number)


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line of each object, and its values by key; the key of a nested value is its path, such as `a.b`."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError(f"found {shortened(line)}")
            yield number, _flat(value)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}:{number}: expected a JSON object in each line: {error}. If the file is one JSON array, write "
                "one object per line: jq -c '.[]' FILE > FILE.jsonl"
            ) from None


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return all values of nested objects: `{"translation": {"en": "one"}}` has `translation.en`."""
    flat = {f"{prefix}{key}": value for key, value in values.items()}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {**_flat(value, f"{prefix}{key}."), **flat}
    return flat
