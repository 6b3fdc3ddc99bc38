"""One optimizer update: from batches to changed weights."""

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
from nmt.training.data_parallel import gradient_sync, sync_adjustments, wrap_distributed
from nmt.training.initialization import compile_layers
from nmt.training.loss import Objective
from nmt.training.oom import DoesNotFitError, cut, sentences_in, size_of
from nmt.training.optimizer import MovingAverage, learning_rate, make_optimizer
from nmt.training.progress import Adjustments


class HostCopy:
    """An asynchronous copy of scalars from a device to the host."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers.to("cpu", non_blocking=numbers.is_cuda)  # from a GPU into pinned memory
        self._copied = torch.cuda.Event() if numbers.is_cuda else None  # type: ignore[no-untyped-call]
        if self._copied is not None:
            self._copied.record()

    def read(self) -> list[float]:
        """Wait for the copy, but not for work that the device was given after it; return the numbers."""
        if self._copied is not None:
            self._copied.synchronize()
        return list(map(float, self._numbers.tolist()))


@dataclass(frozen=True)
class DispatchedUpdate:
    """An update that the device may still be computing, with all that the host has counted."""

    step: int
    source_tokens: int
    target_tokens: int
    padded_target_tokens: int
    rate: float
    adjustments: Adjustments
    """As passed to `dispatch`, or with a smaller `largest_batch` if a batch did not fit into memory."""
    results: HostCopy
    """Loss, negative log-likelihood and gradient norm."""

    def synchronized(self) -> "Update":
        """Wait for the device; return the update with its results."""
        loss, likelihood, gradient_norm = self.results.read()
        return Update(**vars(self), loss=loss, likelihood=likelihood, gradient_norm=gradient_norm)


@dataclass(frozen=True)
class Update(DispatchedUpdate):
    """A finished update. Loss and (negative log-)likelihood are sums over target tokens, in nats."""

    loss: float
    likelihood: float
    gradient_norm: float

    @property
    def finite(self) -> bool:
        """Whether loss and gradient are finite; if not, the update has changed nothing."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


_NO_ADJUSTMENTS = Adjustments()


def skips_on_device(device: torch.device) -> bool:
    """Return whether the optimizer itself skips non-finite updates, so that the host never waits for the device."""
    return device.type == "cuda"


