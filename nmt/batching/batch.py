"""Batches: the tokens of many sentences one after the other, without padding.

All layers but attention map one token at a time, so the rows of a batch go through them in one product. Attention needs
to know where a sentence begins and ends, and position encodings the place of each token (`Rows`).

B sentences; M source rows and N target rows, one a token, `</s>` or `<s>` included; L tokens of the longest sentence;
P tiles.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.text.prepared import Sentences, offsets_of
from nmt.text.tokenizer import BOS, EOS, PAD

TILE = 64  # rows of a tile on each side: one program of a GPU attends within it

Integers = NDArray[np.int64]
Pairs = tuple[Sentences, Sentences]  # sources and their targets, without `<s>` and `</s>`
Sizes = Callable[[int, int], tuple[int, int]]  # maps the numbers of rows of both sides to those of the filled batch


@dataclass(frozen=True)
class Rows:
    """The tokens of sentences on one side of a batch, one after the other.

    A tile is a run of whole sentences with at most TILE rows on each side of the batch, or one longer sentence. Both
    sides have the same tiles; empty ones at the end make their number a function of the numbers of rows only.
    """

    ids: Tensor  # (N)
    positions: Tensor  # (N) of each token in its sentence, from 0
    sentences: Tensor  # (N) number of the sentence
    tiles: Tensor  # (P+1) first row of each tile, and N
    offsets: Integers  # (B+1) first row of each sentence, and N; on the host
    group_starts: tuple[int, ...] = ()  # the first sentences of all length groups but the first

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]], fill_to: int = 1) -> "Rows":
        """Return sentences of ids as one length group, with filler sentences up to a multiple of `fill_to` tokens."""
        stored = Sentences.of(sentences)
        missing, lengths = -len(stored.ids) % fill_to, stored.lengths
        offsets = offsets_of(np.concatenate([lengths, _filler_lengths(missing, 0)[0]]))
        ids, tiles = np.full(offsets[-1], EOS), tile_edges(offsets, offsets)
        ids[: len(stored.ids)] = stored.ids
        return cls.of_arrays(ids, offsets, _filled(tiles, 2 * len(ids)))  # as if the other side had the same rows

    @classmethod
    def of_arrays(cls, ids: Integers, offsets: Integers, edges: Integers, group_starts: tuple[int, ...] = ()) -> "Rows":
        """Return rows with these ids (N), offsets of sentences (B+1) and starts of length groups, see the fields.

        `edges` (P+1) has the first sentence of each tile, and the number of sentences.
        """
        numbers = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
        tensors = [torch.from_numpy(x.astype(np.int32)) for x in (ids, positions, numbers, offsets[edges])]
        return cls(tensors[0], tensors[1], tensors[2], tensors[3], offsets, group_starts)

    def to(self, device: torch.device) -> "Rows":
        """Return the rows on a device."""
        return self.copied(lambda tensor: tensor.to(device))

    def copied(self, send: Callable[[Tensor], Tensor]) -> "Rows":
        """Return the rows with their tensors copied by `send`, which is called once for all of them."""
        *by_token, tiles = _copied((*self.by_token, self.tiles), send)
        return self.with_tensors(by_token, tiles)

    def with_tensors(self, by_token: Sequence[Tensor], tiles: Tensor) -> "Rows":
        """Return the rows with copies of their tensors."""
        ids, positions, sentences = by_token
        return Rows(ids, positions, sentences, tiles, self.offsets, self.group_starts)

    @property
    def by_token(self) -> tuple[Tensor, Tensor, Tensor]:
        """The tensors with a number for each token (N)."""
        return self.ids, self.positions, self.sentences

    @cached_property
    def lengths(self) -> Integers:
        """The numbers of tokens (B)."""
        return np.diff(self.offsets)

    @cached_property
    def longest(self) -> int:
        """The number of tokens L of the longest sentence."""
        return int(self.lengths.max(initial=0))

    @property
    def longest_tiles(self) -> int:
        """How many times TILE rows hold the longest sentence, at least 1."""
        return max(1, -(-self.longest // TILE))

    @property
    def recorded_shape(self) -> object:
        """What a recorded pass depends on, besides values: attention launches more programs for longer sentences."""
        return len(self.ids), self.longest_tiles

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (B, L) of a grid."""
        return len(self.lengths), self.longest

    def length_groups(self) -> Iterator[tuple[slice, "Rows"]]:
        """Yield the slice of each length group, and its rows."""
        if not self.group_starts:
            yield slice(0, len(self.ids)), self
            return
        edges = (0, *self.group_starts, len(self.lengths))
        for start, end in pairwise(edges):
            yield self.part(start, end)

    def part(self, start: int, end: int) -> tuple[slice, "Rows"]:
        """Return the slice of the sentences from `start` to `end`, and their rows, which have no tiles."""
        offsets = self.offsets[start : end + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        numbers = self.sentences[rows] - start
        return rows, Rows(self.ids[rows], self.positions[rows], numbers, self.tiles[:0], offsets - offsets[0])

    def grid(self, x: Tensor) -> Tensor:
        """Return x (N, …) as a padded tensor (B, L, …), 0 where a sentence is shorter than the longest."""
        if len(x) == self.shape[0] * self.shape[1]:
            return x.view(*self.shape, *x.shape[1:])
        grid = x.new_zeros(*self.shape, *x.shape[1:])
        return grid.index_put(self._places, x)

    def from_grid(self, grid: Tensor) -> Tensor:
        """Return the rows (N, …) of a padded tensor (B, L, …)."""
        return grid.flatten(0, 1) if len(self.ids) == grid.size(0) * grid.size(1) else grid[self._places]

    def mask(self) -> Tensor | None:
        """Return (B, L), True at tokens, or None if no sentence is shorter than the longest."""
        if len(self.ids) == self.shape[0] * self.shape[1]:
            return None
        return self.grid(torch.ones_like(self.ids, dtype=torch.bool))

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        return self.sentences.long(), self.positions.long()


def same_tiles(source: Rows, target: Rows) -> tuple[Rows, Rows]:
    """Return both sides of the same sentences with the same tiles, for attention from one to the other."""
    edges = _filled(tile_edges(source.offsets, target.offsets), len(source.ids) + len(target.ids))

    def tiled(rows: Rows) -> Rows:
        return replace(rows, tiles=torch.from_numpy(rows.offsets[edges].astype(np.int32)).to(rows.ids.device))

    return tiled(source), tiled(target)


@dataclass(frozen=True)
class Batch:
    """Input and expected output of one forward pass."""

    source: Rows  # each sentence w1 … wn </s>
    target: Rows  # the input of the decoder: <s> w1 … wn of each sentence
    labels: Tensor  # (N) the expected output: w1 … wn </s> of each sentence; padding at rows without a loss
    source_tokens: int
    target_tokens: int  # that have a loss

    def copied(self, send: Callable[[Tensor], Tensor]) -> "Batch":
        """Return the batch with its tensors copied by `send`, which is called once for all of them."""
        source, target = self.source, self.target
        # the tiles come last: so the others are aligned in a batch that is filled to multiples of TILE
        tensors = (*source.by_token, *target.by_token, self.labels, source.tiles, target.tiles)
        *by_token, labels, source_tiles, target_tiles = _copied(tensors, send)
        return replace(
            self,
            source=source.with_tensors(by_token[:3], source_tiles),
            target=target.with_tensors(by_token[3:], target_tiles),
            labels=labels,
        )

    @property
    def recorded_shape(self) -> object:
        """What a recorded pass depends on, besides values."""
        return self.source.recorded_shape, self.target.recorded_shape


def assemble(groups: Sequence[Pairs], sizes: Sizes | None = None) -> Batch:
    """Return a batch with one length group for each entry; adds `<s>` and `</s>`.

    `sizes` maps the numbers of rows of both sides to those to which they are filled. Fillers are sentences of at most
    TILE tokens without a loss.
    """
    source_lengths, target_lengths = (_concatenated([pairs[side].lengths for pairs in groups]) + 1 for side in (0, 1))
    source_tokens, target_tokens = int(source_lengths.sum()), int(target_lengths.sum())
    rows = (source_tokens, target_tokens) if sizes is None else sizes(source_tokens, target_tokens)
    fillers = _filler_lengths(rows[0] - source_tokens, rows[1] - target_tokens)
    lengths = [np.concatenate(pair) for pair in zip((source_lengths, target_lengths), fillers, strict=True)]
    offsets = offsets_of(lengths[0]), offsets_of(lengths[1])
    ends = [side[1 : len(source_lengths) + 1] - 1 for side in offsets]  # of sentences that are not fillers

    source, labels = np.full(rows[0], EOS), np.full(rows[1], PAD)
    source[np.delete(np.arange(source_tokens), ends[0])] = _concatenated([pairs[0].ids for pairs in groups])
    labels[np.delete(np.arange(target_tokens), ends[1])] = _concatenated([pairs[1].ids for pairs in groups])
    labels[ends[1]] = EOS
    decoder_input = np.roll(labels, 1)
    decoder_input[offsets[1][:-1][lengths[1] > 0]] = BOS
    edges = _filled(tile_edges(*offsets), sum(rows))
    starts = np.cumsum([len(pairs[0]) for pairs in groups])  # the last one: the first filler
    group_starts = tuple(int(start) for start in starts if start < len(lengths[0]))
    source_rows = Rows.of_arrays(source, offsets[0], edges, group_starts)
    target_rows = Rows.of_arrays(decoder_input, offsets[1], edges, group_starts)
    return Batch(source_rows, target_rows, torch.from_numpy(labels.astype(np.int32)), source_tokens, target_tokens)


def tile_edges(source: Integers, target: Integers) -> list[int]:
    """Return the first sentence of each tile and the number of sentences B, for the offsets (B+1) of both sides.

    Two adjacent tiles together have more than TILE rows on a side, so there are at most `most_tiles` of them.
    """
    edges, first = [0], 0
    begin = (int(source[0]), int(target[0]))
    for number, (end_source, end_target) in enumerate(zip(source[1:].tolist(), target[1:].tolist(), strict=True)):
        if number > first and (end_source - begin[0] > TILE or end_target - begin[1] > TILE):
            first, begin = number, (int(source[number]), int(target[number]))
            edges.append(number)
    if len(source) > 1:
        edges.append(len(source) - 1)
    return edges


def most_tiles(rows: int) -> int:
    """Return the largest possible number of tiles, for the number of rows of both sides together."""
    return 2 * rows // TILE + 1


def _filled(edges: list[int], rows: int) -> Integers:
    """Repeat the last edge up to the number of tiles that so many rows may have."""
    return np.array(edges + edges[-1:] * (most_tiles(rows) + 1 - len(edges)))


def _copied(tensors: Sequence[Tensor], send: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    """Return copies of tensors; `send` copies all of them, one behind the other."""
    return torch.split(send(torch.cat(list(tensors))), [len(tensor) for tensor in tensors])


def _concatenated(arrays: Sequence[Integers]) -> Integers:
    """Return arrays one after the other, of which there may be none."""
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _filler_lengths(source: int, target: int) -> tuple[Integers, Integers]:
    """Return the lengths of filler sentences, of at most TILE tokens, with these numbers of rows on each side."""
    count = -(-max(source, target) // TILE)
    full = np.arange(count) * TILE
    return np.clip(source - full, 0, TILE), np.clip(target - full, 0, TILE)
