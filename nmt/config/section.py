"""The base class of all sections of a recipe, the kinds of values in them, and the error for values that contradict.

It also finds the differences between settings and recorded ones: in the recipe of a run, in the manifest of a
prepared corpus and beside an interrupted translation.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from nmt.errors import ConfigError

PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
Probability = Annotated[float, Field(ge=0, lt=1)]
File = Annotated[Path, Field(strict=False)]

Entry = TypeVar("Entry")


class _EntryOrList:
    """The JSON schema of `OneOrMore`."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        entries = handler(schema)
        return {"anyOf": [entries["items"], entries]}


# A tuple that may be written as its only entry, without a list.
OneOrMore = Annotated[
    tuple[Entry, ...],
    Field(strict=False),
    BeforeValidator(lambda value: value if isinstance(value, (list, tuple)) else () if value is None else (value,)),
    _EntryOrList(),
]


class Section(BaseModel):
    """A part of the recipe: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_means_defaults(cls, data: Any) -> Any:
        return {} if data is None else data  # `train:` with every key below it commented out


class SettingError(ConfigError, ValueError):
    """A value that is impossible together with another one, or on this machine; `key` is the dotted key to change."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem = key, problem


class Difference(NamedTuple):
    """A setting that differs from the recorded one."""

    key: str  # the dotted key, as in `train.stop.steps`; the entries of a list are numbered from 0
    before: Any
    now: Any

    def __str__(self) -> str:
        before, now = (json.dumps(value, ensure_ascii=False, default=str) for value in (self.before, self.now))
        return f"{self.key}: was {before}, now {now}"


def differences(before: Any, now: Any, key: str = "") -> Iterator[Difference]:
    """Yield what differs between two settings given as plain data, in the order of their keys.

    Mappings, and lists of mappings, are compared key by key, where null is an empty mapping. All other values, such
    as lists of numbers, are compared as a whole.

    >>> [str(one) for one in differences({"beam": 5, "penalty": {"alpha": 1.0}}, {"beam": 4, "penalty": None})]
    ['beam: was 5, now 4', 'penalty.alpha: was 1.0, now null']
    """
    if before == now:
        return
    old, new = _entries(before), _entries(now)
    if old is None or new is None or not (old or new):
        yield Difference(key, before, now)
        return
    for name in {**old, **new}:
        yield from differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)


def _entries(value: Any) -> dict[str, Any] | None:
    """Return the entries of a mapping or of a list of mappings, an empty dict for null, None for other values."""
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        return {str(number): entry for number, entry in enumerate(value)}
    if isinstance(value, dict):
        return {str(name): entry for name, entry in value.items()}
    return {} if value is None else None
