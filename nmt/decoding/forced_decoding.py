"""Forced decoding in torch: log-probabilities of given translations, and the attention of the decoder to their source.

B sentences, S source length, T target length, both with `</s>`; D width, H heads, C chosen heads, N target rows.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from nmt.batching.batch import assemble
from nmt.decoding.results import Forced, Head, Pair
from nmt.model.transformer import Transformer
from nmt.text.prepared import Sentences

_ROWS = 1024  # target tokens whose logits over the whole vocabulary are in memory at a time


@torch.inference_mode()
def force(model: Transformer, heads: Sequence[Head], pairs: Sequence[Pair]) -> list[Forced]:
    """Return the log-probabilities of a batch of pairs, and the attention of these heads."""
    batch = assemble([(Sentences.of([source for source, _ in pairs]), Sentences.of([target for _, target in pairs]))])
    batch = batch.copied(model.kernels.to_device)
    source, target = batch.source, batch.target
    attention = {layer: list[Tensor]() for layer, _ in heads}
    layer_weights = [(None, attention.get(layer)) for layer in range(len(model.decoder))]
    hidden = model.decode(target, model.encode(source), source, layer_weights)
    row_log_probs = _log_probs(model, hidden, batch.labels.long()).tolist()
    weights = np.zeros((len(heads), *target.shape, source.longest), np.float32)  # (C, B, T, S)
    for index, (layer, head) in enumerate(heads):
        weights[index] = attention[layer][0][:, head].float().cpu().numpy()
    rows = zip(pairwise(target.offsets.tolist()), source.lengths.tolist(), strict=True)
    return [
        Forced(row_log_probs[start:end], weights[:, number, : end - start, :length].copy())
        for number, ((start, end), length) in enumerate(rows)
    ]


def _log_probs(model: Transformer, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token) (N) from hidden states (N, D), a block of rows at a time."""
    blocks = []
    for rows, targets in zip(torch.split(hidden, _ROWS), torch.split(tokens, _ROWS), strict=True):
        logits = model.logits(rows).float()
        blocks.append(logits.gather(1, targets.unsqueeze(1)).squeeze(1) - logits.logsumexp(1))
    return torch.cat(blocks)