class Updater:
    """Model, objective, optimizer and, with `train.ema`, the moving average of the weights."""

    def __init__(self, model: Transformer, recipe: Recipe, device: torch.device) -> None:
        self.model = model.to(device)
        self.device = device
        self.recipe = recipe
        self.average = None if recipe.train.ema is None else MovingAverage(self.model, recipe.train.ema)
        self.objective = Objective(self.model, recipe.train.label_smoothing, recipe.train.r_drop)
        if recipe.runtime.compile:
            compile_layers(self.model, device)
        self.sharded = distributed.world_size() > 1 and recipe.runtime.parallel == "fsdp"
        self.distributed_objective = wrap_distributed(self.objective, self.average, self.sharded, device)
        self.optimizer = make_optimizer(self.model, recipe.train, device)
        self.deferred = skips_on_device(device) and not self.sharded
        """Whether `dispatch` returns before the device has finished, so that results are best read a step later."""

    def validation_objective(self) -> Objective:
        """Return an objective with the model to validate, unsharded: the trained one, or the average of its weights."""
        model = whole(self.model if self.average is None else self.average.model)
        return self.objective if model is self.model else Objective(model, self.objective.smoothing)

    def update(self, batches: Sequence[Batch], step: int, adjustments: Adjustments = _NO_ADJUSTMENTS) -> Update:
        """Make update number `step` and wait for its results; see `dispatch`."""
        return self.dispatch(batches, step, adjustments).synchronized()

    def dispatch(
        self, batches: Sequence[Batch], step: int, adjustments: Adjustments = _NO_ADJUSTMENTS
    ) -> DispatchedUpdate:
        """Make update number `step` (from 1) out of one or more batches, as if they were one.

        The gradient is that of the mean loss per target token of all batches on all ranks: tokens are counted first,
        and the summed loss of each batch is divided by the total. Dropout is a function of (seed, step, batch).

        An update whose loss or gradient is not finite changes nothing. A batch that does not fit into memory is cut,
        and the update starts again. Raises ConfigError if a single sentence pair does not fit.
        """
        self.objective.train()
        counts = [(batch.source_tokens, batch.target_tokens, batch.padded_target_tokens) for batch in batches]
        source_tokens, target_tokens, padded_target_tokens = distributed.all_reduce_sum(
            *map(sum, zip(*counts, strict=True))
        )

        while True:
            try:
                losses = self._accumulate_gradients(batches, target_tokens, step, adjustments.largest_batch)
                break
            except DoesNotFitError as failure:
                largest_batch = failure.next_size
            self.optimizer.zero_grad(set_to_none=True)  # a part of the batch that failed is in the gradient
            release_cached_memory(self.device)
            adjustments = replace(adjustments, largest_batch=largest_batch)
        adjustments = sync_adjustments(adjustments)

        clip_norm = self.recipe.train.clip_norm or float("inf")
        norm = whole_tensor(nn.utils.clip_grad_norm_(self.model.parameters(), clip_norm))
        sums = distributed.all_reduce_sum_on_device(losses)
        results = torch.cat([sums, norm.to(sums.dtype).unsqueeze(0)])
        rate = adjustments.rate * learning_rate(self.recipe.train, self.recipe.model.dim, step)
        tokens = (source_tokens, target_tokens, padded_target_tokens)
        update = DispatchedUpdate(step, *tokens, rate, adjustments, HostCopy(results))
        if self.deferred:
            loss, _, norm = results.isfinite().unbind()
            applied = (loss & norm).float()
            self.optimizer.found_inf = 1 - applied  # type: ignore[attr-defined]
            self._apply_gradients(rate, step, applied)
        elif update.synchronized().finite:
            self._apply_gradients(rate, step)
        self.optimizer.zero_grad(set_to_none=True)
        return update

    def _accumulate_gradients(
        self, batches: Sequence[Batch], total: int, step: int, largest_batch: int | None
    ) -> Tensor:
        """Accumulate the gradient of all batches; return the sums of losses and negative log-likelihoods, shape (2,).

        Batches of more than `largest_batch` tokens are cut. Raises DoesNotFitError if a part does not fit.
        """
        losses = torch.zeros(2, device=self.device)
        cut_batches = [cut(batch, None if self.sharded else largest_batch) for batch in batches]
        remaining = sum(map(len, cut_batches))
        for number, parts in zip(count(distributed.rank(), distributed.world_size()), cut_batches, strict=False):
            for index, part in enumerate(parts):
                position = (number, index) if len(parts) > 1 else (number,)
                torch.manual_seed(seed_for("dropout", self.recipe.seed, step, *position))
                remaining -= 1
                losses += self._backward(part, total, last=remaining == 0)
        return losses

    def _backward(self, part: Batch, total: int, last: bool) -> Tensor:
        """Add the gradient of a part of a batch; return its loss and negative log-likelihood, shape (2,)."""
        in_collective = self.sharded
        try:
            batch = pad_to_multiple(part, self.model.longest) if self.device.type == "cpu" else part
            with gradient_sync(self.distributed_objective, now=last):
                with autocast(self.recipe.runtime, self.device):
                    loss, likelihood = self.distributed_objective(batch.to(self.device))
                in_collective = in_collective or (last and distributed.world_size() > 1)
                # the all-reduce averages gradients over ranks, where their sum is needed
                (loss / (total / distributed.world_size())).backward()
            return torch.stack((loss.detach(), likelihood))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # outside the handler, where the traceback of the failure no longer holds the activations
        if in_collective:
            raise ConfigError(
                f"train.batch_tokens: a batch does not fit into the memory of {self.device}; this happened while ranks "
                "exchanged gradients, when it can no longer be cut; lower batch_tokens and raise train.accumulate"
            )
        if sentences_in(part) == 1:
            raise ConfigError(
                f"a single sentence pair of {size_of(part):,} tokens, source and target, does not fit into the memory "
                f"of {self.device}; lower data.filters.max_tokens, or make the model smaller"
            )
        raise DoesNotFitError(size_of(part))

    def _apply_gradients(self, rate: float, step: int, applied: Tensor | None = None) -> None:
        """Step the optimizer and the moving average; `applied` is a 0/1 scalar if the device decides."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model, step, applied)
