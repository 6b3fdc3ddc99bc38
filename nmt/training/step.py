"""One optimizer update: what a step of training does, from batches to changed weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import torch
from torch import Tensor, nn

from nmt.batching.batch import Batch, pad_to_multiple
from nmt.config import Recipe
from nmt.errors import ConfigError
from nmt.model.sharding import whole, whole_tensor
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.device import autocast, is_out_of_memory, release_cached_memory, seed_for
from nmt.training.averaging import MovingAverage
from nmt.training.compilation import compile_layers
from nmt.training.data_parallel import gradient_sync, sync_adjustments, wrap_distributed
from nmt.training.host_copy import Arriving
from nmt.training.loss import Smoothing
from nmt.training.objective import Objective
from nmt.training.oom import DoesNotFitError, cut, sentences_in, size_of
from nmt.training.optimizer import make_optimizer
from nmt.training.progress import Adjustments
from nmt.training.schedule import learning_rate


@dataclass(frozen=True)
class DispatchedUpdate:
    """An update that the device may still be at work on, and what is known of it before its figures are."""

    step: int
    source_tokens: int
    target_tokens: int
    padded_target_tokens: int
    rate: float
    adjustments: Adjustments
    """As it was given, or with a smaller `largest_batch`, if a batch did not fit."""
    figures: Arriving

    def settled(self) -> "Update":
        """Wait for the figures; return the update with them."""
        loss, likelihood, gradient_norm = self.figures.read()
        return Update(**vars(self), loss=loss, likelihood=likelihood, gradient_norm=gradient_norm)


@dataclass(frozen=True)
class Update(DispatchedUpdate):
    """What one step did. Losses are sums over target tokens, in nats."""

    loss: float
    likelihood: float
    gradient_norm: float

    @property
    def finite(self) -> bool:
        """Whether loss and gradient are numbers; if not, the step has changed nothing."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


_NO_ADJUSTMENTS = Adjustments()


def skips_on(device: torch.device) -> bool:
    """Tell whether the optimizer shall skip updates on a device itself, which then never waits for the processor."""
    return device.type == "cuda"


