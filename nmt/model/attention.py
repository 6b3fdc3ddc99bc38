"""Multi-head attention (Vaswani et al. 2017, section 3.2).

B sentences, T queries, S keys, D width, H heads, d = D/H; N target rows and M source rows of a batch, one a token.
While decoding step by step: N rows, each the newest token of one hypothesis.
"""

from typing import cast

import torch
from torch import Tensor, nn

from nmt.batching.batch import Rows
from nmt.config import ModelSettings
from nmt.kernels.reference import (
    PLAIN,
    Attention,
    KeysValues,
    Places,
    attend_by_grid,
    attend_step_by_gather,
    split_heads,
)
from nmt.model.cache import DecoderCache
from nmt.model.positions import Relative
from nmt.model.scores import FOR_STUDY, Score, widened


class Computing(nn.Module):
    """A layer that is computed by kernels, see `Transformer.compute_with`."""

    kernels = PLAIN


class Linear(nn.Linear, Computing):
    """A linear map; its matrix consists of `parts` matrices, which map the same input."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, parts: int = 1) -> None:
        super().__init__(inputs, outputs, bias)
        self.parts = parts

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        """Map (..., I) to (..., O); then apply ReLU if `relu`."""
        return self.kernels.linear(x, self.weight, self.bias, relu)


class MultiHeadAttention(Computing):
    """The base class of attention within a sentence and of attention to the source."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.dim, self.heads = settings.dim, settings.heads
        self.dropout = settings.attention_dropout
        self.score: Score

    def attend(
        self, queries: Tensor, keys_values: Tensor | None, rows: tuple[Rows, Rows], causal: bool = False
    ) -> Tensor:
        """Attend from each row to its sentence, see `Kernels.attend`; return (N, D)."""
        if self.score.has_kernels and not (self.training and self.dropout):
            return self.kernels.attend(queries, keys_values, rows, self.heads, causal)
        return attend_by_grid(queries, keys_values, rows, self.heads, self.by_definition(causal))

    def attend_step(self, queries: Tensor, cells: Tensor, places: Places, newest: Tensor | None = None) -> Tensor:
        """Attend from the one query of each hypothesis, see `Kernels.attend_step`; return (N, D)."""
        if self.score.has_kernels:
            return self.kernels.attend_step(queries, cells, places, self.heads, newest)
        lengths = places.lengths[places.rows // places.beam]
        distances = torch.arange(places.longest, device=queries.device) + 1 - lengths[:, None, None]  # (N, 1, P)
        return attend_step_by_gather(
            queries, cells, places, self.heads, newest, self.by_definition(distances=distances)
        )

    def by_definition(self, causal: bool = False, distances: Tensor | None = None) -> Attention:
        """Return attention with the score of this module, in training with dropout on its weights.

        Distances from query to key, (B or 1, T, S), are by default those of the tokens in Q and K.
        """
        score = self.score

        def attention(q: Tensor, keys_values: KeysValues, mask: Tensor | None) -> Tensor:
            k, v = widened(*keys_values)
            key_distances = distances_between(q, k) if distances is None else distances
            weights = score.weights(q, k, key_distances <= 0 if causal else mask, key_distances)
            if self.training and self.dropout:
                weights = self.kernels.dropout(weights, self.dropout)
            return score.average(weights, v, key_distances)

        return attention


class SelfAttention(MultiHeadAttention):
    """Attention within a sentence; in a decoder (`causal`), from each token to those up to itself."""

    def __init__(self, settings: ModelSettings, causal: bool) -> None:
        super().__init__(settings)
        self.causal, self.is_rotary = causal, settings.positions == "rotary"
        self.query_key_value = Linear(self.dim, 3 * self.dim, parts=3)
        self.output = Linear(self.dim, self.dim)
        if settings.positions == "relative":
            self.score = Relative(self.dim // self.heads, settings.max_distance, causal)
        else:
            self.score = chosen_score(settings)

    def forward(self, x: Tensor, rows: Rows, weights: list[Tensor] | None = None) -> Tensor:
        """Attend from every token of x (N, D) to its own sentence; return (N, D), and add its weights to `weights`."""
        if weights is not None:
            weights.append(self.weights(x, rows))
        attended = self.attend(self.project(x, rows.positions), None, (rows, rows), self.causal)
        return cast(Tensor, self.output(attended))

    def step(self, x: Tensor, layer: int, cache: DecoderCache) -> Tensor:
        """Attend from the newest token of each hypothesis, x (N, D), to its tokens; return (N, D)."""
        projected = self.project(x, cache.positions)
        queries, newest = torch.split(projected, [self.dim, 2 * self.dim], dim=-1)
        return cast(Tensor, self.output(self.attend_step(queries, cache.target[layer], cache.places, newest)))

    def project(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return queries, keys and values side by side, (N, 3D), of tokens at positions (N)."""
        projected: Tensor = self.query_key_value(x)
        return self.kernels.rotate(projected, self.heads, positions) if self.is_rotary else projected

    def weights(self, x: Tensor, rows: Rows) -> Tensor:
        """Return the weights (B, H, T, T) of tokens x (N, D), for sentences of one length."""
        q, k, _ = split_heads(rows.grid(self.project(x, rows.positions)), 3, self.heads)
        distances = distances_between(q, k)
        return self.score.weights(q, k, distances <= 0 if self.causal else None, distances)


class CrossAttention(MultiHeadAttention):
    """Attention from the target to the source."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self.query = Linear(self.dim, self.dim)
        self.key_value = Linear(self.dim, 2 * self.dim, parts=2)
        self.output = Linear(self.dim, self.dim)
        self.score = chosen_score(settings)

    def forward(
        self, x: Tensor, memory: Tensor, rows: tuple[Rows, Rows], weights: list[Tensor] | None = None
    ) -> Tensor:
        """Attend from every token of x (N, D) to its sentence's source in memory (M, D); return (N, D)."""
        if weights is not None:
            weights.append(self.weights(x, memory, rows))
        return cast(Tensor, self.output(self.attend(self.query(x), self.key_value(memory), rows)))

    def step(self, x: Tensor, layer: int, cache: DecoderCache) -> Tensor:
        """Attend from the newest token of each hypothesis, x (N, D), to its sentence's source; return (N, D)."""
        attended = self.attend_step(self.query(x), cache.source[layer], cache.source_places)
        return cast(Tensor, self.output(attended))

    def weights(self, x: Tensor, memory: Tensor, rows: tuple[Rows, Rows]) -> Tensor:
        """Return the weights (B, H, T, S) with which tokens x (N, D) attend to memory (M, D); padded queries too."""
        (q,) = split_heads(rows[0].grid(self.query(x)), 1, self.heads)
        k, _ = split_heads(rows[1].grid(self.key_value(memory)), 2, self.heads)
        mask = rows[1].mask()
        mask = None if mask is None else mask[:, None, None, :]
        return self.score.weights(q, k, mask, distances_between(q, k))


def chosen_score(settings: ModelSettings) -> Score:
    """Return the score `model.attention_score`."""
    score = FOR_STUDY.get(settings.attention_score)
    return Score() if score is None else score(settings.heads, settings.dim // settings.heads)


def distances_between(q: Tensor, k: Tensor) -> Tensor:
    """Return the distances (1, T, S) from the positions of queries (B, H, T, d) to those of keys (B, H, S, d)."""
    query_positions, key_positions = (torch.arange(x.size(2), device=x.device) for x in (q, k))
    return (key_positions - query_positions[:, None]).unsqueeze(0)
