"""Multi-head attention (Vaswani et al. 2017, section 3.2).

B sentences, T queries, S keys, D width, H heads, d = D/H; N target tokens and M source tokens of all groups, packed.
While decoding step by step: N rows, each the newest token of one hypothesis, and K hypotheses of a sentence.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.batching.batch import Packing, pack
from nmt.config import ModelSettings
from nmt.kernels import native
from nmt.model import cpu
from nmt.model.cache import DecoderCache
from nmt.model.positions import Relative, rotate
from nmt.model.scores import FOR_STUDY, Score


class MultiHeadAttention(nn.Module):
    """What attention within a sentence and attention to the source have in common."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.dim, self.heads = settings.dim, settings.heads
        self.score: Score | None  # None is q · k / sqrt(d), which has fast kernels

    def is_native(self, queries: Tensor, packings: Sequence[Packing] = ()) -> bool:
        """Whether `native.attend` computes the attention of queries of this type and device."""
        return self.score is None and cpu.fits_native_attention(queries, packings)

    def attend_packed(
        self, queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], causal: bool = False
    ) -> Tensor:
        """Attend from queries (N, D) to keys and values side by side (M, 2D) of the same sentences; return (N, D).

        The packings are those of both. One length group is computed at a time.
        """
        to, of = packings
        groups = zip(to.unpack(queries), of.unpack(keys_values), of.masks, strict=True)
        outputs = []
        if not causal and self.is_native(queries, packings):
            for query, key_value, mask in groups:
                rows, length = query.flatten(0, 1), query.size(1)
                outputs.append(native.attend(rows, self.split_pair(key_value), mask, torch.arange(len(rows)), length))
            return torch.cat(outputs)
        if self.score is None and cpu.fits_packed_attention(queries, packings):
            return cpu.packed_attention(queries, keys_values, packings, self.heads, causal)
        for query, key_value, mask in groups:
            outputs.append(self.attend(self.split_heads(query), self.split_pair(key_value), mask, causal))
        return pack(outputs)

    def attend_step(
        self, queries: Tensor, keys_values: tuple[Tensor, Tensor], mask: Tensor | None, cache: DecoderCache
    ) -> Tensor:
        """Attend from one query of each row (N, D) to its sentence's keys and values, (B, H, S, d); return (N, D)."""
        if self.is_native(queries):
            return native.attend(queries, keys_values, mask, cache.slots, cache.beam)
        distances = None if self.score is None else cache.distances
        return cache.rows(self.attend(self.split_heads(cache.grid(queries)), keys_values, mask, distances=distances))

    def attend(
        self,
        q: Tensor,
        keys_values: tuple[Tensor, Tensor],
        mask: Tensor | None,
        causal: bool = False,
        distances: Tensor | None = None,
    ) -> Tensor:
        """Return the means (B, T, D) of values for queries (B, H, T, d), keys and values (B, H, S, d), by this score.

        The mask is broadcast to (B, H, T, S), True at keys that a query attends to. With `causal`, in place of a mask,
        a query attends to the keys up to its own position. Distances from query to key, (B or 1, T, S), are by default
        those of the tokens in q and k.
        """
        if self.score is None:
            # causal attention does not reach the padding behind a sentence
            output = F.scaled_dot_product_attention(q, *keys_values, None if causal else mask, is_causal=causal)
        else:
            distances = distances_between(q, keys_values[0]) if distances is None else distances
            output = self.score.attend(q, keys_values, distances <= 0 if causal else mask, distances)
        return output.transpose(1, 2).flatten(2)

    def split_heads(self, x: Tensor) -> Tensor:
        """Return a view (B, H, T, d) of x (B, T, D)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def split_pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return views (B, H, S, d) of the keys and the values in x (B, S, 2D)."""
        keys, values = x.chunk(2, dim=-1)
        return self.split_heads(keys), self.split_heads(values)


