"""Keys and values of the recipe that have a new name.

In a recipe that a user wrote, an old name is an error that gives the new one. Files that the program wrote before (the
recipe in a run directory, the manifest of a prepared corpus) are read as if they had the new names.
"""

from typing import Any

from nmt.config.strict_yaml import Location

_KEYS = {
    "data.filters.duplicates": "keep_duplicates",
    "data.filters.copies": "keep_copies",
    "data.filters.any_script": "keep_any_script",
    "data.train.*.weight": "oversample",
    "data.valid.weight": "oversample",
    "data.test.weight": "oversample",
    "tokenizer.size": "vocab_size",
    "train.start_from": "init_from",
}
_OLD_KEYS = {f"{path.rpartition('.')[0]}.{new}": path.rpartition(".")[2] for path, new in _KEYS.items()}
_VALUES = {"runtime.parallel": {"replicate": "ddp", "shard": "fsdp"}}


def new_key(location: Location) -> str | None:
    """Return the new name of the last key of a location; None if it was not renamed."""
    return _KEYS.get(_pattern(location))


def new_value(location: Location, value: Any) -> str | None:
    """Return the new name of a value; None if it was not renamed."""
    return _VALUES.get(_pattern(location), {}).get(value) if isinstance(value, str) else None


def with_new_names(data: Any, location: Location = ()) -> Any:
    """Return plain data, as read from YAML or JSON, with every old key and value under its new name."""
    if isinstance(data, dict):
        places = {key: (*location, key) for key in data}
        return {new_key(places[key]) or key: with_new_names(value, places[key]) for key, value in data.items()}
    if isinstance(data, list):
        return [with_new_names(value, (*location, index)) for index, value in enumerate(data)]
    return new_value(location, data) or data


def with_old_keys(data: Any, location: Location = ()) -> Any:
    """Return plain mappings with every renamed key under its old name, for digests that must stay what they were."""
    if not isinstance(data, dict):
        return data
    places = {key: (*location, key) for key in data}
    return {_OLD_KEYS.get(_pattern(places[key]), key): with_old_keys(value, places[key]) for key, value in data.items()}


def _pattern(location: Location) -> str:
    return ".".join("*" if str(part).isdecimal() else str(part) for part in location)
