"""The base class of all sections of a recipe, the kinds of values in them, and the error of values that contradict."""

import unicodedata
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

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
    if path == Path():
        raise ValueError("found no name, expected the path of a file, or of a folder of its own")
    return path


def number_or_auto(value: Any) -> str:
    """Return the tag of a value of `number | "auto"`: with this discriminator, a wrong number is one error, not two."""
    return "auto" if value == "auto" else "number"


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
        location = (*section, *self.key.split("."))
        return location if location in document.places else (*section, *self.other.split("."))
