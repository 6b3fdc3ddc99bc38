"""Position encodings: how a model represents the order of tokens.

Every encoding is one class with the interface of `Positions`. A new one needs that class, its name in `_ENCODINGS` and
in the setting `model.positions`, and a test.

B sentences, T queries, S keys, D width, H heads, d = D/H; N tokens of all groups, packed.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelSettings
from nmt.errors import DataError
from nmt.model.packing import pack

Place = Literal["embedding", "encoder", "decoder", "cross"]  # token embeddings; self-attention; attention to the source

_FIRST_TABLE = 4096  # most rows of a table of sinusoids at first: it grows with the sentences


class Positions(nn.Module):
    """An encoding at one place of the model. This base class is the identity: it encodes nothing."""

    places: ClassVar[tuple[Place, ...]] = ()  # where the encoding acts
    uses_distances: ClassVar[bool] = False  # whether `scores` and `values` depend on distances from query to key

    def __init__(self, settings: ModelSettings, place: Place) -> None:
        super().__init__()

    def embed(self, start: int, stop: int) -> Tensor | None:
        """Return the vectors (stop - start, D) that are added to token embeddings at these positions, if any."""
        return None

    def rotate(self, projected: Tensor, shapes: Sequence[tuple[int, int]], start: int = 0) -> Tensor:
        """Map queries, keys and values side by side (N, 3D) of groups (B, T) whose first position is `start`."""
        return projected

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """Return what is added to the scores of q (B, H, T, d) for keys at these distances (B or 1, T or 1, S)."""
        return q.new_zeros(())

    def values(self, weights: Tensor, distances: Tensor) -> Tensor:
        """Return what is added to the attention output for weights (B, H, T, S) of keys at these distances."""
        return weights.new_zeros(())


class Sinusoidal(Positions):
    """Fixed sines and cosines, added to the embeddings (Vaswani et al. 2017, section 3.5). Any length."""

    places = ("embedding",)
    table: Tensor

    def __init__(self, settings: ModelSettings, place: Place) -> None:
        super().__init__(settings, place)
        table = sinusoids(min(settings.max_positions, _FIRST_TABLE), settings.dim)
        self.register_buffer("table", table, persistent=False)

    def embed(self, start: int, stop: int) -> Tensor:
        """Return rows of the table, which grows when a sequence is longer."""
        if stop > len(self.table):
            self.table = sinusoids(2 * stop, self.table.size(1)).to(self.table)
        return self.table[start:stop]


class Learned(Positions):
    """A learned vector for each position, added to the embeddings (Gehring et al. 2017). Ends at `max_positions`."""

    places = ("embedding",)

    def __init__(self, settings: ModelSettings, place: Place) -> None:
        super().__init__(settings, place)
        self.vectors = nn.Parameter(torch.empty(settings.max_positions, settings.dim))
        nn.init.normal_(self.vectors, std=settings.dim**-0.5)

    def embed(self, start: int, stop: int) -> Tensor:
        """Return the vectors. Raises DataError for a position without one."""
        if stop > len(self.vectors):
            count = len(self.vectors)
            raise DataError(f"a sequence of {stop} tokens, but model.max_positions is {count}; split the line")
        return self.vectors[start:stop]


class Relative(Positions):
    """Learned vectors for each distance, one added to the keys and one to the values (Shaw et al. 2018).

    With r the distance from query to key, clipped to -k … k, the score is q · (key + a_r) / sqrt(d), and value + b_r is
    averaged (equations 3 and 4). Each layer has its own vectors a and b, the same in all heads.
    """

    places = ("encoder", "decoder")
    uses_distances = True

    def __init__(self, settings: ModelSettings, place: Place) -> None:
        super().__init__(settings, place)
        self.max_distance = settings.max_distance
        # a causal query has no keys ahead of it, so vectors for distances 1 … k would have no gradient
        distances = self.max_distance + 1 if place == "decoder" else 2 * self.max_distance + 1
        width = settings.dim // settings.heads
        self.key_vectors = nn.Parameter(torch.randn(distances, width) / width**0.5)
        self.value_vectors = nn.Parameter(torch.randn(distances, width) / width**0.5)

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """Return q · a_r / sqrt(d)."""
        vectors = F.embedding(self._rows(distances), self.key_vectors)
        return torch.einsum("bhtd,btsd->bhts", q / q.size(-1) ** 0.5, vectors)

    def values(self, weights: Tensor, distances: Tensor) -> Tensor:
        """Return the average of b_r."""
        return torch.einsum("bhts,btsd->bhtd", weights, F.embedding(self._rows(distances), self.value_vectors))

    def _rows(self, distances: Tensor) -> Tensor:
        return (distances + self.max_distance).clamp(0, len(self.key_vectors) - 1)


class Rotary(Positions):
    """Queries and keys are rotated by angles in proportion to their position (Su et al. 2021). Any length.

    The product of a query at m and a key at n then depends on their contents and on n - m only.
    """

    places = ("encoder", "decoder")

    def __init__(self, settings: ModelSettings, place: Place) -> None:
        super().__init__(settings, place)
        self.dim, self.heads = settings.dim, settings.heads

    def rotate(self, projected: Tensor, shapes: Sequence[tuple[int, int]], start: int = 0) -> Tensor:
        """Rotate queries and keys, so that a cache holds rotated keys; values stay as they are."""
        angles = self.angles(start, start + max(length for _, length in shapes), projected)
        of_tokens = pack([angles[:length].expand(sentences, -1, -1) for sentences, length in shapes])
        queries_keys, values = projected[:, : 2 * self.dim], projected[:, 2 * self.dim :]
        heads = queries_keys.view(-1, 2 * self.heads, self.dim // self.heads)  # (N, 2D) -> (N, 2H, d)
        return torch.cat([rotate_pairs(heads, of_tokens.unsqueeze(1)).flatten(1), values], dim=-1)

    def angles(self, start: int, stop: int, like: Tensor) -> Tensor:
        """Return the angles (stop - start, d/2): m · 10000^(-2i/d) for the i-th pair of numbers at position m."""
        width = self.dim // self.heads
        # a few thousand numbers: computing them again costs less than a table that grows with the sentences
        dtype = torch.promote_types(like.dtype, torch.float32)
        pairs = torch.arange(0, width, 2, dtype=dtype, device=like.device)
        positions = torch.arange(start, stop, dtype=dtype, device=like.device)
        return torch.outer(positions, torch.exp(pairs * (-math.log(10000.0) / width)))


_ENCODINGS: dict[str, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "relative": Relative,
    "rotary": Rotary,
}


def position_encoding(settings: ModelSettings, place: Place) -> Positions:
    """Return the encoding `model.positions` at a place of the model: the identity where it does not act."""
    encoding = _ENCODINGS[settings.positions]
    return (encoding if place in encoding.places else Positions)(settings, place)


def sinusoids(length: int, dim: int) -> Tensor:
    """Return (length, D): sin(p / 10000^(2i/D)) in column 2i and the cosine in 2i+1."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * (-math.log(10000.0) / dim))
    table = torch.empty(length, dim)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table


def rotate_pairs(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate each pair of numbers (x_i, x_{i + d/2}) of x (…, d) in its plane by its angle (…, d/2).

    The paper pairs neighbours; which numbers make a pair is only the order in which the projection computes them.
    """
    cosine, sine = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(x.dtype)
