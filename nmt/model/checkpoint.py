"""The model directory: everything that translation needs, and nothing that runs code.

    config.json          format version, languages, settings of model and decoding, longest source that is not split,
                         attention heads for alignment (measured when training ends), sizes and digests of all other
                         files, and a digest of its own content
    model.safetensors    the weights, each tied matrix once
    tokenizer.model      or tokenizer.source.model and tokenizer.target.model

config.json is written last, when all other files are on the disk, so that a directory with it is complete.

A directory may come from an untrusted source. Reading it runs no code from it, and opens only the files that
config.json lists, which are regular files inside it; others are ignored.
"""

import errno
import os
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.config import DecodeSettings, Languages, ModelSettings
from nmt.config.section import PositiveInt, Section
from nmt.errors import ModelError
from nmt.model.transformer import Transformer
from nmt.system.files import read_digested, settle, write_digested
from nmt.text.tokenizer import Tokenizers, tokenizer_names

CONFIG_FILE = "config.json"
FORMAT_VERSION = 5
WEIGHTS_FILE = "model.safetensors"


class AlignmentHeads(Section):
    """The heads of the decoder's attention to the source whose mean weights align words."""

    model_config = ConfigDict(strict=False)  # JSON has lists, not tuples

    heads: tuple[tuple[int, int], ...] = Field(min_length=1)  # layer and head, both from 0


class _Sections(Section):
    """The content of config.json that describes the model."""

    model_config = ConfigDict(extra="ignore")

    languages: Languages
    model: ModelSettings
    decode: DecodeSettings
    longest_source: PositiveInt
    alignment: AlignmentHeads | None = None


_DESCRIBED = ("languages", "decode", "longest_source", "alignment")  # in config.json and in `LoadedModel`


@dataclass(frozen=True)
class LoadedModel:
    """A model with all that translation needs."""

    model: Transformer
    tokenizers: Tokenizers
    languages: Languages
    decode: DecodeSettings
    longest_source: int  # tokens of the longest source that is not split
    alignment: AlignmentHeads | None = None  # measured when training ends; None before

    def configuration(self) -> dict[str, Any]:
        """Return the content of config.json, apart from what `write_model` adds."""
        return _Sections(model=self.model.settings, **{name: getattr(self, name) for name in _DESCRIBED}).model_dump()


def write_model(
    directory: Path,
    loaded: LoadedModel,
    tensors: Mapping[str, dict[str, Tensor]] | None = None,
    averaged_from: Sequence[str] = (),
) -> None:
    """Write files of tensors, by default the weights, the tokenizers, and config.json, by which it becomes a model."""
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
    """Read a model directory. Raises ModelError if it is not one, too new, damaged, or inconsistent."""
    configuration = read_configuration(directory)
    try:
        sections = _Sections.model_validate(configuration)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise ModelError(f"{directory / CONFIG_FILE}: {key}: {first['msg']}; was it written by a newer nmt?") from None
    tokenizers = Tokenizers.load(directory, configuration["files"])
    model = Transformer(sections.model, len(tokenizers.source), len(tokenizers.target), initialized=False)
    load_weights(model, directory / WEIGHTS_FILE)
    return LoadedModel(model.to(device).eval(), tokenizers, **{name: getattr(sections, name) for name in _DESCRIBED})


def write_settings(directory: Path, decode: DecodeSettings, alignment: AlignmentHeads | None) -> None:
    """Replace the settings of a model that are known when its training ends; interrupted, all or none of them."""
    measured = alignment and alignment.model_dump()
    content = {**read_configuration(directory), "decode": decode.model_dump(), "alignment": measured}
    files = [directory / name for name in content["files"]]
    write_digested(directory / CONFIG_FILE, FORMAT_VERSION, content, files)


def load_weights(model: Transformer, file: Path) -> None:
    """Fill a model with the weights in a file. Raises ModelError if the names or shapes are not the model's."""
    weights = read_tensors(file)
    expected = dict(model.named_parameters())
    for name in sorted(expected.keys() | weights.keys()):
        found = tuple(weights[name].shape) if name in weights else "nothing"
        shape = tuple(expected[name].shape) if name in expected else "nothing"
        if found != shape:
            raise ModelError(f"{file}: weight {name!r}: found {found}, the configuration expects {shape}")
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(weights[name])


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file. Raises ModelError if it is missing or damaged."""
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file}: cannot read the weights: {error}") from None


def write_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    """Write a safetensors file, readable for its owner only. Raises OSError if the disk fails."""
    try:
        save_file(tensors, file)
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))  # safetensors gives the error of the system as text only
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(file)) from None


def read_configuration(directory: Path, also: Sequence[str] = ()) -> dict[str, Any]:
    """Read and check config.json and all files that it lists: weights, tokenizers and those of the names in `also`.

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
