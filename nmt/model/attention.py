"""Multi-head attention (Vaswani et al. 2017, section 3.2).

B sentences, T queries, S keys, D width, H heads, d = D/H; N target tokens and M source tokens of all groups, packed.
While decoding step by step: N rows, each the newest token of one hypothesis.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelSettings
from nmt.model.cache import DecoderCache
from nmt.model.kernels import Linear, Precision, Product, kernels
from nmt.model.packing import Packing, pack
from nmt.model.positions import Place, position_encoding


class ScaledDot(nn.Module):
    """q · k / sqrt(d) (Vaswani et al. 2017)."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores (B, H, T, S) of queries (B, H, T, d) and keys (B, H, S, d)."""
        scale: float = q.size(-1) ** -0.5
        return (q * scale) @ k.transpose(-2, -1)


class Dot(ScaledDot):
    """q · k (Luong et al. 2015, equation 8, "dot")."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores (B, H, T, S)."""
        return q @ k.transpose(-2, -1)


class Bilinear(nn.Module):
    """q W k with a matrix W for each head (Luong et al. 2015, equation 8, "general")."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width, width) / width**0.5)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores (B, H, T, S)."""
        return q @ self.weight @ k.transpose(-2, -1)


class Additive(nn.Module):
    """v · tanh(q + k), a vector v for each head (Bahdanau et al. 2015); its W and U are the projections of q and k."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(heads, 1, width, 1) / width**0.5)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores (B, H, T, S); allocates B · H · T · S · d numbers."""
        return (torch.tanh(q.unsqueeze(3) + k.unsqueeze(2)) @ self.vector).squeeze(-1)


_SCORES = {"scaled_dot": ScaledDot, "dot": Dot, "bilinear": Bilinear, "additive": Additive}


