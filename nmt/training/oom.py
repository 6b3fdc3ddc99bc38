"""Batches that do not fit into memory: cut them into parts that are processed in turn."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from nmt.batching.batch import Batch, Group
from nmt.errors import ConfigError
from nmt.system.device import is_out_of_memory
from nmt.text.tokenizer import PAD


class DoesNotFitError(Exception):
    """A batch, or a part of one, of `size` padded tokens needs more memory than there is."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} padded tokens do not fit into memory")
        self.size = size

    @property
    def next_size(self) -> int:
        """The largest batch from now on.

        Less than the size that failed, since batches almost as large would fail too; more than half of it, since half
        is the size of the parts.
        """
        return max(1, self.size * 3 // 4)


def size_of(batch: Batch) -> int:
    """Return the number of source and target tokens, padding included."""
    return sum(group.source.numel() + group.target_out.numel() for group in batch.groups)


def sentences_in(batch: Batch) -> int:
    """Return the number of sentence pairs in all groups."""
    return sum(group.source.size(0) for group in batch.groups)


def cut(batch: Batch, largest: int | None) -> list[Batch]:
    """Halve a batch recursively until each part holds at most `largest` tokens or a single pair; None cuts nothing.

    The parts hold the same pairs in the same groups, so their gradients add up to that of the batch.
    """
    if largest is None or size_of(batch) <= largest or sentences_in(batch) == 1:
        return [batch]
    first: list[Group] = []
    second: list[Group] = []
    for number, group in enumerate(batch.groups):
        sentences = group.source.size(0)
        # the larger half of an odd number goes to alternating sides, so that neither side is empty
        middle = (sentences + number % 2) // 2
        first += [_rows(group, slice(middle))] if middle else []
        second += [_rows(group, slice(middle, None))] if middle < sentences else []
    return [part for half in (first, second) for part in cut(_batch(half), largest)]


def _rows(group: Group, rows: slice) -> Group:
    """Return some of a group's sentences, padded as before."""
    mask = None if group.source_mask is None else group.source_mask[rows]
    return Group(group.source[rows], group.target_in[rows], group.target_out[rows], mask)


def _batch(groups: list[Group]) -> Batch:
    source_tokens = sum(_count(group.source, group.source_mask) for group in groups)
    target_tokens = sum(_count(group.target_out, group.target_out != PAD) for group in groups)
    return Batch(tuple(groups), source_tokens, target_tokens)


def _count(ids: Tensor, mask: Tensor | None) -> int:
    return ids.numel() if mask is None else int(mask.sum())


@contextlib.contextmanager
def memory_explained(device: torch.device) -> Iterator[None]:
    """Turn an out-of-memory error that cutting batches cannot solve into a ConfigError."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ConfigError(
            f"the memory of {device} is full, and not because of a training batch: make the model smaller, "
            "lower decode.batch_tokens, or free memory that other programs use"
        ) from None
