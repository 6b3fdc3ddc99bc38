"""Export to Hugging Face's `transformers`, as a model that computes the same function.

    pre-norm     PegasusForConditionalGeneration (Zhang et al. 2020): one matrix for source, target and output
    post-norm    MarianMTModel (Junczys-Dowmunt et al. 2018): any embeddings, also two vocabularies

Both add sinusoids with our frequencies, but with all sines before all cosines, where ours alternate. Therefore the
dimensions of all hidden states are permuted, in every matrix that has them as input or output.

The tokenizer is Marian's, with a vocab.json of our ids. It does not normalize text as `nmt.text.normalize` does, and it
changes punctuation if sacremoses is installed. Tags of target languages are named as Marian's language codes: the
source of a translation into Chinese begins with `>>zh<<`.

S source length, T target length, D width, V vocabulary.
"""

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nmt.config import Languages, ModelSettings
from nmt.decoding.results import Pair
from nmt.errors import ConfigError, ModelError
from nmt.formats import library
from nmt.model.checkpoint import write_tensors
from nmt.model.stored import WEIGHTS_FILE, LoadedModel
from nmt.model.transformer import Transformer
from nmt.text.normalize import normalize
from nmt.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

POSITIONS = 2048  # rows in the table of positions, which transformers computes when it loads the model
# Patterns in the names of our modules, and what transformers has instead, in the order of their application.
_NAMES = (
    (r"^(encoder|decoder)_norm$", r"\1.layer_norm"),
    (r"^(encoder|decoder)\.(?=\d)", r"\1.layers."),
    (r"\b(self_)?attention(?=\.|_sublayer)", "self_attn"),
    (r"\bcross_attention(?=\.|_sublayer)", "encoder_attn"),
    (r"\.feed_forward\b", ""),
    (r"\bfeed_forward_sublayer\.norm$", "final_layer_norm"),
    (r"_sublayer\.norm$", "_layer_norm"),
)
# Our linear layers, and the layers of transformers among which their rows are divided.
_PROJECTIONS = {
    "query_key_value": "q_proj k_proj v_proj",
    "query": "q_proj",
    "key_value": "k_proj v_proj",
    "output": "out_proj",
    "inner": "fc1",
    "outer": "fc2",
}


