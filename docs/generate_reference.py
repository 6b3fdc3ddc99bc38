"""Print docs/recipe.md, the reference of all keys of a recipe, from the classes of its sections: `make schema`."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

from nmt.config import Recipe

_HEAD = """\
# Keys of a recipe

A recipe is a YAML file. Only `languages`, `data.train` and `run` are required. Relative paths start at the
recipe's folder. On the command line, `--set section.key=value` replaces a value for one command; paths in it start at
the current folder, and entries of a list are numbered from 0, as in `--set data.train.0.oversample=2`. An unknown key,
a wrong type or an impossible value is an error with the file, the line and the key.

This page is generated from the classes in `nmt/config/`: run `make schema` after changing them.
"""
_LARGEST = 2**31  # a bound that needs no mention
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text", "null": "null"}


def recipe_reference() -> str:
    """Return the reference as Markdown, with a table for each section."""
    schema = Recipe.model_json_schema()
    places: dict[str, list[str]] = {}
    _locate(schema, "", schema["$defs"], places)
    lines = [_HEAD, *_table("Top level", schema)]
    for name, keys in places.items():
        section = schema["$defs"][name]
        lines += _table(", ".join(f"`{key}`" for key in keys), section)
    return "\n".join(lines)


def _locate(section: dict[str, Any], above: str, sections: dict[str, Any], places: dict[str, list[str]]) -> None:
    """Collect the dotted keys of each section inside a section, in the order in which the reference explains them."""
    for name, entry in section["properties"].items():
        for inner in _references(entry):
            key = f"{above}{name}.0" if entry.get("type") == "array" else f"{above}{name}"
            places.setdefault(inner, []).append(key)
            if len(places[inner]) == 1:
                _locate(sections[inner], f"{key}.", sections, places)


def _table(title: str, section: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n\n{section['description']}\n"
    yield "| key | type | default | meaning | example |\n|---|---|---|---|---|"
    for name, entry in section["properties"].items():
        if "$ref" in entry:
            continue  # a section, which has a table of its own
        default = entry.get("default")
        shown = "required" if name in section.get("required", ()) else f"`{_yaml(default)}`"
        meaning = " ".join(entry["description"].split())
        values = entry.get("examples", () if _references(entry) else [default])
        example = ", ".join(f"`{name}: {_yaml(value)}`" for value in values)
        yield f"| `{name}` | {_type(entry)} | {shown} | {meaning} | {example} |"
    yield ""


def _references(entry: dict[str, Any]) -> list[str]:
    """Return the names of the sections that a key holds."""
    branches = [entry, entry.get("items", {}), *entry.get("anyOf", ()), *entry.get("oneOf", ())]
    return [branch["$ref"].rpartition("/")[2] for branch in branches if "$ref" in branch]


def _type(entry: dict[str, Any]) -> str:
    """Return the type of a key in words, with its bounds."""
    if branches := entry.get("anyOf") or entry.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, branches)))
    if "$ref" in entry:
        return "section"
    if choices := entry.get("enum", [entry["const"]] if "const" in entry else None):
        return " or ".join(f"`{choice}`" for choice in choices)
    if entry["type"] == "array":
        return "list of sections" if "$ref" in entry.get("items", {}) else "list"
    if entry.get("format") == "path":
        return "path"
    words = _TYPES[entry["type"]]
    for key, bound in (
        ("minimum", ", {:g} or more"), ("exclusiveMinimum", ", more than {:g}"),
        ("maximum", ", at most {:,}"), ("exclusiveMaximum", ", less than {:g}"),
    ):  # fmt: skip
        if entry.get(key) not in (None, _LARGEST):
            words += bound.format(entry[key])
    return words


def _yaml(value: Any) -> str:
    """Return a value as YAML in one line; strings have quotes where YAML needs them."""
    if isinstance(value, (list, dict)) or (isinstance(value, str) and value):
        return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()
    return json.dumps(value)


if __name__ == "__main__":
    print(recipe_reference(), end="")
