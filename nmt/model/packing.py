"""Sentences of several length groups as one long row of tokens.

All layers but attention map one token at a time. So the tokens of all groups are laid out one after the other, (N, D),
go through every linear map in one product, and are unpacked into a (B, T) group at a time only to attend.

N tokens of all groups, padding included; B sentences of a group, T their padded length, S source length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_GROUP_RATIO = 0.9  # shortest to longest sentence of a group: fewer groups attend in fewer products


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


class LengthGroup(NamedTuple):
    """Sentences of a batch that have similar lengths."""

    rows: Tensor  # (B') which sentences of the batch
    ids: Tensor  # (B', S')
    mask: Tensor | None  # (B', S'), True at tokens; None if nothing is padded

    @classmethod
    def of(cls, rows: list[int], longest: int, ids: Tensor, mask: Tensor | None) -> "LengthGroup":
        """Take rows of a batch of ids (B, S) with their mask (B, S), cut off at the longest of them."""
        indices = torch.tensor(rows, device=ids.device)
        visible = None if mask is None else mask[indices, :longest]
        padded = visible is not None and not bool(visible.all())
        return cls(indices, ids[indices, :longest], visible if padded else None)


def split_by_length(ids: Tensor, mask: Tensor | None, tokens: int) -> list[list[LengthGroup]]:
    """Split a batch of ids (B, S) with their mask (B, S) into parts of at most so many tokens, or of one sentence.

    Each part is a list of length groups, the longest first, with little padding.
    """
    count, width = ids.shape
    lengths = [width] * count if mask is None else mask.sum(1).tolist()
    parts: list[list[tuple[list[int], int]]] = []  # the rows and the longest length of each group
    space = 0
    for row in sorted(range(count), key=lambda row: -lengths[row]):
        longest = parts[-1][-1][1] if parts else 0
        if not parts or longest > space:
            parts.append([([], lengths[row])])
            space = tokens
        elif lengths[row] < _GROUP_RATIO * longest:
            parts[-1].append(([], lengths[row]))
        rows, longest = parts[-1][-1]
        rows.append(row)
        space -= longest
    return [[LengthGroup.of(*group, ids, mask) for group in part] for part in parts]
