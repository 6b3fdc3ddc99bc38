"""Import of Marian models (Junczys-Dowmunt et al. 2018), such as all of OPUS-MT (Tiedemann & Thottingal 2020).

It reads a directory of Hugging Face (config.json, model.safetensors or pytorch_model.bin, vocab.json, source.spm,
target.spm), also one that `nmt export --to hf` wrote, and a directory or a zip of Marian and OPUS (*.npz, decoder.yml,
vocabularies as YAML or SentencePiece). Nothing in them is executed.

These models are ours with other settings. Only the order of dimensions and symbols differs:

    hidden dimensions   all sines stand before all cosines; the width of all weights is permuted
    vocabulary          `</s>` and `<unk>` come first; here <pad>, <unk>, <s>, </s>
    `<s>`               the decoder starts with padding, in Marian with a vector of zeros; it is our row of `<s>`
    tokenizers          two SentencePiece models and one vocabulary: here both have all of its pieces, of which those
                        that are not their own are unused, so that ids are the same on both sides

S source length, D width, V vocabulary.
"""

import math
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from pydantic import ValidationError
from safetensors.torch import load_file
from torch import Tensor

from nmt.config import DecodeSettings, Languages, MaxLength, ModelSettings
from nmt.config.loading import first_problem
from nmt.config.section import SettingError
from nmt.errors import ConfigError, ModelError, NMTError
from nmt.formats.hugging_face import embedding_tensors, layer_tensors, sines_first
from nmt.formats.sentencepiece_file import SPECIAL, pieces_of, tokenizer_of
from nmt.model.checkpoint import TorchModel
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system.files import parse_json
from nmt.text.languages import is_language, primary_code
from nmt.text.tokenizer import BOS, Tokenizers

_ABSENT = -100.0  # the bias of a symbol that their output does not have: its probability is 0 in fp32
_LONGEST_SOURCE = 512  # tokens; longer sentences are split
_POSITIONS = 1024  # of a model whose sinusoids are not ours
_ENDINGS = (".npz", ".yml", ".spm", ".json", ".safetensors", ".bin")
_LARGEST = 2**33  # bytes of a file
_TAG = re.compile(r">>([A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*)<<")


@dataclass
class Foreign:
    """A model of another program: its settings by Hugging Face's keys, its weights by their names there."""

    settings: dict[str, Any]
    weights: dict[str, Tensor]
    ids: tuple[dict[str, int], dict[str, int]]  # of the pieces of source and target; the same object if shared
    pieces: tuple[bytes, bytes]  # SentencePiece models of source and target
    norm_epsilon: float = 1e-5
    positions: Tensor | None = None  # (positions, D), where they are not our sinusoids
    languages: tuple[str | None, str | None] = (None, None)

    @cached_property
    def rows(self) -> tuple[list[int], list[int]]:
        """For source and target: the row in the foreign matrix for each of our ids."""
        source, target = self.ids
        start = self.settings["decoder_start_token_id"]
        return _rows(source, start if source is target else None), _rows(target, start)


