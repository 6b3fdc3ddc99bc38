"""The model directory: everything that translation needs, and nothing that runs code.

    config.json          format version, languages, settings of model and decoding, longest source that is not split,
                         sizes and digests of all other files, and a digest of its own content
    model.safetensors    the weights, each tied matrix once
    tokenizer.model      or tokenizer.source.model and tokenizer.target.model

config.json is written last, when all other files are on the disk, so that a directory with it is complete.

A directory may come from an untrusted source. Reading it runs no code from it, and opens only the files that
config.json lists, which are regular files inside it; others are ignored.

It is read without torch, which takes seconds to load.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file

from nmt.config import DecodeSettings, Languages, MaxLength, ModelSettings
from nmt.config.loading import first_problem
from nmt.config.section import PositiveInt, Section
from nmt.errors import ModelError
from nmt.kernels.constant_products import Floats
from nmt.kernels.native import NativeModel, has_kernels, laid_out, weight_shapes
from nmt.system.files import read_digested, read_json
from nmt.text.tokenizer import Tokenizers, tokenizer_names

if TYPE_CHECKING:
    from nmt.model.transformer import Transformer

CONFIG_FILE = "config.json"
FORMAT_VERSION = 5
WEIGHTS_FILE = "model.safetensors"


class Description(Section):
    """The content of config.json that describes the model."""

    model_config = ConfigDict(extra="ignore")

    languages: Languages
    model: ModelSettings
    decode: DecodeSettings
    longest_source: PositiveInt


@dataclass(frozen=True)
class LoadedModel:
    """A model with all that translation needs, as it is read from its directory."""

    settings: ModelSettings
    tokenizers: Tokenizers
    languages: Languages
    decode: DecodeSettings
    longest_source: int  # tokens of the longest source that is not split
    weights: Mapping[str, Floats] = field(default_factory=dict)  # by name, each tied matrix under its first one
    file: Path = Path()  # of the weights

    @cached_property
    def model(self) -> "Transformer":
        """The model in torch, on the CPU and in evaluation mode. Raises ModelError if the weights do not match it."""
        import torch

        from nmt.model.transformer import Transformer

        sizes = len(self.tokenizers.source), len(self.tokenizers.target)
        model = Transformer(self.settings, *sizes, initialized=False)
        check_shapes(self.file, self.weights, model.shapes)
        for name, parameter in model.named_parameters():
            parameter.data = torch.from_numpy(self.weights[name])
        return model.eval()

    def native(self, precision: str) -> NativeModel | None:
        """Return the model in the layout of the C++ kernels; None if they do not support it or are not available.

        Raises ModelError if the weights do not match the settings.
        """
        if not has_kernels(self.settings):
            return None
        source, target = len(self.tokenizers.source), len(self.tokenizers.target)
        check_shapes(self.file, self.weights, weight_shapes(self.settings, source, target))
        return laid_out(self.settings, self.weights, target, precision)


def read_model(directory: Path) -> LoadedModel:
    """Read a model directory. Raises ModelError if it is not one, too new, damaged, or inconsistent."""
    configuration = read_configuration(directory)
    described = dict(description_of(directory, configuration))
    tokenizers = Tokenizers.load(directory, configuration["files"])
    file = directory / WEIGHTS_FILE
    return LoadedModel(described.pop("model"), tokenizers, **described, weights=read_arrays(file), file=file)


def description_of(directory: Path, configuration: object = None) -> Description:
    """Return the description in the content of a config.json; None: in the file of a directory that is whole.

    Raises ModelError for a description of another form.
    """
    file = directory / CONFIG_FILE
    try:
        return Description.model_validate(configuration or read_json(file, "copy the model again"))
    except ValidationError as error:
        raise ModelError(f"{file}: {first_problem(error)}; was it written by a newer nmt?") from None


def largest_limits(limits: Sequence[tuple[MaxLength | None, int]]) -> tuple[MaxLength | None, int]:
    """Return the largest limit on the length of translations, None if none has one, and the longest unsplit source.

    A model that several texts were trained on, one after the other or averaged, translates what is as long as any.
    """
    outputs, sources = zip(*limits, strict=True)
    if not any(outputs):
        return None, max(sources)
    known = [output or MaxLength() for output in outputs]
    factor, extra = max(output.factor for output in known), max(output.extra for output in known)
    return MaxLength(factor=factor, extra=extra), max(sources)


def check_shapes(file: Path, weights: Mapping[str, Floats], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ModelError if the names or shapes of the weights of a file are not those of its model."""
    for name in sorted(expected.keys() | weights.keys()):
        stored = weights[name].shape if name in weights else "nothing"
        if stored != (shape := expected.get(name, "nothing")):
            raise ModelError(f"{file}: weight {name!r}: found {stored}, the configuration expects {shape}")


def read_arrays(file: Path) -> dict[str, Floats]:
    """Read a safetensors file. Raises ModelError if it is missing or damaged, or its numbers are not fp32."""
    try:
        arrays = load_file(file)
        if all(array.dtype == np.float32 for array in arrays.values()):
            return arrays
        problem = "its numbers are not fp32"
    except (OSError, SafetensorError, TypeError) as error:  # TypeError: a type that numpy does not have
        problem = str(error)
    raise ModelError(f"{file}: cannot read the weights: {problem}")


def read_configuration(directory: Path, also: Sequence[str] = ()) -> dict[str, Any]:
    """Read and check config.json and all files that it lists: weights, tokenizers and the files named in `also`.

    Raises what `read_digested` does.
    """

    def required(listed: Container[str]) -> list[str]:
        return [WEIGHTS_FILE, *tokenizer_names(listed), *also]

    return read_digested(directory / CONFIG_FILE, FORMAT_VERSION, required)


def resolve_model(path: Path) -> Path:
    """Return the model directory for a path: itself, or a run's `best`, else its `last`."""
    for candidate in (path, path / "best", path / "last"):
        if (candidate / CONFIG_FILE).is_file():
            return candidate
    if not path.exists():
        raise ModelError(f"{path}: no such directory; give a model directory or a run directory")
    raise ModelError(f"{path}: neither a model directory ({CONFIG_FILE} is missing) nor a run with a checkpoint")


def check_same_vocabulary(directories: Sequence[Path], tokenizers: Sequence[Tokenizers]) -> None:
    """Raise ModelError if the tokenizers of a model are not, byte for byte, those of the first one."""
    for directory, other in zip(directories[1:], tokenizers[1:], strict=True):
        if side := tokenizers[0].different_side(other):
            raise ModelError(
                f"{directory}: its {side} tokenizer is not that of {directories[0]}, so their token ids do not "
                "mean the same; models that translate together must be trained from one prepared corpus"
            )
