"""Sentences of several length groups as one long row of tokens.

All but attention looks at one token at a time. So the tokens of all groups stand one after the other, (N, D), go
through every linear map in one product, and fold back into sentences, a (B, T) group at a time, only to attend.

N tokens of all groups, padding included; B sentences of a group, T their padded length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_ALIKE = 0.9
"""Sentences of this share of the longest one's length are padded to it: fewer groups attend in fewer products."""


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


class Alike(NamedTuple):
    """Sentences of a batch that are about equally long."""

    rows: Tensor  # (B') which ones of the batch
    ids: Tensor  # (B', S')
    mask: Tensor | None  # (B', S'), True at tokens; None if nothing is padded

    @classmethod
    def of(cls, rows: list[int], longest: int, ids: Tensor, mask: Tensor | None) -> "Alike":
        """Take rows of a batch of ids (B, S) with their mask (B, S), cut off at the longest of them."""
        places = torch.tensor(rows, device=ids.device)
        seen = None if mask is None else mask[places, :longest]
        return cls(places, ids[places, :longest], None if seen is None or bool(seen.all()) else seen)


def parts_alike(ids: Tensor, mask: Tensor | None, most: int) -> list[list[Alike]]:
    """Cut a batch of ids (B, S) with their mask (B, S) into parts of so many tokens, if not of one sentence.

    Each part is made of groups of like length, the longest first, so that there is hardly any padding.
    """
    count, width = ids.shape
    lengths = [width] * count if mask is None else mask.sum(1).tolist()
    parts: list[list[tuple[list[int], int]]] = []
    room = 0
    for row in sorted(range(count), key=lambda row: -lengths[row]):
        longest = parts[-1][-1][1] if parts else 0
        if not parts or longest > room:
            parts.append([([], lengths[row])])
            room = most
        elif lengths[row] < _ALIKE * longest:
            parts[-1].append(([], lengths[row]))
        rows, longest = parts[-1][-1]
        rows.append(row)
        room -= longest
    return [[Alike.of(*group, ids, mask) for group in part] for part in parts]
