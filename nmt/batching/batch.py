"""A batch: sentences side by side as tensors, padded to the longest.

B sentences, S source length, T target length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.text.prepared import PreparedSplit, Sentences
from nmt.text.tokenizer import BOS, EOS, PAD, Tokenizers


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

    def pinned(self) -> "Group":
        """Return the group in memory that a GPU reads while the processor does other things."""
        mask = None if self.source_mask is None else self.source_mask.pin_memory()
        return Group(self.source.pin_memory(), self.target_in.pin_memory(), self.target_out.pin_memory(), mask)


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

    def pinned(self) -> "Batch":
        """Return the batch in pinned memory, from which `to` copies without waiting."""
        return Batch(tuple(group.pinned() for group in self.groups), self.source_tokens, self.target_tokens)


Pairs = tuple[Sentences, Sentences]
"""Sources and the targets that belong to them, without bos and eos."""


def collate(split: PreparedSplit, groups: Sequence[Sequence[int] | NDArray[np.int64]], tokenizers: Tokenizers) -> Batch:
    """Gather pairs from the token store into a batch, one group for each list of indices; none may be empty."""
    chosen = [np.asarray(indices, dtype=np.int64) for indices in groups]
    return assemble([(split.source.gather(group), split.target.gather(group)) for group in chosen], tokenizers)


def assemble(groups: Sequence[Pairs], tokenizers: Tokenizers) -> Batch:
    """Make a batch of sentence pairs, one length group for each entry; `<s>` and `</s>` are added here."""
    collated = tuple(_group(source, target, tokenizers) for source, target in groups)
    source_tokens, target_tokens = (
        sum(len(sentences.ids) + len(sentences.lengths) for sentences in side) for side in zip(*groups, strict=True)
    )
    return Batch(collated, source_tokens, target_tokens)


def dummy_batch() -> Batch:
    """Return a batch without a word to be said, for a process that is left without sentences but has to take part."""
    source, target_in, target_out = (torch.tensor([[symbol]]) for symbol in (EOS, BOS, PAD))
    return Batch((Group(source, target_in, target_out, None),), source_tokens=0, target_tokens=0)


def _group(sources: Sentences, targets: Sentences, tokenizers: Tokenizers) -> Group:
    source, source_mask = _padded(sources, tokenizers.source.pad_id, tokenizers.source.eos_id)
    target_out, _ = _padded(targets, tokenizers.target.pad_id, tokenizers.target.eos_id)
    target_in = np.full_like(target_out, tokenizers.target.bos_id)
    target_in[:, 1:] = target_out[:, :-1]
    target_in[target_in == tokenizers.target.eos_id] = tokenizers.target.pad_id
    mask = None if source_mask.all() else torch.from_numpy(source_mask)
    return Group(torch.from_numpy(source), torch.from_numpy(target_in), torch.from_numpy(target_out), mask)


def _padded(
    sentences: Sentences, pad_id: int, eos_id: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the sentences as one (B, longest) array, each ended by `eos_id` if one is given, and where tokens are."""
    ends = sentences.lengths[:, None]
    columns = np.arange(int(ends.max()) + (eos_id is not None))
    padded = np.full((len(ends), len(columns)), pad_id, dtype=np.int64)
    tokens = columns < ends
    padded[tokens] = sentences.ids
    if eos_id is None:
        return padded, tokens
    np.put_along_axis(padded, ends, eos_id, axis=1)
    return padded, columns <= ends


def pad(sentences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor | None]:
    """Return the sentences as one (B, longest) tensor and the mask of their tokens, None if nothing is padded."""
    padded, tokens = _padded(Sentences.of(sentences), pad_id)
    return torch.from_numpy(padded), None if tokens.all() else torch.from_numpy(tokens)
