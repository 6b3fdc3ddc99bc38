"""Error messages for a recipe: the place of the problem, what was found, what was expected."""

import difflib
import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from nmt.config.section import SettingError
from nmt.config.strict_yaml import Document, location_of, shown

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "the path of a file or folder",
    "tuple_type": "a list",
    "model_type": "a section, that is, keys with values",
    "string_pattern_mismatch": "small letters, digits and hyphens",
}
_TYPES_OF_VALUES = ("constrained-int", "constrained-str", "literal['auto']")


def explained(error: ValidationError, document: Document, recipe: type[BaseModel]) -> list[str]:
    """Return each problem as file:line, key, what was found, what was expected, in the order of the lines."""
    problems: dict[str, tuple[tuple[int, str], str]] = {}
    for entry in error.errors(include_url=False):
        # pydantic adds the type, where a value may have several, such as a number or auto
        location = tuple(part for part in entry["loc"] if part not in _TYPES_OF_VALUES)
        if isinstance(cause := entry.get("ctx", {}).get("error"), SettingError):
            location += location_of(cause.key)
        key = ".".join(map(str, location)) or "the recipe"
        problems.setdefault(key, (document.place(location), _problem(dict(entry), key, recipe)))
    ordered = sorted(problems.items(), key=lambda one: one[1][0][0])
    return [f"{place}: {key}: {problem}" for key, ((_, place), problem) in ordered]


def _problem(details: dict[str, Any], key: str, recipe: type[BaseModel]) -> str:
    match details["type"]:
        case "extra_forbidden":
            return _unknown_key(key, recipe)
        case "missing":
            return "missing, and it has no default"
        case "value_error":
            cause = details["ctx"]["error"]
            return getattr(cause, "problem", str(cause))
        case kind:
            # pydantic's `Input should be greater than or equal to 1`: `1 or more`
            phrase = re.sub(r"^(Input|String|Tuple) should (be |have )?| after validation, not .*$", "", details["msg"])
            phrase = re.sub(r"^(greater|less) than or equal to (.+)$", r"\2 or \1", phrase)
            expected = _EXPECTED.get(kind) or re.sub(r"\bgreater\b", "more", phrase)
            return f"found {_found(details['input'])}, expected {expected}"


def _found(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, bool):
        return str(value).lower()
    return f"the text {shown(value)}" if isinstance(value, str) else shown(value)


def _unknown_key(key: str, recipe: type[BaseModel]) -> str:
    """Return the place of a key of this name in other sections, else the most similar key, else all of the section."""
    *section, name = (part for part in key.split(".") if not part.isdecimal())
    keys = list(_keys(recipe))
    if elsewhere := [".".join(path) for path in keys if path[-1] == name]:
        return f"unknown key; did you mean {' or '.join(dict.fromkeys(elsewhere))}?"
    here = [own for *above, own in keys if above == section]
    if near := difflib.get_close_matches(name, here, n=1):
        return f"unknown key; did you mean '{near[0]}'?"
    return f"unknown key; known keys here: {', '.join(here)}"


def _keys(annotation: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all keys in a section, or in the sections that a type such as `CorpusFile | None` names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield (*above, name)
            yield from _keys(field.annotation, (*above, name))
    for inner in get_args(annotation):
        yield from _keys(inner, above)
