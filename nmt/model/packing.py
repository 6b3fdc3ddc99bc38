"""Sentences of several length groups as one long row of tokens.

All layers but attention map one token at a time. So the tokens of all groups are laid out one after the other, (N, D),
go through every linear map in one product, and are unpacked into a (B, T) group at a time only to attend.

N tokens of all groups, padding included; B sentences of a group, T their padded length, S source length.
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
        """Describe groups of ids (B, T) with their masks (B, T), or without any mask."""
        shapes = tuple((ids.size(0), ids.size(1)) for ids in groups)
        over_heads_and_queries = [None if mask is None else mask[:, None, None, :] for mask in masks or ()]
        return cls(shapes, tuple(over_heads_and_queries) or (None,) * len(shapes))

    def unpack(self, x: Tensor) -> list[Tensor]:
        """Return a view (B, T, …) of (N, …) for each group."""
        parts = torch.split(x, [sentences * length for sentences, length in self.shapes])
        return [part.view(*shape, *part.shape[1:]) for part, shape in zip(parts, self.shapes, strict=True)]


def pack(groups: Sequence[Tensor]) -> Tensor:
    """Concatenate the tokens of groups (B, T, …) to (N, …)."""
    flat = [group.flatten(0, 1) for group in groups]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def split_by_length(lengths: Sequence[int], tokens: int) -> list[list[list[int]]]:
    """Split sentences of these lengths into parts of at most so many tokens, or of one sentence.

    Each part is a list of groups, each of them the indices of sentences of one length; the longest come first.
    """
    parts: list[list[list[int]]] = []
    space = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not parts or lengths[index] > space:
            parts.append([[]])
            space = tokens
        elif lengths[index] < lengths[parts[-1][-1][0]]:
            parts[-1].append([])
        parts[-1][-1].append(index)
        space -= lengths[index]
    return parts
