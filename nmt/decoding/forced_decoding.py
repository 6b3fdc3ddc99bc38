"""Forced decoding: the log-probabilities of given translations, and the attention of the decoder to their source.

B sentences, S source length, T target length, both with `</s>`; D width, H heads, C chosen heads, N target rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.batching.batch import assemble
from nmt.decoding.batches import in_halves, in_order, length_batches
from nmt.decoding.models import BatchRunner, Models, release_memory
from nmt.model.transformer import Transformer, decode_with_attention
from nmt.text.prepared import Sentences

Pair = tuple[Sequence[int], Sequence[int]]  # source ids and target ids, both without `</s>`

Head = tuple[int, int]  # a head of the attention from decoder to source: layer and head, both from 0

_ROWS = 1024  # target tokens whose logits over the whole vocabulary are in memory at a time


@dataclass(frozen=True)
class Forced:
    """Log-probabilities and attention of a model for a given translation of n tokens."""

    token_log_probs: list[float]  # n + 1 natural logarithms: the last is that of `</s>`
    weights: npt.NDArray[np.float32]  # the attention as an array, which is pickled faster than a tensor

    @property
    def attention(self) -> Tensor:
        """Weights (C, n + 1, S) on the CPU: row t is the attention while the model predicts token t.

        It predicts it from `<s>` and the t tokens before it; the last row is that of `</s>`. The last column is the
        source's `</s>`. Each row sums to 1.
        """
        return torch.from_numpy(self.weights)


def force_all(runner: BatchRunner, pairs: Sequence[Pair], budget: int, heads: Sequence[Head] = ()) -> list[Forced]:
    """Return the result of the runner's first model for each pair, in order, with the attention of these heads.

    A batch holds at most `budget` padded tokens, counted on the longer side; a longer pair is a batch by itself.
    """
    assert not runner.models[0].training, "dropout would change the probabilities"
    batches = length_batches([max(map(len, pair)) + 1 for pair in pairs], budget)
    found = runner.run(partial(_force_batch, heads=heads), [[pairs[i] for i in batch] for batch in batches])
    return in_order(batches, found)


def _force_batch(models: Models, pairs: Sequence[Pair], heads: Sequence[Head]) -> list[Forced]:
    def too_long(pair: Pair) -> str:
        sizes = f"{len(pair[0]) + 1} and {len(pair[1]) + 1}"
        return f"a pair of {sizes} tokens does not fit in the memory of {models[0].device}"

    return in_halves(partial(_force, models[0], heads), pairs, too_long, partial(release_memory, models))


@torch.inference_mode()
def _force(model: Transformer, heads: Sequence[Head], pairs: Sequence[Pair]) -> list[Forced]:
    batch = assemble([(Sentences.of([source for source, _ in pairs]), Sentences.of([target for _, target in pairs]))])
    batch = batch.to(model.device)
    source, target = batch.source, batch.target
    layers = {layer for layer, _ in heads}
    hidden, attention = decode_with_attention(model, model.encode(source), (target, source), layers)
    of_rows = _log_probs(model, hidden, batch.labels.long()).tolist()
    weights = torch.zeros(len(heads), *target.shape, source.longest)  # (C, B, T, S)
    attention = {layer: of_layer.float().cpu() for layer, of_layer in attention.items()}
    for place, (layer, head) in enumerate(heads):
        weights[place] = attention[layer][:, head]
    rows = zip(pairwise(target.offsets.tolist()), source.lengths.tolist(), strict=True)
    return [
        Forced(of_rows[start:end], weights[:, number, : end - start, :length].numpy().copy())
        for number, ((start, end), length) in enumerate(rows)
    ]


def _log_probs(model: Transformer, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token) (N) from hidden states (N, D), a block of rows at a time."""
    blocks = []
    for rows, targets in zip(torch.split(hidden, _ROWS), torch.split(tokens, _ROWS), strict=True):
        logits = model.logits(rows).float()
        blocks.append(logits.gather(1, targets.unsqueeze(1)).squeeze(1) - logits.logsumexp(1))
    return torch.cat(blocks)
