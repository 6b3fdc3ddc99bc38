"""Forced decoding in torch: log-probabilities of given translations, and the attention of the decoder to their source.

B sentences, S source length, T target length, both with `</s>`; D width, H heads, N target rows.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from nmt.batching.batch import assemble
from nmt.decoding.results import Forced, Pair
from nmt.model.transformer import Transformer
from nmt.text.prepared import Sentences

_ROWS = 1024  # target tokens whose logits over the whole vocabulary are in memory at a time


@torch.inference_mode()
def force(model: Transformer, with_attention: bool, pairs: Sequence[Pair]) -> list[Forced]:
    """Return the log-probabilities of a batch of pairs, and the mean of all heads' attention to the source."""
    batch = assemble([(Sentences.of([source for source, _ in pairs]), Sentences.of([target for _, target in pairs]))])
    batch = batch.copied(model.kernels.to_device)
    source, target = batch.source, batch.target
    of_layers = [list[Tensor]() if with_attention else None for _ in model.decoder]  # (B, H, T, S) of each layer
    hidden = model.decode(target, model.encode(source), source, [(None, weights) for weights in of_layers])
    row_log_probs = _log_probs(model, hidden, batch.labels.long()).tolist()
    means = [weights[0].float().mean(1) for weights in of_layers if weights]
    mean = torch.stack(means).mean(0).cpu().numpy() if means else np.zeros((len(pairs), 0, source.longest), np.float32)
    rows = zip(pairwise(target.offsets.tolist()), source.lengths.tolist(), strict=True)
    return [
        Forced(row_log_probs[start:end], mean[number, : end - start, :length].copy())
        for number, ((start, end), length) in enumerate(rows)
    ]


def _log_probs(model: Transformer, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token) (N) from hidden states (N, D), a block of rows at a time."""
    blocks = []
    for rows, targets in zip(torch.split(hidden, _ROWS), torch.split(tokens, _ROWS), strict=True):
        logits = model.logits(rows).float()
        blocks.append(logits.gather(1, targets.unsqueeze(1)).squeeze(1) - logits.logsumexp(1))
    return torch.cat(blocks)
