"""Attention weights of every layer and head, in plain torch: for alignments and figures.

A forward pass does not return them, since its kernels never hold the whole matrices. The functions here apply the
sublayers of the same layers one by one, and compute the weights from the input of each attention.

B sentences, S source length, T target length, both with `<s>` or `</s>`; D width, H heads, L layers.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.model.packing import Packing
from nmt.model.transformer import Transformer


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of one sentence pair; each row of a head sums to 1, a row is a query, a column a key."""

    encoder: Tensor  # (L, H, S, S) from source to source
    decoder: Tensor  # (L, H, T, T) from target to target, 0 to the right of the diagonal
    cross: Tensor  # (L, H, T, S) from target to source


@torch.inference_mode()
def attention_weights(model: Transformer, source: Tensor, target_in: Tensor) -> AttentionWeights:
    """Return all weights while a model reads source ids (S) and the target ids (T) behind `<s>` (teacher forcing).

    The model must be in evaluation mode.
    """
    assert not model.training, "dropout would change the weights"
    source, target_in = source.unsqueeze(0), target_in.unsqueeze(0)
    packing, target_packing = Packing.of([source]), Packing.of([target_in])
    x, encoder, decoder = model.source_embedding([source]), [], []
    for encoder_layer in model.encoder:
        encoder.append(encoder_layer.attention.weights(encoder_layer.attention_sublayer.normalized_before(x), packing))
        x = encoder_layer(x, packing)
    memory = model.encoder_norm(x).unsqueeze(0)
    x = model.target_embedding([target_in])
    for layer in model.decoder:
        decoder.append(layer.self_attention.weights(layer.self_attention_sublayer.normalized_before(x), target_packing))
        x = layer(x, target_packing, memory[0], packing)
    _, cross = decode_with_attention(model, target_in, memory, None, range(len(model.decoder)))
    return AttentionWeights(*(torch.cat(weights).float().cpu() for weights in (encoder, decoder, [*cross.values()])))


def decode_with_attention(
    model: Transformer, target_in: Tensor, memory: Tensor, source_mask: Tensor | None, layers: Collection[int]
) -> tuple[Tensor, dict[int, Tensor]]:
    """Return what `Transformer.decode` does, (B, T, D), and the weights (B, H, T, S) from target to source in `layers`.

    Target ids are (B, T), memory is (B, S, D), the mask (B, S).
    """
    packing, of_memory = Packing.of([target_in]), (memory.flatten(0, 1), Packing.of([memory], [source_mask]))
    x, weights = model.target_embedding([target_in]), {}
    for number, layer in enumerate(model.decoder):
        x = layer.attend_to_target(x, packing)
        if number in layers:
            sublayer_input = layer.cross_attention_sublayer.normalized_before(x)
            weights[number] = layer.cross_attention.weights(sublayer_input, packing, *of_memory)
        x = layer.attend_to_source(x, packing, *of_memory)
    return model.decoder_norm(x).view(*target_in.shape, -1), weights
