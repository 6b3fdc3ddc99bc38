"""What is wrong with a recipe, said so that one knows where to put the cursor and what to type."""

import difflib
import re
import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nmt.config.recorded import new_key, new_value
from nmt.config.strict_yaml import Document, Location

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
    "finite_number": "a finite number",
}
_PYDANTIC_PHRASE = re.compile(r"^(Input|String|Tuple) should (be |have )?| after validation, not .*$")
_BETTER_BOOLS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_LONGEST_SHOWN = 60


class Misfit(ValueError):
    """Two values that do not go together, as seen by the section that holds both.

    `key` names the one to change, dotted; `other` is one that was surely written down, if `key` may be a default.
    """

    def __init__(self, key: str, message: str, other: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.other = other or key


def explain(error: ValidationError, document: Document, recipe: type[BaseModel]) -> str:
    """Say each problem on a line of its own, below a line that counts them."""
    problems = explained(error, document, recipe)
    head = f"{document.name}: {len(problems)} problem{'s' if len(problems) > 1 else ''} in the recipe"
    return "\n".join([head, *(f"  {problem}" for problem in problems)])


def explained(error: ValidationError, document: Document, recipe: type[BaseModel]) -> list[str]:
    """Return each problem as file:line, key, what was found, what was expected, what to do."""
    details: list[dict[str, Any]] = [dict(entry) for entry in error.errors(include_url=False)]
    for entry in details:
        entry["loc"] = _written(entry["loc"], document.data)
    # a list whose entries are all refused is called too short as well, which helps nobody
    inner = {entry["loc"][:n] for entry in details for n in range(len(entry["loc"]))}
    problems = [
        _line(entry, document, recipe) for entry in details if entry["type"] != "too_short" or entry["loc"] not in inner
    ]
    return sorted(problems, key=_line_number)


def _line_number(problem: str) -> tuple[int, int]:
    """Sort by the file's lines, what came from elsewhere at the end."""
    number = re.match(r".*?:(\d+): ", problem)
    return (0, int(number[1])) if number else (1, 0)


def _line(details: dict[str, Any], document: Document, recipe: type[BaseModel]) -> str:
    location: Location = details["loc"]
    written = location
    if isinstance(cause := details.get("ctx", {}).get("error"), Misfit):
        other = (*location, *cause.other.split("."))
        location = (*location, *cause.key.split("."))
        written = location if location in document.places else other
    elif details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        location = written = (*location, "name")
    key = ".".join(map(str, location)) or "the recipe"
    return f"{document.place(written)}: {key}: {_problem(details, document, recipe)}"


def _problem(details: dict[str, Any], document: Document, recipe: type[BaseModel]) -> str:
    kind, found, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(details["loc"], document, recipe)
    if kind == "missing":
        return "missing, and it has no default"
    if kind == "value_error":
        return str(context["error"])
    if kind == "union_tag_not_found":
        return "missing; it says which schedule the other keys belong to"
    if kind == "union_tag_invalid":
        return f"found {context['tag']!r}, expected one of {context['expected_tags']}"
    expected = _EXPECTED.get(kind) or _in_words(details["msg"])
    renamed = new_value(details["loc"], found)
    advice = f"; {found} is renamed to {renamed}" if renamed else _advice_on_value(kind, found, context)
    return f"found {_show(found)}, expected {expected}{advice}"


def _in_words(message: str) -> str:
    """Say what pydantic expects as a person would: `32 or more`, `more than 0`."""
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
    shown = repr(found)
    if len(shown) > _LONGEST_SHOWN:
        shown = shown[:_LONGEST_SHOWN] + "…"
    return f"the text {shown}" if isinstance(found, str) else shown


def _advice_on_value(kind: str, found: Any, context: dict[str, Any]) -> str:
    """Return '; ' and what to write instead, where a common slip explains the value."""
    number = kind in ("int_type", "float_type", "int_from_float")
    advice = None
    if number and isinstance(found, str):
        advice = _number_in(found)
    elif number and isinstance(found, float) and found.is_integer():
        advice = f"write {found:.0f}"
    elif kind == "bool_type" and str(found).lower() in _BETTER_BOOLS:
        advice = f"write {_BETTER_BOOLS[str(found).lower()]}"
    elif kind == "string_type" and isinstance(found, (int, float)):
        advice = f'put it in quotes: "{_show(found)}"'
    elif kind == "tuple_type" and found is not None:
        advice = "begin each entry with a hyphen" if isinstance(found, dict) else "put it in brackets, as in [1, 2]"
    elif kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        near = difflib.get_close_matches(str(found).lower(), choices, n=1, cutoff=0.7)
        advice = f"did you mean {near[0]}?" if near else None
    return f"; {advice}" if advice else ""


def _number_in(text: str) -> str | None:
    """Guess which number a person meant by a text that is not one."""
    for pattern, advice in _ALMOST_NUMBERS:
        if match := pattern.fullmatch(text):
            return advice(match)
    return None


_ALMOST_NUMBERS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(r"[-+]?[\d_]*\.?\d+(e[-+]?\d+)?", re.IGNORECASE), lambda _: "take it out of its quotes"),
    (re.compile(r"(\d+):(\d\d)"), lambda m: f"for hours and minutes write {int(m[1]) + int(m[2]) / 60:.4g}"),
    (re.compile(r"\d{1,3}(,\d{3})+"), lambda m: f"write {m[0].replace(',', '_')}, without commas"),
    (re.compile(r"\d+,\d+"), lambda m: f"write {m[0].replace(',', '.')}"),
    (re.compile(r"(\d+)k", re.IGNORECASE), lambda m: f"write {m[1]}_000"),
    (re.compile(r"(\d+(?:\.\d+)?) ?%"), lambda m: f"write {float(m[1]) / 100:g}"),
]


