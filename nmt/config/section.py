"""What all sections of a recipe have in common, and the kinds of values in them."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0)]


def _not_the_recipes_folder(path: Path) -> Path:
    if path == Path():
        raise ValueError("found no name, expected the path of a file, or of a folder of its own")
    return path


File = Annotated[Path, Field(strict=False), AfterValidator(_not_the_recipes_folder)]


class Section(BaseModel):
    """A part of the recipe: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _empty_means_defaults(cls, data: Any) -> Any:
        # `train:` with every key below it commented out
        return {} if data is None else data
