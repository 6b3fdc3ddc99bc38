"""Export to CTranslate2 (https://github.com/OpenNMT/CTranslate2), which translates fast on CPUs.

It supports every variant of `model.*` except the attention scores for study. The files differ in two points:

* the table of positions is written, because CTranslate2's own sinusoids have other frequencies, in another order;
* relative positions of a decoder's self-attention include those after the query, which are never used.

D width, d = D/H, k the longest distance that relative positions distinguish.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt.decoding.results import Pair
from nmt.errors import ConfigError
from nmt.formats import library
from nmt.model.attention import CrossAttention, SelfAttention
from nmt.model.positions import Relative, sinusoids
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Embedding, FeedForward, Sublayer, Transformer

POSITIONS = 2048  # rows in the table of sinusoids, the longest possible sentence and translation


def write_ctranslate2(directory: Path, loaded: LoadedModel, quantization: str) -> None:
    """Write the files of CTranslate2 and the tokenizers into an existing directory, with weights of the given type.

    Raises ConfigError if CTranslate2 is not installed, or lacks the attention score of the model.
    """
    specs = library("ctranslate2").specs
    settings = loaded.settings
    if settings.attention_score != "scaled_dot":
        raise ConfigError(
            f"model.attention_score: found {settings.attention_score}, but CTranslate2 has scaled_dot only; "
            "translate with the model itself"
        )
    activations = specs.common_spec.Activation
    activation_of = {"relu": activations.RELU, "gelu": activations.GELU}
    shape = {
        "pre_norm": settings.norm == "pre",
        "activation": activation_of.get(settings.activation, activations.SWISH),
        "ffn_glu": settings.activation == "swiglu",
        "relative_position": settings.positions == "relative",
    }
    if settings.positions == "rotary":
        # 0: the whole head; pairs are taken from its two halves, as in model/positions.py
        shape |= {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": 10000.0}
    encoder = specs.TransformerEncoderSpec(settings.encoder_layers, settings.heads, **shape)
    decoder = specs.TransformerDecoderSpec(settings.decoder_layers, settings.heads, **shape)
    spec = specs.TransformerSpec(encoder, decoder)
    _copy_weights(spec, loaded.model)
    spec.register_source_vocabulary(loaded.tokenizers.source.symbols)
    spec.register_target_vocabulary(loaded.tokenizers.target.symbols)
    spec.config.layer_norm_epsilon = settings.norm_epsilon
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(directory))
    loaded.tokenizers.save(directory)


def score_ctranslate2(directory: Path, loaded: LoadedModel, pairs: Sequence[Pair]) -> list[list[float]]:
    """Return the log-probabilities that an exported model gives to each target token of pairs, and to `</s>`."""
    translator = library("ctranslate2").Translator(str(directory))
    source, target = loaded.tokenizers.source.symbols, loaded.tokenizers.target.symbols
    sources = [[source[i] for i in ids] for ids, _ in pairs]
    targets = [[target[i] for i in ids] for _, ids in pairs]
    return [result.log_probs for result in translator.score_batch(sources, targets, max_input_length=0)]


def _copy_weights(spec: Any, model: Transformer) -> None:
    _embed(spec.encoder, spec.encoder.embeddings[0], model.source_embedding)
    _embed(spec.decoder, spec.decoder.embeddings, model.target_embedding)
    spec.decoder.projection.weight = _array(model.output.weight[: model.output.out_features])
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias[: model.output.out_features])
    for side, norm in ((spec.encoder, model.encoder_norm), (spec.decoder, model.decoder_norm)):
        if norm is not None:
            _norm(side.layer_norm, norm)
    for layer_spec, encoder_layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _self_attention(layer_spec.self_attention, encoder_layer.attention, encoder_layer.attention_sublayer)
        _feed_forward(layer_spec.ffn, encoder_layer.feed_forward, encoder_layer.feed_forward_sublayer)
    for layer_spec, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _self_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_sublayer)
        _cross_attention(layer_spec.attention, layer.cross_attention, layer.cross_attention_sublayer)
        _feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_sublayer)


def _embed(side: Any, spec: Any, embedding: Embedding) -> None:
    """Set the embeddings, which CTranslate2 also scales by sqrt(D), and the positions added to them."""
    weight = embedding.tokens.weight[: embedding.tokens.num_embeddings]  # without padding
    spec.weight = _array(weight)
    if embedding.learned is not None:
        side.position_encodings.encodings = _array(embedding.learned.weight)
    elif embedding.is_sinusoidal:
        side.position_encodings.encodings = _array(sinusoids(torch.arange(POSITIONS), POSITIONS, weight))


def _self_attention(spec: Any, attention: SelfAttention, sublayer: Sublayer) -> None:
    _norm(spec.layer_norm, sublayer.norm)
    _linears(spec.linear, attention.query_key_value, attention.output)
    if isinstance(attention.score, Relative):
        rows = 2 * attention.score.max_distance + 1
        spec.relative_position_keys = _both_directions(attention.score.key_vectors, rows)
        spec.relative_position_values = _both_directions(attention.score.value_vectors, rows)


def _cross_attention(spec: Any, attention: CrossAttention, sublayer: Sublayer) -> None:
    _norm(spec.layer_norm, sublayer.norm)
    _linears(spec.linear, attention.query, attention.key_value, attention.output)


def _both_directions(vectors: Tensor, rows: int) -> Any:
    """Return vectors of the distances -k … k, (2k + 1, d): zeros for the positive ones in causal attention."""
    return _array(nn.functional.pad(vectors, (0, 0, 0, rows - len(vectors))))


def _feed_forward(spec: Any, feed_forward: FeedForward, sublayer: Sublayer) -> None:
    _norm(spec.layer_norm, sublayer.norm)
    inner = feed_forward.inner
    is_gated = feed_forward.activation == "swiglu"
    parts = [spec.linear_0, spec.linear_0_noact] if is_gated else [spec.linear_0]  # the gate comes first
    for part, weight, bias in zip(parts, inner.weight.chunk(len(parts)), inner.bias.chunk(len(parts)), strict=True):
        part.weight, part.bias = _array(weight), _array(bias)
    _linears([spec.linear_1], feed_forward.outer)


def _linears(specs: Sequence[Any], *linears: nn.Linear) -> None:
    for spec, linear in zip(specs, linears, strict=True):
        spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    # a copy, because quantization changes the array in place
    return tensor.detach().float().cpu().numpy().copy()
