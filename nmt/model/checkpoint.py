"""A model in torch with all that translation needs: written as a model directory (`nmt.model.stored`), and read."""

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from nmt.config import DecodeSettings, Languages, ModelSettings
from nmt.kernels.device import native_model
from nmt.kernels.native import NativeModel
from nmt.model.stored import (
    CONFIG_FILE,
    FORMAT_VERSION,
    WEIGHTS_FILE,
    AlignmentHeads,
    Description,
    check_shapes,
    read_arrays,
    read_configuration,
    read_model,
)
from nmt.model.transformer import Transformer
from nmt.system.files import settle, write_digested
from nmt.text.tokenizer import Tokenizers

_DESCRIBED = ("languages", "decode", "longest_source", "alignment")  # fields of both config.json and `LoadedModel`


@dataclass(frozen=True)
class LoadedModel:
    """A model with all that translation needs."""

    model: Transformer
    tokenizers: Tokenizers
    languages: Languages
    decode: DecodeSettings
    longest_source: int  # tokens of the longest source that is not split
    alignment: AlignmentHeads | None = None  # measured when training ends; None before

    @property
    def settings(self) -> ModelSettings:
        """The settings of the model."""
        return self.model.settings

    def native(self, precision: str) -> NativeModel | None:
        """Return the model in the layout of the C++ kernels, with its weights; None if they do not support it."""
        weights = dict(self.model.named_parameters())
        return native_model(self.settings, weights, len(self.tokenizers.target), precision)

    def configuration(self) -> dict[str, Any]:
        """Return the content of config.json, apart from what `write_model` adds."""
        return Description(model=self.model.settings, **{name: getattr(self, name) for name in _DESCRIBED}).model_dump()


def write_model(
    directory: Path,
    loaded: LoadedModel,
    tensors: Mapping[str, dict[str, Tensor]] | None = None,
    averaged_from: Sequence[str] = (),
) -> None:
    """Write files of tensors (by default the weights) and the tokenizers, then config.json, which makes it complete."""
    tensors = tensors or {WEIGHTS_FILE: weights_of(loaded.model)}
    for name, content in tensors.items():
        write_tensors(content, directory / name)
    files = [*(directory / name for name in tensors), *loaded.tokenizers.save(directory)]
    settle(files)
    content = loaded.configuration() | ({"averaged_from": averaged_from} if averaged_from else {})
    write_digested(directory / CONFIG_FILE, FORMAT_VERSION, content, files)


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """Return the weights by name on the CPU, a tied matrix under its first name only."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.named_parameters()}


def load_model(directory: Path, device: torch.device) -> LoadedModel:
    """Read a model directory for torch. Raises what `read_model` does, ModelError for weights of another model."""
    stored = read_model(directory)
    described = {name: getattr(stored, name) for name in _DESCRIBED}
    return LoadedModel(stored.model.to(device), stored.tokenizers, **described)


def write_settings(directory: Path, decode: DecodeSettings, alignment: AlignmentHeads | None) -> None:
    """Replace, all or none, the settings of a model that are determined when its training ends."""
    measured = alignment and alignment.model_dump()
    content = {**read_configuration(directory), "decode": decode.model_dump(), "alignment": measured}
    files = [directory / name for name in content["files"]]
    write_digested(directory / CONFIG_FILE, FORMAT_VERSION, content, files)


def load_weights(model: Transformer, file: Path) -> None:
    """Fill a model with the weights in a file. Raises ModelError if the names or shapes are not the model's."""
    weights = read_arrays(file)
    check_shapes(file, weights, model.shapes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file. Raises what `read_arrays` does."""
    return {name: torch.from_numpy(array) for name, array in read_arrays(file).items()}


def write_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    """Write a safetensors file, readable for its owner only. Raises OSError if the disk fails."""
    try:
        save_file(tensors, file)
    except SafetensorError as error:
        system_error = re.search(
            r"os error (\d+)", str(error)
        )  # safetensors gives the error of the system as text only
        number = int(system_error[1]) if system_error else errno.EIO
        raise OSError(number, os.strerror(number), str(file)) from None
