"""Forced decoding: how probable the model finds translations that are given, and where it looks while it says them.

B sentences, S source length, T target length, both with `</s>`; D width, H heads, C chosen heads, N = B·T.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from nmt.batching.batch import pad
from nmt.decoding.batched_search import length_batches
from nmt.decoding.ensemble import Ensemble
from nmt.decoding.step_model import StepModel
from nmt.decoding.watching import told
from nmt.decoding.workers import Workers
from nmt.errors import DataError
from nmt.model.checkpoint import LoadedModel
from nmt.model.layers import DecoderLayer
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import BOS, EOS

Pair = tuple[Sequence[int], Sequence[int]]
"""Source ids and target ids, both without `</s>`."""

Head = tuple[int, int]
"""A head of the attention from decoder to source: layer and head, both from 0."""

_ROWS = 1024
"""Target tokens whose logits over the whole vocabulary are in memory at a time."""


@dataclass(frozen=True)
class Forced:
    """What the model makes of a given translation of n tokens."""

    token_log_probs: list[float]
    """Natural logarithms, n + 1 of them: the last is for `</s>`."""
    attention: Tensor
    """Weights (C, n + 1, S), on the CPU: row t is what the decoder sees of the source when it has read `<s>` and t
    tokens, and says token t (from 0) or `</s>`. The last column is the source's `</s>`. Each row's sum is 1."""

    @property
    def log_prob(self) -> float:
        """Return the logarithm of the probability of the whole translation."""
        return sum(self.token_log_probs)


def force_texts(
    models: Sequence[LoadedModel], pairs: Sequence[tuple[str, str]], budget: int, workers: Workers | None = None
) -> list[list[tuple[str, float]]]:
    """Return the pieces of given translations with their log-probabilities, the last `</s>`, for sources and texts.

    Of several models, which must have the same tokenizers, it is the mean of their probabilities.
    Raises DataError for a line that is longer than a model can read or say.
    """
    tokenizers = models[0].tokenizers
    encoded = [(tokenizers.source.encode(source), tokenizers.target.encode(text)) for source, text in pairs]
    longest = min((model.model.longest for model in models if model.model.longest is not None), default=None)
    for ids, (source, text) in zip(encoded, pairs, strict=True):
        size = max(map(len, ids)) + 1
        if longest is not None and size > longest:
            line = source if len(ids[0]) + 1 == size else text
            raise DataError(
                f"'{line[:60]}…': {size:,} tokens, but this model knows no more than {longest:,}; leave this line out, "
                "or cut it"
            )
    every = [force_all(model.model, encoded, budget, workers=workers) for model in models]
    means = [
        np.logaddexp.reduce([forced.token_log_probs for forced in of_one]) - math.log(len(models))
        for of_one in zip(*every, strict=True)
    ]
    pieces = tokenizers.target.pieces
    return [
        list(zip([*(pieces[i] for i in ids), pieces[EOS]], mean.tolist(), strict=True))
        for (_, ids), mean in zip(encoded, means, strict=True)
    ]


def force_all(
    model: Transformer,
    pairs: Sequence[Pair],
    budget: int,
    heads: Sequence[Head] = (),
    workers: Workers | None = None,
) -> list[Forced]:
    """Return what the model, which is in eval mode, makes of each pair, in order, and the weights of these heads.

    A batch holds at most `budget` padded tokens, counted on the longer side; a longer pair is read alone. Workers, if
    there are some, share the batches; their decoder is the model or has it among others.
    """
    assert not model.training, "dropout would change the probabilities"
    results: dict[int, Forced] = {}
    batches = length_batches([max(map(len, pair)) + 1 for pair in pairs], budget)
    items = [[pairs[i] for i in batch] for batch in batches]
    if workers is not None and len(items) > 1 and workers.ready:
        work = partial(_force_share, place=_members(workers.decoder).index(model), heads=heads)
        own = [
            [Forced(by_token, torch.from_numpy(of)) for by_token, of in share]
            for share in told(workers.share_out(work, items), len(items))
        ]
    else:
        own = list(told((_force_batch(model, item, heads) for item in items), len(items)))
    for indices, found in zip(batches, own, strict=True):
        results.update(zip(indices, found, strict=True))
    return [results[i] for i in range(len(pairs))]


def _members(decoder: StepModel) -> Sequence[StepModel]:
    return decoder.members if isinstance(decoder, Ensemble) else [decoder]


def _force_share(
    decoder: StepModel, pairs: Sequence[Pair], place: int, heads: Sequence[Head]
) -> list[tuple[list[float], npt.NDArray[np.float32]]]:
    """Return what the model at that place makes of a batch, as arrays: tensors would go through shared memory."""
    model = _members(decoder)[place]
    assert isinstance(model, Transformer)
    return [(forced.token_log_probs, forced.attention.numpy()) for forced in _force_batch(model, pairs, heads)]


@torch.inference_mode()
def _force_batch(model: Transformer, pairs: Sequence[Pair], heads: Sequence[Head]) -> list[Forced]:
    source, mask = pad([[*ids, EOS] for ids, _ in pairs])
    target_in, _ = pad([[BOS, *ids] for _, ids in pairs])
    target_out, _ = pad([[*ids, EOS] for _, ids in pairs])
    mask = None if mask is None else mask.to(model.device)
    memory = model.encode(source.to(model.device), mask)
    with _questions(model, {layer for layer, _ in heads}) as asked:
        hidden = model.decode(target_in.to(model.device), memory, mask)  # (B, T, D)
    log_probs = _log_probs(model, hidden.flatten(0, 1), target_out.flatten().to(model.device)).view(target_out.shape)
    weights = torch.zeros(len(heads), *target_out.shape, source.size(1))  # (C, B, T, S)
    for layer, question in asked.items():
        attention = _decoder_layer(model, layer).cross_attention
        over_heads_and_queries = None if mask is None else mask[:, None, None, :]
        found = (
            attention.cross_weights(question.view_as(hidden), memory, over_heads_and_queries).float().cpu()
        )  # (B, H, T, S)
        for place, (_, head) in ((place, chosen) for place, chosen in enumerate(heads) if chosen[0] == layer):
            weights[place] = found[:, head]
    return [
        Forced(by_token[: len(target) + 1], weights[:, row, : len(target) + 1, : len(ids) + 1].clone())
        for row, ((ids, target), by_token) in enumerate(zip(pairs, log_probs.tolist(), strict=True))
    ]


def _log_probs(model: Transformer, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Return log p(token) (N) from hidden states (N, D), a few rows at a time."""
    found = []
    for rows, said in zip(torch.split(hidden, _ROWS), torch.split(tokens, _ROWS), strict=True):
        logits = model.logits(rows).float()
        found.append(logits.gather(1, said.unsqueeze(1)).squeeze(1) - logits.logsumexp(1))
    return torch.cat(found)


@contextmanager
def _questions(model: Transformer, layers: Iterable[int]) -> Iterator[dict[int, Tensor]]:
    """Note, within the block, what the attention to the source reads of the decoder in these layers, (N, D) each."""
    asked: dict[int, Tensor] = {}

    def noting(layer: int) -> Callable[[nn.Module, tuple[Tensor]], None]:
        def note(module: nn.Module, inputs: tuple[Tensor]) -> None:
            (asked[layer],) = inputs

        return note

    handles = [
        _decoder_layer(model, layer).cross_attention.query.register_forward_pre_hook(noting(layer)) for layer in layers
    ]
    try:
        yield asked
    finally:
        for handle in handles:
            handle.remove()


def _decoder_layer(model: Transformer, layer: int) -> DecoderLayer:
    found = model.decoder[layer]
    assert isinstance(found, DecoderLayer)
    return found
