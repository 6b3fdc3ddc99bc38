"""Reading a recipe: from YAML and overrides to sections that fit together, and back."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from nmt.config import strict_yaml
from nmt.config.decode_section import DecodeSettings
from nmt.config.model_section import ModelSettings
from nmt.config.recipe import Recipe
from nmt.config.recipe_errors import explain, explained
from nmt.config.recorded import with_new_names
from nmt.config.section import Section
from nmt.errors import ConfigError

SectionType = TypeVar("SectionType", bound=Section)


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, apply `section.key=value` overrides, and check all of it.

    Relative paths become absolute: those in the file from the file's folder, those in overrides from the current one.
    Raises ConfigError that lists every problem with its place.
    """
    document = strict_yaml.read(path)
    if (path.parent / "checkpoints").is_dir():  # written by a training, perhaps with a version that had other names
        document.data = with_new_names(document.data)
    for override in overrides:
        document.override(override)
    try:
        recipe = Recipe.model_validate(document.data)
    except ValidationError as error:
        raise ConfigError(explain(error, document, Recipe)) from None
    recipe = _absolute_paths(recipe, document, ())
    return recipe if recipe.train.init_from is None else _shaped_like_its_start(recipe, document)


def override_decode(settings: DecodeSettings, overrides: Sequence[str]) -> DecodeSettings:
    """Apply `decode.key=value` overrides to a model's settings. Raises ConfigError that lists every problem."""
    document = strict_yaml.Document("--set", {"decode": settings.model_dump()})
    for override in overrides:
        document.override(override)
    try:
        return _OfModel.model_validate(document.data).decode if overrides else settings
    except ValidationError as error:
        raise ConfigError("\n".join(explained(error, document, _OfModel))) from None


class _OfModel(Section):
    """What of a recipe can be changed when the model is trained."""

    decode: DecodeSettings


def recipe_to_yaml(recipe: Recipe) -> str:
    """Write a recipe as YAML that `load_recipe` reads back to an equal recipe."""
    content = recipe.model_dump(mode="json")
    if recipe.train.init_from is not None:  # what was not said of the tokenizer is as the model has it
        content["tokenizer"] = recipe.tokenizer.model_dump(mode="json", exclude_unset=True)
    return strict_yaml.write(content)


def _shaped_like_its_start(recipe: Recipe, document: strict_yaml.Document) -> Recipe:
    """Return a fine-tuning recipe with the model's directory found and its settings taken over.

    Raises ConfigError if there is no model, or the recipe states settings that would make it another one.
    """
    assert recipe.train.init_from is not None
    directory = _model_directory(recipe.train.init_from)
    try:
        content = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        start = ModelSettings.model_validate(content["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"train.init_from: {directory / 'config.json'}: cannot read it: {error}") from None
    stated = {key: getattr(recipe.model, key) for key in recipe.model.model_fields_set}
    other = sorted(key for key in stated if not key.endswith("dropout") and stated[key] != getattr(start, key))
    if other:
        problems = [
            f"{document.place(('model', key))}: model.{key}: found {stated[key]}, but the model of train.init_from "
            f"has {getattr(start, key)}; leave it out, for it comes with {directory}"
            for key in other
        ]
        raise ConfigError("\n".join(problems))
    train = recipe.train.model_copy(update={"init_from": directory})
    recipe = recipe.model_copy(update={"model": start.model_copy(update=stated), "train": train})
    try:
        return Recipe.model_validate(recipe.model_dump(exclude_unset=True))
    except ValidationError as error:
        raise ConfigError(explain(error, document, Recipe)) from None


def _model_directory(path: Path) -> Path:
    """Return the model directory that a path means: itself, or a run's `best`, else its `last`."""
    for directory in (path, path / "best", path / "last"):
        if (directory / "config.json").is_file():
            return directory
    raise ConfigError(f"train.init_from: {path}: no model here; expected a model directory or a run with a checkpoint")


def _absolute_paths(section: SectionType, document: strict_yaml.Document, at: strict_yaml.Location) -> SectionType:
    """Return the section with every relative path in it, at any depth, made absolute."""

    def absolute(value: Any, location: strict_yaml.Location) -> Any:
        if isinstance(value, Path):
            return Path(os.path.abspath(document.folder(location) / os.path.expanduser(value)))
        if isinstance(value, Section):
            return _absolute_paths(value, document, location)
        if isinstance(value, tuple):
            return tuple(absolute(item, (*location, i)) for i, item in enumerate(value))
        return value

    changed = {name: absolute(getattr(section, name), (*at, name)) for name in section.model_fields_set}
    return section.model_copy(update=changed)
