"""The decoder's KV cache: keys and values of the source and of the tokens generated so far.

Each of N rows is one hypothesis. The rows of a sentence follow each other, at most K of them, in the order of the B
sentences. Two layouts of the generated tokens have the same methods. In a `RowCache` each row has separate keys and
values, which are copied when several rows continue the same one. For long prefixes that is slow. In a `SharedCache` the
hypotheses of a sentence share keys and values: nothing is copied, and a mask assigns the cached tokens to hypotheses.

S source length, D width, H heads, d = D/H, L layers, V vocabulary; G groups of Q rows with P cached tokens: G = N,
Q = 1 in a `RowCache`, G = B, Q = K in a `SharedCache`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.config import ModelSettings

_SHARE_FROM = 16  # tokens of a prefix from which copying it costs more than masking the tokens of other hypotheses
_SHARE_BEAM = 8  # widest beam that shares: each row computes scores for the tokens of all rows of its sentence
_SPARE_STEPS = 16  # a SharedCache reserves space for so many, and then drops tokens that no hypothesis has: a copy
_REMOVE_SHARE = 8  # finished sentences are removed when they are 1/8 of the batch: removing copies the others


@dataclass(frozen=True)
class Beams:
    """The sentence of each of N rows, and its slot in a grid of B sentences times K hypotheses."""

    sentences: Tensor  # (N), ascending
    slots: Tensor  # (N); rows beyond the K-th of a sentence repeat the last one and share its slot
    count: int  # B
    width: int  # K

    @classmethod
    def of(cls, sentences: Tensor, is_first: Tensor, count: int, width: int) -> "Beams":
        """Number the rows of each sentence; `is_first` (N) is True at its first row."""
        rows = torch.arange(sentences.numel(), device=sentences.device)
        rank = rows - torch.where(is_first, rows, 0).cummax(0).values
        return cls(sentences, sentences * width + rank.clamp_(max=width - 1), count, width)

    def grid(self, rows: Tensor) -> Tensor:
        """Copy rows (N, …) to their slots (B, K, …); slots without a row are zero."""
        grid = rows.new_zeros(self.count * self.width, rows.size(1)).index_copy_(0, self.slots, rows)
        return grid.view(self.count, self.width, -1)

    def rows(self, slots: Tensor) -> Tensor:
        """Return rows (N, …) of slots (B·K, …)."""
        return slots.index_select(0, self.slots)


class RowCache:
    """Keys and values of the generated tokens, separate for each row."""

    mask = None  # a row has all tokens of its group

    def __init__(self, layers: list[Tensor], beams: Beams, length: int) -> None:
        self.layers = layers  # (P, N, H, 2, d) each
        self.beams = beams
        self.length = length  # tokens of each hypothesis
        self.end_step()

    def begin_step(self) -> "RowCache | SharedCache":
        """Reserve space for the newest token of each row; return this cache, or a `SharedCache` if that is faster."""
        if self.length >= _SHARE_FROM and self.beams.width <= _SHARE_BEAM:
            layers = [self._by_sentence(layer) for layer in self.layers]
            return SharedCache(layers, self.beams, self.length).begin_step()
        self.length += 1
        return self

    def append(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the newest keys and values (N, 1, 2D) of a layer; return all, (N, H, P, d) each.

        Each row's keys and values are copied from its parent.
        """
        old = self.layers[layer]
        new = old.new_empty(len(old) + 1, len(self._parents), *old.shape[2:])
        torch.index_select(old, 1, self._parents, out=new[:-1])
        self.layers[layer] = new
        return _write(new, keys_values, len(new))

    def end_step(self) -> None:
        """Finish the step, after `append` for all layers: reset parent rows."""
        self._parents = torch.arange(self.beams.sentences.numel(), device=self.beams.sentences.device)

    def group(self, rows: Tensor) -> Tensor:
        """Return rows (N, …) as groups of one row (N, 1, …)."""
        return rows.unsqueeze(1)

    def ungroup(self, groups: Tensor) -> Tensor:
        """Return groups of one row (N, …) as rows (N, …)."""
        return groups

    @property
    def distances(self) -> Tensor:
        """Distances (1, 1, P) from the newest token to the cached ones, 0 and below."""
        return torch.arange(1 - self.length, 1, device=self._parents.device).view(1, 1, -1)

    def select(self, rows: Tensor, beams: Beams, kept: Tensor | None) -> None:
        """Continue row rows[i] as row i of these beams: the next step copies from it."""
        self._parents = self._parents[rows]
        self.beams = beams

    def _by_sentence(self, layer: Tensor) -> Tensor:
        """Return keys and values (L, N, …) of rows side by side, (L·K, B, …)."""
        count, width = self.beams.count, self.beams.width
        slots = layer.new_zeros(len(layer), count * width, *layer.shape[2:])
        slots.index_copy_(1, self.beams.slots, layer.index_select(1, self._parents))
        return slots.view(len(layer), count, width, *layer.shape[2:]).transpose(1, 2).flatten(0, 1)