def import_model(path: Path, languages: str | None) -> LoadedModel:
    """Return a model that computes the same function as a Marian model.

    `languages` is SOURCE-TARGET, for a model that does not name them. Raises ModelError for one that is damaged or of
    another kind, ConfigError if the languages are missing.
    """
    with _opened(path) as directory:
        if (directory / "model.bin").exists():
            lacks = "which lacks languages and settings of the search"
            raise ModelError(f"{path}: a model of CTranslate2, {lacks}; import the model that it was exported from")
        is_hugging_face = (directory / "vocab.json").exists()
        with _explained(path):
            foreign = _hugging_face(directory) if is_hugging_face else _native(directory)
            settings = _settings(foreign)
            rows = foreign.rows
            tags = _tags(foreign.ids[0])
            sides = [_symbols(ids, side_rows) for ids, side_rows in zip(foreign.ids, rows, strict=True)]
            source = tokenizer_of(foreign.pieces[0], [f"<2{tags[s]}>" if s in tags else s for s in sides[0]], tags)
            is_shared = foreign.pieces[0] == foreign.pieces[1] and foreign.ids[0] is foreign.ids[1] and not tags
            target = source if is_shared else tokenizer_of(foreign.pieces[1], sides[1])
            model = Transformer(settings, len(rows[0]), len(rows[1]), initialized=False)
            _fill(model, foreign)
            decode = DecodeSettings(beam=foreign.settings.get("num_beams") or 4, max_length=MaxLength(extra=50))
            chosen = _languages(foreign, [*tags.values()], languages, path)
    tokenizers, in_torch = Tokenizers(source, target), model.eval()
    return TorchModel(settings, tokenizers, chosen, decode, _LONGEST_SOURCE, in_torch=in_torch)


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """Yield the directory, or a temporary one with the files of a zip, without their folders."""
    if path.is_dir():
        yield path
        return
    if not zipfile.is_zipfile(path):
        raise ModelError(f"{path}: expected a directory or a zip with a Marian model")
    with tempfile.TemporaryDirectory() as folder, _explained(path), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(_ENDINGS)]
        if sum(member.file_size for member in members) > _LARGEST:
            raise ValueError(f"its files have more than {_LARGEST >> 30} GiB")
        for member in members:
            with archive.open(member) as stream, (Path(folder) / Path(member.filename).name).open("wb") as file:
                shutil.copyfileobj(stream, file)
        yield Path(folder)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise ModelError for any error, since all files come from another program."""
    try:
        yield
    except NMTError:
        raise
    except KeyError as error:
        raise ModelError(f"{path}: damaged, or not a Marian model: it has no {error}") from None
    except Exception as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise ModelError(f"{path}: damaged, or not a Marian model: {problem}") from None


def _regular(file: Path) -> Path:
    """Return a file. Links are followed, as Hugging Face's cache has them, but to regular files only."""
    status = os.stat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        raise ValueError(f"{file.name} is not a regular file of at most {_LARGEST >> 30} GiB")
    return file


def _read(file: Path, parse: Callable[[bytes], Any] = bytes) -> Any:
    """Return the content of a file. Raises ValueError with its name if it cannot be parsed."""
    content = _regular(file).read_bytes()
    try:
        return parse(content)
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{file.name}: {error}") from None


def _hugging_face(directory: Path) -> Foreign:
    """Read the files of Hugging Face."""
    settings: dict[str, Any] = {}
    for name in ("tokenizer_config.json", "generation_config.json", "config.json"):
        if (directory / name).exists() or name == "config.json":
            settings |= _read(directory / name, parse_json)
    if any(directory.glob("*.index.json")):
        raise ValueError("its weights are in several files; save them in one: save_pretrained(…, max_shard_size='1TB')")
    if (directory / "model.safetensors").exists():
        weights = load_file(_regular(directory / "model.safetensors"))
    else:
        weights = torch.load(_regular(directory / "pytorch_model.bin"), map_location="cpu", weights_only=True)
    ids = _ids(directory / "vocab.json")
    has_two = (directory / "target_vocab.json").exists() and bool(settings.get("separate_vocabs"))
    target = _ids(directory / "target_vocab.json") if has_two else ids
    pieces = _read(directory / "source.spm"), _read(directory / "target.spm")
    languages = settings.get("source_lang"), settings.get("target_lang")
    return Foreign(settings, weights, (ids, target), pieces, languages=languages)


