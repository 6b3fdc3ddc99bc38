"""One optimizer update: what a step of training does, from batches to changed weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from nmt.batching.batch import Batch
from nmt.config import Recipe
from nmt.learning.loss import Smoothing
from nmt.learning.objective import Objective
from nmt.learning.schedule import learning_rate
from nmt.model.transformer import Transformer
from nmt.runtime import autocast, seed_for


@dataclass(frozen=True)
class Update:
    """What one step did. Losses are sums over target tokens, in nats."""

    loss: float
    likelihood: float
    source_tokens: int
    target_tokens: int
    padded_target_tokens: int
    gradient_norm: float
    rate: float


class Updater:
    """The model with its optimizer: Adam (Kingma & Ba 2015) under the recipe's schedule."""

    def __init__(self, model: Transformer, recipe: Recipe, pad_id: int, device: torch.device) -> None:
        self.model = model.to(device)
        self.device = device
        self.recipe = recipe
        self.objective = Objective(self.model, Smoothing(recipe.train.label_smoothing, pad_id))
        settings = recipe.train
        fused = device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=0.0, betas=settings.adam_betas, eps=settings.adam_epsilon, fused=fused
        )

    def update(self, batches: Sequence[Batch], step: int) -> Update:
        """Make update number `step` (from 1) out of one or more batches, as if they were one.

        The gradient is that of the mean loss per target token over all batches: tokens are counted first, and each
        batch's summed loss is divided by the total. Dropout is a function of (seed, step, batch).
        """
        rate = learning_rate(self.recipe.train, self.recipe.model.dim, step)
        total = sum(batch.target_tokens for batch in batches)
        loss = torch.zeros((), device=self.device)
        likelihood = torch.zeros((), device=self.device)
        self.model.train()
        for number, batch in enumerate(batches):
            torch.manual_seed(seed_for("dropout", self.recipe.seed, step, number))
            batch_loss, batch_likelihood = self.loss(batch.to(self.device))
            (batch_loss / total).backward()  # type: ignore[no-untyped-call]
            loss += batch_loss.detach()
            likelihood += batch_likelihood
        norm = self._clip()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return Update(
            loss=loss.item(),
            likelihood=likelihood.item(),
            source_tokens=sum(batch.source_tokens for batch in batches),
            target_tokens=total,
            padded_target_tokens=sum(batch.padded_target_tokens for batch in batches),
            gradient_norm=norm,
            rate=rate,
        )

    def loss(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a batch's summed smoothed loss and summed negative log-likelihood."""
        with autocast(self.recipe.runtime, self.device):
            losses: tuple[torch.Tensor, torch.Tensor] = self.objective(batch)
            return losses

    def _clip(self) -> float:
        """Shorten the gradient to `clip_norm`; return its length before."""
        limit = self.recipe.train.clip_norm
        return nn.utils.clip_grad_norm_(self.model.parameters(), limit or float("inf")).item()
