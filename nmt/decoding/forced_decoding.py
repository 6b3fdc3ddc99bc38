"""Forced decoding: the log-probabilities of given translations, and the attention of the decoder to their source.

B sentences, S source length, T target length, both with `</s>`; D width, H heads, C chosen heads, N = B·T.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.batching.batch import pad
from nmt.decoding.models import BatchRunner, Models, in_order, length_batches
from nmt.model.transformer import Transformer, decode_with_attention
from nmt.text.tokenizer import BOS, EOS

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


@torch.inference_mode()
def _force_batch(models: Models, pairs: Sequence[Pair], heads: Sequence[Head]) -> list[Forced]:
    model = models[0]
    source, mask = pad([[*ids, EOS] for ids, _ in pairs], model.device)
    target_in, _ = pad([[BOS, *ids] for _, ids in pairs], model.device)
    target_out, _ = pad([[*ids, EOS] for _, ids in pairs], model.device)
    memory = model.encode(source, mask)
    layers = {layer for layer, _ in heads}
    hidden, attention = decode_with_attention(model, target_in, memory, mask, layers)  # (B, T, D), (B, H, T, S)
    log_probs = _log_probs(model, hidden.flatten(0, 1), target_out.flatten()).view(target_out.shape)
    weights = torch.zeros(len(heads), *target_out.shape, source.size(1))  # (C, B, T, S)
    attention = {layer: of_layer.float().cpu() for layer, of_layer in attention.items()}
    for place, (layer, head) in enumerate(heads):
        weights[place] = attention[layer][:, head]
    return [
        Forced(by_token[: len(target) + 1], weights[:, row, : len(target) + 1, : len(ids) + 1].numpy().copy())
        for row, ((ids, target), by_token) in enumerate(zip(pairs, log_probs.tolist(), strict=True))
    ]


def _log_probs(model: Transformer, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token) (N) from hidden states (N, D), a block of rows at a time."""
    blocks = []
    for rows, targets in zip(torch.split(hidden, _ROWS), torch.split(tokens, _ROWS), strict=True):
        logits = model.logits(rows).float()
        blocks.append(logits.gather(1, targets.unsqueeze(1)).squeeze(1) - logits.logsumexp(1))
    return torch.cat(blocks)
