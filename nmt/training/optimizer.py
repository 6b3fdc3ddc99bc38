"""Adam, its learning rate, and its moments on disk."""

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt.config import TrainSettings
from nmt.model.checkpoint import read_tensors

BETAS, EPSILON = (0.9, 0.98), 1e-9  # of Adam, as in Vaswani et al. 2017
_MOMENTS = ("exp_avg", "exp_avg_sq")


def learning_rate(settings: TrainSettings, dim: int, step: int) -> float:
    """Return the rate of step 1, 2, 3 …, a function of the step alone; formulas are in `nmt.config.model_sections`."""
    schedule = settings.schedule
    warmup = max(1, schedule.warmup)
    if schedule.name == "noam":
        return schedule.factor / math.sqrt(dim) * min(1 / math.sqrt(step), step / math.sqrt(warmup) ** 3)
    if step < warmup:
        return schedule.rate * step / warmup
    if schedule.name == "constant":
        return schedule.rate
    if schedule.name == "inverse_sqrt":
        return schedule.rate * math.sqrt(warmup / step)
    steps, begin = settings.stop.steps, float(warmup)
    assert steps is not None, "checked when the recipe is loaded"
    if schedule.name == "wsd":
        begin = max(begin, steps - schedule.decay * steps)
    decayed = min(1.0, max(0.0, (step - begin) / max(1.0, steps - begin)))  # from 0 where the decay begins to 1
    if schedule.name == "cosine":
        decayed = (1 - math.cos(math.pi * decayed)) / 2
    return schedule.rate * (1 - (1 - schedule.floor) * decayed)


def make_optimizer(model: nn.Module, device: torch.device) -> torch.optim.Adam:
    """Return Adam (Kingma & Ba 2015) over all weights that are not frozen; each update sets its learning rate."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.optim.Adam(trained, lr=0.0, betas=BETAS, eps=EPSILON, fused=device.type in ("cpu", "cuda"))


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return Adam's moments by weight name on the CPU; empty before the first step."""
    return {
        f"{moment}/{name}": optimizer.state[parameter][moment].detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for moment in _MOMENTS
        if parameter in optimizer.state
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, file: Path, step: int) -> None:
    """Load Adam's moments from a file of `optimizer_tensors` that was written after `step` applied updates."""
    optimizer.state.clear()  # a file without moments leaves none
    tensors = read_tensors(file)
    if not tensors:
        return
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            state = optimizer.state[parameter]
            state["step"] = torch.tensor(float(step), dtype=torch.float32, device=parameter.device)
            for moment in _MOMENTS:
                state[moment] = tensors[f"{moment}/{name}"].to(parameter.device)
