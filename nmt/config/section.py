"""The base class of all sections of a recipe, the kinds of values in them, and the error of values that contradict."""

from pathlib import Path
from typing import Annotated, Any, TypeVar

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
