"""Reading a recipe: from YAML and overrides to sections that agree with each other, and back."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config import strict_yaml
from nmt.config.decode_section import DecodeSettings
from nmt.config.model_section import ModelSettings
from nmt.config.recipe import Recipe
from nmt.config.recipe_errors import explained
from nmt.config.section import Section, SettingError
from nmt.config.train_section import DEFAULT_PATIENCE, Stop
from nmt.errors import ConfigError


def load_recipe(path: Path, overrides: Sequence[str] = (), check: Callable[[Recipe], object] | None = None) -> Recipe:
    """Read a recipe, apply `section.key=value` overrides, and check all of it.

    Relative paths become absolute: those in the file start at the file's folder, those in overrides at the current one.
    `check` may raise SettingError for what a command needs besides. Raises ConfigError that lists every problem with
    its place.
    """
    document = strict_yaml.read(path)
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
        raise ConfigError(f"{document.place(strict_yaml.location_of(error.key))[1]}: {error}") from None
    return recipe


def override_decode(settings: DecodeSettings, overrides: Sequence[str]) -> DecodeSettings:
    """Apply `decode.key=value` overrides to a model's settings. Raises ConfigError that lists every problem."""
    document = strict_yaml.Document("--set", {"decode": settings.model_dump()}, {})
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

    Paths in the folder start there: so a copy of a run names itself, and not the run that it was copied from.
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


def _with_initial_model(recipe: Recipe, path: Path, document: strict_yaml.Document) -> Recipe:
    """Return a fine-tuning recipe with the directory of its initial model, and the settings of that model.

    Raises SettingError if there is no model, ConfigError if the recipe has other settings, except for dropout.
    """
    directory = next((one for one in (path, path / "best", path / "last") if (one / "config.json").is_file()), None)
    if directory is None:
        message = f"{path}: no model here; expected a model directory or a run with a checkpoint"
        raise SettingError("train.init_from", message)
    file = directory / "config.json"
    try:
        initial = ModelSettings.model_validate(json.loads(file.read_bytes())["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{file}: not the settings of a model of nmt, expected a run or a model directory: {error}"
        raise SettingError("train.init_from", message) from None
    changes = {key: getattr(recipe.model, key) for key in recipe.model.model_fields_set}
    problems = [
        f"{document.place(('model', key))[1]}: model.{key}: found {value}, but the model of train.init_from has "
        f"{getattr(initial, key)}; leave it out: it comes with {directory}"
        for key, value in sorted(changes.items())
        if key != "dropout" and value != getattr(initial, key)
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    train = recipe.train.model_copy(update={"init_from": directory})
    recipe = recipe.model_copy(update={"model": initial.model_copy(update=changes), "train": train})
    return Recipe.model_validate(recipe.model_dump(exclude_unset=True))


def _absolute_paths(value: Any, document: strict_yaml.Document, location: strict_yaml.Location) -> Any:
    """Return a value of the recipe with every relative path in it, at any depth, made absolute."""
    if isinstance(value, Path):
        folder = Path() if document.place(location)[0] == strict_yaml.OVERRIDDEN else Path(document.name).parent
        return Path(os.path.abspath(folder / os.path.expanduser(value)))
    if isinstance(value, tuple):
        return tuple(_absolute_paths(item, document, (*location, number)) for number, item in enumerate(value))
    if isinstance(value, Section):
        changed = {name: getattr(value, name) for name in value.model_fields_set}
        changed = {name: _absolute_paths(each, document, (*location, name)) for name, each in changed.items()}
        return value.model_copy(update=changed)
    return value
