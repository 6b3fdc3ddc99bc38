"""Batches: sentence pairs as padded tensors, in length groups, and the tokens of all groups in one long row.

All layers but attention map one token at a time. So the tokens of all groups are laid out one after the other, (N, D),
go through every linear map in one product, and are unpacked into a (B, T) group at a time only to attend (`Packing`).

B sentences of a group, S source length, T target length, both padded; all lengths include `</s>` or `<s>`. N tokens of
all groups, padding included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.text.prepared import PreparedSplit, Sentences
from nmt.text.tokenizer import BOS, EOS, PAD

_MULTIPLE = 64

Indices = NDArray[np.int64]  # of sentence pairs in a split
Pairs = tuple[Sentences, Sentences]  # sources and their targets, without `<s>` and `</s>`


class Group(NamedTuple):
    """A length group: sentence pairs of similar length, padded to the longest."""

    source: Tensor  # (B, S): w1 … wn </s> <pad>…
    target_in: Tensor  # (B, T): <s> w1 … wn <pad>…
    target_out: Tensor  # (B, T): w1 … wn </s> <pad>…
    source_mask: Tensor | None  # (B, S), True at tokens; None if no source is padded

    def map(self, function: Callable[[Tensor], Tensor]) -> "Group":
        """Return the group with every tensor mapped."""
        mask = None if self.source_mask is None else function(self.source_mask)
        return Group(function(self.source), function(self.target_in), function(self.target_out), mask)


@dataclass(frozen=True)
class Batch:
    """Input and expected output of one forward pass: one or more length groups."""

    groups: tuple[Group, ...]
    source_tokens: int
    target_tokens: int

    @property
    def padded_target_tokens(self) -> int:
        """Return the sum over groups of sentences × longest target: the size that a token budget limits."""
        return sum(group.target_out.numel() for group in self.groups)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        if device.type == self.groups[0].source.device.type:
            return self
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> "Batch":
        """Return the batch in page-locked RAM, from which `to` copies asynchronously."""
        return self._map(Tensor.pin_memory)

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        return replace(self, groups=tuple(group.map(function) for group in self.groups))


def collate(split: PreparedSplit, groups: Sequence[Sequence[int] | Indices]) -> Batch:
    """Gather pairs from the token store into a batch, one group for each list of indices; none may be empty."""
    chosen = [np.asarray(indices, dtype=np.int64) for indices in groups]
    return assemble([split.gather(group) for group in chosen])


def assemble(groups: Sequence[Pairs]) -> Batch:
    """Return a batch with one length group for each entry; adds `<s>` and `</s>`."""
    made = tuple(_group(source, target) for source, target in groups)
    sides = zip(*((group.source, group.target_out) for group in made), strict=True)
    return Batch(made, *(sum(int((ids != PAD).sum()) for ids in side) for side in sides))


def dummy_batch() -> Batch:
    """Return a batch with zero loss, so that a rank without sentences takes part in the collectives."""
    source, target_in, target_out = (torch.tensor([[symbol]]) for symbol in (EOS, BOS, PAD))
    return Batch((Group(source, target_in, target_out, None),), source_tokens=0, target_tokens=0)


def pad_to_multiple(batch: Batch) -> Batch:
    """Add a pair with zero loss, after which the tokens of each side are a multiple of 64.

    oneDNN compiles a matrix product for each number of rows, and keeps 0.2 to 0.3 MiB for each one until the process
    ends, whatever the capacity of its cache (benchmarks/RESULTS.md). Small batches grow by at most one token in 16.
    """
    sides = zip(*((group.source.numel(), group.target_out.numel()) for group in batch.groups), strict=True)
    source_length, target_length = (_tokens_to_multiple(sum(side)) for side in sides)
    if not source_length or not target_length:
        return batch
    source, target_in, target_out = (torch.full((1, n), PAD) for n in (source_length, target_length, target_length))
    source[0, 0], target_in[0, 0] = EOS, BOS
    dummy = Group(source, target_in, target_out, source != PAD)
    return Batch((*batch.groups, dummy), batch.source_tokens, batch.target_tokens)


def _tokens_to_multiple(tokens: int) -> int:
    """Return the number of tokens, at least one, to the next multiple; 0 for a side too small to be padded."""
    multiple = min(_MULTIPLE, 1 << max(0, tokens.bit_length() - 5))
    return multiple - tokens % multiple if multiple > 1 else 0


def _group(sources: Sentences, targets: Sentences) -> Group:
    source, source_mask = _padded(sources, EOS)
    target_out, _ = _padded(targets, EOS)
    target_in = np.full_like(target_out, BOS)
    target_in[:, 1:] = target_out[:, :-1]
    target_in[target_in == EOS] = PAD
    mask = None if source_mask.all() else torch.from_numpy(source_mask)
    return Group(torch.from_numpy(source), torch.from_numpy(target_in), torch.from_numpy(target_out), mask)


def _padded(sentences: Sentences, end: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the sentences, each followed by `end` if it is given, as a (B, longest) array and the mask of tokens."""
    ends = sentences.lengths[:, None]
    columns = np.arange(int(ends.max()) + (end is not None))
    padded = np.full((len(ends), len(columns)), PAD, dtype=np.int64)
    tokens = columns < ends
    padded[tokens] = sentences.ids
    if end is None:
        return padded, tokens
    np.put_along_axis(padded, ends, end, axis=1)
    return padded, columns <= ends


def pad(sentences: Sequence[Sequence[int]], device: torch.device | None = None) -> tuple[Tensor, Tensor | None]:
    """Return the sentences as one (B, longest) tensor and the mask of their tokens, None if nothing is padded."""
    padded, tokens = _padded(Sentences.of(sentences))
    return torch.from_numpy(padded).to(device), None if tokens.all() else torch.from_numpy(tokens).to(device)


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
