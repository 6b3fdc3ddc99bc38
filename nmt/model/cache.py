"""What decoding one position at a time remembers: keys and values of the source and of the target so far.

Each of N rows is one hypothesis that grows. The rows of a sentence stand together, at most K of them, in the order of
the B sentences. S source length, L positions so far, D width, H heads, d = D/H.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_WORTH_LEAVING = 8
"""Sources that are done with are let go of once they are one in so many: letting go costs a copy of the others."""


class LayerCache:
    """One decoder layer's memory.

    The target side lies position by position: to choose rows is one copy of what is there. It is made when the layer is
    about to read it, while the processor still has it at hand.
    """

    def __init__(self, source_keys: Tensor, source_values: Tensor) -> None:
        """Remember keys and values of the source, (B, H, S, d) each; N is B at first."""
        # in the order in which every step will read them
        self.source_keys, self.source_values = source_keys.contiguous(), source_values.contiguous()
        self._by_head = (2, source_keys.size(1), source_keys.size(3))  # keys and values; H; d
        width = 2 * source_keys.size(1) * source_keys.size(3)
        self._said = source_keys.new_empty(0, source_keys.size(0), width)  # (L, N, 2D)

    @property
    def length(self) -> int:
        """Return L."""
        return len(self._said)

    def append(self, keys_values: Tensor, rows: Tensor) -> None:
        """Let row i go on from what row rows[i] has said, and add one position: keys and values, (N', 2D)."""
        said = self._said.new_empty(self.length + 1, *keys_values.shape)
        torch.index_select(self._said, 1, rows, out=said[:-1])
        said[-1] = keys_values
        self._said = said

    def target(self) -> tuple[Tensor, Tensor]:
        """Return keys and values so far, (L, N, H, d) each."""
        keys, values = self._said.view(*self._said.shape[:2], *self._by_head).unbind(2)
        return keys, values

    def keep_sources(self, sentences: Tensor) -> None:
        """Let go of the sources of all sentences but these (B')."""
        self.source_keys = self.source_keys.index_select(0, sentences)
        self.source_values = self.source_values.index_select(0, sentences)


@dataclass
class DecoderCache:
    """The memory of a batch of sentences."""

    layers: Sequence[LayerCache]
    source_mask: Tensor | None
    """(B, 1, 1, S), True where a source token is; None if nothing is padded."""
    beam: int
    """K."""
    sentences: Tensor
    """(N), which of the B sentences each row is of."""
    parents: Tensor
    """(N), the row that each one goes on from in what the layers remember, until their next step."""
    slots: Tensor
    """(N), each row's own place among the B·K that there might be; rows that are equal may share one."""

    @property
    def length(self) -> int:
        """Return the number of target positions so far."""
        return self.layers[0].length

    def select(self, rows: Tensor) -> None:
        """Let row i go on from what row rows[i] has said, for rows (N') of sentences in order.

        The last row may come again, however often, to fill up a number.
        """
        self.parents = self.parents[rows]
        self.sentences = self.sentences[rows]
        is_first = torch.ones_like(self.sentences, dtype=torch.bool)
        is_first[1:] = self.sentences[1:] != self.sentences[:-1]
        self._leave_sources(is_first)
        places = torch.arange(rows.numel(), device=rows.device)
        rank = places - torch.where(is_first, places, 0).cummax(0).values
        self.slots = self.sentences * self.beam + rank.clamp_(max=self.beam - 1)

    def _leave_sources(self, is_first: Tensor) -> None:
        """Let go of sources that no row is of any more, if they are many; is_first (N) marks each sentence's first."""
        left = self.sentences[is_first]
        count = self.layers[0].source_keys.size(0)
        if (count - left.numel()) * _WORTH_LEAVING < count:
            return
        for layer in self.layers:
            layer.keep_sources(left)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, left)
        self.sentences = torch.searchsorted(left, self.sentences)
