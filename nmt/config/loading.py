"""Reading a recipe: from YAML and overrides to sections that agree with each other, and back; messages of errors."""

import difflib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from nmt.config import strict_yaml
from nmt.config.model_sections import DEFAULT_PATIENCE, DecodeSettings, ModelSettings, Stop
from nmt.config.recipe import Recipe
from nmt.config.section import Section, SettingError
from nmt.config.strict_yaml import Document, Location, location_of, shown
from nmt.errors import ConfigError


def load_recipe(
    path: str | Path, overrides: Sequence[str] = (), check: Callable[[Recipe], object] | None = None
) -> Recipe:
    """Read a recipe, apply `section.key=value` overrides, and check all of it.

    Relative paths become absolute: those in the file are relative to its folder, those in overrides to the current one.
    `check` may raise SettingError for other needs of a command. Raises ConfigError that lists every problem with
    its place.
    """
    document = strict_yaml.read(Path(path))
    for override in overrides:
        document.override(override)
    try:
        recipe: Recipe = _absolute_paths(Recipe.model_validate(document.data), document, ())
        if recipe.train.init_from is not None:
            recipe = _with_initial_model(recipe, recipe.train.init_from, document)
        # a falling schedule needs all of its steps: scores rise until the rate has fallen
        if recipe.data.valid and "stop" not in recipe.train.model_fields_set and not recipe.train.schedule.falls:
            train = recipe.train.model_copy(update={"stop": Stop(patience=DEFAULT_PATIENCE)})
            recipe = recipe.model_copy(update={"train": train})
        if check is not None:
            check(recipe)
    except ValidationError as error:
        problems = explained(error, document, Recipe)
        head = f"{path}: {len(problems)} problem{'' if len(problems) == 1 else 's'} in the recipe"
        raise ConfigError("\n  ".join([head, *problems])) from None
    except SettingError as error:
        raise ConfigError(f"{document.place(location_of(error.key))[1]}: {error}") from None
    return recipe


def override_decode(settings: DecodeSettings, overrides: Sequence[str]) -> DecodeSettings:
    """Apply `decode.key=value` overrides to a model's settings. Raises ConfigError that lists every problem."""
    if not overrides:
        return settings
    document = Document("--set", {"decode": settings.model_dump()}, {})
    for override in overrides:
        document.override(override)
    try:
        return _TranslateSettings.model_validate(document.data).decode
    except ValidationError as error:
        raise ConfigError("\n".join(explained(error, document, _TranslateSettings))) from None


class _TranslateSettings(Section):
    """The part of a recipe that `nmt translate` can override."""

    decode: DecodeSettings


def recipe_to_yaml(recipe: Recipe, folder: Path) -> str:
    """Write a recipe as YAML that `load_recipe` reads back, from a file in `folder`, to an equal recipe.

    Paths inside the folder are relative to it, so that a copy of a run names itself, not the original run.
    """
    content = _relative_paths(recipe.model_dump(), folder)
    if recipe.train.init_from is not None:  # keys that are not set come from the initial model
        content["tokenizer"] = recipe.tokenizer.model_dump(exclude_unset=True)
    return strict_yaml.write(content)


def _relative_paths(value: Any, folder: Path) -> Any:
    """Return plain data in which every path inside a folder, at any depth, starts there; the others are absolute."""
    if isinstance(value, Path):
        return os.path.relpath(value, folder) if value.is_relative_to(folder) else str(value)
    if isinstance(value, (tuple, list)):
        return [_relative_paths(item, folder) for item in value]
    if isinstance(value, dict):
        return {key: _relative_paths(item, folder) for key, item in value.items()}
    return value


