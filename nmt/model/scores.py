"""Attention by its definition, for any score of a query and a key; for the score of the paper there are fast kernels.

`model.attention_score` selects other scores from the literature, for study.

B sentences, T queries, S keys, H heads, d = D/H.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Score(nn.Module):
    """Attention with the score q · k / sqrt(d) (Vaswani et al. 2017), and the base class of the others.

    Distances from query to key, (B or 1, T, S), are for scores that depend on the order of tokens.
    """

    @property
    def has_kernels(self) -> bool:
        """Whether kernels compute attention with this score: that of the paper."""
        return type(self) is Score

    def forward(self, q: Tensor, k: Tensor, distances: Tensor) -> Tensor:
        """Return the scores (B, H, T, S) of queries (B, H, T, d) and keys (B, H, S, d)."""
        scale: float = q.size(-1) ** -0.5
        return (q * scale) @ k.transpose(-2, -1)

    def average(self, weights: Tensor, v: Tensor, distances: Tensor) -> Tensor:
        """Return the mean (B, H, T, d) of values (B, H, S, d) for weights (B, H, T, S)."""
        return weights @ v

    def weights(self, q: Tensor, k: Tensor, mask: Tensor | None, distances: Tensor) -> Tensor:
        """Return softmax(score(Q, K)), (B, H, T, S); the mask is broadcast to that, True at keys that are visible."""
        scores = self(*widened(q, k), distances)
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask, float("-inf")), dim=-1)


def widened(*tensors: Tensor) -> Iterator[Tensor]:
    """Return bf16 numbers as fp32, the type of the parameters of scores."""
    return (tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors)


class Dot(Score):
    """q · k (Luong et al. 2015, equation 8, "dot")."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, distances: Tensor) -> Tensor:
        """Return the scores (B, H, T, S)."""
        return q @ k.transpose(-2, -1)


class Bilinear(Score):
    """q W k with a matrix W for each head (Luong et al. 2015, equation 8, "general")."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width, width) / width**0.5)

    def forward(self, q: Tensor, k: Tensor, distances: Tensor) -> Tensor:
        """Return the scores (B, H, T, S)."""
        return q @ self.weight @ k.transpose(-2, -1)


class Additive(Score):
    """v · tanh(q + k), a vector v for each head (Bahdanau et al. 2015); its W and U are the projections of q and k."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(heads, 1, width, 1) / width**0.5)

    def forward(self, q: Tensor, k: Tensor, distances: Tensor) -> Tensor:
        """Return the scores (B, H, T, S); allocates B · H · T · S · d numbers."""
        return (torch.tanh(q.unsqueeze(3) + k.unsqueeze(2)) @ self.vector).squeeze(-1)


FOR_STUDY = {"dot": Dot, "bilinear": Bilinear, "additive": Additive}
