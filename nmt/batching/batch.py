"""A batch: sentences side by side as tensors, padded to the longest.

B sentences, S source length, T target length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.text.prepared import PreparedSplit
from nmt.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Group:
    """Sentences of like length, side by side."""

    source: Tensor  # (B, S): w1 … wn </s> <pad>…
    target_in: Tensor  # (B, T): <s> w1 … wn <pad>…
    target_out: Tensor  # (B, T): w1 … wn </s> <pad>…
    source_mask: Tensor | None  # (B, S), True at tokens; None if no source is padded

    def to(self, device: torch.device) -> "Group":
        """Return the group on a device."""
        source, target_in, target_out = (
            tensor.to(device, non_blocking=True) for tensor in (self.source, self.target_in, self.target_out)
        )
        mask = None if self.source_mask is None else self.source_mask.to(device, non_blocking=True)
        return Group(source, target_in, target_out, mask)


@dataclass(frozen=True)
class Batch:
    """What one forward pass reads and what it should say: one or more length groups."""

    groups: tuple[Group, ...]
    source_tokens: int
    target_tokens: int

    @property
    def padded_target_tokens(self) -> int:
        """Return sentences × longest of each group, what a token budget counts."""
        return sum(group.target_out.numel() for group in self.groups)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        if device.type == self.groups[0].source.device.type:
            return self
        return Batch(tuple(group.to(device) for group in self.groups), self.source_tokens, self.target_tokens)


def collate(split: PreparedSplit, groups: Sequence[Sequence[int] | NDArray[np.int64]], tokenizers: Tokenizers) -> Batch:
    """Gather pairs from the token store into a batch, one group for each list of indices; none may be empty."""
    collated = []
    source_tokens = target_tokens = 0
    for indices in groups:
        sources = [[*split.source[i], tokenizers.source.eos_id] for i in indices]
        targets = [list(split.target[i]) for i in indices]
        collated.append(_group(sources, targets, tokenizers))
        source_tokens += sum(map(len, sources))
        target_tokens += sum(map(len, targets)) + len(targets)
    return Batch(tuple(collated), source_tokens, target_tokens)


def _group(sources: list[list[int]], targets: list[list[int]], tokenizers: Tokenizers) -> Group:
    target = tokenizers.target
    source, source_mask = pad(sources, tokenizers.source.pad_id)
    target_in, _ = pad([[target.bos_id, *ids] for ids in targets], target.pad_id)
    target_out, _ = pad([[*ids, target.eos_id] for ids in targets], target.pad_id)
    return Group(source, target_in, target_out, source_mask)


def pad(sentences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor | None]:
    """Return the sentences as one (B, longest) tensor and the mask of their tokens, None if nothing is padded."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    padded = np.full((len(sentences), int(lengths.max())), pad_id, dtype=np.int64)
    for row, ids in zip(padded, sentences, strict=True):
        row[: len(ids)] = ids
    mask = None
    if int(lengths.min()) < padded.shape[1]:
        mask = torch.from_numpy(np.arange(padded.shape[1]) < lengths[:, None])
    return torch.from_numpy(padded), mask