def recipe_schema() -> str:
    """Return the recipe's JSON schema, for editors that complete and check YAML."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _with_initial_model(recipe: Recipe, path: Path, document: Document) -> Recipe:
    """Return a fine-tuning recipe with the directory of its initial model, and the settings of that model.

    The recipe of a run has all settings, and does not need the initial model any more, which may be gone or replaced.
    Raises SettingError if there is no model, ConfigError if the recipe has other settings, except for dropout.
    """
    candidates = (path, path / "best", path / "last")
    directory = next((folder for folder in candidates if (folder / "config.json").is_file()), None)
    train = recipe.train.model_copy(update={"init_from": directory or path})
    if recipe.model.model_fields_set == ModelSettings.model_fields.keys():
        return recipe.model_copy(update={"train": train})
    if directory is None:
        message = f"{path}: no model here; expected a model directory or a run with a checkpoint"
        if (recipe.run / "recipe.yaml").is_file():
            message += f"; a run that was started from it resumes without it: --config {recipe.run / 'recipe.yaml'}"
        raise SettingError("train.init_from", message)
    file = directory / "config.json"
    try:
        initial = ModelSettings.model_validate(json.loads(file.read_bytes())["model"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        message = f"{file}: not the settings of a model of nmt, expected a run or a model directory: {error}"
        raise SettingError("train.init_from", message) from None
    changes = {key: getattr(recipe.model, key) for key in recipe.model.model_fields_set}
    problems = [
        f"{document.place(('model', key))[1]}: model.{key}: found {value}, but the model of train.init_from has "
        f"{getattr(initial, key)}; leave it out: it comes with {directory}"
        for key, value in sorted(changes.items())
        if not key.endswith("dropout") and value != getattr(initial, key)
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    recipe = recipe.model_copy(update={"model": initial.model_copy(update=changes), "train": train})
    return Recipe.model_validate(recipe.model_dump(exclude_unset=True))


def _absolute_paths(value: Any, document: Document, location: Location) -> Any:
    """Return a value of the recipe with every relative path in it, at any depth, made absolute."""
    if isinstance(value, Path):
        if "\0" in str(value):
            raise SettingError(".".join(map(str, location)), f"found the name {str(value)!r}, expected none with NUL")
        folder = Path() if document.place(location)[0] == strict_yaml.OVERRIDDEN else Path(document.name).parent
        return Path(os.path.abspath(folder / os.path.expanduser(value)))
    if isinstance(value, tuple):
        return tuple(_absolute_paths(item, document, (*location, number)) for number, item in enumerate(value))
    if isinstance(value, Section):
        changed = {name: getattr(value, name) for name in value.model_fields_set}
        changed = {name: _absolute_paths(entry, document, (*location, name)) for name, entry in changed.items()}
        return value.model_copy(update=changed)
    return value


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "invalid_key": "a key that is text",
    "path_type": "the path of a file or folder",
    "tuple_type": "a list",
    "model_type": "a section, that is, keys with values",
    "string_pattern_mismatch": "small letters, digits and hyphens",
}


def first_problem(error: ValidationError) -> str:
    """Return the first problem as text: its key, what was found, and what is expected."""
    first = error.errors(include_url=False)[0]
    key, found = ".".join(map(str, first["loc"])), f"{first['input']!r:.60}"
    return f"{key}: found {found}; {first['msg']}" if key else first["msg"]


def explained(error: ValidationError, document: Document, recipe: type[BaseModel]) -> list[str]:
    """Return each problem as file:line, key, what was found, what was expected, in the order of the lines."""
    problems: dict[Location, list[str]] = {}
    names = {name for *_, name in _keys(recipe)}
    for entry in error.errors(include_url=False):
        location = entry["loc"]
        if entry["type"] != "extra_forbidden":  # pydantic appends a type where a value may have several
            location = tuple(part for part in location if part in names or isinstance(part, int))
        if isinstance(cause := entry.get("ctx", {}).get("error"), SettingError):
            location += location_of(cause.key)
        problems.setdefault(location, []).append(_problem(dict(entry), location, recipe))
    lines = []
    for location in sorted(problems, key=lambda location: document.place(location)[0]):
        first, *others = problems[location]
        expected = [problem.partition(", expected ")[2] for problem in others]  # by the other types
        problem = ", or ".join(filter(None, [first, *expected]))
        lines.append(f"{document.place(location)[1]}: {'.'.join(map(str, location)) or 'the recipe'}: {problem}")
    return lines


def _problem(details: dict[str, Any], location: Location, recipe: type[BaseModel]) -> str:
    match details["type"]:
        case "extra_forbidden":
            return _unknown_key(location, recipe)
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


def _unknown_key(location: Location, recipe: type[BaseModel]) -> str:
    """Return a message with the keys of this name in other sections, else the most similar key, else all keys."""
    *section, name = (part for part in location if isinstance(part, str))
    keys = list(_keys(recipe))
    if elsewhere := [".".join(path) for path in keys if path[-1] == name]:
        return f"unknown key; did you mean {' or '.join(dict.fromkeys(elsewhere))}?"
    here = [name for *above, name in keys if above == section]
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
