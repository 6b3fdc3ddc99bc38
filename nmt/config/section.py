"""The base class of all sections of a recipe, the kinds of values in them, and the error of values that contradict."""

import unicodedata
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Tag,
    WrapSerializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from nmt.config.strict_yaml import Document, Location
from nmt.errors import ConfigError

PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
Probability = Annotated[float, Field(ge=0, lt=1)]


def _without_controls(text: str) -> str:
    # in messages, control characters would change the terminal
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise ValueError(f"found {text!r}, expected text without control characters")
    return text


def _file_name(path: Path) -> Path:
    _without_controls(str(path))
    return path


Entry = TypeVar("Entry")
NumberOrAuto = Annotated[
    Annotated[Entry, Tag("number")] | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(
        lambda value: "auto" if value == "auto" else "number"
    ),  # so that a wrong number is one error, not two
]
"""A number, or the word auto."""


def _as_list(value: Any) -> Any:
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def _as_written(values: tuple[Any, ...], serialize: SerializerFunctionWrapHandler) -> Any:
    entries = serialize(values)
    return entries[0] if len(entries) == 1 else entries or None


class _OneOrMoreSchema:
    """The JSON schema of `OneOrMore`: an entry, a list of entries, or nothing."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        entries = handler(schema)
        return {"anyOf": [entries["items"], entries, {"type": "null"}]}


OneOrMore = Annotated[
    tuple[Entry, ...], Field(strict=False), BeforeValidator(_as_list), WrapSerializer(_as_written), _OneOrMoreSchema()
]
"""A tuple that is written as a list, or as its entry if that is the only one; nothing is the empty tuple."""

Text = Annotated[str, AfterValidator(_without_controls)]
File = Annotated[Path, Field(strict=False), AfterValidator(_file_name)]


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
    """A value that is impossible together with another one, or on this machine.

    `key` is the dotted key to change; where it may be a default, `other` is a key that the recipe certainly contains.
    """

    def __init__(self, key: str, problem: str, other: str | None = None) -> None:
        super().__init__(f"{key}: {problem}")
        self.key, self.problem, self.other = key, problem, other or key

    def location(self, document: Document, section: Location = ()) -> Location:
        """Return the location of the key, or of the other one if the document does not contain it."""
        places = [(*section, *_parts(key)) for key in (self.key, self.other)]
        return next((place for place in places if document.written(place) in document.places), places[1])


def _parts(key: str) -> Location:
    return tuple(int(part) if part.isdecimal() else part for part in key.split("."))
