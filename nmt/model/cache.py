"""The decoder's KV cache: keys and values of the source and of the tokens generated so far.

Each token has a cell in each layer, which is never moved: when a search drops hypotheses or continues one more than
once, it changes the table of ancestors (`nmt.kernels.reference.Places`), and copies no keys and values.

B sentences, K hypotheses of each, S positions of the source, P of the target, D width, V vocabulary; M source rows of
sentences that are loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.config import ModelSettings
from nmt.kernels.reference import Places


@dataclass
class DecoderCache:
    """The cache of a search, in which new sentences replace finished ones."""

    source: list[Tensor]  # of each layer (S, B, 1, 2D), a key and a value side by side
    target: list[Tensor]  # of each layer (P, B, K, 2D)
    places: Places  # the cells of `target` that each hypothesis attends to
    source_places: Places  # the cells of `source`
    positions: Tensor  # (N) of the newest token of each hypothesis

    @classmethod
    def empty(cls, like: Tensor, layers: int, source: int, places: Places) -> "DecoderCache":
        """Return a cache for sources of up to S tokens; `like` is the keys and values (M, 2D) of one of its layers."""
        assert places.ancestors is not None
        count, beam, target = places.ancestors.shape
        width = like.size(1)
        sources = [like.new_empty(count, source, 1, width).transpose(0, 1) for _ in range(layers)]
        targets = [like.new_empty(target, count, beam, width) for _ in range(layers)]
        # a slot without a sentence has length 1, so its first cell is read
        for cells in sources:
            cells[0] = 0
        lengths = torch.ones_like(places.lengths)
        source_places = replace(places, lengths=lengths, ancestors=None, longest=source)
        return cls(sources, targets, places, source_places, places.lengths[:0])

    def load(self, slots: Tensor, rows: Rows, lengths: Tensor, keys_values: Sequence[Tensor]) -> None:
        """Put sentences of these lengths into slots, both (B'), with the keys and values (M, 2D) of each layer."""
        cell_indices = slots[rows.sentences] * self.source_places.longest + rows.positions
        for cells, layer_keys_values in zip(self.source, keys_values, strict=True):
            cells.transpose(0, 1).view(-1, cells.size(3)).index_copy_(0, cell_indices, layer_keys_values)
        self.source_places.lengths.index_copy_(0, slots, lengths)


def cache_numbers(settings: ModelSettings, source: int, target: int, beam: int) -> int:
    """Return how many numbers the cache of a sentence of S and P tokens has: 2 L D (S + K P).

    Each decoder layer has a key and a value of width D for every source token, once, and for every target token of each
    hypothesis.
    """
    return 2 * settings.decoder_layers * settings.dim * (source + beam * target)


def bytes_to_decode(settings: ModelSettings, vocabulary: int, source: int, target: int, beam: int) -> int:
    """Return the most bytes that a line takes in a beam search in fp32, besides the weights: cache and V logits."""
    return 4 * (cache_numbers(settings, source, target, beam) + beam * vocabulary)
