"""Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2).

B sentences, T queries, S keys, D width, H heads, d = D/H; N target tokens and M source tokens of all groups, packed.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.packing import Packing, pack


class MultiHeadAttention(nn.Module):
    """Attend from queries to keys and values: softmax(Q K^T / sqrt(d)) V in each head, joined by one projection."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.output = nn.Linear(dim, dim)

    def to_self(self, x: Tensor, packing: Packing, causal: bool = False) -> Tensor:
        """Attend from every token of x (N, D) to its own sentence, `causal` only up to itself; return (N, D)."""
        # one product for all three is quicker than two, by more than it costs to lay their weights side by side
        weight = torch.cat([self.query.weight, self.key_value.weight])
        projected = F.linear(x, weight, torch.cat([self.query.bias, self.key_value.bias]))
        mixed = []
        for group, mask in zip(packing.unpack(projected), packing.masks, strict=True):
            queries, keys, values = (self._split(part) for part in group.chunk(3, dim=-1))
            # padding stands behind the sentence, where causal attention does not look
            mixed.append(self._mix(queries, keys, values, None if causal else mask, causal))
        return self._join(mixed)

    def to_memory(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Attend from every token of x (N, D) to all of its sentence's source in memory (M, D); return (N, D)."""
        queries, sources = packing.unpack(self.query(x)), memory_packing.unpack(self.key_value(memory))
        mixed = []
        for query, source, mask in zip(queries, sources, memory_packing.masks, strict=True):
            keys, values = source.chunk(2, dim=-1)
            mixed.append(self._mix(self._split(query), self._split(keys), self._split(values), mask))
        return self._join(mixed)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of memory (B, S, D), each (B, H, S, d)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def attend(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend from x (B, T, D) to keys and values that were projected before, each (B, H, S, d)."""
        mixed = self._mix(self._split(self.query(x)), keys, values, mask)
        joined: Tensor = self.output(mixed)
        return joined

    def weights(self, x: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the attention weights (B, H, T, S) themselves, for people to look at."""
        queries = self._split(self.query(x))
        scores = queries @ keys.transpose(-2, -1) / queries.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1)

    def _mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Return what (B, H, T, d) queries find among (B, H, S, d) keys, as (B, T, D)."""
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return mixed.transpose(1, 2).flatten(2)  # (B, H, T, d) -> (B, T, D)

    def _join(self, mixed: list[Tensor]) -> Tensor:
        joined: Tensor = self.output(pack(mixed))
        return joined

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, d)