class Updater:
    """The model with its optimizer under the recipe's schedule, and the moving average of its weights if asked for."""

    def __init__(self, model: Transformer, recipe: Recipe, pad_id: int, device: torch.device) -> None:
        self.model = model.to(device)
        self.device = device
        self.recipe = recipe
        self.pad_id = pad_id
        self.average = None if recipe.train.ema is None else MovingAverage(self.model, recipe.train.ema)
        smoothing = Smoothing(recipe.train.label_smoothing, pad_id)
        self.objective = Objective(self.model, smoothing, recipe.train.r_drop)
        if recipe.runtime.compile:
            compile_layers(self.model, device)
        self.sharded = distributed.size() > 1 and recipe.runtime.parallel == "fsdp"
        self.wrap_distributed = wrap_distributed(self.objective, self.average, self.sharded, device)
        self.optimizer = make_optimizer(self.model, recipe.train, device)
        self.late = skips_on(device) and not self.sharded
        """Whether `launch` comes back before the device is through, so that figures are best read a step later."""

    def validated(self) -> Objective:
        """Return the objective with what is validated, in whole: the model, or the average of its weights."""
        model = whole(self.model if self.average is None else self.average.model)
        return self.objective if model is self.model else Objective(model, self.objective.smoothing)

    def update(self, batches: Sequence[Batch], step: int, adjustments: Adjustments = _NO_ADJUSTMENTS) -> Update:
        """Make update number `step` and wait for its figures; see `launch`."""
        return self.launch(batches, step, adjustments).settled()

    def launch(
        self, batches: Sequence[Batch], step: int, adjustments: Adjustments = _NO_ADJUSTMENTS
    ) -> DispatchedUpdate:
        """Make update number `step` (from 1) out of one or more batches, as if they were one.

        The gradient is that of the mean loss per target token over all batches: tokens are counted first, and each
        batch's summed loss is divided by the total. Dropout is a function of (seed, step, batch).

        If loss or gradient are not finite, nothing is changed. If a batch does not fit in the memory, it is cut, and
        the update begun anew. Raises ConfigError if a single pair does not fit.
        """
        self.objective.train()
        counts = [(batch.source_tokens, batch.target_tokens, batch.padded_target_tokens) for batch in batches]
        source_tokens, target_tokens, padded_target_tokens = distributed.all_reduce_sum(
            *map(sum, zip(*counts, strict=True))
        )
        losses, adjustments = self._gradient(batches, target_tokens, step, adjustments)
        adjustments = sync_adjustments(adjustments)
        norm = whole_tensor(self._clip())
        sums = distributed.all_reduce_sum_on_device(torch.stack(losses))
        figures = torch.cat([sums, norm.to(sums.dtype).unsqueeze(0)])
        launched = DispatchedUpdate(
            step=step,
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            padded_target_tokens=padded_target_tokens,
            rate=adjustments.rate * learning_rate(self.recipe.train, self.recipe.model.dim, step),
            adjustments=adjustments,
            figures=Arriving(figures),
        )
        self._change_weights(launched, figures)
        self.optimizer.zero_grad(set_to_none=True)
        return launched

    def _change_weights(self, launched: DispatchedUpdate, figures: Tensor) -> None:
        """Let the optimizer take its step, and the average follow, unless the figures are no numbers."""
        made = None
        if self.late:
            # the device decides, so that nobody has to wait for it
            loss, _, norm = figures.isfinite().unbind()
            made = (loss & norm).float()
            self.optimizer.found_inf = 1 - made  # type: ignore[attr-defined]
        elif not launched.settled().finite:
            return
        for group in self.optimizer.param_groups:
            group["lr"] = launched.rate
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model, launched.step, made)

    def _gradient(
        self, batches: Sequence[Batch], total: int, step: int, adjustments: Adjustments
    ) -> tuple[tuple[Tensor, Tensor], Adjustments]:
        """Fill in the gradient of all batches, cut as far as the memory demands; return their losses."""
        while True:
            try:
                return self._accumulate(batches, total, step, adjustments.largest_batch), adjustments
            except DoesNotFitError as failure:
                all_reduce_max = failure.next_try
            # what has been summed up goes too, for part of it is of the batch that failed
            self.optimizer.zero_grad(set_to_none=True)
            release_cached_memory(self.device)
            adjustments = replace(adjustments, largest_batch=all_reduce_max)

    def _accumulate(
        self, batches: Sequence[Batch], total: int, step: int, all_reduce_max: int | None
    ) -> tuple[Tensor, Tensor]:
        """Add up the gradient of all batches; return the sums of their losses and negative log-likelihoods.

        Raises DoesNotFitError if a part does not fit.
        """
        loss = torch.zeros((), device=self.device)
        likelihood = torch.zeros((), device=self.device)
        cut_batches = [cut(batch, None if self.sharded else all_reduce_max, self.pad_id) for batch in batches]
        left = sum(map(len, cut_batches))
        for number, parts in zip(count(distributed.rank(), distributed.size()), cut_batches, strict=False):
            for index, part in enumerate(parts):
                place = (number, index) if len(parts) > 1 else (number,)
                torch.manual_seed(seed_for("dropout", self.recipe.seed, step, *place))
                left -= 1
                part_loss, part_likelihood = self._learn(part, total, last=left == 0)
                loss += part_loss
                likelihood += part_likelihood
        return loss, likelihood

    def _learn(self, part: Batch, total: int, last: bool) -> tuple[Tensor, Tensor]:
        """Add a part's share of the gradient; return its loss and negative log-likelihood."""
        others_wait = self.sharded
        try:
            with gradient_sync(self.wrap_distributed, now=last):
                loss, likelihood = self.loss(part.to(self.device))
                others_wait = others_wait or (last and distributed.size() > 1)
                # the exchange makes means of gradients, where we want their sum
                (loss / (total / distributed.size())).backward()  # type: ignore[no-untyped-call]
            return loss.detach(), likelihood
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # outside the handler, where the failure's traceback no longer keeps the activations alive
        if others_wait:
            raise ConfigError(
                f"train.batch_tokens: a batch does not fit in the memory of {self.device}, which showed while gradients"
                " were exchanged, when it is too late to cut it; lower batch_tokens, or raise train.accumulate"
            )
        if sentences_in(part) == 1:
            raise ConfigError(
                f"a single pair of {size_of(part):,} tokens, source and target, does not fit in the memory of "
                f"{self.device}: lower data.filters.max_tokens, or make the model smaller"
            )
        raise DoesNotFitError(size_of(part))

    def loss(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a batch's summed smoothed loss and summed negative log-likelihood."""
        if self.device.type == "cpu":
            batch = pad_to_multiple(batch, self.model.longest)
        with autocast(self.recipe.runtime, self.device):
            losses: tuple[torch.Tensor, torch.Tensor] = self.wrap_distributed(batch)
            return losses

    def _clip(self) -> Tensor:
        """Shorten the gradient to `clip_norm`; return its length before."""
        limit = self.recipe.train.clip_norm
        return nn.utils.clip_grad_norm_(self.model.parameters(), limit or float("inf"))
