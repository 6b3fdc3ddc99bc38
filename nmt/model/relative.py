"""Relative positions (Shaw et al. 2018): a vector for each distance stands beside the keys, another beside the values.

B sentences, T queries, L keys, D width, H heads, d = D/H; k the longest distance that is told apart. Step by step: G
groups of Q rows that share a memory of P tokens.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.attention import MultiHeadAttention
from nmt.model.cache import DecoderCache
from nmt.model.cpu.short_attention import query_mix, query_scores, softmax_in_place
from nmt.model.packing import Packing


class RelativeAttention(MultiHeadAttention):
    """Self-attention that knows how far away what it looks at stands.

    With r the distance from query to key, cut off at -k and k, the score is q · (key + a_r) / sqrt(d), and what is
    mixed is value + b_r (equations 3 and 4). The vectors a and b are the layer's own and the same in all its heads.
    """

    def __init__(self, dim: int, heads: int, dropout: float, max_distance: int, causal: bool) -> None:
        super().__init__(dim, heads, dropout)
        self.max_distance = max_distance
        # distances -k … k; nothing stands ahead of a causal query, so that half would never learn
        distances = max_distance + 1 if causal else 2 * max_distance + 1
        width = dim // heads
        self.key_positions = nn.Parameter(torch.randn(distances, width) / width**0.5)
        self.value_positions = nn.Parameter(torch.randn(distances, width) / width**0.5)

    def _short(self, queries: Tensor, packings: tuple[Packing, Packing]) -> bool:
        return False  # those products know no distances

    def _mix_newest(self, queries: Tensor, said: tuple[Tensor, Tensor], cache: DecoderCache) -> Tensor:
        """Return what scaled queries (G, H, Q, d), at the newest position, find among (P, G, H, d), as (G·Q, D)."""
        keys, values = said
        distances = cache.positions - (cache.length - 1)
        rows = distances.clamp(min=-self.max_distance) + self.max_distance  # (1, P) or (G, P)
        places = rows[:, None, None].expand(*queries.shape[:3], -1)  # (G, H, Q, P)
        scores = query_scores(queries, keys) + (queries @ self.key_positions.t()).gather(3, places)
        weights = softmax_in_place(cache.hide(scores))
        by_distance = weights.new_zeros(*queries.shape[:3], len(self.value_positions)).scatter_add_(3, places, weights)
        found = (by_distance @ self.value_positions).transpose(1, 2).reshape(-1, self.dim)
        return query_mix(weights, values) + found

    def _mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Return what (B, H, T, d) queries, which stand at the last T of L places, find there, as (B, T, D).

        The vectors of all T·L pairs of places, (T, L, d), serve all sentences and heads: one product a query's place.
        """
        count, length = queries.size(2), keys.size(2)
        places = torch.arange(length, device=queries.device)
        distances = places - places[length - count :, None]  # (T, L)
        rows = distances.clamp(-self.max_distance, self.max_distance) + self.max_distance
        hidden = mask if mask is None else ~mask
        if causal:
            hidden, rows = distances > 0, rows.clamp(max=self.max_distance)
        queries = queries / queries.size(-1) ** 0.5
        scores = queries @ keys.transpose(-2, -1)
        scores = scores + torch.einsum("bhtd,tld->bhtl", queries, F.embedding(rows, self.key_positions))
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = F.dropout(torch.softmax(scores, dim=-1), self.dropout, self.training)
        mixed = weights @ values + torch.einsum("bhtl,tld->bhtd", weights, F.embedding(rows, self.value_positions))
        return mixed.transpose(1, 2).flatten(2)  # (B, H, T, d) -> (B, T, D)
