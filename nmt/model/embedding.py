"""From token ids to vectors that know their place, unless attention is what knows it.

B sentences, T length, D width; N tokens of all groups, packed.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt.config import ModelSettings
from nmt.errors import DataError
from nmt.model.cpu.dropout import Dropout
from nmt.model.packing import pack


def sinusoidal_positions(length: int, dim: int) -> Tensor:
    """Return (length, D): sin(p / 10000^(2i/D)) in column 2i and the cosine in 2i+1 (Vaswani et al. 2017, 3.5)."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * (-math.log(10000.0) / dim))
    table = torch.empty(length, dim)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table


class Embedding(nn.Module):
    """Token embeddings scaled by sqrt(D), plus positions if they are absolute, with dropout."""

    positions: Tensor | None

    def __init__(self, settings: ModelSettings, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = settings.dim**0.5
        self.dropout = Dropout(settings.dropout)
        self.learned = settings.positions == "learned"
        if self.learned:
            self.positions = nn.Parameter(torch.empty(settings.max_positions, settings.dim))
            nn.init.normal_(self.positions, std=settings.dim**-0.5)
        elif settings.positions == "sinusoidal":
            table = sinusoidal_positions(settings.max_positions, settings.dim)
            self.register_buffer("positions", table, persistent=False)
        else:  # relative and rotary ones are self-attention's
            self.positions = None

    def forward(self, groups: Sequence[Tensor]) -> Tensor:
        """Map groups of ids (B, T) to vectors of all their tokens (N, D)."""
        embedded = self.tokens(pack(groups)) * self.scale
        if self.positions is not None:
            tables = [self._slice(self.positions, 0, ids.size(1)) for ids in groups]
            places = pack([table.expand(*ids.shape, -1) for table, ids in zip(tables, groups, strict=True)])
            embedded = embedded + places
        dropped: Tensor = self.dropout(embedded)
        return dropped

    def at(self, ids: Tensor, position: int) -> Tensor:
        """Map ids (N), which all stand at one position, to (N, D)."""
        embedded: Tensor = self.tokens(ids) * self.scale
        return embedded if self.positions is None else embedded + self._slice(self.positions, position, position + 1)

    def _slice(self, positions: Tensor, start: int, stop: int) -> Tensor:
        if stop > positions.size(0):
            if self.learned:
                known = positions.size(0)
                raise DataError(f"a sequence of {stop} tokens, but model.max_positions is {known}; split the line")
            # sinusoids go on for ever: a longer sequence only needs a longer table
            positions = self.positions = sinusoidal_positions(2 * stop, positions.size(1)).to(positions)
        return positions[start:stop]
