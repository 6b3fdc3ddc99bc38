"""Forced decoding in torch: log-probabilities of given translations, and the attention of the decoder to their source.

B sentences, S source length, T target length, both with `</s>`; D width, H heads, C chosen heads, N target rows.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from nmt.batching.batch import assemble
from nmt.decoding.batches import in_halves, in_order, length_batches
from nmt.decoding.models import BatchRunner, Models, release_memory
from nmt.decoding.results import Forced, Head, Pair, pair_too_long
from nmt.model.transformer import Transformer, decode_with_attention
from nmt.text.prepared import Sentences

_ROWS = 1024  # target tokens whose logits over the whole vocabulary are in memory at a time


def force_all(runner: BatchRunner, pairs: Sequence[Pair], budget: int, heads: Sequence[Head] = ()) -> list[Forced]:
    """Return the result of the runner's first model for each pair, in order, with the attention of these heads.

    A batch holds at most `budget` padded tokens, counted on the longer side; a longer pair is a batch by itself.
    """
    assert not runner.models[0].training, "dropout would change the probabilities"
    batches = length_batches([max(map(len, pair)) + 1 for pair in pairs], budget)
    found = runner.run(partial(_force_batch, heads=heads), [[pairs[i] for i in batch] for batch in batches])
    return in_order(batches, found)


def _force_batch(models: Models, pairs: Sequence[Pair], heads: Sequence[Head]) -> list[Forced]:
    problem = partial(pair_too_long, f"the memory of {models[0].device}")
    return in_halves(partial(_force, models[0], heads), pairs, problem, partial(release_memory, models))


@torch.inference_mode()
def _force(model: Transformer, heads: Sequence[Head], pairs: Sequence[Pair]) -> list[Forced]:
    batch = assemble([(Sentences.of([source for source, _ in pairs]), Sentences.of([target for _, target in pairs]))])
    batch = batch.sent(model.kernels.sent)
    source, target = batch.source, batch.target
    layers = {layer for layer, _ in heads}
    hidden, attention = decode_with_attention(model, model.encode(source), (target, source), layers)
    of_rows = _log_probs(model, hidden, batch.labels.long()).tolist()
    weights = np.zeros((len(heads), *target.shape, source.longest), np.float32)  # (C, B, T, S)
    attention = {layer: of_layer.float().cpu() for layer, of_layer in attention.items()}
    for place, (layer, head) in enumerate(heads):
        weights[place] = attention[layer][:, head].numpy()
    rows = zip(pairwise(target.offsets.tolist()), source.lengths.tolist(), strict=True)
    return [
        Forced(of_rows[start:end], weights[:, number, : end - start, :length].copy())
        for number, ((start, end), length) in enumerate(rows)
    ]


def _log_probs(model: Transformer, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token) (N) from hidden states (N, D), a block of rows at a time."""
    blocks = []
    for rows, targets in zip(torch.split(hidden, _ROWS), torch.split(tokens, _ROWS), strict=True):
        logits = model.logits(rows).float()
        blocks.append(logits.gather(1, targets.unsqueeze(1)).squeeze(1) - logits.logsumexp(1))
    return torch.cat(blocks)
