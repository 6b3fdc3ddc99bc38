"""What decoding one position at a time remembers: keys and values of the source and of the target so far.

B sentences, K beam, S source length, L positions so far, H heads, d = D/H.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_FIRST_CAPACITY = 16


@dataclass
class LayerCache:
    """One decoder layer's memory. The target side grows in place, in room that doubles when it is full."""

    source_keys: Tensor  # (B, H, S, d), one for all hypotheses of a sentence
    source_values: Tensor  # (B, H, S, d)
    target_keys: Tensor  # (B·K, H, capacity, d)
    target_values: Tensor  # (B·K, H, capacity, d)
    length: int = 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add one position, (B·K, H, 1, d) each; return all keys and values so far, (B·K, H, L, d) each."""
        if self.length == self.target_keys.size(2):
            self.target_keys = torch.cat([self.target_keys, torch.empty_like(self.target_keys)], dim=2)
            self.target_values = torch.cat([self.target_values, torch.empty_like(self.target_values)], dim=2)
        self.target_keys[:, :, self.length] = keys[:, :, 0]
        self.target_values[:, :, self.length] = values[:, :, 0]
        self.length += 1
        return self.target_keys[:, :, : self.length], self.target_values[:, :, : self.length]

    def select_target(self, rows: Tensor) -> None:
        """Let hypothesis i continue what hypothesis rows[i] has said; rows (B'·K) index the B·K rows."""
        self.target_keys = self._copy_rows(self.target_keys, rows)
        self.target_values = self._copy_rows(self.target_values, rows)

    def _copy_rows(self, tensor: Tensor, rows: Tensor) -> Tensor:
        """Copy rows, but only the positions that hold something."""
        _, heads, capacity, width = tensor.shape
        copied = tensor.new_empty(rows.numel(), heads, capacity, width)
        copied[:, :, : self.length] = tensor[:, :, : self.length].index_select(0, rows)
        return copied


@dataclass
class DecoderCache:
    """The memory of a batch of sentences with K hypotheses each."""

    layers: list[LayerCache]
    source_mask: Tensor | None  # (B, 1, 1, S), True where a source token is
    beam: int

    @property
    def length(self) -> int:
        """Return the number of target positions so far."""
        return self.layers[0].length

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of each sentence continue its hypothesis parents[b, k]; parents (B, K)."""
        first = torch.arange(parents.size(0), device=parents.device).unsqueeze(1) * self.beam
        rows = (first + parents).flatten()
        for layer in self.layers:
            layer.select_target(rows)

    def keep(self, sentences: Tensor) -> None:
        """Let go of all sentences but these, (B') in the order that they shall have."""
        beams = torch.arange(self.beam, device=sentences.device)
        rows = (sentences.unsqueeze(1) * self.beam + beams).flatten()
        for layer in self.layers:
            layer.source_keys = layer.source_keys.index_select(0, sentences)
            layer.source_values = layer.source_values.index_select(0, sentences)
            layer.select_target(rows)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, sentences)


def empty_layer_cache(source_keys: Tensor, source_values: Tensor, beam: int) -> LayerCache:
    """Return a layer's memory of the source, (B, H, S, d) each, with nothing said yet."""
    batch, heads, _, width = source_keys.shape
    target = source_keys.new_empty(2, batch * beam, heads, _FIRST_CAPACITY, width)
    return LayerCache(source_keys, source_values, target[0], target[1])
