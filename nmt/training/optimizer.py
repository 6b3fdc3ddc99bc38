"""What is optimized, and how: initial and frozen weights, Adam and its learning rate, and its moments on disk."""

import math
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt.config import Recipe, TrainSettings
from nmt.config.model_sections import Schedule
from nmt.config.section import SettingError
from nmt.kernels.machine import seed_for
from nmt.kernels.reference import Kernels
from nmt.model.checkpoint import load_weights, read_tensors
from nmt.model.stored import WEIGHTS_FILE
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import Tokenizers

_MOMENTS = ("exp_avg", "exp_avg_sq")
_ALIGNMENT = 256  # weights begin at multiples of so many numbers, as kernels require


def learning_rate(schedule: Schedule, dim: int, step: int, last_step: float) -> float:
    """Return the rate of step 1, 2, 3 …; formulas are in `nmt.config.model_sections`.

    It depends on nothing but the step and the last one, where the schedule ends: infinity while that is not known.
    """
    warmup = max(1, schedule.warmup)
    if schedule.name == "noam":
        return schedule.factor / math.sqrt(dim) * min(1 / math.sqrt(step), step / math.sqrt(warmup) ** 3)
    if step < warmup:
        return schedule.rate * step / warmup
    if schedule.name == "inverse_sqrt":
        return schedule.rate * math.sqrt(warmup / step)
    if schedule.name == "constant" or math.isinf(last_step):
        return schedule.rate
    # the others fall to the floor: linear and cosine after the warm-up, wsd in the last part of the training
    begin = max(warmup, (1 - schedule.decay) * last_step) if schedule.name == "wsd" else warmup
    fallen = min(1.0, max(0.0, (step - begin) / max(1.0, last_step - begin)))
    if schedule.name == "cosine":
        fallen = (1 - math.cos(math.pi * fallen)) / 2
    return schedule.rate * (1 - (1 - schedule.floor) * fallen)


class FlatWeights:
    """The trained weights of a model in one tensor, and their gradients in another; each weight is a view of them.

    So the norm, the sum over ranks and the optimizer are a few operations, whatever the number of weights.
    """

    def __init__(self, model: nn.Module) -> None:
        """Move the weights that are not frozen; the model must be on its device."""
        self._named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        sizes = [-(-weight.numel() // _ALIGNMENT) * _ALIGNMENT for _, weight in self._named]
        first = self._named[0][1]
        self.all = nn.Parameter(torch.zeros(sum(sizes), dtype=first.dtype, device=first.device))
        self._starts = [0, *accumulate(sizes[:-1])]
        self.gradient = self.all.grad = torch.zeros_like(self.all)
        views = self.views(self.all.detach()).values(), self.views(self.gradient).values()
        for (_, weight), view, gradient in zip(self._named, *views, strict=True):
            view.copy_(weight.detach())
            weight.data, weight.grad = view, gradient

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the view of each weight, by name and in its shape, of a tensor with the layout of all weights."""
        return {
            name: flat[start : start + weight.numel()].view(weight.shape)
            for (name, weight), start in zip(self._named, self._starts, strict=True)
        }

    def gradient_norm(self) -> Tensor:
        """Return the Euclidean norm of the gradient; in two steps, since a long sum of fp32 numbers is not precise."""
        norm: Tensor = torch.linalg.vector_norm(torch.linalg.vector_norm(self.gradient.view(-1, _ALIGNMENT), dim=1))
        return norm


def make_optimizer(weights: FlatWeights, kernels: Kernels, settings: TrainSettings) -> torch.optim.Adam:
    """Return Adam (Kingma & Ba 2015) over all weights that are not frozen; each update sets its learning rate."""
    betas = settings.adam_beta1, settings.adam_beta2
    return torch.optim.Adam([weights.all], lr=0.0, betas=betas, eps=settings.adam_epsilon, fused=kernels.fuses_step)


def optimizer_tensors(optimizer: torch.optim.Optimizer, weights: FlatWeights) -> dict[str, Tensor]:
    """Return Adam's moments by weight name on the CPU; empty before the first step."""
    state = optimizer.state[weights.all]
    return {
        f"{moment}/{name}": view.cpu().contiguous()
        for moment in _MOMENTS
        if moment in state
        for name, view in weights.views(state[moment]).items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, weights: FlatWeights, file: Path, step: int) -> None:
    """Load Adam's moments from a file of `optimizer_tensors` that was written after `step` applied updates."""
    optimizer.state.clear()  # no moments remain if the file has none
    tensors = read_tensors(file)
    if not tensors:
        return
    state = optimizer.state[weights.all]
    state["step"] = torch.tensor(float(step), dtype=torch.float32, device=weights.all.device)
    for moment in _MOMENTS:
        state[moment] = torch.zeros_like(weights.all)
        for name, view in weights.views(state[moment]).items():
            view.copy_(tensors[f"{moment}/{name}"])


def initial_model(recipe: Recipe, tokenizers: Tokenizers, pretrained: bool = True) -> Transformer:
    """Return the model that a training starts with; `pretrained` loads the weights of `train.init_from`, if it is set.

    Raises ModelError for weights that are damaged or have other shapes, SettingError as `freeze` does.
    """
    vocabularies = len(tokenizers.source), len(tokenizers.target)
    initial = recipe.train.init_from if pretrained else None
    torch.manual_seed(seed_for("weights", recipe.seed))
    model = Transformer(recipe.model, *vocabularies)
    if initial is not None:
        load_weights(model, initial / WEIGHTS_FILE)
    freeze(model, recipe.train.freeze)
    return model


def check_freeze(recipe: Recipe) -> None:
    """Raise SettingError as `freeze` does, without allocating the model: names do not depend on the vocabulary."""
    if recipe.train.freeze:  # the first tensor on the device "meta" takes a second
        with torch.device("meta"):
            freeze(Transformer(recipe.model, 32, 32), recipe.train.freeze)


def freeze(model: nn.Module, patterns: tuple[str, ...]) -> None:
    """Exclude the weights whose names match a pattern from training; a tied matrix matches by each of its names.

    The norm after the last layer of a stack belongs to it: `encoder_norm.weight` also matches as `encoder.norm.weight`.
    Raises SettingError for a pattern without a match, and if every weight is frozen.
    """
    named = model.named_parameters(remove_duplicate=False)
    weights = {(name, name.replace("coder_norm.", "coder.norm.")): weight for name, weight in named}
    for pattern in patterns:
        matching = [weight for names, weight in weights.items() if any(fnmatchcase(name, pattern) for name in names)]
        if not matching:
            starts = ", ".join(sorted({name.split(".")[0] for name, _ in weights}))
            message = f"no weight matches '{pattern}'; names begin with {starts}; * matches anything, as in encoder.*"
            raise SettingError("train.freeze", message)
        for weight in matching:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise SettingError("train.freeze", f"{', '.join(patterns)} match every weight, so there is nothing to train")