class SharedCache:
    """Keys and values of the generated tokens, shared by the rows of a sentence; a mask assigns them to hypotheses."""

    def __init__(self, layers: list[Tensor], beams: Beams, length: int) -> None:
        self.layers = layers  # (P, B, H, 2, d) each, and space for more tokens
        self.beams = beams
        self.length = length  # tokens of each hypothesis
        positions = torch.arange(length, device=beams.slots.device)
        self._positions = positions.repeat_interleave(beams.width).repeat(beams.count, 1)  # (B, P)
        self._visible = self._own(length)  # (B·K, P), True at the tokens of each slot's hypothesis
        self._space = 0  # tokens that can be appended

    def begin_step(self) -> "RowCache | SharedCache":
        """Reserve space for the newest token of each slot; return this cache."""
        width = self.beams.width
        if self._space < width:
            self._drop_unused()
        self._space -= width
        self._visible = torch.cat([self._visible, self._own(1)], dim=1)
        newest = self._positions.new_full((self.beams.count, width), self.length)
        self._positions = torch.cat([self._positions, newest], dim=1)
        self.length += 1
        return self

    def append(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the newest keys and values (B, K, 2D) of a layer; return all, (B, H, P, d) each."""
        return _write(self.layers[layer], keys_values, self._positions.size(1))

    def end_step(self) -> None:
        """Finish the step, after `append` for all layers."""

    def group(self, rows: Tensor) -> Tensor:
        """Return rows (N, …) as groups (B, K, …)."""
        return self.beams.grid(rows)

    def ungroup(self, groups: Tensor) -> Tensor:
        """Return groups (B·K, …) as rows (N, …)."""
        return self.beams.rows(groups)

    @property
    def mask(self) -> Tensor | None:
        """A mask (B, 1, K, P), True at the tokens of each row's hypothesis; None if those are all of its group's."""
        count, width = self.beams.count, self.beams.width
        return None if width == 1 else self._visible.view(count, 1, width, -1)

    @property
    def distances(self) -> Tensor:
        """Distances (B, 1, P) from the newest token to the cached ones, 0 and below."""
        return (self._positions - (self.length - 1)).unsqueeze(1)

    def select(self, rows: Tensor, beams: Beams, kept: Tensor | None) -> None:
        """Continue row rows[i] as row i of these beams; remove all sentences but those `kept`, unless it is None."""
        visible = self._visible.index_select(0, self.beams.slots[rows])
        if kept is not None:
            self.layers = [layer.index_select(1, kept) for layer in self.layers]
            self._positions = self._positions.index_select(0, kept)
        self.beams = beams
        # a slot without a row attends to the first token: its output is not used, but must be finite
        self._visible = visible.new_zeros(beams.count * beams.width, visible.size(1))
        self._visible[:, 0] = True
        self._visible.index_copy_(0, beams.slots, visible)

    def _own(self, length: int) -> Tensor:
        """Return a mask (B·K, length · K) of tokens side by side, True at each slot's own."""
        own = torch.eye(self.beams.width, dtype=torch.bool, device=self.beams.slots.device)
        return own.repeat(self.beams.count, length)

    def _drop_unused(self) -> None:
        """Drop tokens that no hypothesis has, as many for each sentence as for the one with most tokens in use."""
        used = self._visible.view(self.beams.count, self.beams.width, -1).any(1)  # (B, P)
        most = int(used.sum(1).max())
        kept = used.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]  # the first stays the first
        self._space = _SPARE_STEPS * self.beams.width
        places = (kept.t() * self.beams.count + torch.arange(self.beams.count, device=kept.device)).flatten()
        for number, layer in enumerate(self.layers):
            self.layers[number] = layer.new_empty(most + self._space, *layer.shape[1:])
            torch.index_select(layer.flatten(0, 1), 0, places, out=self.layers[number][:most].flatten(0, 1))
        self._visible = self._visible.gather(1, kept.repeat_interleave(self.beams.width, dim=0))
        self._positions = self._positions.gather(1, kept)