def write_hugging_face(directory: Path, loaded: LoadedModel) -> None:
    """Write the model, the tokenizer and the generation settings into an existing directory.

    Raises ConfigError with the key that neither architecture supports.
    """
    check_fits(loaded.settings)
    with torch.no_grad():
        weights = {name: weight.cpu().clone().contiguous() for name, weight in _weights(loaded)}
    write_tensors(weights, directory / WEIGHTS_FILE)
    for name, content in _configurations(loaded).items():
        (directory / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, tokenizer in (("source.spm", loaded.tokenizers.source), ("target.spm", loaded.tokenizers.target)):
        (directory / name).write_bytes(tokenizer.to_bytes())


def check_fits(settings: ModelSettings) -> None:
    """Raise ConfigError if the model is neither a Pegasus nor a Marian model."""
    expected = {
        "positions": ("sinusoidal",),
        "activation": ("relu", "gelu", "swish"),
        "attention_score": ("scaled_dot",),
        "norm_epsilon": (1e-5,),
        "output_bias": (False, True) if settings.norm == "post" else (False,),
        "tied_embeddings": ("all", "target", "none") if settings.norm == "post" else ("all",),
    }
    for key, values in expected.items():
        if (value := getattr(settings, key)) not in values:
            raise ConfigError(
                f"model.{key}: found {value}, but --to hf expects {' or '.join(map(str, values))}: those of Pegasus "
                "(pre-norm) and Marian (post-norm); --to ctranslate2 takes every model with scaled dot products"
            )


def layer_tensors(model: Transformer) -> Iterator[tuple[str, Tensor, int | None]]:
    """Yield the weights of all layers: their names in transformers, views of ours, the axis of the hidden state."""
    for ours, module in model.named_modules():
        name = ours
        for pattern, theirs in _NAMES:
            name = re.sub(pattern, theirs, name)
        parent, _, kind = name.rpartition(".")
        if isinstance(module, nn.LayerNorm):
            yield f"model.{name}.weight", module.weight, 0
            yield f"model.{name}.bias", module.bias, 0
        elif isinstance(module, nn.Linear) and parent:
            parts = _PROJECTIONS[kind].split()
            weights, biases = module.weight.chunk(len(parts)), module.bias.chunk(len(parts))
            for part, weight, bias in zip(parts, weights, biases, strict=True):
                writes_hidden = part in ("out_proj", "fc2")
                yield f"model.{parent}.{part}.weight", weight, 0 if writes_hidden else 1
                yield f"model.{parent}.{part}.bias", bias, 0 if writes_hidden else None


def embedding_tensors(model: Transformer) -> Iterator[tuple[str, Tensor, Literal["source", "target"]]]:
    """Yield the matrices of the vocabularies, a tied one once: names in transformers, our weights, side."""
    tied = model.settings.tied_embeddings
    if tied == "all":
        yield "model.shared.weight", model.target_embedding.tokens.weight, "target"
    else:
        yield "model.encoder.embed_tokens.weight", model.source_embedding.tokens.weight, "source"
        yield "model.decoder.embed_tokens.weight", model.target_embedding.tokens.weight, "target"
    if tied == "none":
        yield "lm_head.weight", model.output.weight, "target"


def sines_first(dim: int) -> Tensor:
    """Return the order (D) of our hidden dimensions in transformers."""
    return torch.cat([torch.arange(0, dim, 2), torch.arange(1, dim, 2)])


def _weights(loaded: LoadedModel) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights with their names in transformers, a tied matrix once."""
    model, order = loaded.model, sines_first(loaded.settings.dim)
    sizes = {"source": len(loaded.tokenizers.source), "target": len(loaded.tokenizers.target)}  # without padding
    for name, matrix, side in embedding_tensors(model):
        yield name, matrix[: sizes[side], order]
    bias = torch.zeros(sizes["target"]) if model.output_bias is None else model.output_bias[: sizes["target"]]
    yield "final_logits_bias", bias.unsqueeze(0)
    for name, tensor, axis in layer_tensors(model):
        yield name, tensor if axis is None else tensor.index_select(axis, order)


def _configurations(loaded: LoadedModel) -> dict[str, dict[str, Any]]:
    """Return the JSON files by name."""
    settings, tokenizers, languages = loaded.settings, loaded.tokenizers, loaded.languages
    ids: dict[str, Any] = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
    ids |= {"decoder_start_token_id": BOS, "forced_eos_token_id": None}
    marian, tied = settings.norm == "post", settings.tied_embeddings
    model: dict[str, Any] = {
        "model_type": "marian" if marian else "pegasus",
        "architectures": ["MarianMTModel" if marian else "PegasusForConditionalGeneration"],
        "vocab_size": len(tokenizers.source),
        "d_model": settings.dim,
        "activation_function": settings.activation,
        "scale_embedding": True,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": tied != "none",
    }
    for side in ("encoder", "decoder"):
        model[f"{side}_layers"] = getattr(settings, f"{side}_layers")
        model |= {f"{side}_attention_heads": settings.heads, f"{side}_ffn_dim": settings.feed_forward}
    if marian:
        model |= {"decoder_vocab_size": len(tokenizers.target), "share_encoder_decoder_embeddings": tied == "all"}
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": not tokenizers.shared,
        "model_max_length": POSITIONS,
        "source_lang": languages.source,
        "target_lang": languages.target[0],
    }
    files: dict[str, dict[str, Any]] = {
        "config.json": {**model, **ids},
        "generation_config.json": {"num_beams": loaded.decode.beam, "suppress_tokens": [PAD, UNK, BOS], **ids}
        | {"length_penalty": loaded.decode.length_penalty, "max_length": 512},
        "tokenizer_config.json": tokenizer,
        "vocab.json": _ids(tokenizers.source, languages),
    }
    return files if tokenizers.shared else files | {"target_vocab.json": _ids(tokenizers.target, languages)}


def _ids(tokenizer: Tokenizer, languages: Languages) -> dict[str, Any]:
    codes = {f"<{languages.target_tag(code)}>": f">>{code}<<" for code in languages.target}
    return {codes.get(symbol, symbol): i for i, symbol in enumerate(tokenizer.symbols)}


@torch.inference_mode()
def score_hugging_face(directory: Path, pairs: Sequence[Pair]) -> list[list[float]]:
    """Return the log-probabilities that an exported model gives to each target token of pairs, and to `</s>`."""
    transformers = library("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
    scores = []
    for source, target in pairs:
        logits = model(torch.tensor([[*source, EOS]]), decoder_input_ids=torch.tensor([[BOS, *target]])).logits[0]
        chosen = torch.tensor([[*target, EOS]]).T  # (T, 1)
        scores.append(logits.log_softmax(-1).gather(1, chosen).squeeze(1).tolist())
    return scores


def check_tokenizer(directory: Path, loaded: LoadedModel, lines: Sequence[str]) -> None:
    """Raise ModelError if a normalized line is encoded or decoded differently than by our tokenizers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends sacremoses, which would change the text
        tokenizer = library("transformers").AutoTokenizer.from_pretrained(directory)
    source, target, codes = loaded.tokenizers.source, loaded.tokenizers.target, loaded.languages.target
    # Marian's tokenizer reads SentencePiece's symbol for a space as a space, ours does not
    for number, line in enumerate((normalize(line.replace("▁", " ")) for line in lines), start=1):
        tag = loaded.languages.target_tag(code := codes[number % len(codes)])
        ids = [i for i in target.encode(line) if i != UNK]  # which a search never generates
        expected = [*source.tag_ids([tag]), *source.encode(line), EOS], target.decode(ids)
        encoded = tokenizer(line if tag is None else f">>{code}<< {line}")["input_ids"]
        exported = encoded, normalize(tokenizer.decode(ids, use_source_tokenizer=False))
        if exported != expected:
            raise ModelError(f"line {number}: {line!r}: the exported tokenizer gives {exported}, expected {expected}")