def _ids(file: Path) -> dict[str, int]:
    """Return the ids of pieces in a vocabulary of JSON or YAML, or in a SentencePiece model."""
    if file.suffix == ".spm":
        return {piece: number for number, (piece, _, _) in enumerate(pieces_of(_read(file)))}
    loader = partial(yaml.load, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    content = _read(file, parse_json if file.suffix == ".json" else loader)
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{file.name}: expected pieces and their ids")
    if sorted(map(int, content.values())) != [*range(len(content))]:
        raise ValueError(f"{file.name}: expected the ids from 0 to {len(content) - 1}, each once")
    return {str(piece): int(number) for piece, number in content.items()}


# Marian's names of the weights of a layer, and what Hugging Face has instead.
_NATIVE = {
    "self_Wo_ln_scale": "self_attn_layer_norm.weight", "self_Wo_ln_bias": "self_attn_layer_norm.bias",
    "context_Wo_ln_scale": "encoder_attn_layer_norm.weight", "context_Wo_ln_bias": "encoder_attn_layer_norm.bias",
    "ffn_W1": "fc1.weight", "ffn_b1": "fc1.bias", "ffn_W2": "fc2.weight", "ffn_b2": "fc2.bias",
    "ffn_ffn_ln_scale": "final_layer_norm.weight", "ffn_ffn_ln_bias": "final_layer_norm.bias",
}  # fmt: skip
_NATIVE |= {
    f"{ours}_{letter}{projection[0]}": f"{theirs}.{projection}_proj.{kind}"
    for ours, theirs in (("self", "self_attn"), ("context", "encoder_attn"))
    for letter, kind in (("W", "weight"), ("b", "bias"))
    for projection in ("q", "k", "v", "out")
}
# Tied copies of matrices, positions that the settings describe, and what is read with the embeddings.
_REDUNDANT = re.compile(
    r"final_logits_bias|lm_head\.weight|model\.(shared|(en|de)coder\.embed_(tokens|positions))\.weight"
)
_LAYER = re.compile(r"(encoder|decoder)_l(\d+)_(.+)")
_WHOLE = {
    "Wemb": "model.shared.weight", "encoder_Wemb": "model.encoder.embed_tokens.weight",
    "decoder_Wemb": "model.decoder.embed_tokens.weight", "decoder_ff_logit_out_b": "final_logits_bias",
    "decoder_ff_logit_out_W": "lm_head.weight",
}  # fmt: skip


def _native(directory: Path) -> Foreign:
    """Read the files of Marian: the weights and the options of the training in one npz, and two vocabularies."""
    settings_files = sorted(directory.glob("*decoder.yml"))  # decoder.yml of OPUS, model.npz.decoder.yml of Marian
    decoder = _read(settings_files[0], yaml.safe_load) if settings_files else {}
    models = decoder.get("models") or sorted(set(directory.glob("*.npz")) - set(directory.glob("*.optimizer.npz")))
    vocabularies = decoder.get("vocabs") or sorted(directory.glob("*vocab*"))
    if len(models) != 1 or not vocabularies:
        raise ValueError(f"expected one .npz and its vocabularies, found {len(models)} and {len(vocabularies)}")
    file = directory / Path(models[0]).name
    arrays = dict(np.load(_regular(file), allow_pickle=False))
    options = yaml.safe_load(bytes(arrays.pop("special:model.yml")).rstrip(b"\0"))
    paths = [directory / Path(name).name for name in (vocabularies * 2)[:2]]
    ids = [_ids(path) for path in dict.fromkeys(paths)]
    spm = paths if paths[0].suffix == ".spm" else [directory / "source.spm", directory / "target.spm"]
    settings = {
        "model_type": "marian", "d_model": options["dim-emb"], "decoder_start_token_id": None,
        "activation_function": options["transformer-ffn-activation"],
        "tie_word_embeddings": options["tied-embeddings-all"] or options["tied-embeddings"],
        "share_encoder_decoder_embeddings": options["tied-embeddings-all"] or options["tied-embeddings-src"],
        "scale_embedding": True,
        "normalize_before": options["transformer-preprocess"] != "" or options["transformer-postprocess"] != "dan",
    }  # fmt: skip
    for side in ("encoder", "decoder"):
        settings[f"{side}_layers"] = options[f"{side[:3]}-depth"]
        settings[f"{side}_attention_heads"] = options["transformer-heads"]
        settings[f"{side}_ffn_dim"] = options["transformer-dim-ffn"]
    weights = {name: tensor for array, value in arrays.items() for name, tensor in _native_weight(array, value)}
    pieces, positions = (_read(spm[0]), _read(spm[1])), _native_positions(options["dim-emb"])
    return Foreign(settings, weights, (ids[0], ids[-1]), pieces, norm_epsilon=1e-6, positions=positions)


def _native_positions(dim: int) -> Tensor:
    """Return the vectors that Marian adds at each position, (positions, D).

    The longest wavelength is 20,000π, as in tensor2tensor; ours is one step shorter, as in the paper.
    """
    rates = torch.exp(torch.arange(dim // 2) * (-math.log(10000.0) / (dim // 2 - 1)))
    angles = torch.outer(torch.arange(_POSITIONS), rates)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _native_weight(name: str, array: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield a weight under Hugging Face's name; Marian's matrices are (I, O), its vectors (1, O)."""
    if name in _WHOLE:
        yield _WHOLE[name], torch.from_numpy(array.T.copy() if name == "decoder_ff_logit_out_W" else array)
    elif match := _LAYER.fullmatch(name):
        side, layer, rest = match.groups()
        tensor = torch.from_numpy(array)
        tensor = tensor.flatten() if tensor.size(0) == 1 else tensor.t()
        yield f"model.{side}.layers.{int(layer) - 1}.{_NATIVE.get(rest, rest)}", tensor
    elif not name.startswith("special:"):
        yield name, torch.from_numpy(array)


def _settings(foreign: Foreign) -> ModelSettings:
    """Return the settings of the model. Raises ValueError for an unsupported setting."""
    settings = {"scale_embedding": False, **foreign.settings}  # the default of transformers, if it is absent
    if settings["model_type"] not in ("marian", "pegasus"):
        raise ValueError(f"config.json: model_type: found {settings['model_type']}, expected marian")
    expected = {"scale_embedding": True, "static_position_embeddings": True, "normalize_embedding": False}
    expected["normalize_before"] = False
    for key, value in expected.items():
        if settings.get(key, value) != value:
            raise ValueError(f"{key}: found {settings[key]}, expected {value}")
    for key in ("attention_heads", "ffn_dim"):
        if settings[f"encoder_{key}"] != settings[f"decoder_{key}"]:
            raise ValueError(f"encoder_{key} and decoder_{key} differ")
    is_tied = settings.get("tie_word_embeddings", True)
    bias = foreign.weights.get("final_logits_bias")
    is_shared = settings.get("share_encoder_decoder_embeddings", True)
    ours = {
        "encoder_layers": settings["encoder_layers"],
        "decoder_layers": settings["decoder_layers"],
        "dim": settings["d_model"],
        "feed_forward": settings["encoder_ffn_dim"],
        "heads": settings["encoder_attention_heads"],
        "activation": "swish" if (name := settings["activation_function"]) == "silu" else name,
        "norm": "post" if settings["model_type"] == "marian" else "pre",
        "norm_epsilon": foreign.norm_epsilon,
        "tied_embeddings": "all" if is_tied and is_shared else "target" if is_tied else "none",
        "positions": "sinusoidal" if foreign.positions is None else "learned",
        "max_positions": _POSITIONS,
        "output_bias": bool(bias is not None and bias.any()) or bool(_surplus(foreign.rows[1])),
    }
    return ModelSettings.model_validate(ours)


def _rows(ids: Mapping[str, int], start: int | None) -> list[int]:
    """Return the row of their matrices for each of our ids; -1 for padding and `<s>` where they have none.

    A piece that the decoder starts with has two ids, of which `<s>` is never an output.
    """
    by_row = sorted(ids.items(), key=lambda item: item[1])
    first = [ids.get("<pad>", -1), ids["<unk>"], -1 if start is None else start, ids["</s>"]]
    return [*first, *(row for piece, row in by_row if row not in first or piece not in SPECIAL.values())]


def _symbols(ids: Mapping[str, int], rows: list[int]) -> list[str]:
    """Return the piece of each of our ids."""
    piece_by_row, special = {row: piece for piece, row in ids.items()}, [*SPECIAL.values()]
    pieces = (piece_by_row[row] for row in rows[len(special) :])
    return [*special, *(f"{piece}_" if piece in special else piece for piece in pieces)]


def _tags(ids: Mapping[str, int]) -> dict[str, str]:
    """Return the language of each tag `>>ita<<` of a source text; Simplified Chinese is `zh`."""
    codes = {piece: match[1] for piece in ids if (match := _TAG.fullmatch(piece))}
    if len(codes) == 1:
        raise ValueError(f"it has one tag, {min(codes)}, but tags choose one of several target languages")
    tags: dict[str, str] = {}
    for piece, code in sorted(codes.items(), key=lambda item: ("Hans" not in item[1], len(item[1]), item[1])):
        primary = primary_code(code)
        names = (primary, f"{primary}-{re.split('[-_]', code)[-1]}", code.replace("_", "-"))
        name = next((name for name in names if name not in tags.values()), None)
        if name is not None:
            tags[piece] = name
    return tags


def _languages(foreign: Foreign, tags: list[str], given: str | None, path: Path) -> Languages:
    source, _, target = (given or "").partition("-")
    primary = partial(re.sub, "^[A-Za-z]+", lambda match: primary_code(match[0]))  # script and region stay
    languages = [primary(code) if code and is_language(code) else "" for code in foreign.languages]
    source, targets = source or languages[0], tags or [*filter(None, [target or languages[1]])]
    if tags and target:
        problem = f"found the target {target}, but the model translates into {', '.join(tags)}"
        raise ConfigError(f"--languages: {problem}; give the source alone, as in --languages {source}")
    if not source or not targets:
        raise ConfigError(f"{path}: the model does not name its languages; give --languages, as in --languages en-it")
    try:
        return Languages.model_validate({"source": source, "target": targets if len(targets) > 1 else targets[0]})
    except (SettingError, ValueError) as error:
        raise ConfigError(f"--languages: {error}") from None


@torch.no_grad()
def _fill(model: Transformer, foreign: Foreign) -> None:
    """Copy all weights into a model; missing rows are 0.

    Raises ValueError for weights of other names or shapes, and for numbers that are not finite.
    """
    weights, rows, our_order = foreign.weights, foreign.rows, torch.argsort(sines_first(model.settings.dim))
    if damaged := next((name for name, weight in weights.items() if not weight.isfinite().all()), None):
        raise ValueError(f"{damaged}: some of its numbers are not finite")
    for name, tensor, axis in layer_tensors(model):
        value = weights[name].float()
        if value.shape != tensor.shape:
            raise ValueError(f"{name}: found the shape {tuple(value.shape)}, expected {tuple(tensor.shape)}")
        tensor.copy_(value if axis is None else value.index_select(axis, our_order))
    is_shared = foreign.settings.get("share_encoder_decoder_embeddings", True)
    for name, tensor, side in embedding_tensors(model):
        order = torch.tensor(rows[side == "target"])
        stored = "model.shared.weight" if name not in weights and is_shared and name != "lm_head.weight" else name
        tensor.zero_()
        matrix = _of_vocabulary(stored, weights[stored], foreign.ids[side == "target"])[:, our_order]
        tensor[: len(order)] = matrix[order.clamp(0)] * (order >= 0).unsqueeze(1)
    for embedding in (model.source_embedding, model.target_embedding):
        if embedding.learned is not None and foreign.positions is not None:
            embedding.learned.weight.copy_(foreign.positions[:, our_order])
    if model.output_bias is not None:
        bias = weights.get(name := "final_logits_bias", torch.zeros(len(foreign.ids[1]))).flatten()
        model.output_bias.zero_()
        model.output_bias[: len(rows[1])] = _of_vocabulary(name, bias, foreign.ids[1])[torch.tensor(rows[1]).clamp(0)]
        model.output_bias[_surplus(rows[1])] = _ABSENT
    names = {name for name, *_ in (*layer_tensors(model), *embedding_tensors(model))}
    if others := sorted(name for name in weights.keys() - names if not _REDUNDANT.fullmatch(name)):
        raise ValueError(f"it has {len(others)} weights that its settings do not name, such as {others[0]}")


def _of_vocabulary(name: str, weights: Tensor, ids: Mapping[str, int]) -> Tensor:
    """Return weights with a row for each piece. Raises ValueError for another number of rows."""
    if len(weights) != len(ids):
        raise ValueError(f"{name}: found {len(weights):,} rows, but the vocabulary has {len(ids):,} pieces")
    return weights.float()


def _surplus(rows: list[int]) -> list[int]:
    """Return the special symbols without a row of their own; `<s>`, which is no output, may share that of another."""
    return [i for i in SPECIAL if rows[i] < 0 or (i == BOS and rows.count(rows[i]) > 1)]
