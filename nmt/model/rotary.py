"""Rotary positions (Su et al. 2021): what stands at position m is turned by an angle in proportion to m.

The product of a query at m and a key at n then depends on their contents and on n - m, on nothing else.

B sentences, D width, H heads, d = D/H; N tokens of all groups, packed.
"""

import math

import torch
from torch import Tensor

from nmt.model.attention import MultiHeadAttention
from nmt.model.packing import Packing, pack


class RotaryAttention(MultiHeadAttention):
    """Self-attention whose queries and keys are turned to where they stand."""

    def _turn_newest(self, projected: Tensor, position: int) -> Tensor:
        """Turn queries and keys in (N, 3D), which all stand at one position; so the keys are cached as turned."""
        return self._turned(projected, self._angles(position, position + 1, projected))

    def _place(self, projected: Tensor, packing: Packing) -> Tensor:
        """Turn queries and keys in (N, 3D), those of all groups at once."""
        angles = self._angles(0, max(length for _, length in packing.shapes), projected)
        by_token = pack([angles[:length].expand(sentences, -1, -1) for sentences, length in packing.shapes])
        return self._turned(projected, by_token)

    def _turned(self, projected: Tensor, angles: Tensor) -> Tensor:
        """Turn queries and keys in (N, 3D) by angles (N, d/2), or (1, d/2) for all alike."""
        turning, values = projected[:, : 2 * self.dim], projected[:, 2 * self.dim :]
        heads = turning.view(-1, 2 * self.heads, self.dim // self.heads)  # (N, 2D) -> (N, 2H, d)
        return torch.cat([turn(heads, angles.unsqueeze(1)).flatten(1), values], dim=-1)

    def _angles(self, start: int, stop: int, like: Tensor) -> Tensor:
        """Return the angles (stop - start, d/2): m · 10000^(-2i/d) for the i-th pair of numbers at position m."""
        width = self.dim // self.heads
        # a few thousand numbers: made anew they cost less than a table that has to grow with the sentences would
        dtype = torch.promote_types(like.dtype, torch.float32)
        pairs = torch.arange(0, width, 2, dtype=dtype, device=like.device)
        places = torch.arange(start, stop, dtype=dtype, device=like.device)
        return torch.outer(places, torch.exp(pairs * (-math.log(10000.0) / width)))


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """Turn each pair of numbers (x_i, x_{i + d/2}) of x (…, d) in its plane by its angle (…, d/2).

    The paper pairs neighbours; which numbers make a pair is only the order in which the projection writes them.
    """
    cosine, sine = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1).to(x.dtype)
