"""The model directory: everything that translating needs, and nothing that runs code.

    config.json          format version, languages, model settings, decode settings, its own digest and those of the
                         files beside it; when its training is over, which heads align words best
    model.safetensors    the weights, each tied matrix once
    tokenizer.model      or tokenizer.source.model and tokenizer.target.model

It is written to a temporary sibling, synced, and renamed, so that a directory with its final name is whole.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.config import DecodeSettings, Languages, ModelSettings
from nmt.config.section import Section
from nmt.errors import DamagedError, ModelError
from nmt.model.sharding import laid_out_like, whole_tensor
from nmt.model.transformer import Transformer
from nmt.system.files import replace_text, staged_directory
from nmt.text.tokenizer import Tokenizers

FORMAT_VERSION = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
_OWN_DIGEST = "digest"
"""The key in config.json of the digest of the rest of it; models that were saved before there was one have none."""
_LONGEST: TypeAdapter[int | None] = TypeAdapter(Annotated[int, Field(strict=True, ge=1)] | None)


class AlignmentHeads(Section):
    """The heads of the attention to the source whose mean weights show which words belong together."""

    model_config = ConfigDict(strict=False)  # JSON has lists, not tuples

    heads: tuple[tuple[int, int], ...] = Field(min_length=1)
    """Layer and head, both from 0."""
    at_input: bool = False
    """Whether what belongs to a token is seen when the decoder reads it, rather than when it says it."""


@dataclass(frozen=True)
class LoadedModel:
    """A translator in memory, ready to use."""

    model: Transformer
    tokenizers: Tokenizers
    languages: Languages
    decode: DecodeSettings
    alignment: AlignmentHeads | None = None
    """Measured at the end of training; None if it was not."""
    longest_source: int | None = None
    """Tokens of the longest source sentence in training; None for models that do not record it."""


def save_model(directory: Path, loaded: LoadedModel) -> None:
    """Write a model directory; whatever stood there before stays until the new one is whole."""
    with staged_directory(directory) as staging:
        write_model_files(staging, loaded)
        seal(staging)


def write_model_files(directory: Path, loaded: LoadedModel) -> None:
    """Write weights, tokenizers and configuration into an existing directory; `seal` it when all is in."""
    write_tensors(weights_of(loaded.model), directory / WEIGHTS_FILE)
    loaded.tokenizers.save(directory)
    configuration = {
        "format_version": FORMAT_VERSION,
        "languages": loaded.languages.model_dump(),
        "model": loaded.model.settings.model_dump(),
        "decode": loaded.decode.model_dump(),
        "longest_source": loaded.longest_source,
    }
    if loaded.alignment is not None:
        configuration["alignment"] = loaded.alignment.model_dump()
    _write_json(directory / CONFIG_FILE, configuration)


def weights_of(model: Transformer) -> dict[str, Tensor]:
    """Return the weights by name on the CPU, a tied matrix under its first name only."""
    return {name: whole_tensor(tensor).detach().cpu().contiguous() for name, tensor in model.named_parameters()}


def load_model(directory: Path, device: torch.device) -> LoadedModel:
    """Open a model directory for translating. Raises ModelError if it is not one, too new, damaged or inconsistent."""
    configuration = read_configuration(directory)
    try:
        settings = ModelSettings.model_validate(configuration["model"])
        languages = Languages.model_validate(configuration["languages"])
        decode = DecodeSettings.model_validate(configuration["decode"])
        aligns = configuration.get("alignment")
        alignment = None if aligns is None else AlignmentHeads.model_validate(aligns)
        longest_source = _LONGEST.validate_python(configuration.get("longest_source"))
    except KeyError as error:
        raise ModelError(f"{directory / CONFIG_FILE}: the section {error} is missing; copy the model anew") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "longest_source"
        raise ModelError(f"{directory / CONFIG_FILE}: {key}: {first['msg']}; was it written by a newer nmt?") from None
    for layer, head in () if alignment is None else alignment.heads:
        if not (0 <= layer < settings.decoder_layers and 0 <= head < settings.heads):
            place = directory / CONFIG_FILE
            raise ModelError(f"{place}: alignment: layer {layer}, head {head}: the model has no such head")
    tokenizers = Tokenizers.load(directory)
    model = Transformer(settings, len(tokenizers.source), len(tokenizers.target), initialized=False)
    load_weights(model, directory / WEIGHTS_FILE)
    return LoadedModel(model.to(device).eval(), tokenizers, languages, decode, alignment, longest_source)


def keep_alignment(directory: Path, alignment: AlignmentHeads) -> None:
    """Note in a model directory which heads align best; whoever is killed leaves it as it was or as it shall be."""
    content = {**read_configuration(directory), "alignment": alignment.model_dump()}
    content[_OWN_DIGEST] = _digest_of_content(content)
    replace_text(directory / CONFIG_FILE, _as_json(content))


def load_weights(model: Transformer, file: Path) -> None:
    """Fill a model with the weights in a file. Raises ModelError if the names or shapes are not the model's."""
    weights = read_tensors(file)
    expected = dict(model.named_parameters())
    for name in sorted(expected.keys() | weights.keys()):
        found = tuple(weights[name].shape) if name in weights else "nothing"
        wanted = tuple(expected[name].shape) if name in expected else "nothing"
        if found != wanted:
            raise ModelError(f"{file}: weight '{name}': found {found}, the configuration expects {wanted}")
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(laid_out_like(parameter, weights[name]))


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file. Raises ModelError if it is missing or damaged."""
    try:
        return {_current_name(name): tensor for name, tensor in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file}: cannot read the weights: {error}") from None


def _current_name(name: str) -> str:
    """Return the name of a weight whose name in format version 1 this is."""
    name = re.sub(r"_embedding\.positions$", "_embedding.positions.vectors", name)
    return re.sub(r"\.(key|value)_positions$", r".positions.\1_vectors", name)


def write_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    """Write a safetensors file. Raises OSError if the disk refuses."""
    try:
        save_file(tensors, file)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(file)) from None


def read_configuration(directory: Path, name: str = CONFIG_FILE) -> dict[str, Any]:
    """Read and check config.json, or a file like it, and the digests of all files that it lists.

    Raises DamagedError where they do not agree, ModelError for a newer format.
    """
    file = directory / name
    if not file.is_file():
        raise DamagedError(f"{directory}: not a model directory: it has no {name}")
    try:
        configuration = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(configuration, dict) or "format_version" not in configuration:
            raise ValueError("it has no format_version; copy the model anew")
        version, digests = configuration["format_version"], dict(configuration.get("files", {}))
        if type(version) is not int or version < 1:
            raise ValueError(f"its format_version is {version!r}, no number from 1 on; copy the model anew")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DamagedError(f"{file}: damaged: {error}") from None
    if version > FORMAT_VERSION:
        raise ModelError(f"{file}: format version {version}, but this nmt reads up to {FORMAT_VERSION}; update nmt")
    own_digest = _digest_of_content(configuration)
    if configuration.get(_OWN_DIGEST, own_digest) != own_digest:
        raise DamagedError(
            f"{file}: damaged: its content is not what was saved; copy it anew (what shall be different, --set changes)"
        )
    for other, digest in digests.items():
        if not (directory / other).is_file():
            raise DamagedError(f"{directory / other}: missing, though {name} lists it; copy the whole directory")
        if digest_of(directory / other) != digest:
            raise DamagedError(f"{directory / other}: damaged: its content is not what was saved (SHA-256 differs)")
    return configuration


def resolve_model(path: Path) -> Path:
    """Return the model directory that a path means: itself, or a run's `best`, else its `last`."""
    for candidate in (path, path / "best", path / "last"):
        if (candidate / CONFIG_FILE).is_file():
            return candidate
    if not path.exists():
        raise ModelError(f"{path}: no such directory; give a model directory or a run directory")
    raise ModelError(f"{path}: neither a model directory ({CONFIG_FILE} is missing) nor a run with a checkpoint")


def seal(directory: Path, name: str = CONFIG_FILE) -> None:
    """Record in config.json, or a file like it, the digest of every file beside it, so that reading finds damage."""
    configuration = json.loads((directory / name).read_text(encoding="utf-8"))
    others = sorted(file.name for file in directory.iterdir() if file.name != name)
    configuration["files"] = {other: digest_of(directory / other) for other in others}
    configuration[_OWN_DIGEST] = _digest_of_content(configuration)
    _write_json(directory / name, configuration)


def _digest_of_content(configuration: dict[str, Any]) -> str:
    """Return the SHA-256 of all that a configuration says but its own digest, however it is laid out."""
    content = {key: value for key, value in configuration.items() if key != _OWN_DIGEST}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(_as_json(content), encoding="utf-8")


def _as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
