"""Position encodings: how a model represents the order of tokens.

`model.positions` selects one: sinusoids are added to the embeddings; relative positions are an attention score; rotary
positions rotate queries and keys before their product. None of them limits the length of a sentence. Learned vectors,
which are a table of `nmt.model.transformer.Embedding`, do.

B sentences, T queries, S keys, D width, H heads, d = D/H; N rows, one a token.
"""

import math
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.scores import Score

_SHORTEST_TABLE = 256


def sinusoids(positions: Tensor, longest: int, like: Tensor) -> Tensor:
    """Return the vectors (N, D) of positions (N) below `longest`, for embeddings (N, D).

    sin(p / 10000^(2i/D)) is in column 2i, the cosine in 2i+1 (Vaswani et al. 2017, section 3.5).
    """
    length = max(_SHORTEST_TABLE, 1 << (longest - 1).bit_length())
    dtype = torch.promote_types(like.dtype, torch.float32)
    return F.embedding(positions, _sinusoid_table(length, like.size(-1), dtype, like.device))


@cache  # also keeps tables alive, which recorded updates read
def _sinusoid_table(length: int, dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):  # training uses the table, too
        position = torch.arange(length, dtype=dtype).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, dim, 2, dtype=dtype) * (-math.log(10000.0) / dim))
        angles = position * frequency  # (T, D/2)
        return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).to(device)


class Relative(Score):
    """Learned vectors for each distance, one added to the keys and one to the values (Shaw et al. 2018).

    With r the distance from query to key, clipped to -k … k, the score is q · (key + a_r) / sqrt(d), and
    value + b_r is averaged (equations 3 and 4). Each layer has its own vectors a and b, the same in all heads.
    """

    def __init__(self, width: int, max_distance: int, causal: bool) -> None:
        super().__init__()
        self.max_distance = max_distance  # k
        # a causal query has no keys ahead of it, so vectors for distances 1 … k would have no gradient
        distances = max_distance + 1 if causal else 2 * max_distance + 1
        self.key_vectors = nn.Parameter(torch.randn(distances, width) / width**0.5)
        self.value_vectors = nn.Parameter(torch.randn(distances, width) / width**0.5)

    def forward(self, q: Tensor, k: Tensor, distances: Tensor) -> Tensor:
        """Return the scores (B, H, T, S)."""
        q = q * q.size(-1) ** -0.5
        return q @ k.transpose(-2, -1) + torch.einsum("bhtd,btsd->bhts", q, self._lookup(self.key_vectors, distances))

    def average(self, weights: Tensor, v: Tensor, distances: Tensor) -> Tensor:
        """Return the mean (B, H, T, d) of values + b_r."""
        return weights @ v + torch.einsum("bhts,btsd->bhtd", weights, self._lookup(self.value_vectors, distances))

    def _lookup(self, vectors: Tensor, distances: Tensor) -> Tensor:
        return F.embedding((distances + self.max_distance).clamp(0, len(vectors) - 1), vectors)  # (B or 1, T, S, d)
