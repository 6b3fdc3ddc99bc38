"""Sentences of several length groups as one long row of tokens.

All but attention looks at one token at a time. So the tokens of all groups stand one after the other, (N, D), go
through every linear map in one product, and fold back into sentences, a (B, T) group at a time, only to attend.

N tokens of all groups, padding included; B sentences of a group, T their padded length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Where the sentences are in a row of tokens."""

    shapes: tuple[tuple[int, int], ...]  # (B, T) of each group
    masks: tuple[Tensor | None, ...]  # of each group (B, 1, 1, T), True at tokens; None if nothing is padded

    @classmethod
    def of(cls, groups: Sequence[Tensor], masks: Sequence[Tensor | None] | None = None) -> "Packing":
        """Describe groups of ids (B, T) with their masks (B, T); no masks hide nothing."""
        shapes = tuple((ids.size(0), ids.size(1)) for ids in groups)
        over_heads_and_queries = [None if mask is None else mask[:, None, None, :] for mask in masks or ()]
        return cls(shapes, tuple(over_heads_and_queries) or (None,) * len(shapes))

    def unpack(self, x: Tensor) -> list[Tensor]:
        """Fold (N, …) into a view (B, T, …) for each group."""
        parts = torch.split(x, [sentences * length for sentences, length in self.shapes])
        return [part.view(*shape, *part.shape[1:]) for part, shape in zip(parts, self.shapes, strict=True)]


def pack(groups: Sequence[Tensor]) -> Tensor:
    """Lay groups (B, T, …) in one row (N, …)."""
    flat = [group.flatten(0, 1) for group in groups]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