class DecoderCache:
    """The cache of a batch of B sentences: of their source, and of up to K hypotheses each; at first one."""

    def __init__(self, source: Sequence[tuple[Tensor, Tensor]], source_mask: Tensor | None, beam: int) -> None:
        """Take each layer's keys and values of the source, (B, H, S, d), and the mask (B, S), True at tokens."""
        self.source = [(keys.contiguous(), values.contiguous()) for keys, values in source]  # as each step reads them
        self.source_mask = None if source_mask is None else source_mask[:, None, None, :]
        keys = source[0][0]
        count, heads, _, width = keys.shape
        sentences = torch.arange(count, device=keys.device)
        self.beams = Beams.of(sentences, torch.ones_like(sentences, dtype=torch.bool), count, beam)
        layers = [keys.new_empty(0, count, heads, 2, width) for _ in source]
        self.target: RowCache | SharedCache = RowCache(layers, self.beams, 0)

    def begin_step(self) -> None:
        """Reserve space for the newest token of each row."""
        self.target = self.target.begin_step()

    def end_step(self) -> None:
        """Finish the step, after all layers."""
        self.target.end_step()

    def select(self, rows: Tensor) -> None:
        """Continue row rows[i] as row i, for rows (N') of sentences in order.

        The last row may be repeated, however often, to pad the number of rows.
        """
        sentences, count, width = self.beams.sentences[rows], self.beams.count, self.beams.width
        is_first = torch.ones_like(sentences, dtype=torch.bool)
        is_first[1:] = sentences[1:] != sentences[:-1]
        kept = sentences[is_first]
        remove = (count - kept.numel()) * _REMOVE_SHARE >= count
        if remove:
            self.source = [(keys.index_select(0, kept), values.index_select(0, kept)) for keys, values in self.source]
            self.source_mask = None if self.source_mask is None else self.source_mask.index_select(0, kept)
            sentences, count = torch.searchsorted(kept, sentences), kept.numel()
        beams = Beams.of(sentences, is_first, count, width)
        self.target.select(rows, beams, kept if remove else None)
        self.beams = beams


def bytes_to_decode(settings: ModelSettings, vocabulary: int, source: int, target: int, beam: int) -> int:
    """Return the most bytes that a line of S and T tokens takes in a beam search in fp32, besides the weights.

    Each decoder layer has a key and a value of width D for every source token, once, and for every target token of each
    hypothesis, with space for 16 more; each hypothesis has V logits: 4 · (2 L D (S + K (T + 16)) + K V).
    """
    cached = source + beam * (target + _SPARE_STEPS)
    return 4 * (2 * settings.decoder_layers * settings.dim * cached + beam * vocabulary)


def _write(stored: Tensor, keys_values: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """Write keys and values (G, Q, 2D) as the last of `end` tokens (P, G, H, 2, d); return those, (G, H, P, d) each."""
    groups, rows, _ = keys_values.shape
    by_head = keys_values.view(groups, rows, 2, *stored.shape[2::2])  # (G, Q, 2, H, d)
    stored[end - rows : end] = by_head.permute(1, 0, 3, 2, 4)
    keys, values = stored[:end].permute(3, 1, 2, 0, 4)
    return keys, values
