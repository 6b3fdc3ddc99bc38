"""One optimizer update: from batches to changed weights, on one device or on all ranks together."""

import gc
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from nmt.batching.batch import Batch
from nmt.config import Recipe
from nmt.errors import is_oom
from nmt.kernels.device import kernels_for, precision_for, release_cached_blocks
from nmt.kernels.machine import seed_for
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.training.optimizer import FlatWeights, learning_rate, make_optimizer

Result = TypeVar("Result")


class Update(NamedTuple):
    """An update that the device may still be computing."""

    step: int
    rate: float
    fetched: Callable[[], list[Tensor]]  # waits for the device, and returns the results as one tensor

    def results(self) -> list[float]:
        """Wait for the device, but not for work that is dispatched later, and return the results.

        They are loss and negative log-likelihood, both sums over target tokens in nats, and the gradient norm before
        clipping. If the loss or the norm is not finite, the update has changed nothing.
        """
        return [float(number) for number in self.fetched()[0].tolist()]


class Updater:
    """Model and optimizer; with several ranks, each has the same weights."""

    def __init__(self, model: Transformer, recipe: Recipe, device: torch.device) -> None:
        self.recipe, self.device = recipe, device
        self.model = model.to(device)
        precision = precision_for(recipe.runtime, device, recipe.model.dim)
        self.kernels = kernels_for(device, precision, target_rows=-(-recipe.train.budget // distributed.world_size()))
        self.model.compute_with(self.kernels)
        self.weights = FlatWeights(self.model)
        self.optimizer = make_optimizer(self.weights, self.kernels, recipe.train)
        self.last_step: float = recipe.train.stop.steps or math.inf  # of the training, where its schedule ends
        self._sums = torch.zeros(2, device=device)  # of losses and negative log-likelihoods
        # other scores, and dropout of attention weights, are computed on padded tensors, whose shapes vary
        may_record = self.model.attends_by_kernels and not recipe.model.attention_dropout
        self._recorded_pass = self.kernels.recorded(self.backward_pass, "an update", may_record)

    def update(self, batches: Sequence[Batch], step: int, target_tokens: int) -> Update:
        """Make update number `step` (from 1) with one or more batches, as if they were a single batch.

        The gradient is that of the mean loss per target token of all batches on all ranks: gradients are sums, divided
        once by their total of `target_tokens`. Dropout is a function of (seed, step, batch).
        """
        self.model.train()
        self.kernels.round_weights(self.weights.all)
        self.with_released_memory(lambda: self._sum_gradients(batches, step))
        sums = self._sums
        if distributed.world_size() > 1:
            distributed.all_reduce(self.weights.gradient)
            sums = distributed.all_reduce(sums.double())
        norm = self.weights.gradient_norm() / target_tokens
        rate = learning_rate(self.recipe.train.schedule, self.recipe.model.dim, step, self.last_step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        clip_norm, scale = self.recipe.train.clip_norm, torch.full_like(norm, target_tokens)
        if clip_norm is not None:
            scale *= (norm / clip_norm).clamp(min=1)
        self.kernels.step(self.optimizer, scale, sums[0].isfinite() & norm.isfinite())
        return Update(step, rate, self.kernels.fetch(torch.cat([sums, norm.to(sums.dtype).unsqueeze(0)])))

    def with_released_memory(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function; if the memory is full, release recorded updates and call it again.

        The trial of the largest batches does not include the memory of recorded updates.
        """
        try:
            return function()
        except RuntimeError as error:
            if not (is_oom(error) and self.kernels.release_memory()):
                raise
        # outside the handler, where the traceback no longer holds the tensors of the failed computation
        gc.collect()  # searches of a validation are in reference cycles
        release_cached_blocks(self.device)
        return function()

    def _sum_gradients(self, batches: Sequence[Batch], step: int) -> None:
        """Set gradients and sums to those of all batches."""
        self.weights.gradient.zero_()
        self._sums.zero_()
        for index, batch in enumerate(batches):
            number = distributed.rank() + index * distributed.world_size()
            self.kernels.seed(seed_for("dropout", self.recipe.seed, step, number))
            self._recorded_pass(batch)

    def backward_pass(self, batch: Batch) -> None:
        """Compute loss and gradient of a batch: add them, and the nll, to the sums of the update."""
        loss, nll = self.model.loss(batch, self.recipe.train.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        self._sums += torch.stack((loss.detach(), nll))
