"""Batches that do not fit into memory: cut them into parts that are processed in turn.

B sentences, S source length, T target length.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from nmt.batching.batch import Batch, Group
from nmt.errors import ConfigError
from nmt.system.device import is_out_of_memory


class DoesNotFitError(Exception):
    """A batch, or a part of one, needs more memory than there is; `size` is how large it was."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} padded tokens do not fit in the memory")
        self.size = size

    @property
    def next_try(self) -> int:
        """Return what to let a batch hold from now on.

        Less than just failed, since batches almost as large would fail too; but more than half of it, since half is
        what its parts hold.
        """
        return max(1, self.size * 3 // 4)


def size_of(batch: Batch) -> int:
    """Return the tokens that a batch makes a model hold: source and target, padding included."""
    return sum(group.source.numel() + group.target_out.numel() for group in batch.groups)


def sentences_in(batch: Batch) -> int:
    """Return how many pairs there are in all groups."""
    return sum(group.source.size(0) for group in batch.groups)


def cut(batch: Batch, all_reduce_max: int | None, pad_id: int) -> list[Batch]:
    """Halve a batch, and its halves, until each part holds at most `all_reduce_max` tokens or a single pair.

    None cuts nothing. The parts hold the same pairs, in the same groups, so their gradients add up to the batch's.
    """
    if all_reduce_max is None or size_of(batch) <= all_reduce_max or sentences_in(batch) == 1:
        return [batch]
    first: list[Group] = []
    second: list[Group] = []
    for number, group in enumerate(batch.groups):
        sentences = group.source.size(0)
        # of groups with an odd number, now this half gets the larger part, now that, so that neither half is empty
        middle = (sentences + number % 2) // 2
        first += [_rows(group, slice(middle))] if middle else []
        second += [_rows(group, slice(middle, None))] if middle < sentences else []
    halves = (_batch(first, pad_id), _batch(second, pad_id))
    return [part for half in halves for part in cut(half, all_reduce_max, pad_id)]


def _rows(group: Group, rows: slice) -> Group:
    """Return some of a group's sentences, padded as they were."""
    mask = None if group.source_mask is None else group.source_mask[rows]
    return Group(group.source[rows], group.target_in[rows], group.target_out[rows], mask)


def _batch(groups: list[Group], pad_id: int) -> Batch:
    source_tokens = sum(_count(group.source, group.source_mask) for group in groups)
    target_tokens = sum(_count(group.target_out, group.target_out != pad_id) for group in groups)
    return Batch(tuple(groups), source_tokens, target_tokens)


def _count(ids: Tensor, mask: Tensor | None) -> int:
    return ids.numel() if mask is None else int(mask.sum())


@contextlib.contextmanager
def memory_explained(device: torch.device) -> Iterator[None]:
    """Turn a failure that no cutting of batches helps into a ConfigError."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ConfigError(
            f"the memory of {device} is full, and not because of a training batch: make the model smaller, "
            "lower decode.batch_tokens, or free memory that others use"
        ) from None
