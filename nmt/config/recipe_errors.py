"""Error messages for a recipe: the place of the problem, what was found, what was expected, what to write instead."""

import difflib
import re
import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nmt.config.section import SettingError
from nmt.config.strict_yaml import Document, Location, shown

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "the path of a file or folder",
    "tuple_type": "a list",
    "model_type": "a section, that is, keys with values",
    "model_attributes_type": "a section, that is, keys with values",
    "string_pattern_mismatch": "small letters, digits and hyphens",
    "string_unicode": "text without halves of surrogate pairs",
    "finite_number": "a finite number",
}
_PYDANTIC_PHRASE = re.compile(r"^(Input|String|Tuple) should (be |have )?| after validation, not .*$")
_BETTER_BOOLS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_UNIONS = {("train", "schedule"), ("train", "batch_tokens"), ("tokenizer", "vocab_size")}
"""Keys of several types. After them pydantic's locations name the type, such as `noam`, which no recipe contains."""
_MOST_SHOWN = 40  # problems listed in one error


def explain(error: ValidationError, document: Document, recipe: type[BaseModel]) -> str:
    """Return a line that counts the problems, and a line for each of the first ones."""
    problems = explained(error, document, recipe)
    count = len(problems) if len(problems) <= _MOST_SHOWN else f"more than {_MOST_SHOWN}"
    head = f"{document.name}: {count} problem{'' if count == 1 else 's'} in the recipe"
    return "\n".join([head, *(f"  {problem}" for problem in problems[:_MOST_SHOWN])])


def explained(error: ValidationError, document: Document, recipe: type[BaseModel]) -> list[str]:
    """Return the first problems as file:line, key, what was found, what was expected, in the order of the lines."""
    details: list[dict[str, Any]] = [dict(entry) for entry in error.errors(include_url=False)]
    for entry in details:
        branch, location = entry["loc"], entry["loc"]
        location = location[:2] + location[3:] if location[:2] in _UNIONS else location
        entry["branch"], entry["loc"] = branch, document.written(location)
    # pydantic also calls a list too short if all its entries are refused
    inner = {entry["loc"][:length] for entry in details for length in range(len(entry["loc"]))}
    located = [
        (*_locate(entry, document), entry)
        for entry in details
        if entry["type"] != "too_short" or entry["loc"] not in inner
    ]
    located.sort(key=lambda each: document.line(each[0]))
    return [
        f"{document.place(written)}: {key}: {_problem(entry, recipe)}"
        for written, key, entry in located[: _MOST_SHOWN + 1]
    ]


def _locate(details: dict[str, Any], document: Document) -> tuple[Location, str]:
    """Return the location that is in the document, for its line, and the dotted key that is wrong."""
    location: Location = details["loc"]
    written = location
    if isinstance(cause := details.get("ctx", {}).get("error"), SettingError):
        written, location = cause.location(document, location), (*location, *cause.key.split("."))
    elif details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        location = written = (*location, "name")
    return written, ".".join(map(str, location)) or "the recipe"


def _problem(details: dict[str, Any], recipe: type[BaseModel]) -> str:
    kind, found, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(details, recipe)
    if kind == "missing":
        return "missing, and it has no default"
    if kind == "value_error":
        return getattr(context["error"], "problem", str(context["error"]))
    if kind == "union_tag_not_found":
        return "missing; it names the schedule"
    if kind == "union_tag_invalid":
        return f"found {context['tag']!r}, expected one of {context['expected_tags']}"
    expected = _EXPECTED.get(kind) or _in_words(details["msg"])
    advice = _advice(kind, found)
    return f"found {_show(found)}, expected {expected}{advice and '; '}{advice}"


def _in_words(message: str) -> str:
    """Shorten pydantic's description of the expected value: `32 or more`, `more than 0`."""
    phrase = _PYDANTIC_PHRASE.sub("", message)
    phrase = re.sub(r"^(greater|less) than or equal to (.+)$", r"\2 or \1", phrase)
    return re.sub(r"\bgreater\b", "more", phrase)


def _show(found: Any) -> str:
    if found is None:
        return "nothing"
    if isinstance(found, dict):
        return "a section" if found else "an empty section"
    if isinstance(found, bool):
        return str(found).lower()
    return f"the text {shown(found)}" if isinstance(found, str) else shown(found)


def _advice(kind: str, found: Any) -> str:
    """Return what to write instead, for a value that YAML reads as another type than intended; else an empty text."""
    advice, number = "", kind in ("int_type", "float_type", "int_from_float")
    if number and isinstance(found, str):
        if re.fullmatch(r"[-+]?[\d_]*\.?\d+(e[-+]?\d+)?", found, re.IGNORECASE):
            advice = "take it out of its quotes"
        elif time := re.fullmatch(r"(\d{1,4}):(\d\d)", found):
            advice = f"for hours and minutes write {int(time[1]) + int(time[2]) / 60:.4g}"
    elif number and isinstance(found, float) and found.is_integer():
        advice = f"write {found:.0f}"
    elif kind == "bool_type" and str(found).lower() in _BETTER_BOOLS:
        advice = f"write {_BETTER_BOOLS[str(found).lower()]}"
    elif kind == "string_type" and isinstance(found, (int, float)):
        advice = f'put it in quotes: "{_show(found)}"'
    elif kind == "tuple_type" and found is not None:
        advice = "begin each entry with a hyphen" if isinstance(found, dict) else "put it in brackets, as in [1, 2]"
    return advice


def _unknown_key(details: dict[str, Any], recipe: type[BaseModel]) -> str:
    """Return the keys most like an unknown one, else all keys of the section."""
    *above, key = map(str, details["loc"])
    keys = list(_keys(recipe))
    section = ["*" if isinstance(part, int) else part for part in details["branch"][:-1]]
    known = [path[-1] for branch, path in keys if branch == section]
    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.75):
        return f"unknown key; did you mean '{near[0]}'?"
    same = dict.fromkeys(".".join(path) for _, path in keys if path[-1] == key and "*" not in path)
    if elsewhere := [path for path in same if path != ".".join([*above, key])]:
        return f"unknown key; did you mean {' or '.join(elsewhere)}?"
    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.55):
        return f"unknown key; did you mean '{near[0]}'?"
    return f"unknown key; known keys here: {', '.join(known)}"


def _keys(
    section: type[BaseModel], branch: Sequence[str] = (), above: Sequence[str] = ()
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield for each key of a recipe its section as pydantic names it, with the schedule, and the path of the key."""
    for name, field in section.model_fields.items():
        path = [*above, name]
        yield [*branch], path
        for inner in _sections_in(field.annotation):
            if get_origin(field.annotation) is tuple:
                yield from _keys(inner, [*branch, name, "*"], [*path, "*"])
            else:
                schedule = get_args(inner.model_fields["name"].annotation) if "name" in inner.model_fields else ()
                yield from _keys(inner, [*branch, name, *schedule], path)


def _sections_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the section classes inside a type such as `CorpusFile | None` or `tuple[CorpusFile, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (tuple, Union, types.UnionType, Annotated):
        return [found for argument in get_args(annotation) for found in _sections_in(argument)]
    return []
