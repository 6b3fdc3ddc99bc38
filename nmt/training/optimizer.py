"""Adam with decoupled weight decay, and its moments under the names of their weights."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import TrainSettings
from nmt.model.checkpoint import read_tensors
from nmt.model.positions import Positions
from nmt.model.sharding import laid_out_like, whole_tensor

_MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(model: nn.Module, settings: TrainSettings, device: torch.device) -> torch.optim.AdamW:
    """Return Adam (Kingma & Ba 2015) over all weights that learn; the update sets its learning rate.

    Weight decay is decoupled: each step a matrix shrinks by rate · weight_decay of itself, whatever its gradient
    (Loshchilov & Hutter 2019). Norms, biases and learned positions, to which zero means something, do not shrink.
    """
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    decaying = {weight for weight in learning if weight.ndim > 1}
    decaying -= {
        vectors for module in model.modules() if isinstance(module, Positions) for vectors in module.parameters()
    }
    groups: list[dict[str, Any]] = [
        {"params": [weight for weight in learning if weight in decaying]},
        {"params": [weight for weight in learning if weight not in decaying], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=0.0,
        betas=settings.adam_betas,
        eps=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
        fused=device.type in ("cpu", "cuda"),
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return Adam's moments by weight name on the CPU; empty before the first step."""
    return {
        f"{moment}/{name}": whole_tensor(optimizer.state[parameter][moment]).detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for moment in _MOMENTS
        if parameter in optimizer.state
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, file: Path, step: int) -> None:
    """Fill Adam's moments from a file that `optimizer_tensors` filled after `step` steps."""
    tensors = read_tensors(file)
    if not tensors:
        return
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            state = optimizer.state[parameter]
            state["step"] = torch.tensor(float(step), dtype=torch.float32, device=parameter.device)
            for moment in _MOMENTS:
                state[moment] = laid_out_like(parameter, tensors[f"{moment}/{name}"])
