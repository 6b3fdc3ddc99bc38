"""Models in torch: written as a model directory (`nmt.model.stored`), and read."""

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from nmt.config import DecodeSettings
from nmt.kernels.device import arrays_of
from nmt.kernels.native import NativeModel, laid_out
from nmt.model.stored import (
    CONFIG_FILE,
    FORMAT_VERSION,
    WEIGHTS_FILE,
    Description,
    LoadedModel,
    check_shapes,
    read_arrays,
    read_configuration,
    read_model,
)
from nmt.model.transformer import Transformer
from nmt.system.files import sync_files, write_digested


@dataclass(frozen=True)
class TorchModel(LoadedModel):
    """A model whose weights are in torch."""

    in_torch: Transformer = field(kw_only=True)

    @cached_property
    def model(self) -> Transformer:
        """The model in torch."""
        return self.in_torch

    def native(self, precision: str) -> NativeModel | None:
        """Return the model in the layout of the C++ kernels; None without such kernels, or if it is not in RAM."""
        weights = arrays_of(self.in_torch)
        return None if weights is None else laid_out(self.settings, weights, len(self.tokenizers.target), precision)


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
    sync_files(files)
    description = Description(
        languages=loaded.languages,
        model=loaded.settings,
        decode=loaded.decode,
        longest_source=loaded.longest_source,
    )
    content = description.model_dump() | ({"averaged_from": averaged_from} if averaged_from else {})
    write_digested(directory / CONFIG_FILE, FORMAT_VERSION, content, files)


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """Return the weights by name on the CPU, a tied matrix under its first name only."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.named_parameters()}


def load_model(directory: Path, device: torch.device) -> TorchModel:
    """Read a model directory for torch. Raises what `read_model` does, ModelError for weights of another model."""
    stored = read_model(directory)
    described = stored.settings, stored.tokenizers, stored.languages, stored.decode, stored.longest_source
    return TorchModel(*described, in_torch=stored.model.to(device))


def write_settings(directory: Path, decode: DecodeSettings) -> None:
    """Replace, all or none, the settings of decoding of a model."""
    content = {**read_configuration(directory), "decode": decode.model_dump()}
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
        system_error = re.search(r"os error (\d+)", str(error))  # safetensors gives it as text only
        number = int(system_error[1]) if system_error else errno.EIO
        raise OSError(number, os.strerror(number), str(file)) from None