def _unknown_key(location: Location, document: Document, recipe: type[BaseModel]) -> str:
    if renamed := new_key(location):
        return f"renamed to {'.'.join(map(str, (*location[:-1], renamed)))}"
    return f"unknown key; {_advice_on_key(location, document, recipe)}"


def _advice_on_key(location: Location, document: Document, recipe: type[BaseModel]) -> str:
    key, known = str(location[-1]), _keys_at(location[:-1], document.data, recipe)
    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.75):
        return f"did you mean '{near[0]}'?"
    here = ".".join(map(str, location))
    if elsewhere := dict.fromkeys(
        path for path in _all_keys(recipe) if path.rpartition(".")[2] == key and path != here
    ):
        return f"did you mean {' or '.join(elsewhere)}?"
    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.55):
        return f"did you mean '{near[0]}'?"
    return f"known keys here: {', '.join(known)}"


def _keys_at(location: Location, data: Any, recipe: type[BaseModel]) -> list[str]:
    """Return the keys that the section at `location` knows."""
    sections = [recipe]
    value = data
    for part in location:
        value = value[part]
        if isinstance(part, str):
            fields = [section.model_fields[part] for section in sections if part in section.model_fields]
            sections = [inner for field in fields for inner in _sections_in(field.annotation)]
    if len(sections) > 1:  # of the schedules, the one that is named
        named = value.get("name")
        sections = [s for s in sections if named in get_args(s.model_fields["name"].annotation)] or sections
    return list(dict.fromkeys(key for section in sections for key in section.model_fields))


def _all_keys(section: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield the dotted path of every key that the recipe may hold outside of lists."""
    for name, field in section.model_fields.items():
        yield above + name
        if get_origin(field.annotation) is not tuple:
            for inner in _sections_in(field.annotation):
                yield from _all_keys(inner, f"{above}{name}.")


def _written(location: Location, data: Any) -> Location:
    """Drop what pydantic puts into a location but nobody wrote.

    That is the name of a schedule before the schedule's keys, and after a plain value which of several types it took.
    """
    written: list[int | str] = []
    for part in location:
        if isinstance(data, dict) and part not in data and data.get("name") == part and len(written) > 1:
            continue
        if isinstance(part, str) and not isinstance(data, (dict, list)) and len(written) > 1:
            break
        written.append(part)
        data = data.get(part) if isinstance(data, dict) else data[part] if _holds(data, part) else None
    return tuple(written)


def _holds(entries: Any, part: int | str) -> bool:
    return isinstance(entries, list) and isinstance(part, int) and part < len(entries)


def _sections_in(annotation: Any) -> list[type[BaseModel]]:
    """Find the section classes inside a type such as `CorpusFile | None` or `tuple[CorpusFile, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (tuple, Union, types.UnionType, Annotated):
        return [found for argument in get_args(annotation) for found in _sections_in(argument)]
    return []
