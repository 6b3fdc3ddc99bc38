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
class Batch:
    """What one forward pass reads and what it should say."""

    source: Tensor  # (B, S): w1 … wn </s> <pad>…
    target_in: Tensor  # (B, T): <s> w1 … wn <pad>…
    target_out: Tensor  # (B, T): w1 … wn </s> <pad>…
    source_mask: Tensor | None  # (B, S), True at tokens; None if no source is padded
    source_tokens: int
    target_tokens: int

    @property
    def padded_target_tokens(self) -> int:
        """Return sentences × longest, what a token budget counts."""
        return self.target_out.numel()

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        if device.type == self.source.device.type:
            return self
        source, target_in, target_out = (
            tensor.to(device, non_blocking=True) for tensor in (self.source, self.target_in, self.target_out)
        )
        mask = None if self.source_mask is None else self.source_mask.to(device, non_blocking=True)
        return Batch(source, target_in, target_out, mask, self.source_tokens, self.target_tokens)


def collate(split: PreparedSplit, indices: Sequence[int] | NDArray[np.int64], tokenizers: Tokenizers) -> Batch:
    """Gather pairs from the token store into a batch; `<s>` and `</s>` are added here."""
    source_eos, target = tokenizers.source.eos_id, tokenizers.target
    sources = [[*split.source[i], source_eos] for i in indices]
    targets = [list(split.target[i]) for i in indices]
    source, source_mask = pad(sources, tokenizers.source.pad_id)
    target_in, _ = pad([[target.bos_id, *ids] for ids in targets], target.pad_id)
    target_out, _ = pad([[*ids, target.eos_id] for ids in targets], target.pad_id)
    source_tokens = sum(map(len, sources))
    target_tokens = sum(map(len, targets)) + len(targets)
    return Batch(source, target_in, target_out, source_mask, source_tokens, target_tokens)


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
