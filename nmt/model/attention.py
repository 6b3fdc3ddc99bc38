"""Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2).

B sentences, T queries, S keys, D width, H heads, d = D/H; N target tokens and M source tokens of all groups, packed.
Step by step: N rows, G groups of Q rows that share a memory of P tokens.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.cache import DecoderCache, LayerCache
from nmt.model.cpu.linear import Linear, Product, linear
from nmt.model.cpu.short_attention import (
    LONGEST,
    query_mix,
    query_scores,
    short_attention,
    softmax_in_place,
)
from nmt.model.packing import Packing, pack


class MultiHeadAttention(nn.Module):
    """Attend from queries to keys and values: softmax(Q K^T / sqrt(d)) V in each head, joined by one projection."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(dim, dim)
        self.key_value = Linear(dim, 2 * dim)
        self.output = Linear(dim, dim)
        self.joint: Product | None = None
        """Of all three together, once `pack_weights` has been here."""

    def to_self(self, x: Tensor, packing: Packing, causal: bool = False) -> Tensor:
        """Attend from every token of x (N, D) to its own sentence, `causal` only up to itself; return (N, D)."""
        queries, keys_values = torch.split(self._place(self._project(x), packing), [self.dim, 2 * self.dim], dim=-1)
        joined: Tensor = self.output(self._find(queries, keys_values, (packing, packing), causal))
        return joined

    def to_memory(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Attend from every token of x (N, D) to all of its sentence's source in memory (M, D); return (N, D)."""
        found = self._find(self.query(x), self.key_value(memory), (packing, memory_packing), False)
        joined: Tensor = self.output(found)
        return joined

    def to_newest(self, x: Tensor, layer: LayerCache, cache: DecoderCache) -> Tensor:
        """Attend from the newest token of each row, x (N, D), to it and all that it descends from; return (N, D)."""
        projected = self._turn_newest(self._project(x), cache.length - 1)
        groups = projected.unsqueeze(1) if cache.hidden is None else cache.side_by_side(projected)
        queries, keys_values = torch.split(groups, [self.dim, 2 * self.dim], dim=-1)
        if cache.parents is not None:
            layer.fork(cache.parents)
        layer.write(keys_values, cache.tokens - keys_values.size(1))
        mixed = self._mix_newest(self._scaled(queries), layer.said(cache.tokens), cache)
        joined: Tensor = self.output(mixed if cache.hidden is None else cache.in_rows(mixed))
        return joined

    def to_source(self, x: Tensor, layer: LayerCache, cache: DecoderCache) -> Tensor:
        """Attend from the newest token of each row, x (N, D), to its sentence's source; return (N, D)."""
        queries = self._scaled(cache.side_by_side(self.query(x)))
        scores = query_scores(queries, layer.source_keys.permute(2, 0, 1, 3))
        if cache.source_mask is not None:
            scores.masked_fill_(~cache.source_mask, float("-inf"))
        mixed = query_mix(softmax_in_place(scores), layer.source_values.permute(2, 0, 1, 3))
        joined: Tensor = self.output(cache.in_rows(mixed))
        return joined

    def _scaled(self, queries: Tensor) -> Tensor:
        """Return queries (G, Q, D) times 1 / sqrt(d), by head: (G, H, Q, d)."""
        return self._split(queries * (self.dim // self.heads) ** -0.5)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of memory (B, S, D), each (B, H, S, d)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def weights(self, x: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the attention weights (B, H, T, S) themselves, for people to look at."""
        queries = self._split(self.query(x))
        scores = queries @ keys.transpose(-2, -1) / queries.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1)

    def _project(self, x: Tensor) -> Tensor:
        """Return queries, keys and values of x (N, D) side by side, (N, 3D)."""
        if self.joint is not None and not torch.is_grad_enabled():
            return self.joint(x)
        # one product for all three is quicker than two, by more than it costs to lay their weights side by side
        return linear(x, *self.joined_weights())

    def joined_weights(self) -> tuple[Tensor, Tensor]:
        """Return weights (3D, D) and biases (3D) of queries, keys and values."""
        weight = torch.cat([self.query.weight, self.key_value.weight])
        return weight, torch.cat([self.query.bias, self.key_value.bias])

    def _turn_newest(self, projected: Tensor, position: int) -> Tensor:
        """Return queries, keys and values (N, 3D), which all stand at one position, as they are."""
        return projected

    def _mix_newest(self, queries: Tensor, said: tuple[Tensor, Tensor], cache: DecoderCache) -> Tensor:
        """Return what scaled queries (G, H, Q, d) find among the keys and values (P, G, H, d) of rows, as (G·Q, D)."""
        keys, values = said
        return query_mix(softmax_in_place(cache.hide(query_scores(queries, keys))), values)

    def _place(self, projected: Tensor, packing: Packing) -> Tensor:
        """Return queries, keys and values (N, 3D) as they are: only where positions are rotary do they turn."""
        return projected

    def _mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Return what (B, H, T, d) queries find among (B, H, S, d) keys, as (B, T, D)."""
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return mixed.transpose(1, 2).flatten(2)  # (B, H, T, d) -> (B, T, D)

    def _find(self, queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], causal: bool) -> Tensor:
        """Return what queries (N, D) find among keys and values, side by side in (M, 2D), group by group: (N, D)."""
        to, of = packings
        if self._short(queries, packings):
            return short_attention(queries, keys_values, packings, self.heads, causal)
        mixed = []
        for query, key_value, mask in zip(to.unpack(queries), of.unpack(keys_values), of.masks, strict=True):
            keys, values = key_value.chunk(2, dim=-1)
            # padding stands behind the sentence, where causal attention does not look
            seen = None if causal else mask
            mixed.append(self._mix(self._split(query), self._split(keys), self._split(values), seen, causal))
        return pack(mixed)

    def _short(self, queries: Tensor, packings: tuple[Packing, Packing]) -> bool:
        """Whether plain products do the same, and quicker."""
        return (
            queries.device.type == "cpu"
            and queries.dtype == torch.float32
            and not (self.training and self.dropout)
            and max(length for packing in packings for _, length in packing.shapes) <= LONGEST
            and not torch.compiler.is_compiling()
        )

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, d)
