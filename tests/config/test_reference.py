"""docs/recipe.md is complete and up to date, and its examples are valid."""

import json
import runpy
from inspect import get_annotations
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from nmt.config import recipe_schema
from nmt.config.section import Section


def subclasses(section: type[BaseModel]) -> list[type[BaseModel]]:
    return [one for inner in section.__subclasses__() for one in (inner, *subclasses(inner))]


CONFIG = [section for section in subclasses(Section) if section.__module__.startswith("nmt.config.")]


def test_reference_is_up_to_date_and_describes_every_key(repository: Path) -> None:
    reference = (repository / "docs" / "recipe.md").read_text(encoding="utf-8")
    generator = runpy.run_path(str(repository / "docs" / "generate_reference.py"))
    assert reference == generator["recipe_reference"](), "run: make schema"
    schema = json.loads(recipe_schema())
    for name, section in {"Recipe": schema, **schema["$defs"]}.items():
        for key, entry in section["properties"].items():
            if "$ref" in entry:  # a section, with a table of its own
                continue
            meaning = " ".join(entry["description"].split())
            assert any(line.startswith(f"| `{key}` |") and meaning in line for line in reference.splitlines()), (
                f"{name}.{key}"
            )


@pytest.mark.parametrize(
    ("section", "key", "example"),
    [
        (section, key, example)
        for section in CONFIG
        for key, field in section.model_fields.items()
        for example in field.examples or ()
    ],
)
def test_every_example_is_a_valid_value(section: type[BaseModel], key: str, example: Any) -> None:
    annotation = next(get_annotations(one)[key] for one in section.mro() if key in get_annotations(one))
    TypeAdapter(annotation).validate_python(example)