class MultiHeadAttention(nn.Module):
    """Attend from queries to keys and values in H heads, each on its own part of the width; then project the result."""

    def __init__(self, settings: ModelSettings, place: Place) -> None:
        super().__init__()
        self.dim = settings.dim
        self.heads = settings.heads
        self.query = Linear(self.dim, self.dim)
        self.key_value = Linear(self.dim, 2 * self.dim)
        self.output = Linear(self.dim, self.dim)
        self.positions = position_encoding(settings, place)
        self.score = _SCORES[settings.attention_score](self.heads, self.dim // self.heads)
        self.has_kernels = settings.attention_score == "scaled_dot" and not self.positions.uses_distances
        self.prepacked: Product | None = None  # queries, keys and values in one product, for inference

    def self_attend(self, x: Tensor, packing: Packing, causal: bool = False) -> Tensor:
        """Attend from every token of x (N, D) to its own sentence, if `causal` up to itself only; return (N, D)."""
        projected = self.positions.rotate(self._project(x), packing.shapes)
        queries, keys_values = torch.split(projected, [self.dim, 2 * self.dim], dim=-1)
        return cast(Tensor, self.output(self._attend_packed(queries, keys_values, (packing, packing), causal)))

    def cross_attend(self, x: Tensor, packing: Packing, memory: Tensor, memory_packing: Packing) -> Tensor:
        """Attend from every token of x (N, D) to its sentence's source in memory (M, D); return (N, D)."""
        packings = (packing, memory_packing)
        return cast(Tensor, self.output(self._attend_packed(self.query(x), self.key_value(memory), packings, False)))

    def step_self(self, x: Tensor, layer: int, cache: DecoderCache) -> Tensor:
        """Attend from the newest token of each row, x (N, D), to the tokens of its hypothesis; return (N, D)."""
        target = cache.target
        projected = self.positions.rotate(self._project(x), [(len(x), 1)], target.length - 1)
        queries, keys_values = torch.split(target.group(projected), [self.dim, 2 * self.dim], dim=-1)
        k, v = target.append(layer, keys_values)
        distances = target.distances if self.positions.uses_distances else None
        attended = self._attend_step(self._split_heads(queries), k, v, target.mask, distances)
        return cast(Tensor, self.output(target.ungroup(attended)))

    def step_cross(self, x: Tensor, layer: int, cache: DecoderCache) -> Tensor:
        """Attend from the newest token of each row, x (N, D), to its sentence's source; return (N, D)."""
        q = self._split_heads(cache.beams.grid(self.query(x)))
        attended = self._attend_step(q, *cache.source[layer], cache.source_mask)
        return cast(Tensor, self.output(cache.beams.rows(attended)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, distances: Tensor | None = None) -> Tensor:
        """Return softmax(score(Q, K)) V (B, H, T, d): the definition, which kernels compute faster.

        Queries are (B, H, T, d), keys and values (B, H, S, d); the mask is broadcast to (B, H, T, S), True at keys that
        a query attends to. Distances from query to key, (B or 1, T or 1, S), are for encodings that use them.
        """
        weights = self.weights(q, k, mask, distances)
        output = weights @ v
        return output if distances is None else output + self.positions.values(weights, distances)

    def weights(self, q: Tensor, k: Tensor, mask: Tensor | None, distances: Tensor | None = None) -> Tensor:
        """Return the attention weights (B, H, T, S) of `attend`."""
        scores = self.score(q, k)
        if distances is not None:
            scores = scores + self.positions.scores(q, distances)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1)

    def cross_weights(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """Return the weights (B, H, T, S) with which x (B, T, D) attends to memory (B, S, D)."""
        return self.weights(self._split_heads(self.query(x)), self.project_memory(memory)[0], mask)

    def self_weights(self, x: Tensor, causal: bool = False) -> Tensor:
        """Return the weights (B, H, T, T) with which the tokens of x (B, T, D) attend to their own sentence.

        No sentence may be padded, unless `causal`: then the rows of tokens before the padding are right.
        """
        projected = self.positions.rotate(self._project(x.flatten(0, 1)), [(x.size(0), x.size(1))])
        q, k, _ = (self._split_heads(part.reshape(x.shape)) for part in projected.chunk(3, dim=-1))
        distances = _distances(q, k)
        return self.weights(q, k, distances <= 0 if causal else None, distances)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of memory (B, S, D), each (B, H, S, d)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return self._split_heads(keys), self._split_heads(values)

    def prepack(self, precision: Precision) -> None:
        """Lay out the weights of queries, keys and values for one product; for self-attention."""
        self.prepacked = kernels.prepack(*self._joined_weights(), precision)

    def _project(self, x: Tensor) -> Tensor:
        """Return queries, keys and values of x (N, D) side by side, (N, 3D)."""
        if self.prepacked is not None and not torch.is_grad_enabled():
            return self.prepacked(x)
        # one product for all three is faster than two, by more than it costs to concatenate their weights
        return kernels.linear(x, *self._joined_weights())

    def _joined_weights(self) -> tuple[Tensor, Tensor]:
        """Return weights (3D, D) and biases (3D) of queries, keys and values."""
        weight = torch.cat([self.query.weight, self.key_value.weight])
        return weight, torch.cat([self.query.bias, self.key_value.bias])

    def _attend_packed(
        self, queries: Tensor, keys_values: Tensor, packings: tuple[Packing, Packing], causal: bool
    ) -> Tensor:
        """Attend from queries (N, D) to keys and values side by side (M, 2D), one length group at a time: (N, D)."""
        if self.has_kernels:
            output = kernels.packed_attention(queries, keys_values, packings, self.heads, causal)
            if output is not None:
                return output
        outputs = []
        query_packing, key_packing = packings
        groups = zip(query_packing.unpack(queries), key_packing.unpack(keys_values), key_packing.masks, strict=True)
        for query, key_value, mask in groups:
            q, (k, v) = self._split_heads(query), map(self._split_heads, key_value.chunk(2, dim=-1))
            visible = None if causal else mask  # causal attention does not reach the padding behind a sentence
            if self.has_kernels:
                attended = F.scaled_dot_product_attention(q, k, v, visible, is_causal=causal)
            else:
                distances = _distances(q, k)
                attended = self.attend(q, k, v, distances <= 0 if causal else mask, distances)
            outputs.append(attended.transpose(1, 2).flatten(2))  # (B, H, T, d) -> (B, T, D)
        return pack(outputs)

    def _attend_step(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, distances: Tensor | None = None
    ) -> Tensor:
        """Attend from few queries (B, H, T, d) to keys and values (B, H, S, d); return (B·T, D)."""
        output = kernels.step_attention(q, k, v, mask) if self.has_kernels else None
        if output is None:
            output = self.attend(q, k, v, mask, distances)
        return output.transpose(1, 2).reshape(-1, self.dim)

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, d)


def _distances(q: Tensor, k: Tensor) -> Tensor:
    """Return the distances (1, T, S) from the positions of queries (B, H, T, d) to those of keys (B, H, S, d)."""
    at_query, at_key = (torch.arange(x.size(2), device=x.device) for x in (q, k))
    return (at_key - at_query[:, None]).unsqueeze(0)
