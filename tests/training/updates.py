"""Updates of a tiny model on a few sentence pairs of token ids."""

import pytest
import torch
from torch import Tensor

from nmt.batching.batch import Batch
from nmt.config import Recipe
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.training.optimizer import optimizer_tensors
from nmt.training.update import Update, Updater
from tests.builders import batch_of

VOCABULARY = 12
CPU = torch.device("cpu")
PAIRS = [
    ([4, 5, 6], [7, 8]),
    ([9], [10, 11, 4, 5, 6]),
    ([4, 4, 5, 7, 8], [5]),
    ([6, 7], [8, 9, 10]),
    ([8, 8, 8, 8], [9, 9, 9, 9]),
]
ALL = batch_of(PAIRS)


def make_updater(recipe: Recipe, double: bool = False) -> Updater:
    """Return an updater with a new model, always with the same weights."""
    torch.manual_seed(1)
    model = Transformer(recipe.model, VOCABULARY, VOCABULARY)
    return Updater(model.double() if double else model, recipe, CPU)


def update(updater: Updater, step: int, *batches: Batch) -> Update:
    """Make an update on the batches, by default one with all pairs."""
    chosen = batches or (ALL,)
    return updater.update(chosen, step, sum(batch.target_tokens for batch in chosen))


def pretend_to_be_one_of_two_ranks(monkeypatch: pytest.MonkeyPatch, rank: int = 0) -> None:
    """Make every collective return what it does if both ranks have the numbers of this one; sums are its own."""
    monkeypatch.setattr(distributed, "rank", lambda: rank)
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "exchange", lambda *numbers: [numbers, numbers])
    monkeypatch.setattr(distributed, "all_reduce", lambda numbers: numbers)


def state(updater: Updater) -> list[Tensor]:
    """Return a copy of the weights and the moments."""
    tensors = [*updater.model.parameters(), *optimizer_tensors(updater.optimizer, updater.weights).values()]
    return [tensor.detach().clone() for tensor in tensors]


def same(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    """Return whether tensors are equal bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def difference(a: Updater, b: Updater) -> float:
    """Return the largest absolute difference of any weight."""
    pairs = zip(a.model.parameters(), b.model.parameters(), strict=True)
    return max((ours - theirs).abs().max().item() for ours, theirs in pairs)
