"""Updates of a tiny model on a few sentence pairs of token ids."""

import torch
from torch import Tensor

from nmt.batching.batch import Batch
from nmt.config import Recipe
from nmt.model.transformer import Transformer
from nmt.training.step import Updater

VOCABULARY = 12
CPU = torch.device("cpu")
PAIRS = [
    ([4, 5, 6], [7, 8]),
    ([9], [10, 11, 4, 5, 6]),
    ([4, 4, 5, 7, 8], [5]),
    ([6, 7], [8, 9, 10]),
    ([8, 8, 8, 8], [9, 9, 9, 9]),
]


def make_updater(recipe: Recipe, double: bool = False) -> Updater:
    """Return an updater with a new model, always with the same weights."""
    torch.manual_seed(1)
    model = Transformer(recipe.model, VOCABULARY, VOCABULARY)
    return Updater(model.double() if double else model, recipe, CPU)


def weights(updater: Updater) -> dict[str, Tensor]:
    """Return a copy of the weights."""
    return {name: parameter.detach().clone() for name, parameter in updater.model.named_parameters()}


def difference(a: Updater, b: Updater) -> float:
    """Return the largest absolute difference of any weight."""
    theirs = weights(b)
    return max((tensor - theirs[name]).abs().max().item() for name, tensor in weights(a).items())


def all_tensors(updater: Updater) -> list[Tensor]:
    """Return a copy of the weights and the moments."""
    moments = [tensor for state in updater.optimizer.state.values() for tensor in state.values()]
    return [tensor.detach().clone() for tensor in (*updater.model.parameters(), *moments)]


def same_tensors(a: Updater, b: Updater) -> bool:
    """Return whether weights and moments are equal bit for bit."""
    return all(torch.equal(ours, theirs) for ours, theirs in zip(all_tensors(a), all_tensors(b), strict=True))


def spoil(updater: Updater, value: float, where: str) -> None:
    """Make the loss or a gradient of all further updates not finite."""
    if where == "loss":
        plain = updater.objective.forward

        def spoiled(batch: Batch) -> tuple[Tensor, Tensor]:
            loss, likelihood = plain(batch)
            return loss + value, likelihood

        updater.objective.forward = spoiled  # type: ignore[method-assign]
    else:
        updater.model.encoder_norm.weight.register_hook(lambda gradient: gradient * value)


def unspoil(updater: Updater) -> None:
    """Undo `spoil`."""
    vars(updater.objective).pop("forward", None)
    (updater.model.encoder_norm.weight._backward_hooks or {}).clear()