class SelfAttention(MultiHeadAttention):
    """Attention within a sentence; in a decoder (`causal`), from each token to those up to itself."""

    def __init__(self, settings: ModelSettings, causal: bool) -> None:
        super().__init__(settings)
        self.causal, self.is_rotary = causal, settings.positions == "rotary"
        self.query_key_value = cpu.Linear(self.dim, 3 * self.dim, parts=3)
        self.output = cpu.Linear(self.dim, self.dim)
        is_relative = settings.positions == "relative"
        self.score = Relative(self.dim // self.heads, causal) if is_relative else score_for_study(settings)

    def forward(self, x: Tensor, packing: Packing, residual: Tensor | None = None) -> Tensor:
        """Attend from every token of x (N, D) to its own sentence; return (N, D), plus the residual."""
        queries, keys_values = torch.split(self.project(x, packing.shapes), [self.dim, 2 * self.dim], dim=-1)
        attended = self.attend_packed(queries, keys_values, (packing, packing), self.causal)
        return cast(Tensor, self.output(attended, residual))

    def step(self, x: Tensor, layer: int, cache: DecoderCache, residual: Tensor | None = None) -> Tensor:
        """Attend from the newest token of each row, x (N, D), to the tokens of its hypothesis; return (N, D)."""
        projected = self.project(x, [(len(x), 1)], cache.length - 1)
        queries, newest = torch.split(projected, [self.dim, 2 * self.dim], dim=-1)
        if cache.by_row:
            attended = native.attend(queries, cache.target(layer), cache.mask, cache.slots, cache.beam, newest)
        else:
            cache.append(layer, newest)
            attended = self.attend_step(queries, cache.target(layer), cache.mask, cache)
        return cast(Tensor, self.output(attended, residual))

    def project(self, x: Tensor, shapes: Sequence[tuple[int, int]], start: int = 0) -> Tensor:
        """Return queries, keys and values side by side, (N, 3D), of groups (B, T) whose first position is `start`."""
        projected: Tensor = self.query_key_value(x)
        return rotate(projected, self.heads, shapes, start) if self.is_rotary else projected

    def weights(self, x: Tensor, packing: Packing) -> Tensor:
        """Return the weights (B, H, T, T) of one group of tokens x (N, D) without padding."""
        (group,) = packing.unpack(self.project(x, packing.shapes))
        q, k, _ = (self.split_heads(part) for part in group.chunk(3, dim=-1))
        distances = distances_between(q, k)
        return (self.score or Score()).weights(q, k, distances <= 0 if self.causal else None, distances)


class CrossAttention(MultiHeadAttention):
    """Attention from the target to the source."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self.query = cpu.Linear(self.dim, self.dim)
        self.key_value = cpu.Linear(self.dim, 2 * self.dim, parts=2)
        self.output = cpu.Linear(self.dim, self.dim)
        self.score = score_for_study(settings)

    def forward(
        self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing, residual: Tensor | None = None
    ) -> Tensor:
        """Attend from every token of x (N, D) to its sentence's source in memory (M, D); return (N, D)."""
        packings = packing, memory_packing
        return cast(Tensor, self.output(self.attend_packed(self.query(x), self.key_value(memory), packings), residual))

    def step(self, x: Tensor, layer: int, cache: DecoderCache, residual: Tensor | None = None) -> Tensor:
        """Attend from the newest token of each row, x (N, D), to its sentence's source; return (N, D)."""
        attended = self.attend_step(self.query(x), cache.source[layer], cache.source_mask, cache)
        return cast(Tensor, self.output(attended, residual))

    def weights(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Return the weights (B, H, T, S) with which one group of tokens x (N, D) attends to memory (M, D)."""
        (queries,), (keys_values,) = packing.unpack(self.query(x)), memory_packing.unpack(self.key_value(memory))
        q, (k, _) = self.split_heads(queries), self.split_pair(keys_values)
        return (self.score or Score()).weights(q, k, memory_packing.masks[0], distances_between(q, k))


def score_for_study(settings: ModelSettings) -> Score | None:
    """Return the score `model.attention_score`; None for that of the paper."""
    score = FOR_STUDY.get(settings.attention_score)
    return None if score is None else score(settings.heads, settings.dim // settings.heads)


def distances_between(q: Tensor, k: Tensor) -> Tensor:
    """Return the distances (1, T, S) from the positions of queries (B, H, T, d) to those of keys (B, H, S, d)."""
    at_query, at_key = (torch.arange(x.size(2), device=x.device) for x in (q, k))
    return (at_key - at_query[:, None]).unsqueeze(0)
