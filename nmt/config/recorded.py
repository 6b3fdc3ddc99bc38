"""Settings that an earlier command recorded: read under their present names, and compared with the present settings.

The program records settings in the recipe of a run directory, in the manifest of a prepared corpus and in the journal
of an interrupted translation. A key that was renamed since is read as if it had the new name. In a recipe that a user
wrote, an old name is an error that gives the new one.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from nmt.config.strict_yaml import Location

_KEYS = {
    "data.train.*.weight": "oversample",
    "data.valid.weight": "oversample",
    "data.test.weight": "oversample",
    "tokenizer.size": "vocab_size",
    "train.start_from": "init_from",
}
_OLD_KEYS = {f"{path.rpartition('.')[0]}.{new}": path.rpartition(".")[2] for path, new in _KEYS.items()}
_FILTERS = ("data", "filters")
_OLD_RULES = {"duplicates": "duplicate", "copies": "copy", "any_script": "script"}
"""Keys of the filters in version 0.1.0; true is now an entry of `keep`."""
_RULES = _OLD_RULES | {"keep_duplicates": "duplicate", "keep_copies": "copy", "keep_any_script": "script"}
_NEWER_RULES = frozenset(("damaged", "symbols", "length", "mismatch", "leak", "untranslated", "language"))
"""Rules that there were not yet when `keep` was introduced: settings recorded before that kept their pairs."""
_NEWER_KEYS: dict[str, Any] = {"han_variants": "keep"}
"""Keys that there were not yet, with the value that has the effect of their absence."""
_VALUES = {"runtime.parallel": {"replicate": "ddp", "shard": "fsdp"}}


def new_key(location: Location) -> str | None:
    """Return the new name of the last key of a location; None if it was not renamed."""
    if location[:-1] == _FILTERS and location[-1] in _RULES:
        return f"keep: [{_RULES[str(location[-1])]}]"
    return _KEYS.get(_pattern(location))


def new_value(location: Location, value: Any) -> str | None:
    """Return the new name of a value; None if it was not renamed."""
    return _VALUES.get(_pattern(location), {}).get(value) if isinstance(value, str) else None


def with_new_names(data: Any, location: Location = ()) -> Any:
    """Return plain data, as read from YAML or JSON, with every old key and value under its new name."""
    if isinstance(data, dict):
        if location == _FILTERS:
            data = _with_list_of_rules(data)
        places = {key: (*location, key) for key in data}
        return {new_key(places[key]) or key: with_new_names(value, places[key]) for key, value in data.items()}
    if isinstance(data, list):
        return [with_new_names(value, (*location, index)) for index, value in enumerate(data)]
    return new_value(location, data) or data


def with_old_keys(data: Any, location: Location = ()) -> Any:
    """Return plain mappings with every renamed key under its old name, for digests that must stay what they were."""
    if not isinstance(data, dict):
        return data
    if location == _FILTERS:
        data = _with_key_for_each_rule(data)
    places = {key: (*location, key) for key in data}
    return {_OLD_KEYS.get(_pattern(places[key]), key): with_old_keys(value, places[key]) for key, value in data.items()}


def _with_list_of_rules(filters: dict[str, Any]) -> dict[str, Any]:
    """Return filters with `keep`; settings recorded without it kept what only newer rules exclude."""
    if not filters.keys() & _RULES.keys():
        return filters
    kept = {rule for key, rule in _RULES.items() if filters.get(key)}
    others = {key: value for key, value in filters.items() if key not in _RULES}
    return {**others, **_NEWER_KEYS, "keep": sorted(kept | _NEWER_RULES)}


def _with_key_for_each_rule(filters: dict[str, Any]) -> dict[str, Any]:
    """Return filters as they were recorded before `keep`, if there are such ones."""
    kept = set(filters.get("keep", ()))
    if "keep" not in filters or not kept >= _NEWER_RULES:
        return filters
    if any(filters.get(key, value) != value for key, value in _NEWER_KEYS.items()):
        return filters
    others = {key: value for key, value in filters.items() if key not in ("keep", *_NEWER_KEYS)}
    return others | {key: rule in kept for key, rule in _OLD_RULES.items()}


class Difference(NamedTuple):
    """A setting that is not as it was recorded."""

    key: str  # the dotted key, as in `train.stop.steps`; the entries of a list are numbered from 0
    before: Any
    now: Any

    def __str__(self) -> str:
        before, now = (json.dumps(value, ensure_ascii=False, default=str) for value in (self.before, self.now))
        return f"{self.key}: was {before}, now {now}"


def differences(before: Any, now: Any, key: str = "") -> Iterator[Difference]:
    """Yield what differs between two settings given as plain data, in the order of their keys.

    Mappings, and lists of mappings, are compared key by key, also with a null in place of one. All other values, such
    as lists of numbers, are compared as a whole.

    >>> [str(one) for one in differences({"beam": 5, "penalty": {"alpha": 1.0}}, {"beam": 4, "penalty": None})]
    ['beam: was 5, now 4', 'penalty.alpha: was 1.0, now null']
    """
    entries = [_entries(before), _entries(now)]
    if before == now:
        return
    if None in entries or not any(entries):
        yield Difference(key, before, now)
        return
    old, new = (entry or {} for entry in entries)
    for name in {**old, **new}:
        yield from differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)


def _entries(value: Any) -> dict[str, Any] | None:
    """Return the entries of a mapping or of a list of mappings, an empty dict for null, None for other values."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return {str(number): entry for number, entry in enumerate(value)}
    if isinstance(value, dict):
        return {str(name): entry for name, entry in value.items()}
    return {} if value is None else None


def _pattern(location: Location) -> str:
    return ".".join("*" if str(part).isdecimal() else str(part) for part in location)
