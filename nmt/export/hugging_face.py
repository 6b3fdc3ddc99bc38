"""A model in a format that Hugging Face's `transformers` loads, exactly the same function.

    pre-norm     PegasusForConditionalGeneration (Zhang et al. 2020): one matrix for source, target and output
    post-norm    MarianMTModel (Junczys-Dowmunt et al. 2018): any embeddings, also two vocabularies

Both add sinusoids of our frequencies, with all sines before all cosines where ours take turns. The numbers of a hidden
state have no order of their own, so every matrix that reads or writes hidden states is put into that order: what the
model computes stays the same.

The tokenizer is Marian's, with a vocab.json that says the same ids as ours. It does not normalize text as
`nmt.text.normalize` does, and where sacremoses is installed it changes punctuation first.

V vocabulary, D width.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import ModelSettings
from nmt.errors import ConfigError
from nmt.export.exported import symbols, write_export
from nmt.model.attention import MultiHeadAttention
from nmt.model.checkpoint import WEIGHTS_FILE, LoadedModel, write_tensors
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
from nmt.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

POSITIONS = 2048
"""Rows in the table of positions, which is made anew when the model is loaded."""
Named = Iterator[tuple[str, Tensor]]


def write_hugging_face(directory: Path, loaded: LoadedModel) -> None:
    """Write the model, the tokenizer and how to generate into an existing directory.

    Raises ConfigError naming the key if no architecture there computes what the model does.
    """
    check_fits(loaded.model.settings)
    write_tensors({name: tensor.contiguous() for name, tensor in _weights(loaded)}, directory / WEIGHTS_FILE)
    for name, content in _configurations(loaded).items():
        (directory / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, tokenizer in (("source.spm", loaded.tokenizers.source), ("target.spm", loaded.tokenizers.target)):
        (directory / name).write_bytes(tokenizer.to_bytes())
    write_export(directory, loaded, "hf", "float32", POSITIONS)


def check_fits(settings: ModelSettings) -> None:
    """Raise ConfigError if the model is neither a Pegasus nor a Marian."""
    post = settings.norm == "post"
    why = "the Pegasus architecture, the only pre-norm one that fits, has one matrix for all; Marian is post-norm"
    problems = [
        ("positions", ("sinusoidal",), "Pegasus and Marian add sinusoids"),
        ("normalization", ("layer",), "Pegasus and Marian have layer norms"),
        ("activation", ("relu", "gelu"), "Pegasus and Marian have ungated feed-forward layers"),
        ("attention_score", ("scaled_dot",), "Pegasus and Marian have scaled dot products"),
        ("tied_embeddings", ("all", "target", "none") if post else ("all",), why),
    ]
    for key, expected, reason in problems:
        found = getattr(settings, key)
        if found not in expected:
            raise ConfigError(
                f"model.{key}: found {found}, but --to hf expects {' or '.join(expected)}: {reason}; "
                + ("translate with nmt" if key == "attention_score" else "--to ctranslate2 takes every such model")
            )


def _weights(loaded: LoadedModel) -> Named:
    """Yield the weights by the names that they have there, a tied matrix once."""
    model, tied = loaded.model, loaded.model.settings.tied_embeddings
    order = _Order.of(model.settings.dim)
    target = order.reads(model.target_embedding.tokens.weight)
    if tied == "all":
        yield "model.shared.weight", target
    else:
        yield "model.encoder.embed_tokens.weight", order.reads(model.source_embedding.tokens.weight)
        yield "model.decoder.embed_tokens.weight", target
    if tied == "none":
        yield "lm_head.weight", order.reads(model.output.weight)
    yield "final_logits_bias", torch.zeros(1, len(loaded.tokenizers.target))
    for side, layers, norm in (
        ("encoder", model.encoder, model.encoder_norm),
        ("decoder", model.decoder, model.decoder_norm),
    ):
        if not isinstance(norm, nn.Identity):
            yield from order.norm(f"model.{side}.layer_norm", norm)
        for number, layer in enumerate(layers):
            at = f"model.{side}.layers.{number}"
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            if isinstance(layer, EncoderLayer):
                yield from order.attention(f"{at}.self_attn", layer.attention)
                yield from order.norm(f"{at}.self_attn_layer_norm", layer.attention_sublayer.norm)
            else:
                yield from order.attention(f"{at}.self_attn", layer.self_attention)
                yield from order.norm(f"{at}.self_attn_layer_norm", layer.self_attention_sublayer.norm)
                yield from order.attention(f"{at}.encoder_attn", layer.cross_attention)
                yield from order.norm(f"{at}.encoder_attn_layer_norm", layer.cross_attention_sublayer.norm)
            yield from order.feed_forward(at, layer.feed_forward)
            yield from order.norm(f"{at}.final_layer_norm", layer.feed_forward_sublayer.norm)


@dataclass(frozen=True)
class _Order:
    """Puts the numbers of hidden states into another order: that of all sines before all cosines."""

    indices: Tensor  # (D) where each number stood

    @classmethod
    def of(cls, dim: int) -> "_Order":
        return cls(torch.cat([torch.arange(0, dim, 2), torch.arange(1, dim, 2)]))

    def reads(self, weight: Tensor) -> Tensor:
        """Return a matrix (…, D) that is multiplied with hidden states, or a table of them."""
        return weight.detach().cpu()[:, self.indices]

    def writes(self, tensor: Tensor) -> Tensor:
        """Return a matrix (D, …) or a vector (D) that makes hidden states."""
        return tensor.detach().cpu()[self.indices]

    def norm(self, name: str, norm: nn.Module) -> Named:
        assert isinstance(norm, nn.LayerNorm)
        yield f"{name}.weight", self.writes(norm.weight)
        yield f"{name}.bias", self.writes(norm.bias)

    def attention(self, name: str, attention: MultiHeadAttention) -> Named:
        keys, values = attention.key_value.weight.chunk(2)
        key_bias, value_bias = attention.key_value.bias.detach().cpu().chunk(2)
        for part, weight, bias in (
            ("q", attention.query.weight, attention.query.bias.detach().cpu()),
            ("k", keys, key_bias),
            ("v", values, value_bias),
        ):
            yield f"{name}.{part}_proj.weight", self.reads(weight)
            yield f"{name}.{part}_proj.bias", bias.clone()
        yield f"{name}.out_proj.weight", self.writes(attention.output.weight)
        yield f"{name}.out_proj.bias", self.writes(attention.output.bias)

    def feed_forward(self, name: str, feed_forward: FeedForward) -> Named:
        yield f"{name}.fc1.weight", self.reads(feed_forward.inner.weight)
        yield f"{name}.fc1.bias", feed_forward.inner.bias.detach().cpu()
        yield f"{name}.fc2.weight", self.writes(feed_forward.outer.weight)
        yield f"{name}.fc2.bias", self.writes(feed_forward.outer.bias)


def _configurations(loaded: LoadedModel) -> dict[str, dict[str, Any]]:
    """Return the JSON files by name."""
    settings, tokenizers = loaded.model.settings, loaded.tokenizers
    marian = settings.norm == "post"
    ids = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    model = {
        "model_type": "marian" if marian else "pegasus",
        "architectures": ["MarianMTModel" if marian else "PegasusForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": len(tokenizers.source),
        "d_model": settings.dim,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "encoder_ffn_dim": settings.feed_forward,
        "decoder_ffn_dim": settings.feed_forward,
        "activation_function": settings.activation,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.feed_forward_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": settings.tied_embeddings != "none",
        "dtype": "float32",
        **ids,
    }
    if marian:
        model["decoder_vocab_size"] = len(tokenizers.target)
        model["share_encoder_decoder_embeddings"] = settings.tied_embeddings == "all"
    generation = {
        "num_beams": loaded.decode.beam,
        "length_penalty": loaded.decode.length_penalty,
        "max_length": 512,
        "suppress_tokens": [PAD, UNK, BOS],
        **ids,
    }
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": loaded.languages.source,
        "target_lang": loaded.languages.target,
        "separate_vocabs": not tokenizers.shared,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "model_max_length": POSITIONS,
    }
    files: dict[str, dict[str, Any]] = {"config.json": model, "generation_config.json": generation}
    files |= {"tokenizer_config.json": tokenizer, "vocab.json": _ids(tokenizers.source)}
    return files if tokenizers.shared else files | {"target_vocab.json": _ids(tokenizers.target)}


def _ids(tokenizer: Tokenizer) -> dict[str, Any]:
    return {symbol: i for i, symbol in enumerate(symbols(tokenizer))}
