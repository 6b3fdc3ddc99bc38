"""Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2).

B sentences, T queries, S keys, D width, H heads, d = D/H.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MultiHeadAttention(nn.Module):
    """Attend from queries to keys and values: softmax(Q K^T / sqrt(d)) V in each head, joined by one projection."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Attend from x (B, T, D) to memory (B, S, D); mask (B, 1, 1 or T, S) is True where a key may be seen."""
        keys, values = self.project_memory(memory)
        return self.attend(x, keys, values, mask, causal)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of memory (B, S, D), each (B, H, S, d)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def attend(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Attend from x (B, T, D) to keys and values that were projected before, each (B, H, S, d)."""
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            self._split(self.query(x)), keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        joined: Tensor = self.output(mixed.transpose(1, 2).flatten(2))  # (B, H, T, d) -> (B, T, D)
        return joined

    def weights(self, x: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the attention weights (B, H, T, S) themselves, for people to look at."""
        queries = self._split(self.query(x))
        scores = queries @ keys.transpose(-2, -1) / queries.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, d)
