"""The decoder's KV cache: keys and values of the source and of the tokens generated so far.

Each of N rows is one hypothesis; the rows of a sentence follow each other. The hypotheses of a sentence share one table
of keys and values, and a mask has the tokens of each hypothesis in it. So a search that continues some hypotheses, more
than once or not at all, moves rows of the mask, and copies no keys and values.

B sentences, K hypotheses of the sentence with most of them, S source length, P tokens in the table of each sentence,
D width, H heads, d = D/H, L layers, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.config import ModelSettings

_SPARE_STEPS = 16  # a full table gets space for so many, and loses the tokens that no hypothesis has: a copy
_REMOVE_SHARE = 8  # finished sentences are removed when they are 1/8 of the batch: removing copies the others


class DecoderCache:
    """The cache of a batch of sentences; at first each has one hypothesis."""

    def __init__(
        self, source: Sequence[tuple[Tensor, Tensor]], source_mask: Tensor | None, reads_only_visible: bool = False
    ) -> None:
        """Take each layer's keys and values of the source, (B, H, S, d), and the mask (B, S), True at tokens.

        With `reads_only_visible`, attention reads nothing but the visible tokens of active hypotheses, in any layout:
        finished sentences may stay, and tables begin without zeros.
        """
        self._reads_only_visible = reads_only_visible
        self.source = source
        if not reads_only_visible:
            self.source = [(keys.contiguous(), values.contiguous()) for keys, values in source]
        self.source_mask = None if source_mask is None else source_mask[:, None, None, :]
        keys = source[0][0]
        count, heads, _, width = keys.shape
        self.length = 0  # tokens of each hypothesis
        self._target = [keys.new_zeros(0, count, 2, heads, width) for _ in source]  # (P and space for more, B, 2, H, d)
        # True at the tokens of each hypothesis: the state of the search
        self._visible = torch.zeros(count, 1, 0, dtype=torch.bool, device=keys.device)  # (B, K, P)
        self._sentences = self._slots = torch.arange(count)  # (N) of each row its sentence and its place in (B, K)
        self.select(self._slots)

    @property
    def beam(self) -> int:
        """The places K of each sentence."""
        return self._visible.size(1)

    @property
    def mask(self) -> Tensor | None:
        """The mask (B, 1, K, P) of the tokens of each hypothesis; None if they are all of its sentence's."""
        return None if self._visible.size(2) == self.length else self._visible.unsqueeze(1)

    @property
    def distances(self) -> Tensor:
        """The distances (B, K, P) from the newest token of a hypothesis to its other ones, 0 and below."""
        return self._visible.cumsum(2) - self.length

    @property
    def positions(self) -> Tensor:
        """The position (N) of the newest token of each hypothesis."""
        return self.slots.new_full(self.slots.shape, self.length - 1)

    def begin_step(self) -> None:
        """Reserve a place in the table for the newest token of each hypothesis."""
        count, beam, _ = self._visible.shape
        if self._is_table_full:
            self._compact(torch.arange(count, device=self._visible.device))
        own = torch.eye(beam, dtype=torch.bool, device=self._visible.device)
        self._visible = torch.cat([self._visible, own.expand(count, -1, -1)], dim=2)
        self.length += 1

    def target(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return the keys and values of a layer, (B, H, P, d) each; the last K places are for the newest."""
        keys, values = self._target[layer][: self._visible.size(2)].permute(2, 1, 3, 0, 4)
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Continue row rows[i] as row i, for rows (N'), on the CPU, of sentences in order."""
        device = self._visible.device
        visible = self._visible.flatten(0, 1).index_select(0, self._slots[rows].to(device))  # (N', P)
        self._sentences = self._sentences[rows]
        kept, sizes = torch.unique_consecutive(self._sentences, return_counts=True)
        count, beam = len(self._visible), int(sizes.max())
        may_remove = not self._reads_only_visible or self._is_table_full
        has_finished = may_remove and (count - len(kept)) * _REMOVE_SHARE >= count
        if has_finished:
            count = len(kept)
            self._sentences = torch.arange(count).repeat_interleave(sizes)
        ranks = torch.arange(len(rows)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        self._slots = self._sentences * beam + ranks
        self.slots = self._slots.to(device)
        grid = visible.new_zeros(count * beam, visible.size(1)).index_copy_(0, self.slots, visible)
        self._visible = grid.view(count, beam, -1)
        if has_finished:
            kept = kept.to(device)
            self.source = [(keys.index_select(0, kept), values.index_select(0, kept)) for keys, values in self.source]
            self.source_mask = None if self.source_mask is None else self.source_mask.index_select(0, kept)
            self._compact(kept)

    @property
    def _is_table_full(self) -> bool:
        """Whether it lacks space for the newest token of each hypothesis."""
        return self._visible.size(2) + self.beam > len(self._target[0])

    def _compact(self, sentences: Tensor) -> None:
        """Make new tables of these sentences (B'), with space, without the tokens that no hypothesis has.

        Each sentence keeps as many tokens as the one with most in use.
        """
        _, beam, _ = self._visible.shape
        used = self._visible.any(1)  # (B', P)
        most = int(used.sum(1).max())
        kept = used.byte().argsort(dim=1, descending=True, stable=True)[:, :most]  # in their order
        places = (kept.t() * self._target[0].size(1) + sentences).flatten()
        for number, old in enumerate(self._target):
            new = old.new_empty if self._reads_only_visible else old.new_zeros
            table = new(most + _SPARE_STEPS * beam, len(sentences), *old.shape[2:])
            torch.index_select(old.flatten(0, 1), 0, places, out=table[:most].flatten(0, 1))
            self._target[number] = table
        self._visible = self._visible.gather(2, kept.unsqueeze(1).expand(-1, beam, -1))


def bytes_to_decode(settings: ModelSettings, vocabulary: int, source: int, target: int, beam: int) -> int:
    """Return the most bytes that a line of S and T tokens takes in a beam search in fp32, besides the weights.

    Each decoder layer has a key and a value of width D for every source token, once, and for every target token of each
    hypothesis, with space for 16 more; each hypothesis has V logits: 4 · (2 L D (S + K (T + 16)) + K V).
    """
    cached = source + beam * (target + _SPARE_STEPS)
    return 4 * (2 * settings.decoder_layers * settings.dim * cached + beam * vocabulary)
